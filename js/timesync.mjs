// SPDX-License-Identifier: BSD-3-Clause

// A peer of timesync in one file, for browsers and Node: docs/BROWSER.md shows its use, docs/WIRE.md what it does.
// Link keeps time with a peer by datagrams, Ping asks a server for its time over a WebSocket, and TickClient follows
// the game time of package tick by one of the two. All times are in microseconds: clock readings are BigInts modulo
// 2^64, as nowUsec() returns; spans and game times are Numbers. What is not known yet is null.

/** @typedef {bigint} Usec a clock reading, microseconds, modulo 2^64 */
/** @typedef {{x: number, y: number}} Point */
/** @typedef {{num: number, den: number}} Rate ticks a second */
/** By how much nowUsec may lag behind, us: two steps of it, as most browsers let it advance at random times. */
export const clockStep = Math.ceil(2000 * Math.min(...Array.from({length: 8}, () => {
	for (let i = 0, from = performance.now(); i < 1e5; i++) if (performance.now() > from) return performance.now() - from;
	return 1; // ms: it stands still
})));
/** @returns {Usec} a monotonic clock, for the time of sending and all times but those of receipt */
export const nowUsec = () => BigInt(Math.floor(performance.now() * 1000));
/** @returns {Usec} the time of receipt: now, rounded up by clockStep. Read it first of all when a message comes. */
export const receivedUsec = () => nowUsec() + BigInt(clockStep);
/** @param {bigint} v @returns {bigint} v modulo 2^64 */
export const u64 = v => BigInt.asUintN(64, v);
/** @returns {number} a-b as a span: the shorter way round. @param {Usec} a @param {Usec} b */
export const since = (a, b) => Number(BigInt.asIntN(64, a - b));
/** v modulo 2^bits, at most 2^27 here. @param {number} v @param {number} bits */
export const wrap = (v, bits) => v - 2 ** bits * Math.floor(v / 2 ** bits);
/** v the shorter way round, in [-half, half). @param {number} v @param {number} bits */
export const ring = (v, bits) => wrap(v + 2 ** (bits - 1), bits) - 2 ** (bits - 1);
/** The number nearest to near whose low bits are small. @param {bigint} near @param {bigint} small @param {number} bits */
export const expand = (near, small, bits) => u64(near + BigInt.asIntN(bits, small - near));

// ---- Times on the wire. toTS23 and toTS16 take the receiver's clock, the others the own one ----
export const toTS24 = (/** @type {Usec} */ now) => Number(BigInt.asUintN(24, now >> 3n));
export const toTS23 = (/** @type {Usec} */ remote) => Number(BigInt.asUintN(23, (remote + 4n) >> 3n));
export const toTS16 = (/** @type {Usec} */ remote) => Number(BigInt.asUintN(16, (remote + 256n) >> 9n));
/** @param {Usec} now @param {number} ts @returns {Usec} from 50.3 s before now to 16.8 s after */
export const fromTS23 = (now, ts) => u64(expand((now >> 3n) - (1n << 21n), BigInt(ts), 23) << 3n);
/** @param {Usec} now @param {number} ts @returns {Usec} from 25.2 s before now to 8.4 s after */
export const fromTS16 = (now, ts) => u64(expand((now >> 9n) - (1n << 14n), BigInt(ts), 16) << 9n);
const view = (/** @type {Uint8Array} */ b) => new DataView(b.buffer, b.byteOffset, b.byteLength);
const get24 = (/** @type {Uint8Array} */ b, /** @type {number} */ at) => b[at] | b[at + 1] << 8 | b[at + 2] << 16;
const put24 = (/** @type {Uint8Array} */ b, /** @type {number} */ at, /** @type {number} */ x) => b.set([x & 255, x >> 8 & 255, x >> 16], at);
/** The report for a floor of so many microseconds. @param {number} floor */
export const toReport = floor => {
	const c = wrap(Math.floor((floor + 4) / 8), 24), above = floor > 8 * Math.floor((floor + 4) / 8);
	return wrap(c % 3 !== 2 ? c : above ? c + 1 : c - 1, 24) || 1; // remainder 2 is an original's; // 0 would be "has heard nothing"
};

