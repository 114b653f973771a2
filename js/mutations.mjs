// SPDX-License-Identifier: BSD-3-Clause

// Breaks one rule of docs/WIRE.md after the other in timesync.mjs, and says which vector notices. It fails
// if none does, so that the vectors of testdata/wire decide each of these rules:
//
//	node js/mutations.mjs
//
// No vector decides what an end may do or leave (when it adds a report), what the estimator does where it
// is as good either way, the lower limit of the delay of an anchor, -1 s, and whether that delay is judged before
// or after the report beside it.

import {readFileSync} from 'node:fs';
import {run} from './vectors.mjs';

// A rule that is broken, and what is replaced by what in the source for that.
const mutations = [
	['stamp rounded to nearest', 'BigInt.asUintN(24, now >> 3n)', 'BigInt.asUintN(24, (now + 4n) >> 3n)'],
	['TS23 rounded down', '(remote + 4n) >> 3n', 'remote >> 3n'],
	['TS16 rounded down', '(remote + 256n) >> 9n', 'remote >> 9n'],
	['TS23 read without bias', '(now >> 3n) - (1n << 21n)', '(now >> 3n)'],
	['TS16 read without bias', '(now >> 9n) - (1n << 14n)', '(now >> 9n)'],
	['TS23 read with bias 2^20', '(now >> 3n) - (1n << 21n)', '(now >> 3n) - (1n << 20n)'],
	["TS23 keeps now's low bits", 'BigInt(ts), 23) << 3n)', 'BigInt(ts), 23) << 3n) + (now & 7n)'],
	['expand: half a ring is the larger', 'u64(near + BigInt.asIntN(bits, small - near))', 'u64(near - BigInt.asIntN(bits, near - small))'],
	['report rounds down', 'const c = wrap(Math.floor((floor + 4) / 8), 24)', 'const c = wrap(Math.floor(floor / 8), 24)'],
	['report has any remainder', 'c % 3 !== 2 ? c : above ? c + 1 : c - 1', 'c'],
	['remainder 2 rounds up', 'above ? c + 1 : c - 1', 'c + 1'],
	['report may be 0', ', 24) || 1; //', ', 24); //'],
	['report 0 is 2^24 - 1', ', 24) || 1; //', ', 24) || 2 ** 24 - 1; //'],
	['report is the last datagram', 'y < this.least.y + this.slope * (x - this.least.x)', 'true'],
	['report is the least since the start', 'if (this.leastTold || y <', 'if (this.leastTold && this.least.x === 0 || y <'],
	['the last report is the floor', 'this.peer = this.peers.reduce((a, b) => height(a) < height(b) ? a : b)', 'this.peer = {x, y}'],
	['report 0 is taken', 'if (report === 0) return;', ''],
	['truncated after reserved', "if (datagram.length < 4) return {error: 'truncated'};", "if (datagram.length < 1) return {error: 'truncated'};"],
	['reserved after truncated', "if (flags & RESERVED) return {error: 'reserved'};", "if (datagram.length >= size && flags & RESERVED) return {error: 'reserved'};"],
	['reserved accepted', "if (flags & RESERVED) return {error: 'reserved'};", ''],
	['anchor not checked', "if (anchor !== null && toTS24(anchor) !== stamp) return {error: 'anchor'};", ''],
	['no reports', 'const reports = this.heard && !paused &&', 'const reports = this.heard && false &&'],
	['no anchor with reports', 'const anchors = reports || !known || !this.heardOfUs;', 'const anchors = !known || !this.heardOfUs;'],
	['no anchor while asking', 'const anchors = reports || !known || !this.heardOfUs;', 'const anchors = reports || !this.heardOfUs;'],
	['no anchor until flag 2', 'const anchors = reports || !known || !this.heardOfUs;', 'const anchors = reports || !known;'],
	['flag 2 without synchronized', '(known && this.hasAnchor ? HAS_ANCHOR : 0)', '(this.hasAnchor ? HAS_ANCHOR : 0)'],
	['flag 2 without anchor', '(known && this.hasAnchor ? HAS_ANCHOR : 0)', '(known ? HAS_ANCHOR : 0)'],
	['flag 2 while the peer asks', 'if (asks) { this.owed = true; this.hasAnchor = false; }', 'if (asks) { this.owed = true; }'],
	['flag 3 only until a datagram', '(known ? 0 : ASKS)', '(this.heard ? 0 : ASKS)'],
	['flag 2 sticky at the receiver', 'this.heardOfUs = (flags & HAS_ANCHOR) !== 0;', 'this.heardOfUs ||= (flags & HAS_ANCHOR) !== 0;'],
	['a datagram that asks owes no report', 'if (asks) { this.owed = true; this.hasAnchor = false; }', 'if (asks) { this.hasAnchor = false; }'],
	['a failed datagram owes nothing', 'sendFailed() { this.owed = true; }', 'sendFailed() { }'],
	['owed does not count as the last', 'this.owed = false;\n\t\tthis.due =', 'const owed = this.owed; this.owed = false;\n\t\tif (!owed) this.due ='],
	['every second from the start', '>= SOON_OVER ? LATER : SOON', '>= 0 ? LATER : SOON'],
	['every 0.5 s for ever', '>= SOON_OVER ? LATER : SOON', '>= Infinity ? LATER : SOON'],
	['20 s from now, one way only', 'u64(now - this.first) >= SOON_OVER', 'since(now, this.first) >= SOON_OVER'],
	['set back: not due now', ' && ahead <= LATER) return false', ') return false'],
	['due only after, not at', 'ahead > 0 && ahead <= LATER', 'ahead >= 0 && ahead <= LATER'],
	['none is due at the first datagram', 'if (this.first === null) this.first = this.due = now;', 'if (this.first === null) { this.first = now; this.due = u64(now + 500000n); }'],
	['restart: at the first datagram that asks', 'return a.n >= 2 && u64(now - this.asking.from) >= SURE;', 'return true;'],
	['restart: two in a row', 'return a.n >= 2 &&', 'return a.n >= 1 &&'],
	['restart: four in a row', 'return a.n >= 2 &&', 'return a.n >= 3 &&'],
	['restart: without 50 ms', '&& u64(now - this.asking.from) >= SURE;', ';'],
	['restart: more than 50 ms, not at', 'u64(now - this.asking.from) >= SURE;', 'u64(now - this.asking.from) > SURE;'],
	['never restarted', 'if (this.startedAnew(asks, now)) Object', 'if (this.startedAnew(asks, now) && false) Object'],
	['restart though the peer never knew us', 'if (!asks || !this.knewUs) { a.n = 0;', 'if (!asks) { a.n = 0;'],
	['knew us: at any datagram that does not ask', 'this.knewUs ||= !asks && this.synchronized;', 'this.knewUs ||= !asks;'],
	['knew us: with the datagram that synchronizes, too', 'if (asks) { this.owed = true; this.hasAnchor = false; }', 'if (asks) { this.owed = true; this.hasAnchor = false; } this.knewUs ||= !asks && this.synchronized;'],
	['a row is not ended', 'if (!asks || !this.knewUs) { a.n = 0; return false; }', 'if (!asks || !this.knewUs) return false;'],
	['no pause', 'const reports = this.heard && !paused &&', 'const reports = this.heard &&'],
	['no pause after the row', 'const paused = this.asking.n > 0 || this.asking.last !== null && Math.abs(since(now, this.asking.last)) < SURE;', 'const paused = this.asking.n > 0;'],
	['pause after the row: only later, not either way', 'Math.abs(since(now, this.asking.last)) < SURE', 'u64(now - this.asking.last) < SURE'],
	['pause after the row: 30 ms', 'Math.abs(since(now, this.asking.last)) < SURE', 'Math.abs(since(now, this.asking.last)) < 30_000'],
	['pause after the row: up to and with 50 ms', 'Math.abs(since(now, this.asking.last)) < SURE', 'Math.abs(since(now, this.asking.last)) <= SURE'],
	['no pause during the row', 'const paused = this.asking.n > 0 || this', 'const paused = this'],
	['pause though never known', 'if (!asks || !this.knewUs) { a.n = 0; return false; }', 'if (!asks) { a.n = 0; return false; } if (!this.knewUs) { this.asking = {n: 1, from: now, last: now}; return false; }'],
	['what is owed is lost in a pause', 'const reports = this.heard && !paused &&', 'if (paused) this.owed = false; const reports = this.heard && !paused &&'],
	['reset: the schedule stays', 'Object.assign(this, new Link(), {', 'Object.assign(this, new Link(), {first: this.first, due: this.due, '],
	['reset: knew us stays', 'Object.assign(this, new Link(), {', 'Object.assign(this, new Link(), {knewUs: this.knewUs, '],
	['reset: the row stays', 'Object.assign(this, new Link(), {', 'Object.assign(this, new Link(), {asking: this.asking, '],
	['reset: the clock stays', 'Object.assign(this, new Link(), {', 'Object.assign(this, new Link(), {synchronized: this.synchronized, heard: this.heard, reported: this.reported, base: this.base, x: this.x, points: this.points, level: this.level, slope: this.slope, at: this.at, bucket: this.bucket, peer: this.peer, below: this.below, above: this.above, told: this.told, trip: this.trip, offset: this.offset, offsetAt: this.offsetAt, near: this.near, '],
	['first anchor after the report', 'if (anchor !== null && !knew) this.takeAnchor(anchor, now);', ''],
	['first anchor is not replaced', 'if (anchor !== null && !knew) this.takeAnchor', 'if (anchor !== null && !knew && this.near === 0n) this.takeAnchor'],
	['report of before taken by a new end', '&& (knew || !(flags & HAS_ANCHOR)) && !overtaken', '&& !overtaken'],
	['report that was overtaken taken', ' && !overtaken)', ')'],
	['reports with flag 2 never taken', '&& (knew || !(flags & HAS_ANCHOR)) &&', '&& !(flags & HAS_ANCHOR) &&'],
	['anchor: delay up to 8 s', 'age >= -SECOND)', 'age >= -SECOND && age <= 8e6)'],
	['later anchors are not taken', 'if (anchor !== null && age >= -SECOND)', 'if (anchor !== null && false)'],
	['later anchors replace the offset', 'this.near = remote === null ? u64(anchor - now) : u64(this.near - BigInt(turns * TURN));', 'this.near = u64(anchor - now);'],
	['anchor behind: taken at once', 'const back = turns > 0;', 'const back = false;'],
	['anchor behind: never', 'this.hasAnchor = !back || b.n >= 2 && u64(now - b.from) >= HELD_UP;', 'this.hasAnchor = !back;'],
	['anchor behind: the second', 'this.hasAnchor = !back || b.n >= 2 &&', 'this.hasAnchor = !back || b.n >= 1 &&'],
	['anchor behind: the fourth', 'this.hasAnchor = !back || b.n >= 2 &&', 'this.hasAnchor = !back || b.n >= 3 &&'],
	['anchor behind: without 2 s', 'b.n >= 2 && u64(now - b.from) >= HELD_UP;', 'b.n >= 2;'],
	['anchor behind: 4 s', 'u64(now - b.from) >= HELD_UP;', 'u64(now - b.from) >= 2 * HELD_UP;'],
	['anchor behind by 4 s', 'const back = turns > 0;', 'const back = remote !== null && since(remote, anchor) > 4e6;'],
	['anchor ahead counts as behind', 'const back = turns > 0;', 'const back = turns !== 0;'],
	['anchor behind: the row is not ended by another', 'this.behind = {n: back ? b.n + 1 : 0,', 'this.behind = {n: back ? b.n + 1 : b.n,', 'this.behind.n = 0;', 'if (back) this.behind.n = 0;'],
	['anchor behind leaves flag 2', 'if (!this.hasAnchor) return;', 'if (!this.hasAnchor) { this.hasAnchor = true; return; }'],
	['anchor of an asking datagram counts for flag 2', 'if (asks) { this.owed = true; this.hasAnchor = false; }', 'if (asks) { this.owed = true; if (anchor === null) this.hasAnchor = false; }'],
	['a longer path is never believed', 'longer = congested && at - this.congestedFrom > CONGESTED', 'longer = false'],
	['ping: any length of reply', 'if (b.length !== 29 || b[0] !== 0x71)', 'if (b.length < 29 || b[0] !== 0x71)'],
	['ping: any kind', 'if (b.length !== 29 || b[0] !== 0x71)', 'if (b.length !== 29)'],
	['ping: any session', "if (v.getUint32(1, true) !== this.session) return 'old session';", ''],
	['ping: twice', "if (r.done) return 'duplicate';", ''],
	['ping: coarse 200 ms', 'hold < -200_000', 'hold < 0'],
	['ping: hold < -1 s', 'hold < -200_000', 'hold < -1_000_000'],
	['ping: before it was sent', 'if (away < 0 || hold', 'if (hold'],
	['ping: late at 10 s', "if (away > PING_LATE) return 'too late';", "if (away >= PING_LATE) return 'too late';"],
	['ping: never late', "if (away > PING_LATE) return 'too late';", ''],
	['ping: held without skew', 'if (hold > away + skewed + 2)', 'if (hold > away + 2)'],
	['ping: held without 2 us', 'if (hold > away + skewed + 2)', 'if (hold > away + skewed)'],
	['ping: held any', "if (hold > away + skewed + 2) return 'impossible';", ''],
	['ping: overtaken taken', "if ([...this.pending.values()].some(p => p.done && p.n > r.n)) return 'overtaken';", ''],
	['ping: hold not subtracted', 'trip = Math.max(away - hold, 0), at', 'trip = away, at'],
	['ping: offset by away', 'Math.trunc((away - hold) / 2)', 'Math.trunc(away / 2)'],
	['ping: bound a whole trip', 'half: Math.ceil(trip / 2)', 'half: trip'],
	['ping: the latest request', 'most = Math.min(...late', 'most = Math.min(...late.slice(-1)'],
	['ping: the latest reply', 'least = Math.max(...late', 'least = Math.max(...late.slice(-1)'],
	['ping: the slowest request', 'most = Math.min(', 'most = Math.max('],
	['ping: fastest of all', '.filter((s, i, all) => i >= all.length - 8 || since(now, s.at) <= 5e6)', '.filter(() => true)'],
	['ping: fastest of the last 8 only', '.filter((s, i, all) => i >= all.length - 8 || since(now, s.at) <= 5e6)', '.slice(-8)'],
	['ping: fastest of 5 s only', 'i >= all.length - 8 || since', 'i === all.length - 1 || since'],
	['ping: age costs nothing', 'CRYSTALS = 100e-6', 'CRYSTALS = 0'],
	['ping: age costs 15 ppm', 'CRYSTALS = 100e-6', 'CRYSTALS = 15e-6'],
	['ping: the first is the surest', 'this.bound(a, now) < this.bound(b, now) ? a : b', 'true ? a : b'],
	['ping: the shortest delay is a round trip', 'map(s => s.trip)) / 2 : null', 'map(s => s.trip)) : null'],
	['ping: what was held up counts', 'held ? -1 : undefined', 'undefined'],
	['ping: set clock is not seen', 'this.window = set ? [s] :', 'this.window ='],
	['ping: bound does not grow', 's.half + PING_SKEW * Math.abs(since(now, s.at))', 's.half'],
	['ping: the surest says nothing', 'by = Math.max(Math.min((least + most) / 2, bound), -bound)', 'by = (least + most) / 2'],
	['ping: no fast start', 'this.fast < PING_FAST ? 1e5', 'this.fast < 0 ? 1e5'],
	['ping: fast for ever', 'this.fast < PING_FAST ? 1e5', 'true ? 1e5'],
	['ping: fast for 4', 'PING_FAST = 8', 'PING_FAST = 4'],
	['ping: not fast after a set clock', 'if (set) { this.fast = 0; this', 'if (set) { this'],
	['tick: a byte too many', 'b.length !== (flags & 4 ? 43 + 2 * n : 34)', 'b.length < (flags & 4 ? 43 + 2 * n : 34)'],
	['tick: flag 8', 'flags > 7 ||', ''],
	['tick: n of 0', '(n < 1 || n > 64)', '(n > 64)'],
	['tick: n of 65', '(n < 1 || n > 64)', '(n < 1)'],
	['tick: epoch 0', 'if (w.epoch < 1n || w.epoch', 'if (w.epoch'],
	['tick: epoch 2^63', 'w.epoch >= 1n << 63n ||', ''],
	['tick: rate 0', 'w.num === 0 ||', ''],
	['tick: rate above 10^9', 'w.num > 1e9 * w.den', 'w.den === 0'],
	['tick: far ticks', 'start > 1n << 61n || start < -(1n << 61n) ? null :', ''],
	['tick: starts rounded down', '-floorDiv(-tick * 1000000000n * BigInt(r.den), BigInt(r.num))', 'floorDiv(tick * 1000000000n * BigInt(r.den), BigInt(r.num))'],
	['tick: earlier epoch taken', '(w.epoch < last.epoch || w.epoch', '(w.epoch'],
	['tick: earlier epoch never', 'last && since(now, this.heardAt) < 3e6 &&', 'last &&'],
	['tick: earlier epoch after 0.5 s', 'since(now, this.heardAt) < 3e6', 'since(now, this.heardAt) < 0.5e6'],
	['tick: earlier epoch after 4 s', 'since(now, this.heardAt) < 3e6', 'since(now, this.heardAt) < 4e6'],
	['tick: overtaken taken', '|| w.epoch === last.epoch && since(w.sent, last.sent) < 0))', '))'],
	['tick: inputs unsigned', 'v.getInt16(43 + 2 * i, true)', 'v.getUint16(43 + 2 * i, true)'],
	['tick: plays without the delay', 'ahead.distance(to + 2 * tick)', 'ahead.distance(2 * tick)'],
	['tick: shows without the delay', 'behind.distance(from + tick)', 'behind.distance(tick)'],
	['tick: one tick ahead, not two', 'ahead.distance(to + 2 * tick)', 'ahead.distance(to + tick)'],
	['tick: later epoch not taken', '(w.epoch < last.epoch ||', '(w.epoch !== last.epoch ||'],
	['tick: hello for ever', 'if (!this.last || this.last.heard ||', 'if (!this.last ||'],
	['tick: hello before the clock is known', 'this.last.heard || this.remote.remoteTime(now) === null)', 'this.last.heard)'],
	['tick: paused ignored', 'game = w.paused ? tickStart(w.tick, w) : since(usec, w.origin)', 'game = since(usec, w.origin)'],
	['tick: hello says rate 60', 'v.setUint32(9, this.last.num, true)', 'v.setUint32(9, 60, true)'],
	['tick: hello says epoch of first', 'v.setBigUint64(1, this.last.epoch, true); v', 'v.setBigUint64(1, 77n, true); v'],
	['a longer path is believed after 30 s', 'CONGESTED = 10 * SECOND', 'CONGESTED = 30 * SECOND'],
];

