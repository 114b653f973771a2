// SPDX-License-Identifier: BSD-3-Clause

// Breaks one rule of docs/WIRE.md after the other in timesync.mjs, and says which vector notices.
// It fails if none does, so that the vectors of testdata/wire decide each of these rules:
//
//	node js/mutations.mjs
//
// No vector decides what an end may do or leave (when it adds a report), what the estimator does
// where it is as good either way, and the lower limit of the delay of an anchor, -1 s.

import {readFileSync} from 'node:fs';
import {run} from './vectors.mjs';

/**
 * @typedef {{rule: string, instead: string, say: string}} Mutation what is replaced in the source,
 *   once
 */

/** @type {Mutation[]} */
const mutations = [
	// Payload times and rings.
	{
		rule: 'stamp rounded to nearest',
		instead: 'Number(BigInt.asUintN(24, now >> 3n))',
		say: 'Number(BigInt.asUintN(24, (now + 4n) >> 3n))',
	},
	{
		rule: 'TS23 rounded down',
		instead: '(remote + 4n) >> 3n',
		say: 'remote >> 3n',
	},
	{
		rule: 'TS16 rounded down',
		instead: '(remote + 256n) >> 9n',
		say: 'remote >> 9n',
	},
	{
		rule: 'TS23 read without bias',
		instead: '(now >> 3n) - (1n << 21n)',
		say: '(now >> 3n)',
	},
	{
		rule: 'TS16 read without bias',
		instead: '(now >> 9n) - (1n << 14n)',
		say: '(now >> 9n)',
	},
	{
		rule: 'TS23 read with bias 2^20',
		instead: '(now >> 3n) - (1n << 21n)',
		say: '(now >> 3n) - (1n << 20n)',
	},
	{
		rule: "TS23 keeps now's low bits",
		instead: 'BigInt(ts), 23) << 3n)',
		say: 'BigInt(ts), 23) << 3n) + (now & 7n)',
	},
	{
		rule: 'expand: half a ring is the larger',
		instead: 'u64(near + BigInt.asIntN(bits, small - near))',
		say: 'u64(near - BigInt.asIntN(bits, near - small))',
	},
	{
		rule: 'time 23: the flag is lost',
		instead: 'known: (bytes[2] & 128) !== 0',
		say: 'known: false',
	},
	{
		rule: 'time 23: the flag is part of the time',
		instead: 'get24(bytes, 0) & 0x7fffff',
		say: 'get24(bytes, 0)',
	},

	// Reports.
	{
		rule: 'report rounds by 3.5',
		instead: 'Math.floor((delta + 4) / 8)',
		say: 'Math.floor((delta + 3.5) / 8)',
	},
	{
		rule: 'report rounds down',
		instead: 'Math.floor((delta + 4) / 8)',
		say: 'Math.floor(delta / 8)',
	},
	{
		rule: "report has an original's remainder",
		instead: `	if (report % marks === originalMark) {
		report =`,
		say: `	if (false) {
		report =`,
	},
	{
		rule: 'report avoids remainder 2 upward only',
		instead: 'delta > 8 * nearest ? report + 1 : report - 1',
		say: 'report + 1',
	},
	{
		rule: 'report may be 0',
		instead: 'return report === 0 ? 1 : report;',
		say: 'return report;',
	},
	{
		rule: 'report 0 is 2^24 - 1',
		instead: 'return report === 0 ? 1 : report;',
		say: 'return report === 0 ? 2 ** 24 - 1 : report;',
	},
	{
		rule: 'report 0 is taken',
		instead: '		if (report === 0) { // nothing has come there',
		say: '		if (report < 0) { // nothing has come there',
	},

	// Headers.
	{
		rule: 'truncated after reserved',
		instead: 'if (datagram.length < 1 + stampLength) {',
		say: 'if (datagram.length < 1) {',
	},
	{
		rule: 'reserved accepted',
		instead: 'if (flags & flagsReserved) {',
		say: 'if (false) {',
	},
	{
		rule: 'version is reserved',
		instead: "		return {error: 'version'};",
		say: "		return {error: 'reserved'};",
	},
	{
		rule: 'any version',
		instead: 'if (!(flags & flagVersion)) {',
		say: 'if (false) {',
	},
	{
		rule: 'anchor not checked',
		instead: 'if (anchor !== null && toTS24(anchor) !== stamp) {',
		say: 'if (false) {',
	},
	{
		rule: 'no reports',
		instead: 'const reports = report !== null;',
		say: 'const reports = false;',
	},
	{
		rule: 'no anchor with reports',
		instead: 'const anchors = reports || !known || isNeeded || !this.#heardOfUs;',
		say: 'const anchors = !known || isNeeded || !this.#heardOfUs;',
	},
	{
		rule: 'no anchor while asking',
		instead: 'const anchors = reports || !known || isNeeded || !this.#heardOfUs;',
		say: 'const anchors = reports || isNeeded || !this.#heardOfUs;',
	},
	{
		rule: 'no anchor while the peer checks',
		instead: 'const isNeeded = checks || this.#peerChecks || this.#isSilent(now);',
		say: 'const isNeeded = checks || this.#isSilent(now);',
	},
	{
		rule: 'no anchor while we check',
		instead: 'const isNeeded = checks || this.#peerChecks || this.#isSilent(now);',
		say: 'const isNeeded = this.#peerChecks || this.#isSilent(now);',
	},
	{
		rule: 'no anchor while the peer is silent',
		instead: 'const isNeeded = checks || this.#peerChecks || this.#isSilent(now);',
		say: 'const isNeeded = checks || this.#peerChecks;',
	},
	{
		rule: 'no anchor until flag 2',
		instead: 'const anchors = reports || !known || isNeeded || !this.#heardOfUs;',
		say: 'const anchors = reports || !known || isNeeded;',
	},
	{
		rule: 'flag 2 without synchronized',
		instead: 'if (known && this.#hasAnchor && !snapshot.ambiguous) {',
		say: 'if (this.#hasAnchor) {',
	},
	{
		rule: 'flag 2 without anchor',
		instead: 'if (known && this.#hasAnchor && !snapshot.ambiguous) {',
		say: 'if (known) {',
	},
	{
		rule: 'flag 2 while the peer asks',
		instead: `			this.#owed = true;
			this.#hasAnchor = false;`,
		say: '			this.#owed = true;',
	},
	{
		rule: 'flag 3 only until a datagram',
		instead: `if (!known) {
			flags |= flagAsks;`,
		say: `if (this.#heard === null) {
			flags |= flagAsks;`,
	},
	{
		rule: 'no version',
		instead: 'let flags = flagVersion;',
		say: 'let flags = 0;',
	},
	{
		rule: 'flag 2 sticky at the receiver',
		instead: 'this.#heardOfUs = header.hasAnchor;',
		say: 'this.#heardOfUs ||= header.hasAnchor;',
	},
	{
		rule: 'a datagram that asks owes no report',
		instead: `			this.#owed = true;
			this.#hasAnchor = false;`,
		say: '			this.#hasAnchor = false;',
	},
	{
		rule: 'a failed datagram owes nothing',
		instead: `	sendFailed() {
		this.#owed = true;`,
		say: '	sendFailed() {',
	},

	// The schedule of reports.
	{
		rule: 'owed does not count as the last',
		instead: '		this.#reports.due = later(now, isLate ? reportEvery : firstReportEvery);',
		say: `		if (ahead <= 0 || ahead > reportEvery) {
			this.#reports.due = later(now, isLate ? reportEvery : firstReportEvery);
		}`,
	},
	{
		rule: 'every 1 s from the start',
		instead: 'isLate ? reportEvery : firstReportEvery',
		say: 'reportEvery',
	},
	{
		rule: 'every 0.5 s for ever',
		instead: 'isLate ? reportEvery : firstReportEvery',
		say: 'firstReportEvery',
	},
	{
		rule: 'a peer that checks waits for reports',
		instead: 'const isAwaited = this.#owed || this.#peerChecks && waited;',
		say: 'const isAwaited = this.#owed;',
	},
	{
		rule: 'a datagram after a silence owes no report',
		instead: `			this.#owed = true;
			this.#wasSilent = true;`,
		say: '			this.#wasSilent = true;',
	},
	{
		rule: 'nothing is checked after a silence',
		instead: `			this.#owed = true;
			this.#wasSilent = true;`,
		say: '			this.#owed = true;',
	},
	{
		rule: '20 s from now, one way only',
		instead: 'u64(now - this.#reports.first) >= BigInt(firstReports)',
		say: 'since(now, this.#reports.first) >= firstReports',
	},
	{
		rule: 'set back: not due now',
		instead: 'ahead > 0 && ahead <= reportEvery && !isAwaited',
		say: 'ahead > 0 && !isAwaited',
	},
	{
		rule: 'due only after, not at',
		instead: 'ahead > 0 && ahead <= reportEvery',
		say: 'ahead >= 0 && ahead <= reportEvery',
	},
	{
		rule: 'none is due at the first datagram',
		instead: 'this.#reports ??= {first: now, last: now, due: now};',
		say: 'this.#reports ??= {first: now, last: now, due: now + 500_000n};',
	},
	{
		rule: 'a report before a datagram has come',
		instead: 'if (this.#heard === null || !this.#anew.isOver(now, restartTakes)) {',
		say: 'if (!this.#anew.isOver(now, restartTakes)) {',
	},

	// A peer that starts anew.
	{
		rule: 'restart: at the first datagram that asks',
		instead: 'return this.count >= inARow && since(now, this.#begun) >= atLeast;',
		say: 'return true;',
	},
	{
		rule: 'restart: two in a row',
		instead: 'const inARow = 3;',
		say: 'const inARow = 2;',
	},
	{
		rule: 'restart: four in a row',
		instead: 'const inARow = 3;',
		say: 'const inARow = 4;',
	},
	{
		rule: 'restart: without 50 ms',
		instead: '&& since(now, this.#begun) >= atLeast;',
		say: ';',
	},
	{
		rule: 'restart: more than 50 ms, not at',
		instead: 'since(now, this.#begun) >= atLeast;',
		say: 'since(now, this.#begun) > atLeast;',
	},
	{
		rule: 'never restarted',
		instead: 'if (this.#startedAnew(header, now)) {',
		say: 'if (this.#startedAnew(header, now) && false) {',
	},
	{
		rule: 'restart though the peer never knew us',
		instead: 'return this.#anew.add(false, now, restartTakes);',
		say: 'return this.#anew.add(header.asks, now, restartTakes);',
	},
	{
		rule: 'knew us: at any datagram that does not ask',
		instead: `if (remote !== null && !header.asks) {
			this.#knewUs ??= remote;`,
		say: `if (!header.asks) {
			this.#knewUs ??= remote ?? header.anchor;`,
	},
	{
		rule: 'a row is not ended',
		instead: `		if (!goesOn) {
			this.count = 0;`,
		say: '		if (!goesOn) {',
	},
	{
		rule: 'no pause',
		instead: 'if (this.#heard === null || !this.#anew.isOver(now, restartTakes)) {',
		say: 'if (this.#heard === null) {',
	},
	{
		rule: 'no pause after the row',
		instead: 'return this.count === 0 && (!this.#ever || ago >= span);',
		say: 'return this.count === 0;',
	},
	{
		rule: 'pause after the row: only later, not either way',
		instead: 'const ago = Math.abs(since(now, this.#last));',
		say: 'const ago = Number(u64(now - this.#last));',
	},
	{
		rule: 'pause after the row: 30 ms',
		instead: 'this.#anew.isOver(now, restartTakes)',
		say: 'this.#anew.isOver(now, 30_000)',
	},
	{
		rule: 'pause after the row: up to and with 50 ms',
		instead: 'ago >= span',
		say: 'ago > span',
	},
	{
		rule: 'no pause during the row',
		instead: 'return this.count === 0 && (',
		say: 'return (',
	},
	{
		rule: 'what is owed is lost in a pause',
		instead: 'if (this.#heard === null || !this.#anew.isOver(now, restartTakes)) {',
		say: `if (this.#heard === null || !this.#anew.isOver(now, restartTakes)) {
			this.#owed = false;`,
	},
	{
		rule: 'reset: the schedule stays',
		instead: `		this.#reports = null;
		this.#newest = null;`,
		say: '		this.#newest = null;',
	},
	{
		rule: 'reset: knew us stays',
		instead: `		this.#knewUs = null;
		this.#anew = new Streak();`,
		say: '		this.#anew = new Streak();',
	},
	{
		rule: 'reset: the row stays',
		instead: `		this.#knewUs = null;
		this.#anew = new Streak();`,
		say: '		this.#knewUs = null;',
	},
	{
		rule: 'reset: the clock stays',
		instead: `		this.#clock.reset();
		this.#hasAnchor`,
		say: '		this.#hasAnchor',
	},

	// Reports and anchors on receipt.
	{
		rule: 'first anchor after the report',
		instead: 'if (anchor !== null && !known) {',
		say: 'if (false) {',
	},
	{
		rule: 'report of before taken by a new end',
		instead: '(known || !header.hasAnchor) && !this.#isOvertaken',
		say: '!this.#isOvertaken',
	},
	{
		rule: 'report that was overtaken taken',
		instead: '&& !this.#isOvertaken(stamp, now)) {',
		say: ') {',
	},
	{
		rule: 'reports with flag 2 never taken',
		instead: '(known || !header.hasAnchor) && !this',
		say: '!header.hasAnchor && !this',
	},
	{
		rule: 'later anchors are not taken',
		instead: 'if (anchor !== null && known) {',
		say: 'if (false) {',
	},
	{
		rule: 'anchor behind: taken at once',
		instead: 'if (contradicts && mayBeDelayed && !this.inARow(x, turns)) {',
		say: 'if (false) {',
	},
	{
		rule: 'anchor behind: never',
		instead: 'if (contradicts && mayBeDelayed && !this.inARow(x, turns)) {',
		say: 'if (contradicts && mayBeDelayed) {',
	},
	{
		rule: 'anchor behind: without 2 s',
		instead: 'return this.row >= outliersInARow && x - this.rowFrom >= heldTime;',
		say: 'return this.row >= outliersInARow;',
	},
	{
		rule: 'anchor behind: 4 s',
		instead: 'return this.row >= outliersInARow && x - this.rowFrom >= heldTime;',
		say: 'return this.row >= outliersInARow && x - this.rowFrom >= 2 * heldTime;',
	},
	{
		rule: 'anchor ahead counts as behind',
		instead: 'const mayBeDelayed = turns > 0n || late > second;',
		say: 'const mayBeDelayed = true;',
	},
	{
		rule: 'anchor of an asking datagram counts for flag 2',
		instead: `			this.#owed = true;
			this.#hasAnchor = false;`,
		say: `			this.#owed = true;
			this.#hasAnchor &&= anchor !== null;`,
	},

	// The estimator.
	{
		rule: 'a clock that is set is not seen',
		instead: 'const isStep = opens || arbiter.matches(by, look, w);',
		say: 'const isStep = false;',
	},
	{
		rule: 'reports are of the floor, not the least delta',
		instead: 'this.#report.set(outgoing.at(x, clock.skew), now, outgoing.some);',
		say: 'this.#report.set(this.#both.delta(inward, x), now, outgoing.some);',
	},
	{
		rule: 'the offset is not halved',
		instead: 'const half = ring(deltaOut + deltaIn, deltaBits) / 2;',
		say: 'const half = ring(deltaOut + deltaIn, deltaBits);',
	},
	{
		rule: 'the interval says nothing',
		instead: 'return Math.max(...this.slack, 0) + 3 * rounding;',
		say: 'return 3 * rounding;',
	},

	// Ping.
	{
		rule: 'ping: any length of reply',
		instead: 'if (bytes.length !== replySize || bytes[0] !== kindReply) {',
		say: 'if (bytes.length < replySize || bytes[0] !== kindReply) {',
	},
	{
		rule: 'ping: any kind',
		instead: 'if (bytes.length !== replySize || bytes[0] !== kindReply) {',
		say: 'if (bytes.length !== replySize) {',
	},
	{
		rule: 'ping: any session',
		instead: 'if (b.getUint32(1, true) !== this.#session) {',
		say: 'if (false) {',
	},
	{
		rule: 'ping: twice',
		instead: 'if (request.answered) {',
		say: 'if (false) {',
	},
	{
		rule: 'ping: coarse 0',
		instead: 'this.hold < -coarseServer',
		say: 'this.hold < 0',
	},
	{
		rule: 'ping: coarse 1 s',
		instead: 'this.hold < -coarseServer',
		say: 'this.hold < -1_000_000',
	},
	{
		rule: 'ping: before it was sent',
		instead: 'if (this.away < 0 || this.hold',
		say: 'if (this.hold',
	},
	{
		rule: 'ping: late at 10 s',
		instead: 'if (this.away > lateReply) {',
		say: 'if (this.away >= lateReply) {',
	},
	{
		rule: 'ping: never late',
		instead: 'if (this.away > lateReply) {',
		say: 'if (false) {',
	},
	{
		rule: 'ping: held without skew',
		instead: 'return Math.trunc(this.away * exchangeSkew) + roundingOfReadings;',
		say: 'return roundingOfReadings;',
	},
	{
		rule: 'ping: held without 2 us',
		instead: 'Math.trunc(this.away * exchangeSkew) + roundingOfReadings;',
		say: 'Math.trunc(this.away * exchangeSkew);',
	},
	{
		rule: 'ping: held any',
		instead: "return this.hold > this.away + this.slack ? 'impossible' : 'accepted';",
		say: "return 'accepted';",
	},
	{
		rule: 'ping: overtaken taken',
		instead: 'if (request.number < this.#latest) {',
		say: 'if (false) {',
	},
	{
		rule: 'ping: there hears nothing',
		instead: '		this.#there.datagram(toTS24(t1), t2);',
		say: '		this.#there.datagram(toTS24(t1), t1);',
	},
	{
		rule: 'ping: a contradiction is not seen',
		instead: 'if (!ends.contradict(exchange)) {',
		say: 'if (true) {',
	},
	{
		rule: 'ping: no fast start',
		instead: 'if (this.#group < groupSize) {',
		say: 'if (false) {',
	},
	{
		rule: 'ping: fast for ever',
		instead: 'if (this.#group < groupSize) {',
		say: 'if (true) {',
	},
	{
		rule: 'ping: fast for 4',
		instead: 'const groupSize = 8;',
		say: 'const groupSize = 4;',
	},
	{
		rule: 'ping: no patience',
		instead: 'Math.min(interval, Math.max(first, known / laterPart));',
		say: 'Math.min(interval, Infinity);',
	},
	{
		rule: 'ping: served to any session',
		instead: 'if (!isRequest || viewOf(request).getUint32(1, true) !== session >>> 0) {',
		say: 'if (!isRequest) {',
	},
	{
		rule: 'ping: served though no request',
		instead: 'const isRequest = request.length === requestSize && request[0] === kindRequest;',
		say: 'const isRequest = request.length >= requestSize;',
	},

	// Tick.
	{
		rule: 'tick: a byte too many',
		instead: 'bytes.length !== first + 2 * count',
		say: 'bytes.length < first + 2 * count',
	},
	{
		rule: 'tick: a byte too many without inputs',
		instead: 'return bytes.length === welcomeSize ? {newest',
		say: 'return bytes.length >= welcomeSize ? {newest',
	},
	{
		rule: 'tick: flag 8',
		instead: 'flags <= (flagHeard | flagPaused | flagInputs) && inputs !== null;',
		say: 'inputs !== null;',
	},
	{
		rule: 'tick: n of 0',
		instead: 'if (count < 1 || count > inputsMost ||',
		say: 'if (count > inputsMost ||',
	},
	{
		rule: 'tick: n of 65',
		instead: 'if (count < 1 || count > inputsMost ||',
		say: 'if (count < 1 ||',
	},
	{
		rule: 'tick: epoch 0',
		instead: 'if (!isKnown || epoch < 1n ||',
		say: 'if (!isKnown ||',
	},
	{
		rule: 'tick: epoch 2^63',
		instead: 'epoch >= 1n << 63n || num',
		say: 'num',
	},
	{
		rule: 'tick: rate 0',
		instead: 'num === 0 || num > 1e9 * den',
		say: 'num > 1e9 * den',
	},
	{
		rule: 'tick: rate above 10^9',
		instead: 'num === 0 || num > 1e9 * den',
		say: 'num === 0',
	},
	{
		rule: 'tick: far ticks',
		instead: 'if (start > maxStart || start < -maxStart) {',
		say: 'if (false) {',
	},
	{
		rule: 'tick: starts rounded down',
		instead: '-floorDivide(-tick * nanosecondsPerSecond * BigInt(rate.den), BigInt(rate.num))',
		say: 'floorDivide(tick * nanosecondsPerSecond * BigInt(rate.den), BigInt(rate.num))',
	},
	{
		rule: 'tick: earlier epoch taken',
		instead: 'return a.epoch < b.epoch || a.epoch',
		say: 'return a.epoch',
	},
	{
		rule: 'tick: earlier epoch never',
		instead: '&& since(now, this.#heardAt) < serverSilence && isBefore(next, last)) {',
		say: '&& isBefore(next, last)) {',
	},
	{
		rule: 'tick: earlier epoch after 0.5 s',
		instead: 'since(now, this.#heardAt) < serverSilence && isBefore',
		say: 'since(now, this.#heardAt) < 0.5e6 && isBefore',
	},
	{
		rule: 'tick: earlier epoch after 4 s',
		instead: 'since(now, this.#heardAt) < serverSilence && isBefore',
		say: 'since(now, this.#heardAt) < 4e6 && isBefore',
	},
	{
		rule: 'tick: overtaken taken',
		instead: 'a.epoch < b.epoch || a.epoch === b.epoch && since(a.sent, b.sent) < 0',
		say: 'a.epoch < b.epoch',
	},
	{
		rule: 'tick: inputs unsigned',
		instead: 'b.getInt16(first + 2 * i, true)',
		say: 'b.getUint16(first + 2 * i, true)',
	},
	{
		rule: 'tick: plays without the delay',
		instead: 'const ahead = shared + to - own.reference;',
		say: 'const ahead = shared - own.reference;',
	},
	{
		rule: 'tick: shows without the delay',
		instead: 'const early = own.reference - (shared - from);',
		say: 'const early = own.reference - shared;',
	},
	{
		rule: 'tick: one tick ahead, not two',
		instead: 'own.ahead.distance(ahead, 2 * tick, frame',
		say: 'own.ahead.distance(ahead, tick, frame',
	},
	{
		rule: 'tick: later epoch not taken',
		instead: 'return a.epoch < b.epoch ||',
		say: 'return a.epoch !== b.epoch ||',
	},
	{
		rule: 'tick: hello for ever',
		instead: 'if (welcome === null || welcome.heard ||',
		say: 'if (welcome === null ||',
	},
	{
		rule: 'tick: hello before the clock is known',
		instead: 'welcome.heard || this.#remote.remoteTime(now) === null',
		say: 'welcome.heard',
	},
	{
		rule: 'tick: paused ignored',
		instead: `welcome.paused ?
			tickStart(welcome.tick, welcome) : since(usec, welcome.origin)`,
		say: 'since(usec, welcome.origin)',
	},
	{
		rule: 'tick: hello says rate 60',
		instead: 'b.setUint32(9, welcome.num, true);',
		say: 'b.setUint32(9, 60, true);',
	},
	{
		rule: 'tick: hello says epoch of first',
		instead: 'b.setBigUint64(1, welcome.epoch, true);',
		say: 'b.setBigUint64(1, 77n, true);',
	},
];