// ---- The estimator: WIRE.md, "A simple estimator" ----
const SECOND = 1e6, DELTA = 27, OFFSET = 26; // us; bits of the rings of deltas and offsets, in us
const BUCKET = 2 * SECOND, MEMORY = 100 * SECOND, CONGESTED = 10 * SECOND, RECENT = 5 * SECOND, SETTLED = 15 * SECOND;
const PRIOR = 100e-6, SKEW = 200e-6, DRIFT = 1e-6; // rates: usual of two crystals, largest, and how far it may turn
const CONFIRMED = 100, ROUNDING = 13; // us
/** Adds a limit to the recent ones. @param {Point[]} limits @param {Point} p */
const limited = (limits, p) => [...limits.filter(q => q.x >= p.x - RECENT), p];
class Remote { // what Link and Ping have in common
	steps = 0; heardAt = 0n; setAt = /** @type {Usec|null} */ (null); // jumps of the remote time; when a clock was set last
	/** '' if remoteTime(now) can be relied on to be at most tolerable us off, else why not, the first of these: it is not
	 *  known; nothing was heard for 15 s; a clock was set less than 15 s ago; errorBound is wider.
	 *  @param {number} tolerable @param {Usec} now @returns {''|'unsynchronized'|'silent'|'disturbed'|'wide'} */
	within(tolerable, now) {
		const bound = /** @type {*} */ (this).errorBound(now);
		return bound === null ? 'unsynchronized' : since(now, this.heardAt) >= SETTLED ? 'silent' :
			this.setAt !== null && since(now, this.setAt) < SETTLED ? 'disturbed' : bound <= tolerable ? '' : 'wide';
	}
}
/** What a peer's clock shows, from stamps and reports. */
export class Synchronizer extends Remote {
	synchronized = false; // a datagram and a report have come
	near = 0n; // remote minus local clock, all 64 bits
	heard = false; reported = false; // a datagram, a report
	base = 0n; x = 0; // where x is 0, and x of the last datagram
	points = /** @type {Point[]} */ ([]);
	level = 0; slope = 0; at = 0; // the floor is level + slope (x - at)
	sigma = PRIOR; prior = {slope: 0, sigma: PRIOR}; // of the slope
	under = Infinity; over = Infinity; // what is further from the line is too early, or late
	bucket = {from: 0, x: 0, y: Infinity}; // its lowest datagram
	count = 0; height = 0; // datagrams, and their mean height above the line
	congestedFrom = Infinity; // x of the first congested bucket of a row
	last = {x: 0, y: 0}; peer = {x: 0, y: 0}; // datagram; the peer's floor
	jitter = 0; // mean of what reports differ from what they were expected to be
	peers = /** @type {Point[]} */ ([]); // the recent ones: the peer's floor is the lowest of them
	restarted = -Infinity; // x
	high = {x: -Infinity, y: 0}; // the peer's floor before it fell
	row = /** @type {Point[]} */ ([]); // datagrams that are late by half of what it fell since
	below = /** @type {Point[]} */ ([]); above = /** @type {Point[]} */ ([]); // limits of the offset
	told = {x: -Infinity, y: 0}; // the last report, as a limit
	least = {x: 0, y: 0}; // the fastest datagram since our last report
	leastTold = true; // it was, or there is none
	event = -Infinity; // x when a clock was set
	trip = 0; offset = 0; offsetAt = 0; // trip: the last one that was possible
	/** @param {number} x */ floor(x) { return this.level + this.slope * (x - this.at); }
	/** @param {number} x */ peerFloor(x) { return this.peer.y - this.slope * (x - this.peer.x); }
	get unknown() { return Math.min(SKEW + Math.abs(this.slope), 6 * this.sigma + DRIFT); } // of the rates: us in a us
	/** Takes the stamp of a datagram that arrived at now; proven to come from the peer, and new.
	 *  @param {number} stamp @param {Usec} now @returns {number|null} its one-way delay, if known */
	datagram(stamp, now) {
		const raw = Number(BigInt.asUintN(DELTA, now - (BigInt(stamp) << 3n)));
		if (!this.heard) [this.heard, this.base, this.level] = [true, now, ring(raw, DELTA)];
		const ahead = since(now, this.base) - this.x;
		if (ahead < -SECOND || ahead > 1e12) this.base = u64(now - BigInt(this.x)); // the own clock was set: x goes on
		const x = since(now, this.base);
		this.x = Math.max(this.x, x);
		const d = ring(raw - this.floor(x), DELTA), y = this.floor(x) + d;
		this.last = {x, y};
		if (x - this.bucket.from >= BUCKET) this.endBucket(x);
		if (d < -this.under) this.restart(this.last);
		if (y < this.bucket.y) Object.assign(this.bucket, this.last);
		this.level += Math.min(y - this.floor(x), 0);
		this.matchStep(d);
		if (this.leastTold || y < this.least.y + this.slope * (x - this.least.x)) this.least = this.last;
		this.leastTold = false;
		this.height += (Math.max(d, 0) - this.height) / Math.min(++this.count, 64);
		this.below = limited(this.below, {x, y: -y}); // it is on its way for 0 us or more
		this.update(x);
		return this.synchronized ? ring(y + this.offset, OFFSET) : null;
	}
	/** By how much the peer's floor fell within 20 s, if that is much. @param {number} x */
	fallen(x) {
		const d = this.high.y - this.slope * (x - this.high.x) - this.peerFloor(x);
		return x - this.high.x < 2 * CONGESTED && d > CONFIRMED + 8 * this.jitter ? d : 0;
	}
	/** If the peer's floor fell and all datagrams are late since, a clock was set. @param {number} d how late the last is */
	matchStep(d) {
		const {x} = this.last, half = this.fallen(x) / 2;
		this.row = half === 0 || d < half ? [] : [...this.row, this.last];
		if (this.row.length * half < 12 * this.height || x - (this.row[0]?.x ?? x) < SECOND) return;
		this.restart(this.row.reduce((a, b) => a.y < b.y ? a : b));
		this.high = this.peer;
	}
	/** Forgets all points but one. The slope stays. @param {Point} p */
	restart(p) {
		this.prior = {slope: this.slope, sigma: Math.min(this.sigma + DRIFT, PRIOR)};
		this.restarted = this.last.x;
		this.points = []; this.row = []; this.leastTold = true; // what was least was of before
		this.level = p.y; this.at = p.x;
		this.bucket = {from: this.last.x, ...p};
		this.under = this.over = Infinity; this.congestedFrom = Infinity;
	}
	/** Makes a point of the bucket, and lays the line below the points. */
	endBucket(/** @type {number} */ x) {
		const {x: at, y} = this.bucket, congested = y - this.floor(at) > this.over;
		this.bucket = {from: x, x, y: Infinity};
		if (y === Infinity) return;
		this.congestedFrom = congested ? Math.min(this.congestedFrom, at) : Infinity;
		const longer = congested && at - this.congestedFrom > CONGESTED, from = longer ? this.congestedFrom : x - MEMORY; // the path is longer
		if (longer) this.congestedFrom = Infinity;
		if (at > (this.points.at(-1)?.x ?? -Infinity)) this.points.push({x: at, y});
		const p = this.points = this.points.filter((p, i, all) => p.x >= from || i === all.length - 1), n = p.length, P = this.prior.sigma ** 2;
		if (n >= 4) {
			// The lower hull of the points at x: the lowest there of all lines from one before it to one after it.
			const hull = (/** @type {number} */ x) => Math.min(...p.filter(a => a.x < x).flatMap(a =>
				p.filter(b => b.x >= x).map(b => a.y + (b.y - a.y) / (b.x - a.x) * (x - a.x))));
			const first = p[0].x, span = p[n - 1].x - first, slope = (hull(first + span * 3 / 4) - hull(first + span / 4)) / (span / 2);
			const heights = p.map(q => q.y - slope * q.x).sort((a, b) => a - b), mean = heights.reduce((a, b) => a + b) / n - heights[0];
			const third = heights[2] - heights[0] + 4, own = Math.max(2 * third, .8 * mean + 4) / span; // 4 us: half a unit of stamps
			this.slope = this.prior.slope + (slope - this.prior.slope) * P / (P + own ** 2);
			this.sigma = Math.sqrt(1 / (1 / P + 1 / own ** 2));
			this.under = CONFIRMED + 16 * third;
			if (!congested) this.over = CONFIRMED + 2 * mean;
		}
		this.at = p[n - 1].x;
		this.level = Math.min(...p.map(q => q.y - this.slope * (q.x - this.at)));
	}
	/** Takes the peer's report, after the stamp of its datagram. @param {number} report @param {Usec} now */
	report(report, now) {
		this.heardAt = now;
		if (report === 0) return; // nothing has arrived there since the last one
		const x = this.heard ? since(now, this.base) : 0;
		const d = this.reported ? ring(report * 8 - this.peerFloor(x), DELTA) : 0;
		const y = this.reported ? this.peerFloor(x) + d : ring(report * 8, DELTA);
		const from = Math.min(Math.max(x - CONGESTED - BUCKET, this.restarted + 2 * SECOND), x); // a report tells up to 2 s before it
		this.peers = [...this.peers.filter(p => p.x >= from && p.x < x), {x, y}];
		const height = (/** @type {Point} */ p) => p.y + (this.unknown - this.slope) * (x - p.x);
		this.peer = this.peers.reduce((a, b) => height(a) < height(b) ? a : b);
		if (d < 0 && ring(y + this.floor(x), DELTA) < -2 * CONFIRMED) this.restart(this.last); // else the round trip is impossible
		if (this.fallen(x) === 0) this.high = this.peer;
		this.jitter += (Math.min(Math.abs(d), 500) - this.jitter) / 8;
		this.reported = true;
		this.told = {x, y: y + CONFIRMED + ROUNDING};
		this.above = limited(this.above, this.told);
		this.update(x);
	}
	/** How far the offset is above its lower limit, and below its upper one. @param {number} x */
	distances(x) {
		const offset = this.offset - this.slope * (x - this.offsetAt);
		const least = (/** @type {1|-1} */ sign, /** @type {Point[]} */ limits) => limits.reduce((least, q) => Math.min(least,
			ring(sign * (offset - q.y + this.slope * (x - q.x)), OFFSET) + this.unknown * Math.abs(x - q.x)), 2 ** (OFFSET - 1));
		return [least(1, this.below), least(-1, x - this.event < SETTLED && this.told.x > -Infinity ? [...this.above, this.told] : this.above)];
	}
	/** Calculates the offset anew. @param {number} x */
	update(x) {
		if (!this.heard || !this.reported) return;
		const own = this.floor(x), trip = ring(this.peerFloor(x) + own, DELTA), possible = trip >= -2 * CONFIRMED;
		if (possible || !this.synchronized) this.trip = Math.max(trip, 0);
		const peer = possible ? this.peerFloor(x) : this.trip - own; // a clock was set, and the peer will report that
		const was = this.offset - this.slope * (x - this.offsetAt);
		const moved = ring(peer - own - 2 * was, DELTA) / 2;
		if (this.synchronized && Math.abs(moved) > 50e3) this.steps++;
		this.synchronized = true;
		this.offset = was + moved; this.offsetAt = x;
		this.near = expand(this.near, BigInt(Math.round(this.offset)), OFFSET);
		const [below, above] = this.distances(x);
		if (below + above >= 0) return;
		this.event = x; this.setAt = u64(this.base + BigInt(x)); // both limits cannot be true: a clock was set
		this.below = [{x: this.last.x, y: -this.last.y}]; this.above = [];
		if (this.told.x < this.last.x) this.told = {x: -Infinity, y: 0};
	}
	/** The report to send at now: the least delta since the last call, as of now. If nothing has come since, it is the
	 *  same again, and 0 from a second after the last datagram on. null before the first. @param {Usec} now */
	minDelta(now) {
		if (!this.heard) return null;
		const x = Math.max(since(now, this.base), this.x - SECOND);
		if (this.leastTold && x - this.x > SECOND) return 0;
		this.leastTold = true;
		return toReport(this.least.y + this.slope * (x - this.least.x));
	}
	/** The remote clock. It may go back by what is corrected, up to 50 ms. @param {Usec} now @returns {Usec|null} */
	remoteTime(now) {
		const turned = -this.slope * (since(now, this.base) - this.offsetAt);
		return this.synchronized ? u64(now + this.near + BigInt(Math.round(turned))) : null;
	}
	/** How far remoteTime may be off, while no clock is set. @param {Usec} now @returns {number|null} us */
	errorBound(now) {
		return this.synchronized ? Math.min(Math.max(...this.distances(since(now, this.base)), 0) + 40, 2 ** (OFFSET - 1)) : null;
	}
	/** @returns {number|null} how long the fastest datagrams from the peer take, us */
	minimumOneWayDelay() { return this.synchronized ? Math.max(ring(this.floor(this.x) + this.offset, OFFSET), 0) : null; }
	/** @returns {number|null} how long the fastest to the peer take, us */
	minimumDelayToPeer() { return this.synchronized ? Math.max(this.trip - /** @type {number} */ (this.minimumOneWayDelay()), 0) : null; }
}