const source = readFileSync(new URL('timesync.mjs', import.meta.url)).toString();
const shown = v => JSON.stringify(v, (_, part) => typeof part === 'bigint' ? `${part}` : part);
const load = text => import('data:text/javascript;base64,' + Buffer.from(text).toString('base64'));

/** Returns the first thing that is wrong with a module, or undefined. */
function notices(module) {
	let first;
	const stop = (what, ...details) => {
		if (what !== 'wrong:') return;
		first = details.map(shown).join(' ');
		throw new Error(first); // the rest does not matter
	};
	try {
		run(module, stop);
	} catch (e) {
		first ??= e.message;
	}
	return first;
}

let bad = notices(await load(source)) === undefined ? 0 : 1;
for (const [rule, ...edits] of mutations) {
	let text = source;
	for (let i = 0; i < edits.length; i += 2) {
		if (text.split(edits[i]).length !== 2) console.log(`${rule}: there must be one "${edits[i]}" in timesync.mjs`, bad++);
		text = text.replace(edits[i], () => edits[i + 1]);
	}
	const first = notices(await load(text));
	console.log(`${rule}: ${first?.slice(0, 100) ?? 'NO VECTOR NOTICES'}`);
	if (first === undefined) bad++;
}
console.log(`${mutations.length} rules broken, ${bad} problems`);
process.exitCode = bad ? 1 : 0;