const source = readFileSync(new URL('timesync.mjs', import.meta.url)).toString();

const shown = v => JSON.stringify(v, (_, part) => typeof part === 'bigint' ? `${part}` : part);

function load(text) {
	return import('data:text/javascript;base64,' + Buffer.from(text).toString('base64'));
}

/** Returns the first thing that is wrong with a module, or undefined. */
function notices(module) {
	let first;
	const stop = (what, ...details) => {
		if (what === 'wrong:') {
			first = details.map(shown).join(' ');
			throw new Error(first); // the rest does not matter
		}
	};
	try {
		run(module, stop);
	} catch (e) {
		first ??= e.message;
	}
	return first;
}

let bad = 0;
if (notices(await load(source)) !== undefined) {
	console.log('timesync.mjs is wrong as it is');
	bad++;
}
for (const {rule, instead, say} of mutations) {
	const count = source.split(instead).length - 1;
	if (count !== 1) {
		console.log(`${rule}: there must be one in timesync.mjs, not ${count}, of: ${instead}`);
		bad++;
		continue;
	}
	const first = notices(await load(source.replace(instead, () => say)));
	console.log(`${rule}: ${first?.slice(0, 100) ?? 'NO VECTOR NOTICES'}`);
	if (first === undefined) {
		bad++;
	}
}
console.log(`${mutations.length} rules broken, ${bad} problems`);
process.exitCode = bad ? 1 : 0;