// ---- The header of datagrams: WIRE.md, "The header of a datagram" ----
const REPORT = 1, ANCHOR = 2, HAS_ANCHOR = 4, ASKS = 8, VERSION = 16, RESERVED = 0xc0; // flags
const SOON = 500_000, LATER = 1_000_000, SOON_OVER = 20_000_000, SURE = 50_000, HELD_UP = 2_000_000, TURN = 2 ** OFFSET;
/** One end of a connection: a Synchronizer that reads and writes headers. For the next connection take a new one. */
export class Link extends Synchronizer {
	hasAnchor = false; heardOfUs = false; // each end's anchor is at the other
	owed = false; // a report is
	first = /** @type {Usec|null} */ (null); due = 0n; // reports
	knewUs = false; newest = /** @type {{stamp: number, at: Usec}|null} */ (null); // so has the peer known our clock; the last report that was taken
	asking = {n: 0, from: 0n, last: /** @type {Usec|null} */ (null)}; // datagrams in a row
	behind = {n: 0, from: 0n}; // anchors in a row
	/** @param {Usec} now when the datagram is sent @returns {Uint8Array} what goes in front of the payload */
	header(now) {
		const known = this.synchronized;
		const paused = this.asking.n > 0 || this.asking.last !== null && Math.abs(since(now, this.asking.last)) < SURE;
		const reports = this.heard && !paused && this.reports(now);
		const anchors = reports || !known || !this.heardOfUs;
		const b = new Uint8Array(4 + (reports ? 3 : 0) + (anchors ? 8 : 0)), v = view(b);
		b[0] = VERSION | (reports ? REPORT : 0) | (anchors ? ANCHOR : 0) | (known && this.hasAnchor ? HAS_ANCHOR : 0) | (known ? 0 : ASKS);
		put24(b, 1, toTS24(now));
		if (reports) put24(b, 4, /** @type {number} */ (this.minDelta(now)));
		if (anchors) v.setBigUint64(b.length - 8, now, true);
		return b;
	}
	/** Whether a report goes with a datagram. @param {Usec} now */
	reports(now) {
		if (this.first === null) this.first = this.due = now;
		const ahead = since(this.due, now);
		if (!this.owed && ahead > 0 && ahead <= LATER) return false;
		this.owed = false;
		this.due = u64(now + BigInt(u64(now - this.first) >= SOON_OVER ? LATER : SOON));
		return true;
	}
	/** Says that a datagram was not sent after all. */ sendFailed() { this.owed = true; }
	/** Takes a datagram, proven to come from the peer, and new. delay is null while it is not known.
	 *  @param {Uint8Array} datagram @param {Usec} now when it arrived
	 *  @returns {{payload: Uint8Array, delay: number|null, error?: undefined} | {error: 'truncated'|'reserved'|'version'|'anchor'}} 'version': the peer speaks an older one */
	open(datagram, now) {
		const flags = datagram[0], size = 4 + (flags & REPORT ? 3 : 0) + (flags & ANCHOR ? 8 : 0);
		if (datagram.length < 4) return {error: 'truncated'};
		if (flags & RESERVED) return {error: 'reserved'};
		if (!(flags & VERSION)) return {error: 'version'};
		if (datagram.length < size) return {error: 'truncated'};
		const stamp = get24(datagram, 1), asks = (flags & ASKS) !== 0, anchor = flags & ANCHOR ? view(datagram).getBigUint64(size - 8, true) : null;
		if (anchor !== null && toTS24(anchor) !== stamp) return {error: 'anchor'};
		if (this.startedAnew(asks, now)) Object.assign(this, new Link(), {steps: this.steps + (this.synchronized ? 1 : 0)});
		const knew = this.synchronized, delay = this.datagram(stamp, now);
		if (anchor !== null && !knew) this.takeAnchor(anchor, now);
		const t = this.newest, overtaken = t !== null && Math.abs(since(now, t.at)) < SECOND && ring(stamp - t.stamp, 24) < 0;
		if (flags & REPORT && (knew || !(flags & HAS_ANCHOR)) && !overtaken) { this.newest = {stamp, at: now}; this.report(get24(datagram, 4), now); }
		const age = anchor !== null && knew ? Number(BigInt.asIntN(OFFSET, /** @type {bigint} */ (this.remoteTime(now)) - anchor)) : NaN;
		if (anchor !== null && age >= -SECOND) this.takeAnchor(anchor, now); // as the report leaves it
		this.heardOfUs = (flags & HAS_ANCHOR) !== 0;
		if (asks) { this.owed = true; this.hasAnchor = false; }
		return {payload: datagram.subarray(size), delay: delay === null ? null : Math.max(delay, 0)};
	}
	/** Whether the peer is not who it was. @param {boolean} asks @param {Usec} now */
	startedAnew(asks, now) {
		this.knewUs ||= !asks && this.synchronized;
		const a = this.asking;
		if (!asks || !this.knewUs) { a.n = 0; return false; }
		this.asking = {n: a.n + 1, from: a.n === 0 ? now : a.from, last: now};
		return a.n >= 2 && u64(now - this.asking.from) >= SURE;
	}
	/** Takes what the remote clock read, all of it, when it sent what arrived at now. @param {Usec} anchor @param {Usec} now */
	takeAnchor(anchor, now) {
		const b = this.behind, remote = this.remoteTime(now);
		const turns = remote === null ? 0 : Math.floor((since(remote, anchor) + SECOND) / TURN); // it was under way for -1 to 66.1 s
		const back = turns > 0; // it may have been held up
		this.behind = {n: back ? b.n + 1 : 0, from: b.n === 0 ? now : b.from};
		this.hasAnchor = !back || b.n >= 2 && u64(now - b.from) >= HELD_UP;
		if (!this.hasAnchor) return;
		this.behind.n = 0;
		this.near = remote === null ? u64(anchor - now) : u64(this.near - BigInt(turns * TURN));
		if (turns !== 0) { this.steps++; this.setAt = now; }
	}
}

// ---- ping: WIRE.md, "ping: request and reply" ----
const PING_LATE = 10e6, PING_SKEW = 600e-6, CRYSTALS = 100e-6, PING_FAST = 8, PING_AGAIN = 68; // us, rates, requests
/** @typedef {{at: Usec, offset: bigint, trip: number, half: number}} Exchange */
/** Asks a server for its time. Send request() whenever next() is 0, and pass what comes to reply(). */
export class Ping extends Remote {
	/** @param {number} [session] a number that the server knows, too @param {number} [interval] us */
	constructor(session = 0, interval = 250_000) { super(); this.session = session >>> 0; this.interval = interval; }
	asked = 0; fast = 0; last = 0n; // requests, those since a clock was set, and when the last was sent
	pending = /** @type {Map<bigint, {sent: Usec, n: number, done: boolean}>} */ (new Map());
	window = /** @type {Exchange[]} */ ([]);
	/** How long to wait until the next request, us: in no rhythm with a server's coarse clock. @param {Usec} now */
	next(now) {
		const few = this.fast < PING_AGAIN && this.window.length < PING_FAST, ago = since(now, this.last);
		const every = Math.min(this.interval, this.fast < PING_FAST ? 1e5 : few ? 1e6 : Infinity);
		return this.asked === 0 || ago < -every ? 0 : Math.max(every - every / 16 * (this.asked * 0.618 % 1) - Math.max(ago, 0), 0);
	}
	/** @param {Usec} now @param {bigint} [nonce] */
	request(now, nonce = crypto.getRandomValues(new BigUint64Array(1))[0]) {
		const b = new Uint8Array(13), v = view(b);
		b[0] = 0x70; v.setUint32(1, this.session, true); v.setBigUint64(5, nonce, true);
		this.last = now; this.fast++; this.pending.set(nonce, {sent: now, n: this.asked++, done: false});
		if (this.pending.size > 64) this.pending.delete(/** @type {bigint} */ (this.pending.keys().next().value));
		return b;
	}
	/** @param {Uint8Array} b @param {Usec} now when it arrived @returns {string} "accepted", or why not */
	reply(b, now) {
		const v = view(b);
		if (b.length !== 29 || b[0] !== 0x71) return 'malformed';
		if (v.getUint32(1, true) !== this.session) return 'old session';
		const r = this.pending.get(v.getBigUint64(5, true)), t2 = v.getBigUint64(13, true);
		if (!r) return 'unknown request';
		if (r.done) return 'duplicate';
		const away = since(now, r.sent), hold = since(v.getBigUint64(21, true), t2), skewed = Math.floor(away * PING_SKEW);
		if (away < 0 || hold < -200_000) return 'impossible'; // coarse clocks round receipt up, sending down
		if (away > PING_LATE) return 'too late';
		if (hold > away + skewed + 2) return 'impossible';
		if ([...this.pending.values()].some(p => p.done && p.n > r.n)) return 'overtaken';
		r.done = true; this.heardAt = now;
		const trip = Math.max(away - hold, 0), at = u64(r.sent + BigInt(away >> 1));
		const s = {at, offset: u64(t2 - r.sent - BigInt(Math.trunc((away - hold) / 2))), trip, half: Math.ceil(trip / 2) + (skewed >> 1) + 2};
		const sure = this.surest(now), last = this.window.at(-1), held = last && 2 * (last.trip - trip) > 3 * since(at, last.at); // last waited
		const set = sure && Math.abs(since(s.offset, sure.offset)) > s.half + this.bound(sure, at);
		if (set) { this.fast = 0; this.steps++; this.setAt = now; } // both cannot be true: a clock was set
		this.window = set ? [s] : [...this.window.slice(-63, held ? -1 : undefined), s];
		return 'accepted';
	}
	/** By how much an exchange may be off now, us. @param {Exchange} s @param {Usec} now */
	bound(s, now) { return s.half + PING_SKEW * Math.abs(since(now, s.at)); }
	/** The surest of 64 exchanges. @param {Usec} now @returns {Exchange|undefined} */
	surest(now) { return this.window.reduce((a, b) => a && this.bound(a, now) < this.bound(b, now) ? a : b, /** @type {*} */ (undefined)); }
	/** By the fastest request and reply of the last 8 and of 5 s, but as near to the surest as that is. @param {Usec} now */
	read(now) {
		const sure = this.surest(now);
		if (!sure) return null;
		const late = this.window.filter((s, i, all) => i >= all.length - 8 || since(now, s.at) <= 5e6)
			.map(s => ({off: since(s.offset, sure.offset), half: s.trip / 2 + CRYSTALS * Math.abs(since(now, s.at))}));
		const least = Math.max(...late.map(s => s.off - s.half)), most = Math.min(...late.map(s => s.off + s.half));
		const bound = this.bound(sure, now), by = Math.max(Math.min((least + most) / 2, bound), -bound);
		return {offset: sure.offset + BigInt(Math.trunc(by)), bound: bound + Math.abs(by)};
	}
	/** The server's clock, or null. It may go back by what an exchange corrects. @param {Usec} now */
	remoteTime(now) { const r = this.read(now); return r ? u64(now + r.offset) : null; }
	/** How far that may be off, us. @param {Usec} now */
	errorBound(now) { return this.read(now)?.bound ?? null; }
	/** Half of the shortest of 8 round trips: by how much the ways differ is not known. @returns {number|null} us */
	minimumOneWayDelay() { return this.window.length ? Math.min(...this.window.slice(-8).map(s => s.trip)) / 2 : null; }
	minimumDelayToPeer() { return this.minimumOneWayDelay(); }
}

// ---- tick: WIRE.md, "tick: Welcome and Hello" ----
/** Reads a Welcome, or null. sent: by the server's clock, which was at origin at game time 0. early: of the ticks newest,
 *  newest-1, ... by how many units of 0.1 ms the input came early, -32768 if none came. @param {Uint8Array} b */
export function readWelcome(b) {
	const v = view(b), n = b.length > 42 ? b[42] : 0, flags = b[33];
	if (b.length < 34 || b[0] !== 2 || flags > 7 || b.length !== (flags & 4 ? 43 + 2 * n : 34) || flags & 4 && (n < 1 || n > 64)) return null;
	const w = {epoch: v.getBigUint64(1, true), num: v.getUint32(9, true), den: v.getUint32(13, true), origin: v.getBigUint64(17, true),
		tick: v.getBigInt64(25, true), heard: (flags & 1) !== 0, paused: (flags & 2) !== 0,
		newest: n ? v.getBigInt64(34, true) : 0n, early: Array.from({length: n}, (_, i) => v.getInt16(43 + 2 * i, true))};
	if (w.epoch < 1n || w.epoch >= 1n << 63n || w.num === 0 || w.num > 1e9 * w.den) return null;
	const start = startNs(w.tick, w);
	return start > 1n << 61n || start < -(1n << 61n) ? null : {...w, sent: u64(w.origin + floorDiv(start, 1000n))};
}
const floorDiv = (/** @type {bigint} */ a, /** @type {bigint} */ b) => a / b - (a % b < 0n ? 1n : 0n);
const startNs = (/** @type {bigint} */ tick, /** @type {Rate} */ r) => -floorDiv(-tick * 1000000000n * BigInt(r.den), BigInt(r.num));
/** When a tick starts, us of game time. @param {bigint} tick @param {Rate} r */
export const tickStart = (tick, r) => Number(startNs(tick, r)) / 1000;
/** The tick at a game time in us, such as those of clocks(). @param {number} us @param {Rate} r */
export const tickAt = (us, r) => floorDiv(BigInt(Math.round(us * 1000)) * BigInt(r.num), 1000000000n * BigInt(r.den));
class Buffer { // lets a clock be so far from the game time that 1 of 200 inputs, or states, comes too late
	needs = /** @type {number[]} */ ([]); row = 0; most = NaN; // the last distances needed; late ones in a row; the most, but for 1 of 200
	burst = 0; before = NaN; calm = Infinity; // how many came at once with later ones; the need before, if late; how many since many did
	add(/** @type {number} */ need, /** @type {boolean} */ late, /** @type {Rate} */ {num, den}) {
		const was = this.burst, is = this.burst = late && this.before - need > 5e5 * den / num ? was + 1 : 0; // half a tick
		this.before = late ? need : NaN; this.calm = was > 3 && !is ? 0 : this.calm + 1;
		if (is && this.calm > 2000) return; // the path stopped, which it does seldom
		this.row = late ? this.row + 1 : 0;
		this.needs = [...this.needs.slice(this.row > 2 ? -2 : -511), need]; // the path is longer: forget what was
		this.most = Float64Array.from(this.needs).sort()[Math.floor(this.needs.length * .995)];
	}
	/** @param {number} first the distance until one came, and to 1 s of it afterwards @returns {number} */
	distance(first) {
		return Number.isNaN(this.most) ? first : Math.min(Math.max(this.most + 500, first - 1e6), first + 1e6);
	}
}

/** @typedef {{server: number, shared: number, predicted: number}} Times game times: to show of others, now, to play */
/** Follows the game time of a server. For the next connection take a new one. */
export class TickClient {
	/** @param {Link|Ping} remote @param {{clientBuffer?: number, serverBuffer?: number}} [buffers] us; they may be changed. One that is
	 *  missing is 1 or 2 ticks at first, and then follows what state() is told of, or the server by AcceptInput */
	constructor(remote, buffers = {}) { this.remote = remote; this.buffers = buffers; }
	last = /** @type {ReturnType<typeof readWelcome>} */ (null); heardAt = 0n; aliveAt = 0n; counts = 0n; // a Welcome; or a state; they do from
	shown = /** @type {{now: Usec, at: number[]}|null} */ (null); steps = 0; game = 0; lead = 0; // as clocks() found them
	ahead = new Buffer(); behind = new Buffer(); fresh = /** @type {bigint|number} */ (-Infinity); // inputs from this tick on are news
	/** Takes a Welcome that arrived at now, and says whether it counts. @param {Uint8Array} b @param {Usec} now */
	welcome(b, now) {
		const w = readWelcome(b), last = this.last, {remote, buffers, steps} = this;
		if (!w || last && since(now, this.heardAt) < 3e6 && (w.epoch < last.epoch || w.epoch === last.epoch && since(w.sent, last.sent) < 0)) return false;
		if (last && (w.epoch !== last.epoch || w.num !== last.num || w.den !== last.den)) Object.assign(this, new TickClient(remote, buffers), {steps});
		this.last = w; this.heardAt = this.aliveAt = now;
		const news = this.clocks(now) ? w.early.filter((early, i) => early !== -32768 && w.newest - BigInt(i) >= this.fresh) : [];
		for (const early of news.reverse()) this.ahead.add(this.lead - early * 100, early < 0, w);
		if (news.length) this.fresh = w.newest + 1n;
		return true;
	}
	/** Takes that a state came, the first one for its tick, not after a hang. @param {bigint} epoch @param {bigint} tick @param {Usec} now */
	state(epoch, tick, now) {
		const c = this.clocks(now);
		if (!c || epoch !== c.epoch) return;
		const start = tickStart(tick - 1n, c.rate), news = !c.paused && since(now, this.counts) >= 0; // when it is shown the next one is here, too
		if (this.aliveAt = now, news) this.behind.add(this.game - start, start < c.server, c.rate);
	}
	/** As that of Link and Ping, for clocks(now).shared; 'silent' already where neither Welcome nor state came for 3 s.
	 *  @param {number} tolerable @param {Usec} now */
	within(tolerable, now) {
		const c = this.clocks(now), off = c ? c.bounds.shared - /** @type {number} */ (this.remote.errorBound(now)) : 0;
		return c && since(now, this.aliveAt) > 3e6 ? 'silent' : c ? this.remote.within(tolerable - off, now) : 'unsynchronized';
	}
	/** The message to send some times a second, or null once the server has heard it. @param {Usec} now */
	hello(now) {
		if (!this.last || this.last.heard || this.remote.remoteTime(now) === null) return null;
		const b = new Uint8Array(17), v = view(b);
		b[0] = 1; v.setBigUint64(1, this.last.epoch, true); v.setUint32(9, this.last.num, true); v.setUint32(13, this.last.den, true);
		return b;
	}
	/** The three times, and how far off each may be while no clock is set. They are slewed by 1 %. Jumps, which steps counts:
	 *  of all, if one is off by over 0.2 s; of predicted, forward, if inputs are late in a row. If states are, server stands
	 *  still. @param {Usec} now @returns {Times & {bounds: Times, epoch: bigint, rate: Rate, paused: boolean} | null} */
	clocks(now) {
		const w = this.last, {remote, buffers, ahead, behind, shown} = this, usec = remote.remoteTime(now), bound = remote.errorBound(now);
		const from = remote.minimumOneWayDelay(), to = remote.minimumDelayToPeer();
		if (!w || usec === null || bound === null || from === null || to === null) return null;
		const age = since(now, this.heardAt), late = since(usec, w.sent) - age; // of the Welcome, as the remote clock has it
		if (age < 3e6 && (late < -1e6 || late > 3e6 + from)) return null; // it is another clock: the server started anew, or one was set
		const tick = 1e6 * w.den / w.num, game = w.paused ? tickStart(w.tick, w) : since(usec, w.origin), {clientBuffer, serverBuffer} = buffers;
		const back = clientBuffer === undefined ? behind.distance(from + tick) : from + clientBuffer;
		const lead = serverBuffer === undefined ? ahead.distance(to + 2 * tick) : to + serverBuffer, goal = [game - back, game, game + lead];
		const passed = shown ? Math.max(since(now, shown.now), 0) : 0, stands = clientBuffer === undefined && behind.row > 2;
		const was = shown && !w.paused ? shown.at.map(t => t + passed) : goal;
		const far = was.some((t, i) => Math.abs(goal[i] - t) > 2e5), hurry = serverBuffer === undefined && ahead.row > 2 && goal[2] > was[2];
		const at = was.map((t, i) => far || hurry && i === 2 ? goal[i] :
			t + Math.max(Math.min(goal[i] - t, passed / 100), i === 0 && stands ? -passed : -passed / 100));
		if (far || hurry) { this.steps++; this.fresh = tickAt(at[2], w) + 1n; ahead.row = 0; }
		if (!shown || passed > 15e4) this.counts = shown ? now + 150_000n : now; // the page hung
		this.shown = {now: shown && since(now, shown.now) < 0 ? shown.now : now, at}; this.game = game; this.lead = at[2] - game; // rounded up on receipt
		const times = (/** @type {number[]} */ [server, shared, predicted]) => ({server, shared, predicted}), rate = {num: w.num, den: w.den};
		return {...times(at), bounds: times(at.map((t, i) => bound + Math.abs(goal[i] - t))), epoch: w.epoch, rate, paused: w.paused};
	}
}
