// SPDX-License-Identifier: BSD-3-Clause

/**
 * timesync.mjs keeps time with a peer, in browsers and in Node. It is one file without a
 * dependency.
 *
 *	Link              time by datagrams, or by any messages that go both ways all the time
 *	Ping              time by request and reply, as over a WebSocket
 *	TickClient        the game time of a server of package tick, by one of the two
 *	JitterEstimator   how long to wait for what arrives
 *	Clock, PageWatch  the page's own clock, and whether the page slept
 *
 * docs/BROWSER.md shows how to use it. docs/WIRE.md says what travels. The parts have the names
 * and the order of the Go packages, whose comments say why each rule is there.
 *
 * Readings of clocks are BigInts: microseconds modulo 2^64. Spans and game times are Numbers, in
 * microseconds, too. What is not known is null. Nothing here reads a clock but Clock and
 * PageWatch: all other calls take the time as an argument.
 */

// ---- Numbers on rings ----

/**
 * @typedef {bigint} Usec a reading of a clock: microseconds, modulo 2^64
 */

/**
 * Returns v modulo 2^64.
 * @param {bigint} v
 * @returns {bigint}
 */
export function u64(v) {
	return BigInt.asUintN(64, v);
}

/**
 * Returns a - b as a span in microseconds, the shorter way round.
 * @param {Usec} a
 * @param {Usec} b
 * @returns {number}
 */
export function since(a, b) {
	return Number(BigInt.asIntN(64, a - b));
}

/**
 * Returns the reading a span after another one.
 * @param {Usec} usec
 * @param {number} span whole microseconds, negative for earlier
 * @returns {Usec}
 */
function later(usec, span) {
	return u64(usec + BigInt(span));
}

/**
 * Returns v modulo 2^bits, from 0 on.
 * @param {number} v
 * @param {number} bits
 * @returns {number}
 */
export function wrap(v, bits) {
	const full = 2 ** bits;
	return v - full * Math.floor(v / full);
}

/**
 * Returns v on a ring of 2^bits, from minus half of it on.
 * @param {number} v
 * @param {number} bits
 * @returns {number}
 */
export function ring(v, bits) {
	const full = 2 ** bits;
	if (v >= -full / 2 && v < full / 2) {
		return v;
	}
	return v - full * Math.floor(v / full + 1 / 2);
}

/**
 * Returns the number nearest to near whose low bits are small.
 * @param {bigint} near
 * @param {bigint} small
 * @param {number} bits
 * @returns {bigint}
 */
export function expand(near, small, bits) {
	return u64(near + BigInt.asIntN(bits, small - near));
}

/**
 * Returns v, but at least least and at most most.
 * @param {number} v
 * @param {number} least
 * @param {number} most
 */
function clamp(v, least, most) {
	return Math.min(Math.max(v, least), most);
}

const second = 1e6; // us: also the most by which times of receipt may be reordered
const minute = 60 * second;

// ---- The clock of a page ----

/**
 * Clock is a monotonic clock in microseconds, made of one that counts milliseconds.
 *
 * A clock that advances in steps reads too early, by up to a step. Where that is the time of
 * receipt, a message looks faster than it was. So received() is rounded up by a step.
 */
export class Clock {
	/** @type {() => number} */
	#read;
	/** @type {number | undefined} */
	#step;

	/**
	 * @param {() => number} [read] a monotonic clock that nobody sets, ms; the default is
	 *   performance.now. An AudioWorklet has none. There take
	 *   new Clock(() => currentTime * 1000, 128e6 / sampleRate)
	 * @param {number} [step] by how much it may lag behind, us; by default that is measured
	 */
	constructor(read = readPerformance, step = undefined) {
		this.#read = read;
		this.#step = step;
	}

	/**
	 * Returns the time for all purposes but that of receipt.
	 * @returns {Usec}
	 */
	now() {
		return BigInt(Math.floor(this.#read() * 1000));
	}

	/**
	 * Returns the time for a message that has just arrived: now, rounded up by a step. Call it
	 * before anything else.
	 * @returns {Usec}
	 */
	received() {
		const now = this.#read() * 1000;
		return BigInt(Math.ceil(now + this.step));
	}

	/**
	 * By how much a reading may lag behind, us. The first use measures it, which takes as long as
	 * 32 steps but at most 0.1 s, or two steps if these are longer.
	 * @returns {number}
	 */
	get step() {
		this.#step ??= measureStep(this.#read);
		return this.#step;
	}
}

const hasPerformance = typeof performance !== 'undefined';

function readPerformance() {
	if (!hasPerformance) {
		throw new Error('timesync: there is no performance.now here; pass a clock to new Clock');
	}
	return performance.now();
}

/**
 * Returns by how much readings of a clock may lag behind, us; 0 if the clock stands still.
 * @param {() => number} read milliseconds
 */
function measureStep(read) {
	const enough = 32; // advances tell whether a clock is jittered
	const most = 100; // ms
	const stands = 1e7; // readings
	/** @type {Advance[]} */
	const advances = [];
	const first = read();
	let last = first;
	let count = 0;
	for (let all = 0; all < stands && advances.length < enough; all++) {
		if (advances.length >= 2 && last - first >= most) {
			break;
		}
		const now = read();
		count++;
		if (now > last) {
			advances.push({by: now - last, count});
			last = now;
			count = 0;
		}
	}
	return Math.ceil(lag(advances) * 1000);
}

/**
 * @typedef {{by: number, count: number}} Advance by: ms; count: readings since the one before
 */

/**
 * Returns by how much the readings of a clock that advanced like that may lag behind, ms.
 *
 * Chromium and Firefox jitter their clock: within each step it advances at a random time, so
 * readings are up to a step too late as well as too early. A constant in all readings does no
 * harm, so such a clock counts as one whose readings are up to two steps too early. Only the
 * number of readings between two advances shows it.
 * @param {Advance[]} advances
 */
function lag(advances) {
	const fewest = 8; // pairs of advances
	const few = 8; // readings between two advances, where chance makes a third more or less
	const least = Math.min(...advances.map(a => a.by));
	// If the clock advances by more, the machine did something else meanwhile.
	const usual = (/** @type {Advance} */ a) => a.by < least * 3 / 2;
	let largest = 0;
	let pairs = 0;
	let unlike = 0;
	for (const [i, b] of advances.entries()) {
		if (!usual(b)) {
			continue;
		}
		largest = Math.max(largest, b.by);
		if (i < 2 || !usual(advances[i - 1])) { // reading began anywhere within the first one
			continue;
		}
		pairs++;
		const [less, more] = [b.count, advances[i - 1].count].sort((x, y) => x - y);
		if (more > few && 4 * less < 3 * more) {
			unlike++;
		}
	}
	// Of a jittered clock three of five are unlike.
	return pairs >= fewest && 5 * unlike > 2 * pairs ? 2 * largest : largest;
}

/** The page's clock. */
export const clock = new Clock();

/** clock.step, us; 0 where there is no performance. */
export const clockStep = hasPerformance ? clock.step : 0;

/**
 * Returns clock.now().
 * @returns {Usec}
 */
export function nowUsec() {
	return clock.now();
}

/**
 * Returns clock.received().
 * @returns {Usec}
 */
export function receivedUsec() {
	return clock.received();
}

/**
 * @typedef {object} Away
 * @property {number} away us in which no code of the page ran
 * @property {number} slept us of these in which the page's clock stood still: the machine slept
 * @property {boolean} hidden whether the page is hidden
 */

/**
 * PageWatch notices that a page was frozen or throttled, or that its machine slept. Call check in
 * each frame, timer and message handler, before anything else; it also checks by itself when the
 * page is shown again. Pass what it says of a sleep to the remote clocks:
 *
 *	const watch = new PageWatch({onAway: away => {
 *		if (away.slept > 0) link.slept(nowUsec());
 *	}});
 *
 * A wall clock that somebody sets ahead looks like a sleep.
 */
export class PageWatch {
	/** @type {Clock} */
	#clock;
	/** @type {() => number} */
	#wall;
	/** @type {EventTarget & {visibilityState?: string} | undefined} */
	#document;
	/** @type {(away: Away) => void} */
	#onAway;
	/** @type {Usec} */
	#last;
	/** @type {number} */
	#ahead; // us: how far the wall clock is ahead of the page's clock
	#wake = () => {
		this.check();
	};

	/**
	 * @param {object} [options]
	 * @param {Clock} [options.clock] the page's clock
	 * @param {() => number} [options.wall] a clock that runs on in sleep, ms; Date.now
	 * @param {EventTarget & {visibilityState?: string}} [options.document] the page's document
	 * @param {(away: Away) => void} [options.onAway] gets what check returns, unless that is null
	 */
	constructor(options = {}) {
		this.#clock = options.clock ?? clock;
		this.#wall = options.wall ?? Date.now;
		this.#document = options.document ?? globalThis.document;
		this.#onAway = options.onAway ?? (() => {});
		this.#last = this.#clock.now();
		this.#ahead = this.#wallAhead();
		for (const event of wakeEvents) {
			this.#document?.addEventListener(event, this.#wake);
		}
	}

	/** Whether the page is hidden. Its timers then run once a second, or once a minute. */
	get hidden() {
		return this.#document?.visibilityState === 'hidden';
	}

	/**
	 * Returns for how long the page was away since the last check, or null if that is less than
	 * 0.25 s.
	 * @returns {Away | null}
	 */
	check() {
		const ahead = this.#wallAhead();
		const now = this.#clock.now();
		const gap = Math.max(since(now, this.#last), 0);
		const noise = Math.max(20_000, 2 * this.#clock.step); // both are read one after the other
		let slept = ahead - this.#ahead;
		this.#last = now;
		this.#ahead = ahead; // a sleep shows at once; what adds up is that rates differ
		if (slept < noise) {
			slept = 0;
		}
		if (gap + slept < awayLeast && slept === 0) {
			return null;
		}
		const away = {away: gap + slept, slept, hidden: this.hidden};
		this.#onAway(away);
		return away;
	}

	/** Stops watching the document. */
	close() {
		for (const event of wakeEvents) {
			this.#document?.removeEventListener(event, this.#wake);
		}
	}

	/**
	 * Returns how far the wall clock is ahead of the page's, us. Where the process was interrupted
	 * between the two readings, the wall clock seems to be further ahead: then it reads them
	 * again.
	 * @returns {number}
	 */
	#wallAhead() {
		const close = 1000 + this.#clock.step; // us
		const most = 10; // on a busy machine the next is close
		let ahead = Infinity;
		for (let i = 0; i < most; i++) {
			const before = this.#clock.now();
			const wall = this.#wall() * 1000;
			const after = this.#clock.now();
			ahead = Math.min(ahead, wall - Number(before));
			if (since(after, before) <= close) {
				break;
			}
		}
		return ahead;
	}
}

const awayLeast = 250_000; // us: more than a slow frame
const wakeEvents = ['visibilitychange', 'resume'];

// ---- Times on the wire ----

const deltaBits = 27; // ring of a delta in microseconds: 134.2 s
const offsetBits = 26; // ring of the offset: 67.1 s

/**
 * Returns the stamp of a datagram that is sent now.
 * @param {Usec} now
 * @returns {number}
 */
export function toTS24(now) {
	return Number(BigInt.asUintN(24, now >> 3n));
}

/**
 * Returns a payload time of 23 bits, in units of 8 us.
 * @param {Usec} remote by the receiver's clock
 * @returns {number}
 */
export function toTS23(remote) {
	return Number(BigInt.asUintN(23, (remote + 4n) >> 3n));
}

/**
 * Returns a payload time of 16 bits, in units of 512 us.
 * @param {Usec} remote by the receiver's clock
 * @returns {number}
 */
export function toTS16(remote) {
	return Number(BigInt.asUintN(16, (remote + 256n) >> 9n));
}

/**
 * Reads a payload time of 23 bits.
 * @param {Usec} now
 * @param {number} ts
 * @returns {Usec} from 50.3 s before now to 16.8 s after it
 */
export function fromTS23(now, ts) {
	return u64(expand((now >> 3n) - (1n << 21n), BigInt(ts), 23) << 3n);
}

/**
 * Reads a payload time of 16 bits.
 * @param {Usec} now
 * @param {number} ts
 * @returns {Usec} from 25.2 s before now to 8.4 s after it
 */
export function fromTS16(now, ts) {
	return u64(expand((now >> 9n) - (1n << 14n), BigInt(ts), 16) << 9n);
}

/**
 * Returns the report of a delta. It is never 0, which says that nothing came, and never has the
 * remainder 2, which an original's may have.
 * @param {number} delta us
 * @returns {number}
 */
export function toReport(delta) {
	const nearest = Math.floor((delta + 4) / 8);
	let report = wrap(nearest, 24);
	if (report % marks === originalMark) {
		report = wrap(delta > 8 * nearest ? report + 1 : report - 1, 24);
	}
	return report === 0 ? 1 : report;
}

const marks = 3;
const originalMark = 2;

/**
 * @param {Uint8Array} bytes
 * @returns {DataView}
 */
function viewOf(bytes) {
	return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/**
 * @param {Uint8Array} bytes
 * @param {number} at
 * @returns {number}
 */
function get24(bytes, at) {
	return bytes[at] | bytes[at + 1] << 8 | bytes[at + 2] << 16;
}

/**
 * @param {Uint8Array} bytes
 * @param {number} at
 * @param {number} value
 */
function put24(bytes, at, value) {
	bytes[at] = value & 255;
	bytes[at + 1] = value >> 8 & 255;
	bytes[at + 2] = value >> 16 & 255;
}

// ---- What is known of a remote clock ----

const settledTime = 15 * second; // by then both ends have seen a clock step and told each other
const maxSlew = 50_000; // us: a larger correction is a step
const readerMargin = 20_000; // us: a reader may be this far ahead of the last datagram, or behind
const settledStep = 500; // us: soon after a clock step a correction above this is part of it
const maxOffset = 2 ** (offsetBits - 1); // us: half the ring, where all offsets are
const priorSkew = 100e-6; // two crystals, each up to 50 ppm off
const slewSkew = 500e-6; // NTP slews no faster
const unseenSlew = 2 * second * slewSkew; // us: a slew goes this far until a report shows it
const maxSkew = 1000e-6; // no computer's clock is as far off
const skewDrift = 0.1e-6 / 1e6; // per us: temperature changes a skew this fast

/** View is one consistent state for readers: how they get from a local time to the remote one. */
class View {
	from = 0n; // local time: all that follows is as of then
	whole = 0n; // us: readers add this to the local time; at first it is what anchor() said
	part = 0; // us: the fraction of whole
	slew = 0; // us: readers add this at from, too, and slew it away
	skewBefore = 0; // the rate of the offset before from
	skewAfter = 0; // and from then on
	steps = 0; // jumps of the remote time so far
	delay = 0; // us: minimum one-way delay from the peer
	toPeer = 0; // us: minimum one-way delay to the peer
	bound = 0; // us: error bound of the offset a readerMargin before from, without slew
	dispersion = 0; // us per us: how fast bound grows
	undisturbed = 0; // us: time since the last clock step, or since the start
	scatter = 0; // us: mean height of fast datagrams above the floor
	jitter = 0; // us: mean difference of two successive datagrams
	heard = 0n; // local time of the last report
	patience = settledTime; // us: the age of the last report from which on the peer is silent
	synced = false; // the offset is known
	disturbed = false; // a clock step was detected
	unchecked = false; // not confirmed since a silence or a clock step
	ambiguous = false; // the multiple of 67.1 s is in doubt

	/**
	 * Returns the rate of the offset x us after from.
	 * @param {number} x
	 */
	skewAt(x) {
		return x < 0 ? this.skewBefore : this.skewAfter;
	}

	/**
	 * Returns what is left of the slew x us after from.
	 * @param {number} x
	 */
	slewLeft(x) {
		const slewed = clamp(x, 0, 2 * maxSlew) / 2; // at half the speed of time
		return this.slew - clamp(this.slew, -slewed, slewed);
	}

	/**
	 * Returns what readers add x us after from, where the rate is skew.
	 * @param {number} x
	 * @param {number} skew
	 */
	offset(x, skew) {
		const fine = this.part + skew * x + this.slewLeft(x);
		const down = Math.floor(fine);
		return {whole: this.whole + BigInt(down), part: fine - down};
	}

	/**
	 * Returns the remote clock at a local time.
	 * @param {Usec} local
	 * @returns {Usec}
	 */
	remote(local) {
		const x = since(local, this.from);
		return u64(local + this.offset(x, this.skewAt(x)).whole);
	}

	/**
	 * Returns the error bound, in us, x us after from. It also contains what is left of the slew
	 * and the drift of the skew.
	 * @param {number} x
	 */
	boundAt(x) {
		const age = Math.abs(x + readerMargin);
		const widened = this.bound + (this.dispersion + skewDrift / 2 * age) * age;
		return Math.min(widened + Math.abs(this.slewLeft(x)) + 1, maxOffset);
	}

	/**
	 * Takes the way from a local time to the remote one from another view.
	 * @param {View} old
	 */
	takeMap(old) {
		this.whole = old.whole;
		this.part = old.part;
		this.slew = old.slew;
		this.skewBefore = old.skewBefore;
		this.skewAfter = old.skewAfter;
	}

	/**
	 * Returns the view, which holds from then on. What does not belong to one moment stays as it
	 * was in the view before it.
	 * @param {View} old
	 * @param {Usec} from
	 * @returns {View}
	 */
	after(old, from) {
		this.from = from;
		this.steps = old.steps;
		this.jitter = old.jitter;
		this.heard = old.heard;
		this.patience = old.patience;
		return this;
	}
}

/**
 * @typedef {'' | 'unsynchronized' | 'silent' | 'ambiguous' | 'stepped' | 'unchecked' | 'wide'}
 *   Trust '' is for yes
 */

/**
 * Snapshot is everything that is known of a remote clock at one local time, remoteUsec -
 * offsetUsec. It is also a mapping from the local to the remote clock that can be kept, asked for
 * other times, put together with the next one by then(), and sent to another machine by toBytes().
 * It never changes.
 */
export class Snapshot {
	/** The remote clock. */
	remoteUsec = 0n;
	/** Remote minus local clock, us. */
	offsetUsec = 0n;
	/** How far remoteUsec may be off, us. Only an empty snapshot has 0. */
	errorBound = 0;
	/** The shortest recent one-way delay from the peer, us. */
	minimumOneWayDelay = 0;
	/** The shortest recent one-way delay to the peer, us. */
	minimumDelayToPeer = 0;
	/** The interarrival jitter of RFC 3550, us. */
	jitter = 0;
	/** The mean distance of the fastest datagrams from the shortest delay, us; 0: not known. */
	floorScatter = 0;
	/** The time since the last report, us. */
	age = 0;
	/** The age from which on the peer counts as silent, us: 15 s, or more if reports are rare. */
	silentAfter = settledTime;
	/** The time since a clock step was last detected, or since the first datagram, us. */
	sinceStep = 0;
	/** The remote minus the local rate, parts per million. */
	skew = 0;
	/** How far skew may be off, parts per million. */
	skewError = 0;
	/** Jumps of the remote time so far. */
	steps = 0;
	/** Whether a clock step was detected since the first datagram. */
	stepSeen = false;
	/** Whether too little has arrived since a silence or a clock step to confirm what is known. */
	unchecked = false;
	/** Whether the multiple of 67.1 s is in doubt. */
	ambiguous = false;
	/** How many mappings then() put behind the first one. */
	hops = 0;

	/** @param {Partial<Snapshot>} [fields] */
	constructor(fields = {}) {
		Object.assign(this, fields);
		Object.freeze(this);
	}

	/** Whether anything is known. */
	get known() {
		return this.errorBound > 0;
	}

	/**
	 * The local time of the snapshot.
	 * @returns {Usec}
	 */
	get localUsec() {
		return u64(this.remoteUsec - this.offsetUsec);
	}

	/**
	 * Returns '' if remoteUsec is at most tolerable from the truth. Otherwise it returns the first
	 * reason why nobody should rely on it:
	 *
	 *	unsynchronized  nothing is known
	 *	silent          age is silentAfter or more: the peer was silent for too long
	 *	ambiguous       the multiple of 67.1 s is in doubt
	 *	stepped         there was a clock step less than 15 s ago
	 *	unchecked       the peer was silent, and a clock step may have gone unseen
	 *	wide            errorBound is above tolerable; it is half the round trip at least
	 * @param {number} tolerable us
	 * @returns {Trust}
	 */
	within(tolerable) {
		if (!this.known) {
			return 'unsynchronized';
		}
		if (this.age >= this.silentAfter) {
			return 'silent';
		}
		if (this.ambiguous) {
			return 'ambiguous';
		}
		if (this.#unsettled()) {
			return 'stepped';
		}
		if (this.unchecked) {
			return 'unchecked';
		}
		return this.errorBound <= tolerable ? '' : 'wide';
	}

	/**
	 * Returns what the snapshot says of another local time, later or earlier.
	 * @param {Usec} local
	 * @returns {Snapshot}
	 */
	at(local) {
		const x = since(local, this.localUsec);
		if (!this.known || x === 0) {
			return this;
		}
		const remoteUsec = this.#remote(x);
		const away = Math.abs(x);
		return new Snapshot({
			...this,
			remoteUsec,
			offsetUsec: BigInt.asIntN(64, remoteUsec - local),
			errorBound: this.errorBound + this.#widening(away) + 1, // the remote time is rounded
			age: Math.max(this.age + x, 0),
			sinceStep: Math.max(this.sinceStep + x, 0),
			skewError: this.skewError + this.#skewDrift() * away * 1e6,
		});
	}

	/**
	 * Returns the local time at which the remote clock reads remote, or 1 us more.
	 * @param {Usec} remote
	 * @returns {Usec}
	 */
	localTime(remote) {
		const rate = this.skew * 1e-6;
		const distance = since(remote, this.remoteUsec);
		let x = Math.trunc(distance - rate / (1 + rate) * distance);
		for (let i = 0; i < 4 && since(this.#remote(x - 1), remote) >= 0; i++) {
			x--;
		}
		for (let i = 0; i < 4 && since(this.#remote(x), remote) < 0; i++) {
			x++;
		}
		return later(this.localUsec, x);
	}

	/**
	 * Returns the first and the last remote time that the error bound allows.
	 * @returns {{earliest: Usec, latest: Usec}}
	 */
	interval() {
		if (!this.known) {
			return {earliest: 0n, latest: u64(-1n)};
		}
		const bound = Math.ceil(this.errorBound);
		return {earliest: later(this.remoteUsec, -bound), latest: later(this.remoteUsec, bound)};
	}

	/**
	 * Chains two mappings: this one leads from the local clock to a second one, next from the
	 * second one to a third. The result leads from the local clock to the third. A relay uses it
	 * to tell its receivers what it knows of a sender. Its steps are no longer a count, but they
	 * change when those of either mapping do.
	 * @param {Snapshot} next
	 * @returns {Snapshot}
	 */
	then(next) {
		if (!this.known || !next.known) {
			return new Snapshot();
		}
		next = next.at(this.remoteUsec);
		// The true reading of the second clock may be off by this bound from where next was asked.
		const off = this.errorBound;
		const apart = next.#widening(off) + Math.abs(next.skew) * 1e-6 * off;
		const rates = Math.abs(next.skew) + next.skewError;
		const hasScatter = this.floorScatter > 0 && next.floorScatter > 0;
		const stepped = next.sinceStep < this.sinceStep ? next : this; // of the later step
		const nearer = next.age - next.silentAfter > this.age - this.silentAfter ? next : this;
		return new Snapshot({
			remoteUsec: next.remoteUsec,
			offsetUsec: BigInt.asIntN(64, this.offsetUsec + next.offsetUsec),
			errorBound: next.errorBound + Math.ceil(off + apart),
			minimumOneWayDelay: this.minimumOneWayDelay + next.minimumOneWayDelay,
			minimumDelayToPeer: this.minimumDelayToPeer + next.minimumDelayToPeer,
			jitter: this.jitter + next.jitter,
			floorScatter: hasScatter ? this.floorScatter + next.floorScatter : 0,
			age: nearer.age, // of the mapping that is closer to being silent
			silentAfter: nearer.silentAfter,
			sinceStep: stepped.sinceStep,
			skew: this.skew + next.skew + this.skew * next.skew * 1e-6,
			skewError: this.skewError + next.skewError +
				(this.skewError * rates + next.skewError * Math.abs(this.skew)) * 1e-6,
			// In a sum a restart could hide a step.
			steps: Math.imul(31, this.steps) + next.steps >>> 0,
			stepSeen: stepped.stepSeen || this.#unsettled() || next.#unsettled(),
			unchecked: this.unchecked || next.unchecked,
			ambiguous: this.ambiguous || next.ambiguous,
			hops: Math.min(this.hops + next.hops + 1, 255),
		});
	}

	/** Returns the snapshot in a line, for logs. */
	toString() {
		if (!this.known) {
			return 'not synchronized';
		}
		const us = (/** @type {number} */ v) => `${Math.round(v)} us`;
		const ms = (/** @type {number} */ v) => `${Math.round(v / 1000)} ms`;
		return [
			`offset ${this.offsetUsec} us +-${us(this.errorBound)}`,
			`skew ${this.skew.toFixed(3)}+-${this.skewError.toFixed(3)} ppm`,
			`delay ${us(this.minimumOneWayDelay)} in, ${us(this.minimumDelayToPeer)} out`,
			`jitter ${us(this.jitter)}`,
			`scatter ${this.floorScatter > 0 ? us(this.floorScatter) : 'unknown'}`,
			`report ${ms(this.age)} ago`,
			`${ms(this.sinceStep)} since ${this.stepSeen ? 'a clock was set' : 'the start'}`,
			`${this.steps} steps, ${this.hops} hops`,
		].join(', ');
	}

	/**
	 * Returns the 63 bytes in which a snapshot travels, as Go's AppendBinary does.
	 * @returns {Uint8Array}
	 */
	toBytes() {
		const bytes = new Uint8Array(snapshotLength);
		const rate = Math.round(this.skew * rateUnit);
		const off = Math.ceil(this.skewError * rateUnit + Math.abs(this.skew * rateUnit - rate));
		const most = 2 ** 32 - 1;
		bytes[0] = 1; // version
		if (!this.known || this.errorBound > most || Math.abs(rate) >= 2 ** 31 || off > most) {
			return bytes;
		}
		const b = viewOf(bytes);
		bytes[1] = (this.stepSeen ? 1 : 0) | (this.unchecked ? 2 : 0) | (this.ambiguous ? 4 : 0);
		bytes[2] = this.hops;
		b.setBigUint64(3, this.localUsec, true);
		b.setBigUint64(11, this.remoteUsec, true);
		const words = [
			Math.ceil(this.errorBound),
			Math.floor(this.minimumOneWayDelay),
			Math.floor(this.minimumDelayToPeer),
			Math.floor(this.jitter),
			Math.floor(this.floorScatter),
			Math.ceil(this.age / 1000),
			Math.floor(this.silentAfter / 1000),
			Math.floor(this.sinceStep / 1000),
			rate,
			off,
			this.steps,
		];
		for (const [i, word] of words.entries()) {
			b.setUint32(19 + 4 * i, Math.min(word, most), true);
		}
		return bytes;
	}

	/**
	 * Reads what toBytes, or Go, wrote, or returns null. Whoever can forge bytes can move the
	 * clock.
	 * @param {Uint8Array} bytes
	 * @returns {Snapshot | null}
	 */
	static fromBytes(bytes) {
		if (bytes.length !== snapshotLength || bytes[0] !== 1 || bytes[1] > 7) {
			return null;
		}
		const b = viewOf(bytes);
		const word = (/** @type {number} */ i) => b.getUint32(19 + 4 * i, true);
		const rate = b.getInt32(19 + 4 * 8, true);
		if (word(0) === 0) { // it knows nothing, and says nothing
			return bytes.subarray(1).every(v => v === 0) ? new Snapshot() : null;
		}
		if (rate === -(2 ** 31)) {
			return null;
		}
		const remoteUsec = b.getBigUint64(11, true);
		return new Snapshot({
			remoteUsec,
			offsetUsec: BigInt.asIntN(64, remoteUsec - b.getBigUint64(3, true)),
			errorBound: word(0),
			minimumOneWayDelay: word(1),
			minimumDelayToPeer: word(2),
			jitter: word(3),
			floorScatter: word(4),
			age: word(5) * 1000,
			silentAfter: word(6) * 1000,
			sinceStep: word(7) * 1000,
			skew: rate / rateUnit,
			skewError: word(9) / rateUnit,
			steps: word(10),
			stepSeen: (bytes[1] & 1) !== 0,
			unchecked: (bytes[1] & 2) !== 0,
			ambiguous: (bytes[1] & 4) !== 0,
			hops: bytes[2],
		});
	}

	/**
	 * Returns the remote clock x us later.
	 * @param {number} x
	 * @returns {Usec}
	 */
	#remote(x) {
		return later(this.remoteUsec, x + Math.floor(this.skew * x / 1e6));
	}

	/**
	 * Returns by how much the error bound grows in a time.
	 * @param {number} away
	 */
	#widening(away) {
		return Math.ceil((this.skewError * 1e-6 + this.#skewDrift() / 2 * away) * away);
	}

	/** Returns how fast skew may drift. Each pair of clocks drifts by itself. */
	#skewDrift() {
		return skewDrift * (1 + this.hops);
	}

	#unsettled() {
		return this.stepSeen && this.sinceStep < settledTime;
	}
}

const snapshotLength = 63;
const rateUnit = 2 ** 32 / 1e6; // of the rates that travel, in a part per million

/**
 * RemoteClock has what Synchronizer, Link and Ping answer about a remote clock. All methods take
 * local times, and return null while nothing is known.
 */
export class RemoteClock {
	/**
	 * What readers see.
	 * @protected
	 * @returns {View}
	 */
	view() {
		throw new Error('timesync: a RemoteClock must say what it knows');
	}

	/** Whether anything is known. */
	get synchronized() {
		return this.view().synced;
	}

	/** How often the remote time jumped. The first synchronization does not count. */
	get steps() {
		return this.view().steps;
	}

	/**
	 * Returns the remote clock. For increasing local times the result never goes back except at a
	 * step. Corrections of up to 50 ms are slewed; soon after a clock step, of up to 0.5 ms.
	 * @param {Usec} now
	 * @returns {Usec | null}
	 */
	remoteTime(now) {
		const view = this.view();
		return view.synced ? view.remote(now) : null;
	}

	/**
	 * Returns the local time at which remoteTime reaches remote: the inverse. remoteTime of the
	 * result is remote or 1 us more.
	 * @param {Usec} remote
	 * @returns {Usec | null}
	 */
	localTime(remote) {
		const view = this.view();
		if (!view.synced) {
			return null;
		}
		let local = u64(remote - view.whole);
		// Remote clocks run at half to one and a half times the local speed. So each round at
		// least halves what is missing, and 64 rounds end any 64-bit number.
		for (let i = 0; i < 64; i++) {
			const missing = since(remote, view.remote(local));
			local = later(local, missing);
			if (Math.abs(missing) <= 1) {
				break;
			}
		}
		for (let i = 0; i < 4 && since(view.remote(local - 1n), remote) >= 0; i++) {
			local = later(local, -1);
		}
		for (let i = 0; i < 4 && since(view.remote(local), remote) < 0; i++) {
			local = later(local, 1);
		}
		return local;
	}

	/**
	 * Returns how far remoteTime may be off while there is no clock step: at least half the round
	 * trip.
	 * @param {Usec} now
	 * @returns {number | null} us
	 */
	errorBound(now) {
		const view = this.view();
		return view.synced ? view.boundAt(since(now, view.from)) : null;
	}

	/**
	 * Returns how long the fastest datagrams from the peer took recently.
	 * @returns {number | null} us
	 */
	minimumOneWayDelay() {
		const view = this.view();
		return view.synced ? view.delay : null;
	}

	/**
	 * Returns how long the fastest datagrams to the peer took recently.
	 * @returns {number | null} us
	 */
	minimumDelayToPeer() {
		const view = this.view();
		return view.synced ? view.toPeer : null;
	}

	/**
	 * Returns the rate of the remote clock minus that of the local one. It is null until it is
	 * known to 25 parts per million.
	 * @returns {number | null} parts per million
	 */
	skew() {
		const view = this.view();
		return view.synced && view.dispersion <= priorSkew / 4 ? view.skewAfter * 1e6 : null;
	}

	/**
	 * Returns the peer's clock at a local time, for a payload. The peer reads it with fromTS23.
	 * @param {Usec} local
	 * @returns {number | null}
	 */
	toTS23(local) {
		const remote = this.remoteTime(local);
		return remote === null ? null : toTS23(remote);
	}

	/**
	 * Returns the peer's clock at a local time, for a payload. The peer reads it with fromTS16.
	 * @param {Usec} local
	 * @returns {number | null}
	 */
	toTS16(local) {
		const remote = this.remoteTime(local);
		return remote === null ? null : toTS16(remote);
	}

	/**
	 * Returns everything that is known at a local time. While that is nothing, known is false.
	 * @param {Usec} now
	 * @returns {Snapshot}
	 */
	snapshot(now) {
		const view = this.view();
		if (!view.synced) {
			return new Snapshot();
		}
		const remoteUsec = view.remote(now);
		const x = since(now, view.from);
		const drifted = skewDrift * Math.abs(x + readerMargin);
		return new Snapshot({
			remoteUsec,
			offsetUsec: BigInt.asIntN(64, remoteUsec - now),
			errorBound: view.boundAt(x),
			minimumOneWayDelay: view.delay,
			minimumDelayToPeer: view.toPeer,
			jitter: view.jitter,
			floorScatter: view.scatter < second ? view.scatter : 0,
			age: Math.max(since(now, view.heard), 0),
			silentAfter: view.patience,
			sinceStep: Math.max(view.undisturbed + x, 0),
			skew: view.skewAfter * 1e6,
			skewError: (view.dispersion + drifted) * 1e6,
			steps: view.steps,
			stepSeen: view.disturbed,
			unchecked: view.unchecked,
			ambiguous: view.ambiguous,
		});
	}

	/**
	 * Returns '' if remoteTime(now) is at most tolerable from the truth, else why nobody should
	 * rely on it: see Snapshot.within.
	 * @param {number} tolerable us
	 * @param {Usec} now
	 * @returns {Trust}
	 */
	within(tolerable, now) {
		return this.snapshot(now).within(tolerable);
	}
}

/**
 * Returns what a remote clock shows its readers.
 * @param {RemoteClock} remote
 * @returns {View}
 */
function viewOfClock(remote) {
	return /** @type {any} */ (remote).view();
}

// ---- The synchronizer and its inputs ----

// From here to "Coarse clocks" this is synchronizer.go of the Go package, in its order and with
// its names. That file, and docs/DESIGN.md, say more about why each rule is there. Only the ways
// are called otherwise, inward and outward, since "in" is a word of JavaScript.
//
// A time called x is in microseconds of the local clock since the first datagram. A delta is the
// time of receipt of a datagram minus its stamp.

const longestSilence = 1e15; // us: 31 years; a local clock that is further ahead was set
const inward = 0; // the way from the peer
const outward = 1; // the way to the peer

/**
 * Returns the sign with which the offset enters the deltas of a way.
 * @param {number} way
 */
function signOf(way) {
	return 2 * way - 1;
}

/**
 * Synchronizer estimates the offset to the clock of one peer from stamps and reports. Link feeds
 * one from the headers of datagrams, Ping two from exchanges.
 */
export class Synchronizer extends RemoteClock {
	#bucket = new Bucket(); // under way
	#both = new Association();
	#minimum = new Minimum(); // what an original is told
	#base = 0n; // local time at which x is 0
	#view = new View();
	#report = new OwnReport();

	/**
	 * @protected
	 * @returns {View}
	 */
	view() {
		return this.#view;
	}

	/**
	 * Takes the stamp of a datagram, and returns its one-way delay. Call it only for datagrams
	 * that are proven to come from the peer: whoever can forge a stamp can move the clock.
	 *
	 * Datagrams may be lost, repeated and reordered, and times of receipt may go back. One or two
	 * implausibly early datagrams are ignored, and the result is then the minimum delay.
	 * @param {number} stamp
	 * @param {Usec} now when it arrived
	 * @returns {number | null} us; null while the offset is not known
	 */
	datagram(stamp, now) {
		// Nearly every datagram queues a little and falls into the bucket under way. It ends here.
		const bucket = this.#bucket;
		bucket.count++;
		const height = bucket.height(stamp, now);
		if (height === null) {
			return this.#slowPath(stamp, now);
		}
		bucket.fresh.add(height);
		bucket.measureJitter(height);
		return this.#view.delay + height;
	}

	/**
	 * Takes a datagram that ends the bucket or may change the floor.
	 * @param {number} stamp
	 * @param {Usec} now
	 * @returns {number | null}
	 */
	#slowPath(stamp, now) {
		const raw = Number(BigInt.asIntN(deltaBits, now - (BigInt(stamp) << 3n)));
		const both = this.#both;
		const bucket = this.#bucket;
		if (!both.begun) {
			this.#start(raw, now);
		}
		const x = this.#advance(now);
		this.#notice(x, now);
		this.#minimum.take(deltaIn8(raw), now);
		const floor = both.delta(inward, x);
		const silence = x - bucket.from; // since the bucket began: up to 0.2 s longer than nothing came
		if (silence >= bucketTime) {
			this.#endBucket(x);
			both.heardAgain(inward, x, silence);
		}
		const above = both.datagram(x, raw, bucket);
		if (silence > 2 * second) {
			both.endSilence(x, silence, above ?? 0);
		}
		bucket.rise(both.delta(inward, x) - floor);
		if (above !== null) {
			bucket.add(Math.trunc(above));
		}
		this.#show(x);
		if (!both.peer.known) {
			return null;
		}
		return this.#view.delay + (above ?? 0);
	}

	/**
	 * Collects what happened since the last call of the slow path: whether a reader took the
	 * report, and which datagrams were the fastest on the fast path.
	 * @param {number} x
	 * @param {Usec} now
	 */
	#notice(x, now) {
		const {peer, outgoing, clock} = this.#both;
		if (this.#report.isTold || peer.isOriginal()) { // an original is told the minimum
			outgoing.forget();
		}
		const bucket = this.#bucket;
		const {first, second: next} = bucket.fresh;
		if (first < Infinity) {
			const delta = this.#both.delta(inward, x) + first;
			outgoing.note(delta, x, clock.skew);
			this.#minimum.take(deltaIn8(delta), now);
			bucket.two.add(first);
			bucket.two.add(next);
			bucket.fresh = new Fastest();
		}
	}

	/**
	 * Ends the bucket under way at x.
	 * @param {number} x
	 */
	#endBucket(x) {
		this.#view.jitter = this.#bucket.jitter;
		this.#both.endBucket(x, this.#bucket);
		this.#bucket.count = 1;
		this.#bucket.begin(x);
	}

	/**
	 * Shows what is known at x to readers, to the sender of reports and to the fast path.
	 * @param {number} x
	 */
	#show(x) {
		const now = later(this.#base, Math.trunc(x));
		this.#publish(x, now);
		const {peer, outgoing, clock} = this.#both;
		if (peer.isOriginal()) {
			this.#report.setMinimum(this.#minimum.delta[0]);
		} else {
			this.#report.set(outgoing.at(x, clock.skew), now, outgoing.some);
		}
		this.#prepare(x, now);
	}

	/**
	 * Tells the fast path which datagrams it may handle from now on. It may handle none while the
	 * offset is unknown, while an early outlier waits for the next datagram, while readers wait for
	 * a correction, or beside an original, which is told the minimum of all datagrams.
	 * @param {number} x
	 * @param {Usec} now
	 */
	#prepare(x, now) {
		const {peer, outliers, dirty, clock} = this.#both;
		if (peer.known && outliers.row === 0 && !dirty && !peer.isOriginal()) {
			this.#bucket.open(x, now, this.#both.delta(inward, x), clock.skew);
		} else {
			this.#bucket.close();
		}
	}

	/**
	 * Begins with the first datagram.
	 * @param {number} raw
	 * @param {Usec} now
	 */
	#start(raw, now) {
		const earlyReport = this.#both.peer.last;
		const waited = since(now, this.#view.heard);
		this.#base = now;
		this.#both.start(raw);
		this.#minimum.replace(0, deltaIn8(raw), now);
		this.#bucket.begin(0);
		if (earlyReport !== 0) {
			// Its age may be anything: the local clock may have been set since.
			this.#both.report(clamp(-waited, -second, second), earlyReport);
		}
	}

	/**
	 * Returns a local time as x. If the local clock was set it moves base, so that x goes on.
	 * @param {Usec} now
	 */
	#advance(now) {
		const x = since(now, this.#base);
		const ahead = x - this.#bucket.from;
		if (ahead >= -second && ahead <= longestSilence) {
			return x;
		}
		// The deltas will show by how much the offset changed.
		const by = Math.trunc(ahead);
		this.#base = later(this.#base, by);
		this.#view.heard = later(this.#view.heard, by);
		this.#both.interval.clockStep(this.#bucket.from);
		this.#both.dirty = true;
		return this.#bucket.from;
	}

	/**
	 * Takes the peer's report, after the stamp of its datagram. A report that comes before the
	 * first datagram counts when that one comes. A report of 0 says that nothing arrived there
	 * since the previous report.
	 *
	 * If datagrams overtake each other, pass no report that was sent before one that was passed in
	 * the last second: it would look as if the floor had risen.
	 * @param {number} report
	 * @param {Usec} now when it arrived
	 */
	report(report, now) {
		const both = this.#both;
		if (!both.begun) {
			if (report !== 0) {
				both.peer.last = report;
				this.#view.heard = now;
			}
			return;
		}
		const x = this.#advance(now);
		this.#view.heard = now;
		if (report === 0) { // nothing has come there
			both.peer.sentAny = both.sentAt(x);
			return;
		}
		this.#notice(x, now);
		const floor = both.delta(inward, x);
		both.report(x, report);
		this.#bucket.rise(both.delta(inward, x) - floor);
		this.#show(x);
		this.#view.patience = both.ways[outward].patience();
	}

	/**
	 * Tells all of the remote clock: it read remote when the peer sent what arrived at now, up to
	 * 66 s later. Stamps show the offset modulo 67.1 s only. Call it after report() of the same
	 * datagram.
	 *
	 * While an anchor contradicts what is known, within() says 'ambiguous'. An anchor that is
	 * ahead is believed at once, since no message comes from the future. One that is behind may
	 * have been delayed, so it takes three in a row over 2 s. Either way remoteTime() then jumps,
	 * which counts as a step.
	 * @param {Usec} remote
	 * @param {Usec} now
	 */
	anchor(remote, now) {
		const both = this.#both;
		const {anchors, interval} = both;
		const view = this.#view;
		if (!view.synced) {
			anchors.known = true;
			view.whole = BigInt.asIntN(64, remote - now);
			return;
		}
		const x = since(now, this.#base);
		const wasConfirmed = anchors.confirmed;
		const behind = BigInt.asIntN(64, view.remote(now) - remote);
		const isEarly = both.outliers.row > 0;
		const turns = anchors.take(x, behind, both.delay(inward), isEarly);
		if (turns !== 0n) {
			view.whole -= turns << BigInt(offsetBits);
			view.steps++;
			both.dirty = true;
			const partOfLastStep = interval.undisturbed(x) <= settledTime;
			if (wasConfirmed && !partOfLastStep) {
				interval.clockStep(x);
			}
		}
		view.unchecked = both.isUnchecked();
		view.ambiguous = both.isAmbiguous();
	}

	/** Forgets everything, as when another peer takes the place of this one. That is a step. */
	reset() {
		const {synced, steps} = this.#view;
		this.#both = new Association();
		this.#bucket = new Bucket();
		this.#minimum = new Minimum();
		this.#report = new OwnReport();
		this.#base = 0n;
		this.#view = new View();
		this.#view.steps = synced ? steps + 1 : steps;
	}

	/**
	 * Takes that the local machine slept until now, so that its clock may have stood still. Until
	 * datagrams have shown what the clock reads, within() says 'unchecked'.
	 * @param {Usec} now
	 */
	slept(now) {
		if (this.#both.begun) {
			const x = this.#advance(now);
			this.#both.slept(x);
			this.#bucket.begin(x);
			this.#show(x);
		}
	}

	/**
	 * Shows readers what is known at x, if it is news to them.
	 *
	 * A correction begins a readerMargin from now, so that what readers read within the
	 * readerMargin, before or after now, is final. It waits until the previous correction has been
	 * over for as long, unless both come at the same time. A large correction is a step, at once.
	 * @param {number} x
	 * @param {Usec} now
	 */
	#publish(x, now) {
		const both = this.#both;
		if (!both.dirty) {
			return;
		}
		both.dirty = false;
		const old = this.#view;
		const age = since(now, old.from);
		// us, rounded up: at half the speed of time.
		const slewTime = Math.floor(2 * Math.abs(old.slew)) + 1;
		const waits = old.synced && age > -readerMargin && age < slewTime + readerMargin;
		let from = now;
		if (waits) {
			from = old.from;
		} else if (old.synced) {
			from = later(now, readerMargin);
		}
		const view = both.view(x + since(from, now), old.whole);
		const began = since(from, old.from);
		const shown = old.offset(began, old.skewAt(began));
		const wholes = Number(BigInt.asIntN(64, shown.whole - view.whole));
		const excess = ring(wholes + shown.part - view.part, offsetBits);
		const isLarge = Math.abs(excess) > maxSlew;
		const isRecent = both.interval.undisturbed(x) < settledTime;
		const isSettling = Math.abs(excess) > settledStep && isRecent;
		if (!old.synced) { // there is nothing to correct
			this.#view = view.after(old, from);
		} else if (isLarge || isSettling) {
			this.#view = both.view(x, shown.whole).after(old, now);
			this.#view.steps++;
		} else if (waits) {
			both.dirty = true;
			view.takeMap(old);
			// Readers still go where the old correction leads.
			view.bound += Math.abs(excess - old.slewLeft(began));
			this.#view = view.after(old, from);
		} else {
			view.slew = Math.trunc(excess * 256) / 256;
			const fine = shown.part - view.slew;
			const down = Math.floor(fine);
			view.whole = shown.whole + BigInt(down);
			view.part = fine - down;
			view.skewBefore = old.skewAt(age);
			this.#view = view.after(old, from);
		}
	}

	/**
	 * Returns the report to send to the peer in the next datagram: the least delta since the last
	 * report, or 0 if nothing arrived since. Reading a report ends its interval, so read one only
	 * to send it. A repeated call returns the same number for a second. Beside a C++ original it
	 * returns what an original would: the least delta of the last ten seconds, as it was measured.
	 * @param {Usec} now
	 * @returns {number | null} null before the first datagram
	 */
	minDelta(now) {
		return this.#report.tell(now, this.#view.skewAfter);
	}
}

// ---- Anchors: the multiple of 67.1 s ----

const turn = 2 ** offsetBits; // us: the offset is known modulo this
const heldTime = 2 * second; // more than any round trip, after which a newer anchor comes

// A longer round trip may pass half a turn of its ring, 67.1 s, with its next datagram, since
// datagrams are reordered by up to a second. Then it looks negative.
const longestTrip = turn - second; // us

/** Anchors decide by how many turns of the offset's ring remoteTime is off. */
class Anchors {
	known = false; // an anchor has arrived
	confirmed = false; // one has agreed since the offset is known
	disagrees = false; // the last one contradicts what is known
	row = 0; // anchors in a row that were behind by the same number of turns
	behindTurns = 0n; // turns: that number
	rowFrom = 0; // x of the first one in that row
	agreedAt = 0; // x of the last one that agreed

	/**
	 * Takes an anchor that arrived at x, with a remote time that is behind by that many us of what
	 * remoteTime says, and returns by how many turns remoteTime must be set back.
	 * @param {number} x
	 * @param {bigint} behind
	 * @param {number} delay us, of a datagram on the floor
	 * @param {boolean} isEarly an early outlier is waiting to be believed
	 * @returns {bigint}
	 */
	take(x, behind, delay, isEarly) {
		const turns = behind + BigInt(second) >> BigInt(offsetBits);
		this.known = true;
		this.disagrees = turns !== 0n;
		const late = Number(behind - (turns << BigInt(offsetBits))) - delay;
		// Where the rest is no plausible delay a clock step is the cause. Datagrams and reports
		// must show it first.
		const mayBeStep = late < -second || late > turn / 2;
		// An old message looks as a step backwards does.
		const mayBeDelayed = turns > 0n || late > second;
		if (turns !== 0n && (isEarly || this.confirmed && mayBeStep)) {
			this.row = 0;
			return 0n;
		}
		const contradicts = turns !== 0n && this.confirmed;
		if (contradicts && mayBeDelayed && !this.inARow(x, turns)) {
			return 0n;
		}
		this.confirmed = true;
		this.disagrees = false;
		this.row = 0;
		this.agreedAt = x;
		return turns;
	}

	/**
	 * Counts an anchor that is behind, and returns whether enough of them said the same.
	 * @param {number} x
	 * @param {bigint} turns
	 */
	inARow(x, turns) {
		if (this.row === 0 || this.behindTurns !== turns) {
			this.row = 0;
			this.behindTurns = turns;
			this.rowFrom = x;
		}
		this.row++;
		return this.row >= outliersInARow && x - this.rowFrom >= heldTime;
	}
}

// ---- The association: both ways together ----

const rounding = 13; // us: a report or a stamp is rounded by at most this
const sigmas = 6; // standard errors that a limit of a rate takes: the noise is not normal

/**
 * Association puts both ways together. Only the association changes its parts. No part keeps
 * another; where one must look at another, that is a parameter.
 */
class Association {
	ways = [new Way(), new Way()];
	clock = new RateClock();
	arbiter = new Arbiter();
	interval = new Interval();
	anchors = new Anchors();
	peer = new Peer();
	outgoing = new Outgoing();
	outliers = new Outliers();
	resolution = new Resolution();
	begun = false; // a datagram has arrived
	dirty = true; // there is news for readers
	silenceMayBeStep = false; // in the last silence a clock may have been set
	awaited = -1; // the way that has not shown the last clock step yet; -1: none
	awaitedFrom = 0; // x of that step
	awaitedTrip = 0; // us: the round trip before that step, which holds until the way shows it
	silenceEnd = 0; // x at which the last silence ended
	silenceDrift = 0; // us: how far the clocks may have drifted apart in it
	longSilence = new LongSilence(0, 0, 0);

	/**
	 * Begins with the level of the first datagram.
	 * @param {number} level
	 */
	start(level) {
		this.begun = true;
		this.peer = new Peer();
		this.interval.event = -settledTime;
		this.clock.doubt(priorSkew);
		this.ways[inward].start(level, 0);
	}

	/**
	 * Carries the clock on to x. The interval widens by how far the rate may be off.
	 * @param {number} x
	 */
	advance(x) {
		const dt = x - this.clock.at;
		if (dt === 0) {
			return;
		}
		// If times went back, the clocks may have drifted apart all the same.
		this.interval.follow(this.clock.skew, Math.abs(dt));
		this.interval.widen(this.dispersion() * Math.abs(dt));
		this.clock.offset += this.clock.skew * dt;
		this.clock.at = x;
	}

	/**
	 * Returns the delta, in us, of a datagram on the floor of a way at x.
	 * @param {number} way
	 * @param {number} x
	 */
	delta(way, x) {
		return this.ways[way].level + signOf(way) * this.clock.offsetAt(x);
	}

	/**
	 * Returns the one-way delay, in us, of a datagram on the floor of a way.
	 * @param {number} way
	 */
	delay(way) {
		return ring(this.ways[way].level, offsetBits);
	}

	/** Returns the sum of both floors, us. It contains no clock. */
	roundTrip() {
		return ring(this.ways[inward].level + this.ways[outward].level, deltaBits);
	}

	/** Returns by how many us the round trip is shorter than the reference one. */
	lack() {
		return this.arbiter.reference - this.roundTrip();
	}

	/** Returns by how many us two looks at the same round trip may differ. */
	deadBand() {
		return this.band(stepScatters);
	}

	/**
	 * Returns by how many us two looks at the same round trip differ where each floor is off by
	 * that many scatters.
	 * @param {number} scatters
	 */
	band(scatters) {
		const noise = this.ways[inward].scatter() + this.ways[outward].scatter();
		// Either floor may be on the next stair.
		const eachWay = hostJitter + this.resolution.joint();
		return 2 * eachWay + scatters * noise + this.stale(0);
	}

	/**
	 * Returns by how many us a report of an original may be below its floor now. It is a minimum
	 * of ten seconds, in which the floor may have risen at the skew, or at unknown more.
	 * @param {number} unknown
	 */
	stale(unknown) {
		if (!this.peer.isOriginal()) {
			return 0;
		}
		const span = Math.min(this.clock.at, originalWindow) + second;
		return span * Math.max(unknown + this.clock.skew, 0);
	}

	/**
	 * Returns what both ways say together now.
	 * @returns {Look}
	 */
	look() {
		const [i, o] = this.ways;
		return {
			roundTrip: this.roundTrip(),
			correction: ring((i.level - o.level) / 2, offsetBits),
			deadBand: this.deadBand(),
			pathBand: this.band(pathScatters),
		};
	}

	/** Moves the offset to where the round trip allows it to be. */
	follow() {
		if (!this.peer.known) {
			return;
		}
		if (this.awaited >= 0) {
			this.ways[this.awaited].level += this.awaitedTrip - this.roundTrip();
		}
		const look = this.look();
		const drifted = priorSkew * Math.min(this.clock.at, longestWindow);
		if (this.arbiter.reference < -look.deadBand - drifted) {
			// No round trip is negative: the first reports were older than a clock step.
			this.arbiter.restart(look.roundTrip);
		}
		const by = this.arbiter.correct(look) - look.correction;
		if (Math.abs(by) > look.deadBand && !this.arbiter.warmingUp()) {
			this.arbiter.jumped = true;
		}
		this.adjust(by);
	}

	/**
	 * Moves the offset. What was measured stays: the interval keeps its place, and the delta of
	 * each floor its value, since one delay grows by what the other one loses.
	 * @param {number} by us
	 */
	adjust(by) {
		if (by === 0) {
			return;
		}
		this.clock.offset += by;
		for (const [k, w] of this.ways.entries()) {
			w.level -= signOf(k) * by;
			this.interval.slack[k] -= signOf(k) * by;
		}
		this.dirty = true;
	}

	/**
	 * Takes a delta that arrived at x and returns how many us it is above the floor. An early
	 * outlier is not believed until more of them agree: then it returns null.
	 * @param {number} x
	 * @param {number} raw
	 * @param {Bucket} bucket
	 * @returns {number | null}
	 */
	datagram(x, raw, bucket) {
		this.advance(x);
		const w = this.ways[inward];
		w.learnFirstSpread(bucket);
		let y = around(raw, this.delta(inward, x));
		const gate = w.lowerGate(x, this.clock.sigma, this.resolution.joint());
		if (y < -gate) {
			const by = this.outliers.add(x, y, x < warmUp);
			this.dirty ||= this.outliers.mayBeStep();
			if (by === null) {
				return null;
			}
			this.fall(inward, x, by);
			y -= by;
		}
		this.dirty ||= this.outliers.mayBeStep(); // it was none
		this.outliers.row = 0;
		if (y < 0) {
			w.lower(x, -y);
			this.dirty = true;
			y = 0;
		}
		if (this.dirty) {
			this.follow();
		}
		this.outgoing.note(this.delta(inward, x) + y, x, this.clock.skew);
		return y;
	}

	/**
	 * Takes that a silence ended with a datagram that was above the floor by that many us. A clock
	 * step in the silence may be what made it late. Then the offset is off by as much, so the
	 * interval allows for it.
	 * @param {number} x
	 * @param {number} silence us
	 * @param {number} above
	 */
	endSilence(x, silence, above) {
		if (!this.peer.known) {
			return;
		}
		this.silenceEnd = x;
		this.silenceDrift = this.dispersion() * silence;
		this.silenceMayBeStep = above > second || silence > longestWindow;
		this.interval.atLeast(inward, this.delay(inward) + above);
		this.dirty = true;
	}

	/**
	 * Takes that a way was heard at x, and had not been for that long. If it was a silence, a
	 * clock step may have gone unseen, and what is known must be checked.
	 * @param {number} way
	 * @param {number} x
	 * @param {number} silence us
	 */
	heardAgain(way, x, silence) {
		const isSilence = this.ways[way].isSilence(silence);
		if (!isSilence || !this.peer.known || this.interval.since > x - silence) {
			return;
		}
		this.interval.doubt(x);
		this.outgoing.forget(); // it was measured before the silence
		this.dirty = true;
	}

	/**
	 * Takes that the local clock may have stood still until x: nothing limits the offset any more.
	 * @param {number} x
	 */
	slept(x) {
		this.advance(x);
		this.interval.doubt(x);
		this.interval.slack = [maxOffset, maxOffset];
		this.outgoing.forget(); // it was measured before the sleep
		this.dirty = true;
	}

	/**
	 * Returns whether what is known must be checked. It is checked once both ways have told
	 * something since the last silence or clock step, and the anchor, too, if there is one. While
	 * an outlier waits that only a clock step explains, nothing is.
	 */
	isUnchecked() {
		const {anchors, interval} = this;
		const anchorIsOld = anchors.known && anchors.agreedAt < interval.since;
		return !interval.checked() || anchorIsOld || this.outliers.mayBeStep();
	}

	/**
	 * Returns whether the multiple of 67.1 s is in doubt: the anchor disagrees, or the round trip
	 * is not from -1 to 66 s. Round trips are known modulo 134.2 s: a negative one is one of 67.1
	 * s or longer, or there was a clock step.
	 */
	isAmbiguous() {
		const roundTrip = this.roundTrip();
		return this.anchors.disagrees || roundTrip < -second || roundTrip > longestTrip;
	}

	/**
	 * Takes by how many us two datagrams of one bucket differ.
	 * @param {number} difference
	 */
	learnResolution(difference) {
		const before = this.resolution.joint();
		this.resolution.learn(Math.trunc(difference));
		const now = this.resolution.joint();
		if (now <= before) {
			return;
		}
		// Datagrams with the same delta showed no slope, and hid how far the clocks drifted apart.
		this.clock.doubt(priorSkew);
		this.interval.widen(now);
		if (this.peer.known && Math.abs(this.lack()) < 2 * now) {
			this.arbiter.restart(this.roundTrip());
		}
		this.dirty = true;
	}

	/**
	 * Ends the bucket of the way in at x.
	 * @param {number} x
	 * @param {Bucket} bucket
	 */
	endBucket(x, bucket) {
		this.advance(x);
		this.outliers.endBucket();
		if (bucket.two.first === Infinity) {
			return; // there were only early outliers
		}
		const {from} = bucket;
		const {first: least, second: next} = bucket.two;
		const at = from + bucketTime / 2;
		const congested = this.take(inward, {from, to: x, since: from, at, least, next});
		if (!congested && bucket.many()) {
			// Of a coarse clock the two fastest mostly share a stair. The last one is any
			// datagram.
			this.learnResolution(bucket.last - least);
		}
	}

	/**
	 * Takes a sample of a way, and returns whether even its fastest datagram queued.
	 * @param {number} way
	 * @param {Sample} sample
	 */
	take(way, sample) {
		const w = this.ways[way];
		if (this.awaited === way) {
			this.awaited = -1;
		}
		this.limit(way, sample);
		const unwatched = sample.to - sample.from > congestedTime;
		this.arbiter.jumped ||= unwatched;
		const gate = w.upperGate(sample.to, this.clock.sigma, this.resolution.joint());
		const {by, congested} = w.take(sample, gate);
		if (!congested) {
			const delta = this.delta(way, sample.at) + sample.least;
			w.points.add(keptPoint(sample.at, delta), signOf(way) * this.clock.skew);
		}
		this.dirty ||= this.clockLateness(way) > 0; // readers' bound contains it at once
		if (by > 0) {
			this.shift(way, sample.to, by);
		} else if (this.peer.known && !this.peer.isOriginal()) {
			this.followSlew(way, sample);
		}
		this.fit(way, sample);
		if (this.peer.known) {
			this.matchStep(sample.to);
			// Else the floors are where they were: the next report is soon enough.
			if (this.dirty) {
				this.follow();
			}
		}
		return congested;
	}

	/**
	 * Takes that the floor of a way fell at x. Either the path became shorter or there was a clock
	 * step. It was the clock if the round trip would become negative, which no path can do.
	 * @param {number} way
	 * @param {number} x
	 * @param {number} by us, below 0
	 */
	fall(way, x, by) {
		const roundTrip = this.roundTrip();
		const dead = this.deadBand();
		const isPossible = roundTrip + by > -dead;
		// Where the round trip is negative already, one way has not shown an earlier clock step.
		const wasNegative = Math.min(this.arbiter.reference, roundTrip) < -dead;
		if (!this.peer.known || isPossible || wasNegative) {
			// No way becomes shorter than ever as the other one becomes longer. Where neither shows
			// a rate, a wrong one could let both floors move for ever.
			const showsRate = this.ways.some((w) => w.points.list.length >= fitPoints);
			const isShortest = this.arbiter.isShortest(roundTrip + by, dead);
			const isOtherLate = this.ways[1 - way].congestedFor > 0;
			// rule: two floors that part are a rate
			if (!showsRate && isShortest && isOtherLate && !this.arbiter.warmingUp()) {
				this.clock.doubt(slewSkew);
			}
			this.shift(way, x, by);
			if (isShortest) {
				// It may be a clock step, too. Then the limit of the other way is off by as much,
				// until that way says that it is not late.
				this.interval.slack[1 - way] -= by;
			}
			return;
		}
		// No datagram arrives before it was sent.
		this.stepClock(way, x, by); // rule: a round trip shorter than nothing is a clock's
		this.awaited = 1 - way;
		this.awaitedFrom = x;
		this.awaitedTrip = roundTrip;
	}

	/**
	 * Moves the floor of a way to another level.
	 * @param {number} way
	 * @param {number} x
	 * @param {number} by us
	 */
	shift(way, x, by) {
		this.forget(way);
		this.ways[way].shift(x, by);
		if (way === inward) {
			this.outgoing.forget(); // it was measured above the old level
		}
		this.dirty = true;
	}

	/**
	 * Takes that a clock step moved the deltas of a way. Delays stay as they are.
	 * @param {number} way
	 * @param {number} x
	 * @param {number} by us
	 */
	stepClock(way, x, by) {
		this.clock.offset += signOf(way) * by;
		this.shift(inward, x, 0);
		this.shift(outward, x, 0);
		// Until both ways have shown the step it may have been less.
		this.interval.widen(Math.abs(by));
		this.clock.doubt(slewSkew); // it may go on as a slew
		// A slew goes on until a report shows it, and clocks drift apart while nobody is heard.
		// rule: what clocks may drift apart unseen is no step
		if (Math.abs(by) > this.unseenDrift(x)) {
			this.interval.clockStep(x);
		}
	}

	/**
	 * Returns how far, in us, the clocks may have drifted apart before it shows at x.
	 * @param {number} x
	 */
	unseenDrift(x) {
		const isLong = x - this.silenceEnd > warmUp;
		return isLong ? unseenSlew : Math.max(unseenSlew, this.silenceDrift);
	}

	/**
	 * Drops the rate that the points of a way showed, and keeps it as what was known before, if it
	 * was believed.
	 * @param {number} way
	 */
	forget(way) {
		const {points} = this.ways[way];
		if (!this.clock.rejected) {
			this.clock.prior = this.clock.prior.and(points.rate);
		}
		points.rate = unknownRate;
	}

	/**
	 * Limits the offset on the side of a way. The delay of the sample was not negative, so the
	 * offset is wrong by at most that delay as it looks from here.
	 * @param {number} way
	 * @param {{from: number, since: number, least: number}} sample
	 */
	limit(way, sample) {
		if (!this.peer.known) {
			return;
		}
		const drift = this.dispersion() * (this.clock.at - sample.from);
		let slack = ring(this.ways[way].level + sample.least, offsetBits) + drift;
		if (way === outward) {
			slack += rounding + this.stale(sigmas / 2 * this.clock.sigma);
		}
		const {at, skew} = this.clock;
		if (this.interval.take(way, sample.since, at, slack, skew)) {
			this.dirty = true;
		}
	}

	/**
	 * Raises the floor of a way by what the round trip lacks, if all its datagrams have been late
	 * by as much for some time. A slew moves both floors in opposite directions. The falling one
	 * is seen at once and shortens the round trip; the rising one just looks late.
	 * @param {number} way
	 * @param {Sample} sample
	 */
	followSlew(way, sample) {
		const w = this.ways[way];
		const lack = this.lack();
		w.late.add(sample, w.residual, lack, w.spread);
		const {lasted} = w.late;
		const by = Math.min(w.late.by, lack);
		const slewTime = Math.max(lasted, 2 * second);
		const isTooSmall = lack < leastSlew + 2 * this.resolution.joint();
		const isTooFast = by > slewSkew * lasted; // no daemon slews like that
		if (isTooSmall || isTooFast || this.arbiter.warmingUp() || !w.isLate(lack, slewDepths)) {
			return;
		}
		w.raise(by);
		this.clock.bend(signOf(way) * by, slewTime);
		for (const [k, one] of this.ways.entries()) {
			one.points.rate = unknownRate;
			one.points.forgetPoints();
			one.touched = sample.to;
			this.interval.slack[k] += by;
		}
		this.dirty = true;
	}

	/**
	 * Ends the span of a way if it is time: its fastest datagram becomes a point, and the clock
	 * turns to the rate that the points of both ways show.
	 * @param {number} way
	 * @param {Sample} sample
	 */
	fit(way, sample) {
		const w = this.ways[way];
		const {points} = w;
		const {clock} = this;
		const x = sample.to;
		const resolution = this.resolution.joint();
		const silence = x - sample.from;
		const isLong = silence > congestedTime && points.list.length >= fitPoints;
		const outlastsPoints = isLong && silence > points.span(sample.from);
		if (silence > longestWindow || outlastsPoints) {
			this.forget(way);
			points.restart(x);
			if (silence > longestWindow) { // the points of the other way are as old
				this.forget(1 - way);
				this.ways[1 - way].points.restart(x);
				if (way === inward && this.peer.known) {
					const offset = clock.offset - clock.skew * silence;
					this.longSilence = new LongSilence(sample.from, x, offset);
				}
			}
			clock.doubt(Math.max(clock.sigma, Math.min(skewDrift * silence, priorSkew)));
			return;
		}
		if (x - points.end < points.spacing) {
			return;
		}
		// A floor that had to be lowered by more than noise has another slope than its points.
		// Fewer than fitPoints tell no slope, but in warm-up they may all have queued.
		const hasLine = points.list.length >= fitPoints || this.arbiter.warmingUp();
		// rule: a line that sinks starts anew
		if (hasLine && points.loweredBy > w.lowerGate(w.lastNear, clock.sigma, resolution)) {
			this.forget(way);
			points.restart(x);
			const isBesideOurs = this.peer.known && !this.peer.isOriginal();
			const mayBeSlew = isBesideOurs && this.lack() > 2 * rounding;
			if (mayBeSlew) {
				this.forget(1 - way);
				this.ways[1 - way].points.forgetPoints();
			}
		}
		const added = points.endSpan(x, signOf(way) * clock.skew, resolution);
		if (added === null) {
			return;
		}
		this.dirty = true;
		if (points.list.length < fitPoints) {
			// Clocks whose rates are not known drift apart by more in 10 s than most queues last.
			// rule: until its slope is known a floor is where it was seen
			if (silence > congestedTime && w.congestedFor === 0) {
				w.raise(w.residual);
				w.touched = sample.at;
			}
			return;
		}
		points.rate = w.slope(way, clock, resolution);
		if (added.evicted) {
			// What the evicted point said stays in prior, with the weight of one of all points.
			if (!clock.rejected) {
				const {mean, variance} = points.rate;
				clock.prior = clock.prior.and(new Gaussian(mean, points.list.length * variance));
			}
			const drift = 4 * skewDrift * added.wait;
			clock.prior = new Gaussian(clock.prior.mean, clock.prior.variance + drift * drift);
		}
		// A burst between two silences is short, and its points show hardly any rate.
		// rule: a long silence measures the rate
		const {interval, longSilence} = this;
		if (longSilence.teaches(x) && interval.event < longSilence.from && interval.checked()) {
			// Each floor is off by one scatter, and the offset is not better known than its bound
			// says.
			const noise = Math.max(this.band(1), interval.bound() / sigmas);
			clock.prior = longSilence.rate(x, clock.offsetAt(x), noise);
		}
		const [i, o] = this.ways;
		const lasts = points.span(x) > congestedTime;
		const change = clock.learn(i.points.rate, o.points.rate, lasts);
		for (const [k, one] of this.ways.entries()) {
			if (k === inward || !this.peer.isOriginal()) {
				one.tilt(k, clock, change);
			}
		}
		w.learnTypical(way, clock);
	}

	/**
	 * Looks for a way whose datagrams are all late by what the round trip became shorter. That is
	 * a clock step: one floor fell, which was seen at once and taken for a shorter path, and the
	 * other one rises by the same amount.
	 * @param {number} x
	 */
	matchStep(x) {
		const {arbiter} = this;
		for (const [way, w] of this.ways.entries()) {
			let by = w.lateness();
			if (by === 0) {
				continue;
			}
			const look = this.look();
			const wasNegative = look.roundTrip < -look.deadBand;
			const opens = wasNegative && look.roundTrip + by > -look.deadBand;
			if (opens && !arbiter.warmingUp()) {
				by = Math.min(by, Math.max(arbiter.reference, 0) - look.roundTrip);
			}
			// A path changes one way only, or both in the same direction.
			// rule: a clock that is set moves both floors
			const isStep = opens || arbiter.matches(by, look, w);
			if (!isStep) {
				continue;
			}
			const isWarmUpStep = !opens && arbiter.warmingUp();
			this.ways[1 - way].level += by; // what fell was no path
			this.interval.slack[1 - way] += by;
			this.stepClock(way, x, by);
			if (isWarmUpStep) {
				arbiter.restart(this.roundTrip());
			}
		}
	}

	/**
	 * Takes a report that arrived at x: the least delta of the way out since the report before.
	 * @param {number} x
	 * @param {number} minDelta
	 */
	report(x, minDelta) {
		this.advance(x);
		const {peer} = this;
		const w = this.ways[outward];
		const wasOriginal = peer.isOriginal();
		const repeated = peer.note(minDelta);
		this.arbiter.original = peer.isOriginal();
		if (peer.isOriginal() && !wasOriginal) {
			// Its minima of ten seconds were taken for single datagrams.
			w.points.restart(x);
			w.points.rate = unknownRate;
			this.clock.doubt(priorSkew);
		}
		const raw = 8 * minDelta;
		const sent = this.sentAt(x);
		const {sent: previous, sentAny: since} = peer;
		peer.sentAny = sent;
		const isRecent = peer.known && Math.abs(sent - previous) < second;
		if (isRecent && repeated && !peer.isOriginal()) {
			return; // it was read twice and tells nothing new
		}
		this.heardAgain(outward, sent, sent - previous);
		peer.sent = sent;
		if (!peer.known) {
			this.firstReport(x, raw);
			return;
		}
		let y = around(raw, this.delta(outward, sent));
		if (peer.isOriginal()) {
			this.reportOfOriginal(x, y, sent - previous);
			return;
		}
		const predatesStep = previous < this.awaitedFrom && x - this.awaitedFrom < 3 * second;
		if (this.awaited === outward && y < 0 && predatesStep) {
			return; // its least delta is from before the clock step
		}
		const gate = w.lowerGate(sent, this.clock.sigma, this.resolution.joint());
		// A local clock that is set ahead looks like a silence. A report of datagrams from before
		// that does not show the new offset, and the gate is too wide, since no clock drifted for as
		// long as it seems. So no floor follows such a report.
		const sentSince = previous - clamp(this.delay(outward), 0, second);
		if (this.silenceMayBeStep && sentSince < this.silenceEnd && y < 0 && y >= -gate) {
			return;
		}
		if (y < -gate) {
			this.fall(outward, sent, y);
			y = 0;
		} else if (y < 0) {
			w.lower(sent, -y);
			this.dirty = true;
			y = 0;
		}
		const at = Math.max(previous, sent - second) / 2 + sent / 2;
		const from = Math.min(previous, sent);
		this.take(outward, {from, to: sent, since, at, least: y, next: Infinity});
		this.review(sent - previous);
	}

	/**
	 * Returns the x at which a report was sent that arrives at x.
	 * @param {number} x
	 */
	sentAt(x) {
		return x - clamp(this.delay(inward), 0, second);
	}

	/**
	 * Takes a report of an original: a minimum of ten seconds, y us above the floor known here. It
	 * was sent dt us after the one before.
	 * @param {number} x
	 * @param {number} y
	 * @param {number} dt
	 */
	reportOfOriginal(x, y, dt) {
		const w = this.ways[outward];
		if (this.awaited === outward) {
			this.awaited = -1;
		}
		w.level += y;
		w.near(this.peer.sent);
		w.touched = this.peer.sent;
		this.dirty = true;
		const {sent} = this.peer;
		this.limit(outward, {from: sent, since: sent - originalWindow - second, least: 0});
		this.matchStep(x);
		this.follow();
		this.review(dt);
	}

	/**
	 * Takes the first report. The offset becomes the midpoint, since nothing else is known.
	 * @param {number} x
	 * @param {number} deltaOut us
	 */
	firstReport(x, deltaOut) {
		const [i, o] = this.ways;
		const deltaIn = this.delta(inward, x);
		const half = ring(deltaOut + deltaIn, deltaBits) / 2;
		this.peer.known = true;
		this.dirty = true;
		this.clock.offset = half - deltaIn;
		i.level = half;
		const sent = this.sentAt(x); // only now the delay is known
		this.peer.sent = sent;
		this.peer.sentAny = sent;
		o.start(half, x);
		o.spread = i.spread;
		o.points.meanResidual = i.points.meanResidual;
		this.arbiter.restart(this.roundTrip());
		this.interval.slack = [half, maxOffset];
		this.interval.fresh = [true, true]; // there is nothing older to compare with
		// The datagram that it tells may be as old as the session.
		this.limit(outward, {from: Math.min(sent, 0), since: 0, least: 0});
	}

	/**
	 * Lets the arbiter learn the round trip. It is called once a report, which was sent so many us
	 * after the one before. It tells little of a longer time than 2 s. Times may go back.
	 * @param {number} sinceLast
	 */
	review(sinceLast) {
		const {arbiter} = this;
		const look = this.look();
		const dt = clamp(sinceLast, 0, 2 * second);
		arbiter.pass(dt);
		const [i, o] = this.ways;
		if (i.congestedFor > 0 || o.congestedFor > 0) {
			look.roundTrip += i.queue() + o.queue();
			const isShorter = look.roundTrip < arbiter.reference - look.deadBand;
			// A round trip with a queue in it is longer than the path.
			// rule: a queue teaches no round trip
			if (!arbiter.warmingUp() || !isShorter) {
				return;
			}
		}
		arbiter.decay(dt);
		const lack = arbiter.reference - look.roundTrip;
		const mayBeSlew = i.isLate(lack, suspectDepths) || o.isLate(lack, suspectDepths);
		const mayBeRate = lack < congestedTime * this.clock.sigma && !arbiter.warmingUp();
		// A slew shortens the round trip until the late way has been followed, and so does a wrong
		// rate.
		// rule: what lacks may be a clock's
		if (lack > 1 && (mayBeSlew || mayBeRate)) {
			arbiter.age += dt;
			return;
		}
		arbiter.learn(this.clock.at, dt, look);
		this.follow();
	}

	/**
	 * Returns how fast the interval widens, us per us: by what is not known of the rate, and by
	 * its drift.
	 */
	dispersion() {
		const time = Math.max(this.interval.undisturbed(this.clock.at), second);
		let scatter = this.ways[inward].scatter();
		if (this.peer.known) {
			scatter = Math.min(scatter, this.ways[outward].scatter());
		}
		const unknown = sigmas * this.clock.sigma + (2 * scatter + hostJitter) / time;
		const most = slewSkew + Math.abs(this.clock.skew);
		return 2 * settledTime * skewDrift + Math.min(unknown, most);
	}

	/**
	 * Returns by how many us a clock may have been set or slewed: even the fastest datagram of the
	 * last sample of a way is late by as much.
	 * @param {number} way
	 */
	clockLateness(way) {
		const w = this.ways[way];
		const by = w.residual;
		const isNoise = by < stepScatters * w.spread;
		// Until there is a sample, the residual is above another level.
		if (!w.sampled || isNoise) {
			return 0;
		}
		const isMoreThanSlew = by > unseenSlew;
		const isLessThanSleep = w.leastOfTwo <= second;
		// A slew moves a clock by little before a report shows it. A suspended clock makes every
		// datagram late by seconds, which a queue rarely does. What is between the two is a queue,
		// unless the other way became shorter: a clock step makes one way early and the other late.
		// rule: what is late may be a clock that no report has shown yet
		const isQueue = isMoreThanSlew && isLessThanSleep &&
			!this.arbiter.isShortest(this.roundTrip(), this.deadBand());
		return isQueue ? 0 : by;
	}

	/**
	 * Returns what readers see at x. Of all offsets modulo 67.1 s it takes the one nearest to
	 * near.
	 * @param {number} x
	 * @param {bigint} near
	 * @returns {View}
	 */
	view(x, near) {
		const view = new View();
		view.whole = near;
		view.undisturbed = this.interval.undisturbed(x);
		view.scatter = this.ways[inward].points.meanResidual;
		view.skewBefore = Math.trunc(this.clock.skew * 2 ** 32) / 2 ** 32; // exact when multiplied
		view.skewAfter = view.skewBefore;
		view.disturbed = this.interval.stepped();
		if (!view.disturbed) {
			view.undisturbed -= settledTime; // the interval begins as if a step were settled
		}
		if (!this.peer.known) {
			return view;
		}
		view.synced = true;
		view.unchecked = this.isUnchecked();
		view.ambiguous = this.isAmbiguous();
		// 1/4: or rounding down might lose a whole us.
		const offset = ring(this.clock.offsetAt(x), offsetBits) + 1 / 4;
		const down = Math.floor(offset);
		view.whole = BigInt.asIntN(64, expand(near, BigInt(down), offsetBits));
		view.part = Math.floor((offset - down) * 2 ** 32) / 2 ** 32;
		view.delay = Math.max(this.delay(inward), 0);
		view.toPeer = Math.max(this.delay(outward), 0);
		view.dispersion = this.dispersion();
		// What the round trip lacks may be a slew that the late way has not shown yet.
		const lack = Math.min(this.lack(), unseenSlew);
		const late = Math.max(this.clockLateness(inward), this.clockLateness(outward));
		const wrong = Math.max(-this.roundTrip(), lack, late, 0);
		const ahead = view.dispersion * Math.max(x - readerMargin - this.clock.at, 0);
		view.bound = this.interval.bound() + wrong + ahead;
		return view;
	}
}

/**
 * Returns how many us a delta is above near, of those a ring apart: no queue is 45 s long.
 * @param {number} raw
 * @param {number} near
 */
function around(raw, near) {
	const full = 2 ** deltaBits;
	const d = ring(raw, deltaBits) - near;
	return d - full * Math.floor(d / full + 2 / 3);
}

// ---- Reports: what the peer says, and what it is told ----

const originalWindow = 10 * second; // an original reports the minimum of this time
const longRun = 64; // reports in a row that an original never sends without its remainder

/** Peer is what is known of the reports of the other end. */
class Peer {
	sent = 0; // x at which it sent the last report that was not 0
	sentAny = 0; // x at which it sent the last report, 0 or not
	last = 0; // the last report; 0: none yet; it may come before the first datagram
	minima = 0; // reports until an original counts as one of ours; 0: it does
	known = false; // a report has arrived, so the offset is known

	/** Returns whether the peer is a C++ original, or may be one. */
	isOriginal() {
		return this.minima > 0;
	}

	/**
	 * Takes a report and returns whether it equals the one before.
	 * @param {number} minDelta
	 */
	note(minDelta) {
		const repeated = minDelta === this.last;
		this.last = minDelta;
		// Ours never have this remainder, and one in three of an original's has it.
		// rule: originals are told apart
		if (minDelta % marks === originalMark) {
			this.minima = longRun;
		} else if (this.minima > 0 && !repeated) { // an original repeats one for up to ten seconds
			this.minima--;
		}
		return repeated;
	}
}

/** Outgoing is the least delta since the last report was read. */
class Outgoing {
	some = false; // there is one
	#least = keptPoint(0, 0);

	/**
	 * Takes the delta of a datagram, as of x.
	 * @param {number} delta
	 * @param {number} x
	 * @param {number} skew
	 */
	note(delta, x, skew) {
		const point = keptPoint(x, delta);
		if (!this.some || above(point, this.#least, -skew) < 0) {
			this.#least = point;
			this.some = true;
		}
	}

	/**
	 * Returns the least delta as of x. The clocks have run apart since it was measured.
	 * @param {number} x
	 * @param {number} skew
	 */
	at(x, skew) {
		const {delta, x: then} = this.#least;
		return delta - keptPoint(0, skew * (keptX(x) - then)).delta;
	}

	/** Forgets it. */
	forget() {
		this.some = false;
	}
}

/**
 * Returns a delta in units of 8 us, rounded down, as an original counts it.
 * @param {number} raw us
 */
function deltaIn8(raw) {
	return wrap(Math.floor(raw / 8), 24);
}

/**
 * Minimum is what an original reports: the least delta of ten seconds. It is found as an original
 * finds it (Kathleen Nichols' minimum of a window), so that an original learns from us just what
 * another original would tell it, whatever we think of the path and the clocks. Each of the three
 * candidates is the least delta since the one before.
 */
class Minimum {
	delta = [0, 0, 0]; // 8 us
	#at = [0n, 0n, 0n]; // local times, kept as those of points

	/**
	 * Replaces the candidates from one on.
	 * @param {number} from
	 * @param {number} delta
	 * @param {Usec} now
	 */
	replace(from, delta, now) {
		this.delta.fill(delta, from);
		this.#at.fill(keptUsec(now), from);
	}

	/**
	 * Takes the delta of a datagram.
	 * @param {number} delta
	 * @param {Usec} now
	 */
	take(delta, now) {
		const isBelow = (/** @type {number} */ i) => ring(this.delta[i] - delta, 24) >= 0;
		if (isBelow(0) || this.#age(2, now) > originalWindow) {
			this.replace(0, delta, now);
		} else if (isBelow(1)) {
			this.replace(1, delta, now);
		} else if (isBelow(2)) {
			this.replace(2, delta, now);
		}
		const [one, two, three] = this.delta;
		if (this.#age(1, now) > originalWindow) {
			this.delta[0] = three;
			this.#at[0] = this.#at[2];
			this.replace(1, delta, now);
		} else if (this.#age(0, now) > originalWindow) {
			this.delta = [two, three, delta];
			this.#at = [this.#at[1], this.#at[2], keptUsec(now)];
		} else if (two === one && this.#age(1, now) > originalWindow / 4) {
			this.replace(1, delta, now);
		} else if (three === two && this.#age(2, now) > originalWindow / 2) {
			this.replace(2, delta, now);
		}
	}

	/**
	 * Returns the age of a candidate, us; that of all is infinite after the local clock was set
	 * back.
	 * @param {number} i
	 * @param {Usec} now
	 */
	#age(i, now) {
		const age = since(keptUsec(now), this.#at[i]);
		return age < -second ? Infinity : age;
	}
}

const reportLives = 60 * minute; // rates are not known well enough to carry it on for longer

/** OwnReport is the report that minDelta returns. */
class OwnReport {
	isTold = false; // it was read, and no datagram arrived since
	#isKnown = false; // there is one
	#delta = 0; // us
	#at = 0n; // local time as of which that holds
	#isNone = false; // whatever arrived was measured before a level shift
	#again = false; // an original gets it again and again, as it is
	#told = 0; // as it was read

	/**
	 * Sets the delta, in us, as of a local time.
	 * @param {number} delta
	 * @param {Usec} at
	 * @param {boolean} isNew a datagram arrived since the last one was read
	 */
	set(delta, at, isNew) {
		if (!isNew && this.isTold) {
			return;
		}
		this.isTold = false;
		this.#isKnown = true;
		this.#delta = delta;
		this.#at = at;
		this.#isNone = !isNew;
		this.#again = false;
	}

	/**
	 * Sets what an original is told.
	 * @param {number} minDelta 8 us
	 */
	setMinimum(minDelta) {
		this.isTold = false;
		this.#isKnown = true;
		this.#again = true;
		this.#told = toReport(8 * minDelta);
	}

	/**
	 * Returns the report as of now, and marks it as read.
	 * @param {Usec} now
	 * @param {number} skew of the remote clock
	 * @returns {number | null}
	 */
	tell(now, skew) {
		if (!this.#isKnown) {
			return null;
		}
		if (this.#again) {
			return this.#told;
		}
		if (this.#isNone) {
			return 0;
		}
		const age = since(now, this.#at);
		if (this.isTold) {
			return Math.abs(age) > second ? 0 : this.#told;
		}
		const isStale = age < -second || age > reportLives; // the local clock was set, perhaps
		if (isStale) {
			return 0;
		}
		this.#told = toReport(this.#delta - skew * age);
		this.isTold = true;
		return this.#told;
	}
}

// ---- The clock: offset, rate, and how well they are known ----

/**
 * LongSilence is the last silence that was longer than a rate is kept. If there was no clock step
 * in it, the offset changed by what the clocks drifted apart.
 */
class LongSilence {
	/**
	 * @param {number} from x at which it began
	 * @param {number} to x at which it ended
	 * @param {number} offset us: at its beginning
	 */
	constructor(from, to, offset) {
		this.from = from;
		this.to = to;
		this.offset = offset;
	}

	/**
	 * Whether the silence measures the rate at x: both ways have spoken for a while, and not yet
	 * for as long as they were silent.
	 * @param {number} x
	 */
	teaches(x) {
		const silence = this.to - this.from;
		const mayWrap = maxSkew * silence > maxOffset;
		return x - this.to > warmUp && x - this.to < silence && !mayWrap;
	}

	/**
	 * Returns the rate that the silence shows, where the offset at x is known to noise. It is a
	 * mean, from which the rate of now may have walked away at random.
	 * @param {number} x
	 * @param {number} offset us
	 * @param {number} noise us
	 */
	rate(x, offset, noise) {
		const t = x - this.from;
		const walked = skewDrift * Math.sqrt(second * t);
		const variance = noise * noise / (t * t) + walked * walked;
		return new Gaussian((offset - this.offset) / t, variance);
	}
}

/** Gaussian is what is known of a rate. A variance of 0 means that nothing is known. */
class Gaussian {
	/**
	 * @param {number} mean
	 * @param {number} variance
	 */
	constructor(mean, variance) {
		this.mean = mean;
		this.variance = variance;
	}

	/**
	 * Puts two independent measurements of one rate together.
	 * @param {Gaussian} other
	 * @returns {Gaussian}
	 */
	and(other) {
		if (other.variance === 0) {
			return this;
		}
		if (this.variance === 0) {
			return other;
		}
		const weight = this.variance / (this.variance + other.variance);
		const mean = this.mean + weight * (other.mean - this.mean);
		return new Gaussian(mean, weight * other.variance);
	}

	/**
	 * Returns whether two measurements can hardly be of one rate: they are 4 standard deviations
	 * apart.
	 * @param {Gaussian} other
	 */
	differs(other) {
		const d = this.mean - other.mean;
		return d * d > 4 * 4 * (this.variance + other.variance);
	}
}

const unknownRate = new Gaussian(0, 0);

/** RateClock is the remote clock as the local one sees it. Both ways see the same one. */
class RateClock {
	at = 0; // x at which offset holds
	offset = 0; // us: remote minus local clock
	skew = 0; // the rate at which offset changes, us per us
	sigma = 0; // standard deviation of skew
	prior = unknownRate; // what was known of skew before the points that both ways hold now
	agreed = unknownRate; // the skew on which both ways last agreed
	rejected = false; // the points were not believed

	/** @param {number} x */
	offsetAt(x) {
		return this.offset + this.skew * (x - this.at);
	}

	/**
	 * Says that the skew may be wrong by sigma.
	 * @param {number} sigma
	 */
	doubt(sigma) {
		this.sigma = sigma;
		this.prior = new Gaussian(this.skew, sigma * sigma);
		this.agreed = unknownRate;
	}

	/**
	 * Takes that the offset ran away in a time: a slew began or ended in it. How much of the
	 * change of rate goes on is not known, so the skew takes half of it and sigma all.
	 * @param {number} by us
	 * @param {number} time us
	 */
	bend(by, time) {
		const change = by / time;
		this.skew = clamp(this.skew + change / 2, -maxSkew, maxSkew);
		this.doubt(Math.hypot(change, this.sigma));
	}

	/**
	 * Learns what the points of both ways say of the skew, and returns by how much the skew
	 * changed. lasts says that the way with the newest point tells it for longer than a queue
	 * lasts.
	 * @param {Gaussian} i
	 * @param {Gaussian} o
	 * @param {boolean} lasts
	 */
	learn(i, o, lasts) {
		const both = i.variance > 0 && o.variance > 0;
		const before = this.skew;
		// Both ways see the same clock, so where they differ a path is changing slowly.
		// rule: no clock makes a round trip longer: a path ramps
		if (both && i.differs(o)) {
			if (this.agreed.variance > 0) {
				this.prior = this.agreed;
			}
			this.agreed = unknownRate;
			this.rejected = true;
			this.skew = median(this.prior.mean, i.mean, o.mean);
			this.sigma = Math.sqrt(this.prior.variance);
		} else {
			this.believe(i, o, lasts);
		}
		const {mean, variance} = this.prior;
		this.prior = new Gaussian(clamp(mean, -maxSkew, maxSkew), variance);
		this.skew = clamp(this.skew, -maxSkew, maxSkew);
		return this.skew - before;
	}

	/**
	 * Learns what both ways say, or one of them. They do not contradict each other.
	 * @param {Gaussian} i
	 * @param {Gaussian} o
	 * @param {boolean} lasts
	 */
	believe(i, o, lasts) {
		const both = i.variance > 0 && o.variance > 0;
		let points = i.and(o);
		this.rejected = false;
		// At the start prior is only what most crystals do, and a clock may be worse than that.
		// None is worse than maxSkew, so what is steeper is a queue, or the stairs of a coarse
		// clock.
		const isPossible = Math.abs(points.mean) <= 1.1 * maxSkew;
		const isKnown = this.prior.variance < priorSkew * priorSkew / 2;
		if (!isPossible || isKnown && points.differs(this.prior)) {
			const {mean} = this.prior;
			const d = points.mean - mean;
			// A path changes one way, a clock both. Where only one way shows a rate, a queue lifts
			// its floor, and only a clock lets it sink for long.
			const common = Math.abs(median(0, i.mean - mean, o.mean - mean));
			const isCommon = both && common > Math.abs(d) / 2;
			const sinks = i.variance > 0 && d > 0 || o.variance > 0 && d < 0;
			// rule: what no queue explains is the clock
			if (isPossible && (isCommon || !both && sinks && lasts)) {
				this.prior = new Gaussian(mean, d * d);
			} else {
				points = new Gaussian(points.mean, d * d);
				this.rejected = true;
			}
		}
		const g = this.prior.and(points);
		this.skew = g.mean;
		this.sigma = Math.sqrt(g.variance);
		if (both) {
			this.agreed = g;
		}
	}
}

/**
 * Returns the middle one of three.
 * @param {number} a
 * @param {number} b
 * @param {number} c
 */
function median(a, b, c) {
	return Math.max(Math.min(a, b), Math.min(Math.max(a, b), c));
}

// ---- The arbiter between path and clock ----

const warmUp = 6 * second; // until then all datagrams may have queued
const longestQueue = 220 * second; // an asymmetry that was right is kept through a long queue

// How many scatters a floor may be off. To take noise for another path keeps the offset, which
// harms little. To take noise for a clock step moves the offset and ends all trust.
const pathScatters = 2;
const stepScatters = 4;

/**
 * @typedef {object} Look what both ways say together at one time
 * @property {number} roundTrip us
 * @property {number} correction us: offset minus midpoint
 * @property {number} deadBand us: two looks at the same round trip differ by less
 * @property {number} pathBand us: and most of them by less than this
 */

/**
 * Arbiter decides whether the path or a clock has changed. It sees no datagrams, only the round
 * trip, which contains no clock, and how far the offset is from the midpoint. To tell a clock step
 * it also asks how late a way is.
 */
class Arbiter {
	reference = 0; // us: the round trip that is trusted now
	asymmetry = 0; // us: offset minus midpoint while the round trip is the reference one
	symmetric = 0; // us: the reference round trip when the asymmetry was last 0
	expiry = 0; // us: time left until the asymmetry decays
	age = 0; // us: for how long the round trip has been the reference one
	candidate = 0; // us: another round trip, which may become the reference
	candidateAge = 0; // us: for how long the round trip has been that
	fellAt = 0; // x at which the reference last fell far in warm-up
	fellFrom = 0; // us: the reference before that
	original = false; // the peer is an original, which shows late that its floor rose
	jumped = false; // the offset jumped, so what looks like an asymmetry may be a clock step

	/**
	 * Takes the round trip for the reference, with equal ways.
	 * @param {number} roundTrip
	 */
	restart(roundTrip) {
		const {expiry, original} = this;
		Object.assign(this, new Arbiter(), {
			reference: roundTrip,
			symmetric: roundTrip,
			expiry,
			original,
		});
	}

	/**
	 * Takes that dt us passed.
	 * @param {number} dt
	 */
	pass(dt) {
		this.expiry -= dt;
		if (this.jumped) {
			this.expiry = Math.min(this.expiry, longestWindow);
		}
	}

	/** Returns whether the reference round trip is hardly known yet. */
	warmingUp() {
		return this.age < warmUp;
	}

	/**
	 * Returns whether the round trip is shorter than both that are remembered: the one that is
	 * trusted now, and the last one with equal ways.
	 * @param {number} roundTrip us
	 * @param {number} deadBand us
	 */
	isShortest(roundTrip, deadBand) {
		return roundTrip < Math.min(this.reference, this.symmetric) - deadBand;
	}

	/**
	 * Returns whether a round trip that is d longer is another one, however small d is: a long
	 * time has shown the shortest. Beside an original that may be too short, since it tells late
	 * that its floor rose.
	 * @param {number} d us
	 */
	isLonger(d) {
		// Queues and noise make a round trip longer, so the shorter one is that of the path.
		// rule: longer than a well known round trip is another one
		return d > 0 && this.age > 2 * settledTime && !this.original;
	}

	/**
	 * Returns by how much the asymmetry may have changed when the round trip became d longer: by
	 * half of d, if one way took all of it.
	 * @param {number} d us
	 * @param {Look} look
	 */
	asymmetryBound(d, look) {
		if (d < 0 && (this.warmingUp() || this.original)) {
			// The shorter round trip is the right one: there were queues, or an original told
			// late.
			return 0;
		}
		if (!this.isLonger(d) && -look.deadBand < d && d < look.pathBand) {
			return 0;
		}
		return Math.abs(d) / 2;
	}

	/**
	 * Returns how far the offset should be from the midpoint: as far as it is, or as close to that
	 * as both round trips that are known allow.
	 * @param {Look} look
	 */
	correct(look) {
		const near = this.asymmetryBound(look.roundTrip - this.reference, look);
		const corrected = clamp(look.correction, this.asymmetry - near, this.asymmetry + near);
		const far = this.asymmetryBound(look.roundTrip - this.symmetric, look);
		return clamp(corrected, -far, far);
	}

	/**
	 * Lets an asymmetry go that was kept for long enough, in the time since the last report.
	 * @param {number} dt us
	 */
	decay(dt) {
		// Nothing shows an asymmetry, so equal ways become the better guess the longer a path
		// lasts.
		// rule: asymmetries decay
		if (this.expiry < 0) {
			const part = Math.min(4 * dt / congestedTime, 1);
			this.symmetric += (this.reference - this.symmetric) * part;
		}
	}

	/**
	 * Learns the reference round trip at x, from one that lasted for dt.
	 * @param {number} x
	 * @param {number} dt us
	 * @param {Look} look
	 */
	learn(x, dt, look) {
		const d = look.roundTrip - this.reference;
		if (look.roundTrip < -look.deadBand) {
			// There was a clock step, and one way has not shown it yet.
		} else if (this.warmingUp() && d < 0) {
			// Queues end, and what they leave is the path.
			// rule: a shorter round trip is taken at once in warm-up
			if (Math.abs(d) < look.pathBand) {
				this.age += dt;
				this.candidateAge = 0;
			}
			if (d <= -look.deadBand) { // a clock may have been set; matches finds out
				this.fellFrom = this.reference;
				this.fellAt = x;
			}
			this.reference = look.roundTrip;
		} else if (-look.deadBand < d && d < look.pathBand) { // what is shorter may be a clock's
			const step = this.isLonger(d) ? d / 10 : d;
			this.reference += step * Math.min(dt / congestedTime, 1);
			this.age += dt;
			this.candidateAge = 0;
		} else if (Math.abs(look.roundTrip - this.candidate) >= look.deadBand) {
			this.candidate = look.roundTrip;
			this.candidateAge = 0;
		} else {
			this.candidateAge += dt;
			// No queue keeps its height for so long.
			// rule: another round trip that lasts is learnt
			if (this.candidateAge > settledTime) {
				if (this.asymmetry === 0) {
					this.expiry = longestQueue;
				}
				this.asymmetry = look.correction;
				this.reference = look.roundTrip;
				this.candidateAge = 0;
			}
		}
		const most = this.asymmetryBound(this.reference - this.symmetric, look);
		this.asymmetry = clamp(this.asymmetry, -most, most);
		if (Math.abs(this.asymmetry) < 1) { // an exponential decay has no end
			this.asymmetry = 0;
			this.symmetric = this.reference;
		}
	}

	/**
	 * Returns whether the round trip would be as before if the floor of w were higher by rise,
	 * which is how a clock step looks. In warm-up a queue may have ended as another one came, so
	 * it asks for more. The round trip before may then be one that has been taken for a queue's,
	 * unless w has been near its floor since.
	 * @param {number} rise us
	 * @param {Look} look
	 * @param {Way} w
	 */
	matches(rise, look, w) {
		let most = rise / 2;
		let before = this.reference;
		if (this.warmingUp()) {
			most = rise / 4;
			const maybeAlwaysQueued = w.spreads === 0;
			const isRepeated = w.hits >= 4; // a path that wanders reaches a height thrice by chance
			if (maybeAlwaysQueued || w.congestedFor < 5 * second || !isRepeated) {
				return false;
			}
			if (w.lastNear <= this.fellAt) {
				before = Math.max(before, this.fellFrom);
			}
		}
		const lack = before - look.roundTrip;
		const miss = Math.abs(lack - rise);
		const gate = look.deadBand + gateSpreads * w.spread;
		return lack > look.deadBand && miss < gate && miss < most;
	}
}

// ---- The interval that contains the offset: the error bound ----

/**
 * Interval contains the true offset while there is no clock step. No delay is negative, so each
 * datagram limits the offset on one side, and each report on the other.
 */
class Interval {
	slack = [0, 0]; // us: the truth is at most this far below the offset (inward) and above it
	rate = [0, 0]; // the skew when a datagram of that way last proved it
	fresh = [false, false]; // that way has said something since
	since = 0; // x of the last clock step or end of a silence: older limits may be wrong
	event = -settledTime; // x of the last clock step; at the start -settledTime

	/**
	 * Says that there may have been a clock step before x.
	 * @param {number} x
	 */
	doubt(x) {
		this.since = x;
		this.fresh = [false, false];
	}

	/** Returns whether both ways have told something since. */
	checked() {
		return this.fresh[inward] && this.fresh[outward];
	}

	/**
	 * Says that a clock step was detected at x.
	 * @param {number} x
	 */
	clockStep(x) {
		this.event = x;
		this.doubt(x);
	}

	/** Returns whether a clock step was ever detected. */
	stepped() {
		return this.event > -settledTime;
	}

	/**
	 * Returns the time at x since the last clock step, us.
	 * @param {number} x
	 */
	undisturbed(x) {
		return x - this.event;
	}

	/** Returns how far the offset may be off, us. */
	bound() {
		return Math.max(...this.slack, 0) + 3 * rounding;
	}

	/**
	 * Says that the truth may be by us farther off, on both sides.
	 * @param {number} by
	 */
	widen(by) {
		for (const [way, slack] of this.slack.entries()) {
			this.slack[way] = Math.min(slack + by, maxOffset);
		}
	}

	/**
	 * Takes that the offset moved at that skew for dt us. Where one way becomes longer by just
	 * what the other one becomes shorter, that looks like another skew, but the truth stays.
	 * @param {number} skew
	 * @param {number} dt
	 */
	follow(skew, dt) {
		// rule: a new rate may be two ways that change places
		this.slack[inward] += Math.max(skew - this.rate[inward], 0) * dt;
		this.slack[outward] += Math.max(this.rate[outward] - skew, 0) * dt;
	}

	/**
	 * Says that the truth may be slack us off on the side of a way.
	 * @param {number} way
	 * @param {number} slack
	 */
	atLeast(way, slack) {
		this.slack[way] = Math.max(this.slack[way], slack);
	}

	/**
	 * Takes a limit of a way: at x the truth is at most slack us off on its side. The datagrams
	 * behind it arrived after from. It returns whether that is news for readers: a clock step, or
	 * the first limit after one.
	 * @param {number} way
	 * @param {number} from
	 * @param {number} x
	 * @param {number} slack
	 * @param {number} skew
	 */
	take(way, from, x, slack, skew) {
		let news = false;
		if (slack <= this.slack[way]) {
			this.rate[way] = skew;
		}
		if (!this.fresh[way] && from >= this.since) {
			this.slack[way] = slack; // it replaces the old limit even if it is wider
			this.rate[way] = skew;
			this.fresh[way] = true;
			news = true;
		}
		this.slack[way] = Math.min(this.slack[way], slack);
		const gap = -this.slack[inward] - this.slack[outward];
		if (gap <= 0) {
			return news;
		}
		if (gap < unseenSlew) { // the interval is empty: a slew moved the truth out of it
			this.slack[1 - way] += unseenSlew;
		} else { // no slew moves it that far
			this.clockStep(x);
			this.slack[1 - way] = maxOffset;
		}
		return true;
	}
}

// ---- The floor of one way: gates, level shifts ----

const bucketTime = 0.2 * second; // datagrams are judged by the fastest of this span
const congestedTime = 10 * second; // most queues end sooner, and others change their height
const hostJitter = 100; // us: what hosts add, whatever the path
const gateSpreads = 8; // spreads: exponential jitter exceeds 8 times its mean once in 3,000 times

const leastSlew = 20; // us: less may be rounding
const lateShare = 0.7; // of what lacks: two ways that return from a shorter path are late by half
const slewDepths = 8; // depths (see Typical): where a path wanders, chance makes a way 5 late
const suspectDepths = 0.6; // depths: and a way that is this late may be

/**
 * Fastest are the heights, in us, of the two fastest datagrams above the floor; Infinity where
 * there is no such datagram.
 */
class Fastest {
	first = Infinity;
	second = Infinity;

	/**
	 * Adds a datagram that is y us above the floor.
	 * @param {number} y
	 */
	add(y) {
		this.second = Math.min(this.second, Math.max(this.first, y));
		this.first = Math.min(this.first, y);
	}
}

/**
 * Bucket is the span of 0.2 s or more that is under way. Nearly all datagrams touch only this. Its
 * numbers are whole, as Go's are: so both decide alike.
 */
class Bucket {
	from = 0; // x at which the bucket began
	fresh = new Fastest(); // of the datagrams since the slow path looked last
	two = new Fastest(); // of all before them
	count = 0; // datagrams
	last = 0; // us: height of the last datagram
	jitter = 0; // us: mean difference of two successive datagrams (RFC 3550)
	// A datagram that arrives dx after this local time is rate*dx - stamp - origin above the floor.
	#at = 0n;
	#origin = 0; // us: the floor at that time, on the ring of deltas, minus that time
	#rate = 1; // 1 minus the slope of the floor
	#span = 0; // us: time from at to the end of the bucket; 0: the fast path is closed

	/**
	 * Begins a bucket at x.
	 * @param {number} x
	 */
	begin(x) {
		this.from = x;
		this.fresh = new Fastest();
		this.two = new Fastest();
	}

	/**
	 * Opens the fast path at x, where the floor is at that delta.
	 * @param {number} x
	 * @param {Usec} now
	 * @param {number} delta us
	 * @param {number} skew
	 */
	open(x, now, delta, skew) {
		const unit = 2 ** -31; // of the rate, in Go
		this.#at = now;
		this.#origin = Math.round(delta) - Number(BigInt.asIntN(deltaBits, now));
		this.#rate = Math.floor((1 + skew) / unit) * unit;
		this.#span = Math.trunc(Math.max(bucketTime - (x - this.from), 0));
	}

	/** Closes the fast path. */
	close() {
		this.#span = 0;
	}

	/**
	 * Returns the height of a datagram above the floor, us, or null if it ends the bucket, may change
	 * the floor, or is late by a second or more.
	 * @param {number} stamp
	 * @param {Usec} now
	 * @returns {number | null}
	 */
	height(stamp, now) {
		const dx = since(now, this.#at);
		const y = ring(Math.floor(dx * this.#rate) - 8 * stamp - this.#origin, deltaBits);
		return dx >= 0 && dx < this.#span && y >= 0 && y < second ? y : null;
	}

	/**
	 * Adds a datagram that the slow path took, y us above the floor.
	 * @param {number} y
	 */
	add(y) {
		this.two.add(y);
		this.measureJitter(y);
	}

	/**
	 * Takes the height of the next datagram above the floor.
	 * @param {number} y
	 */
	measureJitter(y) {
		const difference = Math.min(Math.abs(y - this.last), second);
		this.jitter += (difference - this.jitter) / 16;
		this.last = y;
	}

	/**
	 * Returns whether enough datagrams arrived that the fastest hardly queued.
	 */
	many() {
		return this.count > fitPoints + 1;
	}

	/**
	 * Says that the floor rose by d us.
	 * @param {number} d
	 */
	rise(d) {
		const {two} = this;
		this.last = Math.trunc(this.last - d);
		two.first = Math.trunc(Math.max(two.first - d, 0));
		two.second = Math.trunc(Math.max(two.second - d, 0));
	}
}

/**
 * @typedef {object} Sample the fastest datagram of a span of time
 * @property {number} from x at which the span begins
 * @property {number} to x at which it ends
 * @property {number} since x from which on its datagrams arrived; later than from if a report of 0
 *   came
 * @property {number} at x: about when the datagram arrived
 * @property {number} least us: its height above the floor
 * @property {number} next us: the height of the second fastest; Infinity if that is not known
 */

const outliersInARow = 3; // this many are believed: two may be a pair of swapped times of receipt
const apart = 5000; // us: more than a program takes for one that waited in its socket

/**
 * Outliers are datagrams below the lower gate, implausibly early for the path. A clock step makes
 * all datagrams early, a new path some, and swapped times of receipt one or two.
 */
class Outliers {
	row = 0; // how many count in a row
	x = 0; // at which the last one that counts arrived
	y = 0; // us: its height above the floor
	least = 0; // us: the lowest height of those in a row, below 0
	buckets = 0; // buckets in a row that had some
	inThisBucket = false; // the bucket under way has some

	/**
	 * Adds an early outlier that arrived at x, y us above the floor, and returns by how much the
	 * floor fell, or null while that is not believed. first says that the session is so young
	 * that nobody relies on it; then datagrams of one moment count each.
	 * @param {number} x
	 * @param {number} y
	 * @param {boolean} first
	 * @returns {number | null}
	 */
	add(x, y, first) {
		if (y > this.y + second) { // more than jitter: the ones before had another cause
			this.row = 0;
		} else if (this.row > 0 && x - this.x < apart && !first) {
			return null;
		}
		this.row++;
		if (this.row === 1 || y < this.least) {
			this.least = y;
		}
		this.x = x;
		this.y = y;
		this.inThisBucket = true;
		// An accident makes one or two datagrams early, a clock step or a path keeps making them
		// early.
		// rule: outliers come neither three times, nor in each bucket
		if (this.row < outliersInARow && this.buckets < 4) {
			return null;
		}
		const by = this.least;
		Object.assign(this, new Outliers());
		return by;
	}

	/**
	 * Returns whether an outlier waits that only a clock step explains: times of receipt that are
	 * swapped make no datagram early by more than a second.
	 * @returns {boolean}
	 */
	mayBeStep() {
		return this.row > 0 && this.y < -second;
	}

	/** Counts buckets in a row that had outliers. */
	endBucket() {
		this.buckets = this.inThisBucket ? this.buckets + 1 : 0;
		this.inThisBucket = false;
	}
}

const {fround} = Math; // Go keeps the numbers of Late and Typical in 32 bits; so both decide alike

/** Late is a run of samples of one way that were all above the floor. */
class Late {
	by = 0; // us: by at least this much
	lasted = 0; // us: for how long
	queued = 0; // us: for how long of it the samples were later than a slew makes them

	/**
	 * Adds a sample that is residual us above the floor. A sample that is not late by most of what
	 * the round trip lacks ends the run.
	 * @param {Sample} sample
	 * @param {number} residual
	 * @param {number} lack us
	 * @param {number} spread us
	 */
	add(sample, residual, lack, spread) {
		if (this.lasted === 0 || this.by < lateShare * lack) {
			this.by = Infinity;
			this.lasted = 0;
			this.queued = 0;
		}
		const span = fround(sample.to - sample.from);
		this.by = Math.min(this.by, fround(residual));
		this.lasted = fround(this.lasted + span);
		// A queue has nothing to do with what the round trip lacks.
		// rule: a slew is late by what lacks, a queue by more
		if (residual > 2 * lack + 4 * spread) {
			this.queued = fround(this.queued + span);
		}
	}
}

/** Typical is how far above the floor the fastest datagrams usually are. */
class Typical {
	height = 0; // us: mean height of the points above the floor
	spacing = 0; // us: time between the points
	depth = 0; // us*us: height times spacing. In twice the time the fastest is half as high
}

/**
 * Way is the floor of one way: the delay of a datagram that does not queue, as the clock stands,
 * and the points that tell how that moves against the clock.
 *
 * The yardstick of all gates is the spread: how far apart the fastest datagrams are. Queues and
 * clocks are slow compared with it, and heavy tails do not touch it. It learns only from samples
 * near the floor: whatever sets a gate must not learn from what the gate refuses.
 */
class Way {
	level = 0; // us: the floor, as a delay
	lastNear = 0; // x of the last sample near the floor, or of a level shift
	touched = 0; // x of the datagram on which the floor lies
	spread = second; // us: how far apart the fastest datagrams are; 1 s at the start
	residual = second; // us: height of the last sample above the floor
	leastOfTwo = 0; // us: the lower height of the last two samples
	congestedFor = 0; // us: for how long samples have been congested; each counts for 1 s at most
	plateau = 0; // us: the lowest height after the first 5 s of that
	late = new Late();
	typical = new Typical();
	points = new Points();
	sampled = false; // a sample came since the floor moved to another level
	spreads = 0; // samples that the spread is a mean over, at most longRun
	hits = 0; // congested samples near the plateau, at most longRun
	usualGap = 0; // us: mean time between datagrams or reports, weighted by that time
	lastGap = 0; // us: the last such time

	/**
	 * Begins with a datagram at x.
	 * @param {number} level
	 * @param {number} x
	 */
	start(level, x) {
		Object.assign(this, new Way(), {level, lastNear: x, touched: x});
		this.typical.depth = second * second; // nothing is late until the usual height is known
		this.points.restart(x);
	}

	/**
	 * Returns how far apart, in us, the fastest datagrams are: by the points or by the spread,
	 * whichever is less.
	 */
	scatter() {
		return Math.min(this.points.meanResidual, this.spread);
	}

	/**
	 * Returns how many us above the floor a sample that ends at x still counts as near.
	 * @param {number} x
	 * @param {number} sigma
	 * @param {number} resolution
	 */
	upperGate(x, sigma, resolution) {
		const steady = hostJitter + 2 * resolution + gateSpreads * this.spread;
		return steady + mayDrift(sigma, this.unseen(x));
	}

	/**
	 * Returns for how long, in us, the floor may have drifted unseen at x: since the last sample
	 * near the floor, without the time for which all datagrams queued.
	 * @param {number} x
	 */
	unseen(x) {
		// The gate opens as clocks drift apart. If a queue opened it, too, the queue would pass
		// it.
		// rule: what is congested opens no gate
		return Math.max(x - this.lastNear - this.congestedFor, 0);
	}

	/**
	 * Returns how many us below the floor a datagram at x still counts as near: 12 scatters, not
	 * the 8 spreads of the upper gate, since the first scatters may be small by chance.
	 * @param {number} x
	 * @param {number} sigma
	 * @param {number} resolution
	 */
	lowerGate(x, sigma, resolution) {
		const unseen = Math.max(this.points.spacing, x - this.lastNear);
		const steady = hostJitter + resolution + 1.5 * gateSpreads * this.scatter();
		return steady + mayDrift(sigma, unseen);
	}

	/**
	 * Returns by how many us even the fastest datagrams are late: those of the last congested
	 * sample, or of the last two samples near the floor.
	 */
	lateness() {
		if (this.congestedFor > 0) {
			return this.residual;
		}
		// A small clock step stays within the gate. Twice the spread, twice, is hardly chance.
		// rule: what is near may be late
		return this.leastOfTwo >= 2 * this.spread ? this.leastOfTwo : 0;
	}

	/** Returns for how long, in us, even the fastest datagrams queue. */
	queue() {
		return this.congestedFor === 0 ? 0 : this.residual;
	}

	/**
	 * Returns whether the run of late samples is late by most of what the round trip lacks, and by
	 * depths times more than is usual over such a time. A run that mostly queued says nothing.
	 * @param {number} lack us
	 * @param {number} depths
	 */
	isLate(lack, depths) {
		const by = Math.min(this.late.by, lack);
		const time = this.late.lasted;
		if (by <= lateShare * lack || this.late.queued > time / 2) {
			return false;
		}
		const {height, spacing, depth} = this.typical;
		const usualHeight = height * Math.min(spacing / time, 1);
		return by * time > depths * depth && by > usualHeight;
	}

	/**
	 * Moves the floor by d us to another level at x.
	 * @param {number} x
	 * @param {number} d
	 */
	shift(x, d) {
		this.lay(d);
		this.points.restart(x);
		this.near(x);
		this.sampled = false;
		this.late = new Late();
		this.touched = x;
	}

	/**
	 * Takes the time since the last datagram or report, in us, and returns whether that was a
	 * silence: longer than 15 s and than four usual gaps. A gap like the one before it is usual.
	 * @param {number} time
	 */
	isSilence(time) {
		const gap = Math.max(time, 0); // the local clock may have been set back
		const usual = Math.max(this.usualGap, Math.min(this.lastGap, gap));
		const limit = Math.max(settledTime, 4 * usual);
		const counts = Math.min(gap, limit);
		this.lastGap = gap;
		this.usualGap += (counts - this.usualGap) * counts / (counts + minute);
		return gap > limit;
	}

	/** Returns for how many us this way may send nothing before it counts as silent. */
	patience() {
		return Math.max(settledTime, 4 * this.usualGap);
	}

	/**
	 * Takes that the floor was seen at x.
	 * @param {number} x
	 */
	near(x) {
		this.congestedFor = 0;
		this.leastOfTwo = 0;
		this.lastNear = x;
	}

	/**
	 * Moves the floor up by d us: a clock that ran at another rate did so unseen.
	 * @param {number} d
	 */
	raise(d) {
		this.lay(d);
		this.congestedFor = 0;
		this.leastOfTwo = 0;
	}

	/**
	 * Moves the floor down by d us, to a datagram at x.
	 * @param {number} x
	 * @param {number} d
	 */
	lower(x, d) {
		this.lay(-d);
		this.touched = x;
		this.points.loweredBy += d;
	}

	/**
	 * Moves the floor up by d us, and all that is measured from it.
	 * @param {number} d
	 */
	lay(d) {
		this.level += d;
		this.residual -= d;
		this.late.by = fround(this.late.by - fround(d));
	}

	/**
	 * Takes a first spread from the bucket under way.
	 * @param {Bucket} bucket
	 */
	learnFirstSpread(bucket) {
		// Until there is a spread the gates are too wide to see a clock step.
		// rule: the first bucket need not be over
		if (this.spreads === 0 && bucket.count >= fitPoints) {
			const {first, second: next} = bucket.two;
			const spread = first === Infinity ? 0 : next - first; // there were only early outliers
			this.spread = Math.min(spread, second / 2);
		}
	}

	/**
	 * Takes a sample, and returns by how many us the floor rises and whether even the fastest
	 * datagram queued.
	 * @param {Sample} sample
	 * @param {number} gate
	 */
	take(sample, gate) {
		const before = this.residual;
		this.sampled = true;
		this.residual = sample.least;
		this.leastOfTwo = Math.min(sample.least, before);
		if (sample.least > gate) {
			return {by: this.congest(sample), congested: true};
		}
		this.learnSpread(sample, before - sample.least);
		this.congestedFor = 0;
		this.lastNear = sample.from;
		return {by: 0, congested: false};
	}

	/**
	 * Takes a sample whose datagrams were all late, and returns by how many us the floor rises. A
	 * path that became longer comes back to the same height again and again; a queue hardly does,
	 * and it may last for 30 s.
	 * @param {Sample} sample
	 */
	congest(sample) {
		const {least} = sample;
		this.congestedFor += Math.min(sample.to - sample.from, second);
		if (this.congestedFor < congestedTime / 2) {
			this.plateau = least;
			this.hits = 0;
		}
		if (Math.abs(least - this.plateau) < hostJitter + gateSpreads * this.spread) {
			this.hits = Math.min(this.hits + 1, longRun);
		} else if (least < this.plateau) {
			this.hits = 1;
		}
		this.plateau = Math.min(this.plateau, least);
		const isPlateau = this.congestedFor > congestedTime && this.hits >= 3;
		const isEndless = this.congestedFor > 3 * congestedTime;
		// Congestion control empties a queue; a longer path stays.
		// rule: what lasts is no queue
		if (isPlateau || isEndless) {
			this.spreads = Math.min(this.spreads, fitPoints); // a longer path may have more jitter
			return this.plateau;
		}
		return 0;
	}

	/**
	 * Learns the spread from a sample that was faster than the one before by fall.
	 *
	 * The sample says half of what its two fastest are apart, plus fall, since these two may share
	 * their delay, as two datagrams of one frame do. If fall is negative a queue may have begun,
	 * so fall does not count then; except where only one datagram is known, as there is nothing
	 * else to learn from. A sample counts for little more than the mean so far, or a few that
	 * queued would spoil it.
	 * @param {Sample} sample
	 * @param {number} fall us
	 */
	learnSpread(sample, fall) {
		let spread = (sample.next - sample.least) / 2 + Math.max(fall, 0);
		let most = 1.5 * this.spread;
		if (sample.next === Infinity) {
			spread = Math.abs(fall);
			most = 2.5 * this.spread;
		}
		if (spread > second / 2) {
			return; // there was no sample before, or a clock step between the two
		}
		this.spreads = Math.min(this.spreads + 1, longRun);
		this.spread += (Math.min(spread, most + hostJitter / 2) - this.spread) / this.spreads;
	}

	/**
	 * Returns the floor as a line among the points: through floor, with that slope.
	 * @param {number} way
	 * @param {RateClock} clock
	 * @returns {{floor: Point, slope: number}}
	 */
	line(way, clock) {
		const delta = this.level + signOf(way) * clock.offset;
		return {floor: keptPoint(clock.at, delta), slope: signOf(way) * clock.skew};
	}

	/**
	 * Returns the points as the clock stands: x relative to the last one, and the height above the
	 * floor in place of the delta.
	 * @param {number} way
	 * @param {RateClock} clock
	 * @returns {Point[]}
	 */
	heights(way, clock) {
		const {floor, slope} = this.line(way, clock);
		const {list} = this.points;
		const last = list[list.length - 1].x;
		return list.map(point => ({x: point.x - last, delta: above(point, floor, slope)}));
	}

	/**
	 * Returns what the points say of the rate of the clock.
	 * @param {number} way
	 * @param {RateClock} clock
	 * @param {number} resolution us
	 */
	slope(way, clock, resolution) {
		// Gates pass what lies near the floor. So once a few points lie on a wrong line by chance,
		// more of them on that line prove nothing, until points of longer spans lie there, too.
		const heights = this.heights(way, clock);
		const buckets = this.points.spacing / bucketTime;
		const atFirst = heights.length / 2 * this.spread / (buckets * buckets);
		const {mean, variance} = likelySlope(heights, Math.max(atFirst, resolution));
		// Queues that fill and empty have no exponential heights, and mislead by half as
		// much again.
		const misled = 1.5;
		return new Gaussian(clock.skew + signOf(way) * mean, misled * misled * variance);
	}

	/**
	 * Lays the floor after the skew changed: below its points. If there are few, they may all be
	 * late, and it goes through the datagram that last touched it.
	 * @param {number} way
	 * @param {RateClock} clock
	 * @param {number} change
	 */
	tilt(way, clock, change) {
		const {list, best} = this.points;
		if (list.length < fitPoints) {
			this.lay(signOf(way) * change * (clock.at - this.touched));
			return;
		}
		const {floor, slope} = this.line(way, clock);
		let low = Infinity;
		for (const point of best === null ? list : [best, ...list]) {
			const height = above(point, floor, slope);
			if (height < low) {
				low = height;
				this.touched = clock.at + point.x - floor.x;
			}
		}
		this.lay(low);
	}

	/**
	 * Learns how far above the floor the points usually are. Samples that are late teach nothing.
	 * The curve that a clock draws when it changes its rate does not count either, only the wobble
	 * of the points about it.
	 * @param {number} way
	 * @param {RateClock} clock
	 */
	learnTypical(way, clock) {
		const {points, typical} = this;
		const heights = this.heights(way, clock);
		points.meanResidual = meanHeight(heights, 0);
		if (this.late.by >= 2 * points.meanResidual) {
			return;
		}
		const height = Math.min(points.meanResidual, 2 * wobble(heights));
		typical.height = fround(height);
		typical.spacing = fround(-heights[0].x / (heights.length - 1));
		const isDense = typical.spacing < 2.5 * second;
		const isRare = points.spacing < typical.spacing / 2;
		if (heights.length >= maxPoints * 2 / 3 && (isDense || isRare)) {
			typical.depth = fround(typical.height * typical.spacing);
		}
	}
}

/**
 * Returns how far, in us, the floor may have drifted in a time: at most a second, since clocks
 * that are further apart than they were have been set.
 * @param {number} sigma
 * @param {number} time us
 */
function mayDrift(sigma, time) {
	return Math.min(sigmas / 2 * sigma * time, second);
}

// ---- The points above the floor: its level and slope ----

const maxPoints = 12; // the span doubles when there are more
const fitPoints = 4; // fewer do not show both a slope and noise
const longestWindow = 130 * second; // oscillators keep no rate for longer

/**
 * @typedef {object} Point the fastest datagram of a span
 * @property {number} x about when it arrived
 * @property {number} delta us
 */

const keptTime = 256; // us: unit of its time, in which a rate moves a delta by 1/4 us at most
const keptDelta = 32; // units of its delta in a microsecond

/**
 * Returns an x as that of a point is kept. Go keeps points in few bits; so both decide alike.
 * @param {number} x
 */
function keptX(x) {
	return Math.trunc(x / keptTime) * keptTime;
}

/**
 * Returns a local time as that of a point is kept.
 * @param {Usec} usec
 */
function keptUsec(usec) {
	return usec - usec % BigInt(keptTime);
}

/**
 * Returns a point as it is kept.
 * @param {number} x
 * @param {number} delta us
 * @returns {Point}
 */
function keptPoint(x, delta) {
	return {x: keptX(x), delta: Math.trunc(delta * keptDelta) / keptDelta};
}

/**
 * Returns how many us p is above the line with that slope through q.
 * @param {Point} p
 * @param {Point} q
 * @param {number} slope
 */
function above(p, q, slope) {
	return p.delta - q.delta - slope * (p.x - q.x);
}

/** Points are the fastest datagrams of successive spans of time. The floor lies below them. */
class Points {
	end = 0; // x at which the last span ended
	spacing = bucketTime; // us: length of a span; it doubles when there are too many points
	loweredBy = 0; // us: by how much the floor was lowered since end
	meanResidual = second; // us: mean height of the points above the floor; 1 s at the start
	rate = unknownRate;
	/** @type {Point | null} */
	best = null; // the fastest datagram since end
	/** @type {Point[]} */
	list = [];

	/**
	 * Drops the points at x: the floor is at another level.
	 * @param {number} x
	 */
	restart(x) {
		this.forgetPoints();
		this.end = x;
		this.loweredBy = 0;
	}

	/** Drops the points: the floor has another slope. */
	forgetPoints() {
		this.list = [];
		this.best = null;
		this.spacing = bucketTime;
	}

	/**
	 * Adds a datagram that becomes the next point if no lower one follows. The floor has that
	 * slope.
	 * @param {Point} point
	 * @param {number} slope
	 */
	add(point, slope) {
		if (this.best === null || above(point, this.best, slope) < 0) {
			this.best = point;
		}
	}

	/**
	 * Returns for how many us the points tell the slope at x.
	 * @param {number} x
	 */
	span(x) {
		return this.list.length === 0 ? x - this.end : keptX(x) - this.list[0].x;
	}

	/**
	 * Makes a point of the fastest datagram of the span that ends at x, or returns null where
	 * there is none. wait is how many us it arrived after the point before; evicted says that
	 * older points went.
	 * @param {number} x
	 * @param {number} slope
	 * @param {number} resolution us
	 * @returns {{evicted: boolean, wait: number} | null}
	 */
	endSpan(x, slope, resolution) {
		const {best} = this;
		const last = this.list.at(-1);
		this.end = x;
		this.loweredBy = 0;
		this.best = null;
		if (best === null) {
			return null;
		}
		if (last !== undefined && best.x <= last.x) { // times of receipt went back
			if (last.x > keptX(x)) {
				this.forgetPoints();
			}
			return null;
		}
		const evicted = this.makeRoom(slope, resolution);
		const before = this.list.at(-1);
		this.list.push(best);
		return {evicted, wait: before === undefined ? 0 : best.x - before.x};
	}

	/**
	 * Drops points that are too old, or every second one, and returns whether any was too old.
	 * @param {number} slope
	 * @param {number} resolution us
	 */
	makeRoom(slope, resolution) {
		// A long window averages noise, a short one follows drift. Noise makes the slope wrong by
		// about noise/window/points, which is noise*spacing/window^2. A drift of 0.00125 ppm a
		// second makes it wrong by that times the window. At the best window, cubed here, both are
		// equal.
		const {length} = this.list;
		const oldest = length === 0 ? 0 : this.list[0].x;
		const end = keptX(this.end);
		const meanSpacing = (end - oldest) / Math.max(length, 1); // reports may be rarer
		const spacing = Math.max(this.spacing, meanSpacing);
		const noise = Math.max(this.meanResidual, resolution / 2);
		const best = 800 * noise * spacing * second * second;
		const isLonger = (/** @type {number} */ time) =>
			time > congestedTime && (time > longestWindow || time ** 3 > best);
		// Noise shrinks as the window grows, and the longer a span the closer its fastest datagram
		// is.
		// rule: spans double
		if (length === maxPoints && !isLonger((maxPoints + fitPoints) * this.spacing)) {
			this.spacing *= 2;
			this.halve(slope);
		}
		const isStale = () => this.list.length >= fitPoints && isLonger(end - this.list[0].x);
		let evicted = false;
		while (this.list.length === maxPoints || isStale()) {
			this.list.shift();
			evicted = true;
		}
		return evicted;
	}

	/**
	 * Keeps the lower one of each two points.
	 * @param {number} slope
	 */
	halve(slope) {
		const kept = [];
		for (let i = 0; i + 1 < this.list.length; i += 2) {
			const p = this.list[i];
			const q = this.list[i + 1];
			kept.push(above(q, p, slope) < 0 ? q : p);
		}
		this.list = kept;
	}
}

/**
 * Returns the mean height of the points above a floor that has that slope and touches the lowest of
 * them.
 * @param {Point[]} points
 * @param {number} slope
 */
function meanHeight(points, slope) {
	const heights = points.map(p => p.delta - slope * p.x);
	const sum = heights.reduce((sum, y) => sum + y, 0);
	return sum / heights.length - Math.min(...heights);
}

/**
 * Returns the mean distance of the points from the chords between their neighbours. A clock that
 * changes its rate bends few of them.
 * @param {Point[]} points
 */
function wobble(points) {
	let sum = 0;
	for (let i = 1; i + 1 < points.length; i++) {
		const [p, q, r] = points.slice(i - 1, i + 2);
		const chord = (r.delta - p.delta) * (q.x - p.x) / (r.x - p.x);
		sum += Math.abs(q.delta - p.delta - chord);
	}
	return sum / (points.length - 2);
}

/**
 * An edge of the lower convex hull of the points (Moon, Skelly and Towsley 1999): a floor that
 * turns below them leaves one point there and touches the next.
 * @typedef {object} Edge
 * @property {number} slope
 * @property {number} total us: the sum of the heights of all points above a floor with that slope
 */

/**
 * Returns the mean and the variance of the slope of the floor below the points, over all slopes,
 * each with its likelihood.
 *
 * Most datagrams wait for little and few for long: heights are exponential. So the likelihood of a
 * slope is exp(-total/usual), where usual is the mean height, which is leastUsual or more. Between
 * two edges the floor touches one point, and the total changes in proportion to the slope.
 * @param {Point[]} points
 * @param {number} leastUsual us
 */
function likelySlope(points, leastUsual) {
	const n = points.length;
	const sumX = points.reduce((sum, p) => sum + p.x, 0);
	const sumY = points.reduce((sum, p) => sum + p.delta, 0);
	let least = Infinity;
	/** @type {Edge[]} */
	const edges = [];
	for (let p = 0; p < n - 1;) {
		const next = nextCorner(points, p);
		const {x, delta: y} = points[p];
		const slope = (points[next].delta - y) / (points[next].x - x);
		const total = sumY - n * y - slope * (sumX - n * x);
		least = Math.min(least, total);
		edges.push({slope, total});
		p = next;
	}
	const halfUnit = 4; // us: of a stamp, which no fit removes
	const usual = Math.max(least / (n - 2) + halfUnit, leastUsual); // the floor fits two points
	// Beyond its last edge the floor turns about an end until nothing is likely.
	const nothing = 28; // e^-28
	const first = edges[0];
	const last = edges[edges.length - 1];
	edges.unshift({
		slope: first.slope - nothing * usual / (sumX - n * points[0].x),
		total: first.total + nothing * usual,
	});
	edges.push({
		slope: last.slope + nothing * usual / (n * points[n - 1].x - sumX),
		total: last.total + nothing * usual,
	});

	const likelihoods = edges.map(({total}) => {
		const z = (total - least) / usual;
		return z > nothing ? 0 : 1 + Math.expm1(-z);
	});
	let weights = 0;
	let sum = 0;
	let squares = 0;
	for (let i = 1; i < edges.length; i++) {
		let likelier = edges[i - 1];
		let other = edges[i];
		let most = likelihoods[i - 1];
		let rest = likelihoods[i];
		if (likelier.total > other.total) {
			[likelier, other] = [other, likelier];
			[most, rest] = [rest, most];
		}
		if (most < 1e-12) {
			continue; // rest would have no digits
		}
		const z = (other.total - likelier.total) / usual;
		const {integral, mean, variance} = exponential(z, rest / most);
		const width = other.slope - likelier.slope;
		const weight = integral * Math.abs(width) * most;
		const slope = likelier.slope + mean * width;
		weights += weight;
		sum += weight * slope;
		squares += weight * (slope * slope + variance * width * width);
	}
	const mean = sum / weights;
	return {mean, variance: squares / weights - mean * mean};
}

/**
 * Returns the integral, the mean and the variance of the density exp(-z t), t from 0 to 1.
 * @param {number} z
 * @param {number} rest that density at 1
 */
function exponential(z, rest) {
	if (z < 1e-3) { // it is constant, and the differences below would have no digits left
		return {integral: 1, mean: 1 / 2, variance: 1 / 12};
	}
	const lost = 1 - rest;
	return {
		integral: lost / z,
		mean: 1 / z - rest / lost,
		variance: 1 / (z * z) - rest / (lost * lost),
	};
}

/**
 * Returns the corner of the lower convex hull that follows the one at p: the point with the least
 * slope from it.
 * @param {Point[]} points
 * @param {number} p
 */
function nextCorner(points, p) {
	let next = p + 1;
	let run = points[next].x - points[p].x;
	let rise = points[next].delta - points[p].delta;
	for (let i = p + 2; i < points.length; i++) {
		const dx = points[i].x - points[p].x;
		const dy = points[i].delta - points[p].delta;
		if (dy * run <= rise * dx) {
			next = i;
			run = dx;
			rise = dy;
		}
	}
	return next;
}

// ---- Coarse clocks ----

// Chance, too, makes differences multiples of one number. With fine clocks eight in a row are
// multiples of 300 us or more once in months, and of 150 us every few days.
const surelyCoarse = 8; // differences in a row
const minResolution = 300; // us: what is finer is noise
const maxResolution = 16_000; // us: no system's clock is coarser

/** Resolution learns the unit of which deltas are multiples where both clocks are coarse. */
class Resolution {
	guess = 0; // us: the unit may be this
	hits = 0; // differences that were multiples of it, at most longRun; any other halves them

	/**
	 * Takes the difference, in us, of two datagrams of about the same moment. Apart from the unit
	 * of stamps it is 0 or a multiple of the resolution. Where a queue grows the difference is
	 * often the same, too; the caller must not pass those. A path that flaps by one amount, with
	 * less than 10 us of jitter, passes for a coarse clock.
	 * @param {number} difference
	 */
	learn(difference) {
		const alike = 18; // us: two units of a stamp, and 2
		const d = Math.abs(difference);
		if (d <= alike || d > maxResolution) {
			return;
		}
		const rest = d % Math.max(this.guess, 1);
		const isMultiple = Math.min(rest, this.guess - rest) <= alike;
		if (this.guess >= minResolution && isMultiple) {
			this.hits = Math.min(this.hits + 1, longRun);
		} else if (this.hits >= surelyCoarse) { // a clock was slewed or stepped between the two
			this.hits = Math.floor(this.hits / 2);
		} else {
			this.guess = d;
			this.hits = 1;
		}
	}

	/** Returns the resolution of both clocks together, in us: 0 unless both are coarse. */
	joint() {
		if (this.hits < surelyCoarse) {
			return 0;
		}
		// A coarse clock ticks between two datagrams, not with them: its deltas are off by up to a
		// tick.
		return this.guess; // rule: both clocks may be coarse
	}
}

// ---- The header of datagrams: WIRE.md, "The header of a datagram" ----

const flagReport = 1; // there is a report
const flagAnchor = 2; // there is an anchor
const flagHasAnchor = 4; // we know the receiver's clock and have its anchor, and it did not ask
const flagAsks = 8; // we have had no datagram, or no report, since the start or the reset
const flagVersion = 16; // this is version 3
const flagChecks = 32; // we check what we know, and wait for reports and anchors
const flagsReserved = 0xc0;

const stampLength = 3;
const reportLength = 3;
const anchorLength = 8;

const firstReportEvery = 500_000; // us: time between two reports at the start of a session
const reportEvery = 1_000_000; // us: and after that
const firstReports = 20_000_000; // us: the start of a session lasts this long
const checkEvery = 50_000; // us: time between two reports to a peer that checks what it knows
const restartTakes = 50_000; // us: more than neighbouring datagrams overtake each other by
const heldUp = 500_000; // us: an attacker would have to hold up everything else for as long
const mayHaveSlept = settledTime; // after this time without a datagram the peer may have slept
const reordering = second; // more than datagrams overtake each other by
const inARow = 3; // this many datagrams must agree: two may be an accident

/** Streak counts datagrams in a row that say the same. */
class Streak {
	count = 0;
	#begun = 0n; // local time of the first one in the row
	#last = 0n; // local time of the last one that said so
	#ever = false; // there was one, so last is set

	/**
	 * Counts a datagram that arrived at now, or ends the streak if goesOn is false. It returns
	 * whether the streak is long: inARow datagrams over at least a time.
	 * @param {boolean} goesOn
	 * @param {Usec} now
	 * @param {number} atLeast us
	 */
	add(goesOn, now, atLeast) {
		if (!goesOn) {
			this.count = 0;
			return false;
		}
		const wasSetBack = since(now, this.#last) < -reordering;
		if (this.count === 0 || wasSetBack) {
			this.count = 0;
			this.#begun = now;
		}
		this.count++;
		this.#last = now;
		this.#ever = true;
		return this.count >= inARow && since(now, this.#begun) >= atLeast;
	}

	/**
	 * Returns whether the streak has ended and its last datagram arrived at least a span ago. A
	 * time of receipt may be slightly later than now, since it is rounded up. If it is much later,
	 * the clock was set back.
	 * @param {Usec} now
	 * @param {number} span us
	 */
	isOver(now, span) {
		const ago = Math.abs(since(now, this.#last));
		return this.count === 0 && (!this.#ever || ago >= span);
	}
}

/**
 * @typedef {object} Opened a datagram that was taken
 * @property {Uint8Array} payload what follows the header, without a copy
 * @property {number | null} delay its one-way delay, us; null while that is not known
 * @property {undefined} [error]
 */

/**
 * @typedef {object} Refused a datagram that was refused
 * @property {'truncated' | 'reserved' | 'version' | 'anchor'} error 'version': the peer speaks an
 *   older one
 */

/**
 * @typedef {object} Header
 * @property {number} size bytes
 * @property {number} stamp
 * @property {number | null} report
 * @property {Usec | null} anchor
 * @property {boolean} hasAnchor
 * @property {boolean} asks
 * @property {boolean} checks
 */

/**
 * Takes a header off a datagram.
 * @param {Uint8Array} datagram
 * @returns {Header | Refused}
 */
function parseHeader(datagram) {
	if (datagram.length < 1 + stampLength) {
		return {error: 'truncated'};
	}
	const flags = datagram[0];
	if (flags & flagsReserved) {
		return {error: 'reserved'};
	}
	if (!(flags & flagVersion)) {
		return {error: 'version'};
	}
	const reports = (flags & flagReport) !== 0;
	const anchors = (flags & flagAnchor) !== 0;
	const reportAt = 1 + stampLength;
	const anchorAt = reportAt + (reports ? reportLength : 0);
	const size = anchorAt + (anchors ? anchorLength : 0);
	if (datagram.length < size) {
		return {error: 'truncated'};
	}
	const stamp = get24(datagram, 1);
	const report = reports ? get24(datagram, reportAt) : null;
	const anchor = anchors ? viewOf(datagram).getBigUint64(anchorAt, true) : null;
	if (anchor !== null && toTS24(anchor) !== stamp) {
		return {error: 'anchor'};
	}
	const hasAnchor = (flags & flagHasAnchor) !== 0;
	const asks = (flags & flagAsks) !== 0;
	const checks = (flags & flagChecks) !== 0;
	return {size, stamp, report, anchor, hasAnchor, asks, checks};
}

/**
 * Link is one end of a connection. Put header() in front of each payload, and pass what arrives to
 * open(). Encrypt and authenticate both, and drop repeated datagrams: whoever can forge or replay
 * them can move the clock. For the next connection take a new Link.
 */
export class Link extends RemoteClock {
	#clock = new Synchronizer();
	#hasAnchor = false; // we have the peer's anchor
	#heardOfUs = false; // the peer has our anchor
	#wasSilent = false; // the peer was silent, and what we know is not checked since
	#peerChecks = false; // the peer waits for our reports and anchors
	/** @type {Usec | null} */
	#knewUs = null; // the peer's clock when we first saw that the peer knows ours
	#anew = new Streak(); // of datagrams in which a peer that knew us asks again
	#owed = false; // the next datagram carries a report, due or not
	/** @type {{first: Usec, last: Usec, due: Usec} | null} */
	#reports = null; // when the first one was due, the last one was sent, and the next is due
	/** @type {{stamp: number, at: Usec} | null} */
	#newest = null; // the stamp of the datagram with the peer's last report, and when it came
	/** @type {Usec | null} */
	#heard = null; // when the last datagram came

	/**
	 * @protected
	 * @returns {View}
	 */
	view() {
		return viewOfClock(this.#clock);
	}

	/**
	 * Returns what goes in front of the payload of a datagram, 4 to 15 bytes. Call it just before
	 * the datagram is sent.
	 * @param {Usec} now
	 * @returns {Uint8Array}
	 */
	header(now) {
		const snapshot = this.#clock.snapshot(now);
		const {known} = snapshot;
		const checks = this.#checks(snapshot);
		const report = this.#isDue(now) ? this.#clock.minDelta(now) : null;
		const reports = report !== null;
		const isNeeded = checks || this.#peerChecks || this.#isSilent(now);
		const anchors = reports || !known || isNeeded || !this.#heardOfUs;
		const anchorAt = 1 + stampLength + (reports ? reportLength : 0);
		const bytes = new Uint8Array(anchorAt + (anchors ? anchorLength : 0));
		let flags = flagVersion;
		put24(bytes, 1, toTS24(now));
		if (reports) {
			flags |= flagReport;
			put24(bytes, 1 + stampLength, report);
		}
		if (anchors) {
			flags |= flagAnchor;
			viewOf(bytes).setBigUint64(anchorAt, now, true);
		}
		if (known && this.#hasAnchor && !snapshot.ambiguous) {
			flags |= flagHasAnchor;
		}
		if (checks) {
			flags |= flagChecks;
		}
		if (!known) {
			flags |= flagAsks;
		}
		bytes[0] = flags;
		return bytes;
	}

	/**
	 * Returns whether to send a report now, and plans the next one.
	 * @param {Usec} now
	 */
	#isDue(now) {
		if (this.#heard === null || !this.#anew.isOver(now, restartTakes)) {
			return false;
		}
		this.#reports ??= {first: now, last: now, due: now};
		const ahead = since(this.#reports.due, now);
		const waited = u64(now - this.#reports.last) >= BigInt(checkEvery);
		const isAwaited = this.#owed || this.#peerChecks && waited;
		if (ahead > 0 && ahead <= reportEvery && !isAwaited) {
			return false;
		}
		// It is time, or the clock was set back, or the peer waits for it.
		const isLate = u64(now - this.#reports.first) >= BigInt(firstReports);
		this.#owed = false;
		this.#reports.last = now;
		this.#reports.due = later(now, isLate ? reportEvery : firstReportEvery);
		return true;
	}

	/**
	 * Returns whether we wait for reports and anchors that check what we know since a silence.
	 * After a clock step there is no hurry, since within() fails anyway.
	 * @param {Snapshot} snapshot
	 */
	#checks(snapshot) {
		this.#wasSilent &&= snapshot.unchecked || snapshot.ambiguous;
		return this.#wasSilent;
	}

	/**
	 * Returns whether the peer has been silent for 15 s or longer.
	 * @param {Usec} now
	 */
	#isSilent(now) {
		return this.#heard !== null && since(now, this.#heard) >= mayHaveSlept;
	}

	/**
	 * Says that a datagram with a header was not sent. The next one then carries a report, for
	 * what arrived since the one that may be lost.
	 */
	sendFailed() {
		this.#owed = true;
	}

	/**
	 * Takes a datagram that is proven to come from the peer and was not seen before.
	 * @param {Uint8Array} datagram
	 * @param {Usec} now when it arrived
	 * @returns {Opened | Refused}
	 */
	open(datagram, now) {
		const header = parseHeader(datagram);
		if ('error' in header) {
			return header;
		}
		const {stamp, report, anchor} = header;
		if (this.#startedAnew(header, now)) {
			this.reset();
		}
		if (this.#isSilent(now)) {
			this.#owed = true;
			this.#wasSilent = true;
		}
		const delay = this.#clock.datagram(stamp, now);
		const known = delay !== null;
		if (anchor !== null && !known) {
			// Before the report, so that the first offset is the right one.
			this.#takeAnchor(anchor, now);
		}
		if (report !== null && (known || !header.hasAnchor) && !this.#isOvertaken(stamp, now)) {
			this.#clock.report(report, now);
		}
		if (anchor !== null && known) {
			this.#takeAnchor(anchor, now);
		}
		this.#heardOfUs = header.hasAnchor;
		this.#peerChecks = header.checks;
		if (header.asks) { // the peer may be another one, whose anchor we need
			this.#owed = true;
			this.#hasAnchor = false;
		}
		this.#heard = now;
		return {payload: datagram.subarray(header.size), delay};
	}

	/** Forgets the peer, as for a new connection. That is a step. */
	reset() {
		this.#clock.reset();
		this.#hasAnchor = false;
		this.#heardOfUs = false;
		this.#wasSilent = false;
		this.#peerChecks = false;
		this.#knewUs = null;
		this.#anew = new Streak();
		this.#owed = false;
		this.#reports = null;
		this.#newest = null;
		this.#heard = null;
	}

	/**
	 * Takes that the local machine slept until now: see Synchronizer.slept.
	 * @param {Usec} now
	 */
	slept(now) {
		this.#clock.slept(now);
	}

	/**
	 * Returns how long ago the last datagram came. Use it to notice soon that the peer is gone:
	 * within() is about the time, which goes on while the peer is silent.
	 * @param {Usec} now
	 * @returns {number | null} us
	 */
	sinceHeard(now) {
		return this.#heard === null ? null : Math.max(since(now, this.#heard), 0);
	}

	/**
	 * Returns whether the peer has restarted: it knew our clock, and now asks for it in several
	 * datagrams in a row. Reports wait meanwhile, since they would be about the old peer. A
	 * datagram that asks may also carry a reading from before the peer knew our clock. It may be
	 * from the peer's first start, delayed by an attacker.
	 * @param {Header} header
	 * @param {Usec} now
	 */
	#startedAnew(header, now) {
		const remote = this.#clock.remoteTime(now);
		if (remote !== null && !header.asks) {
			this.#knewUs ??= remote;
		}
		if (this.#knewUs === null) {
			return this.#anew.add(false, now, restartTakes);
		}
		const isNew = header.anchor !== null && since(header.anchor, this.#knewUs) > 0;
		return this.#anew.add(header.asks, now, isNew ? restartTakes : heldUp);
	}

	/**
	 * Returns whether a later datagram with a report was taken less than a second ago. The older
	 * report says less than is known, and would look as if the floor had risen.
	 * @param {number} stamp
	 * @param {Usec} now
	 */
	#isOvertaken(stamp, now) {
		const newest = this.#newest;
		if (newest !== null) {
			const ago = Math.abs(since(now, newest.at)); // negative if our clock was set back
			if (ago < reordering && ring(stamp - newest.stamp, 24) < 0) {
				return true;
			}
		}
		this.#newest = {stamp, at: now};
		return false;
	}

	/**
	 * Takes the peer's whole clock, as it was when a datagram left that arrived now.
	 * @param {Usec} anchor
	 * @param {Usec} now
	 */
	#takeAnchor(anchor, now) {
		this.#clock.anchor(anchor, now);
		this.#hasAnchor = true;
	}

	/**
	 * Returns the local time at as the peer's clock will read it, for a payload. The peer passes
	 * it to acceptInstant, so both ends can act at the same instant. Send an instant that is
	 * seconds ahead again in each datagram: later ones are more exact.
	 * @param {Usec} now
	 * @param {Usec} at up to 16 s ahead
	 * @param {number} tolerable us that the peer's clock may be off
	 * @returns {{instant: number, error: ''} | {instant: null, error: Trust | 'ahead'}}
	 */
	proposeInstant(now, at, tolerable) {
		const ahead = since(at, now);
		if (ahead < 0 || ahead > maxAhead) {
			return {instant: null, error: 'ahead'};
		}
		const trust = this.within(tolerable, now);
		const instant = this.toTS23(at);
		if (trust !== '' || instant === null) {
			return {instant: null, error: trust};
		}
		return {instant, error: ''};
	}

	/**
	 * Reads the 3 bytes of the peer's appendEvent, in a datagram that arrived now, and returns the
	 * local time at which that event happened, off by at most errorBound(now). Except for
	 * 'truncated' and 'unsynchronized', there is a time even with an error.
	 * @param {Usec} now
	 * @param {Uint8Array} bytes
	 * @param {number} oldest how long ago it may have happened, us
	 * @returns {Event}
	 */
	readEvent(now, bytes, oldest) {
		if (bytes.length < 3) {
			return {at: null, error: 'truncated'};
		}
		const snapshot = this.snapshot(now);
		if (!snapshot.known) {
			return {at: null, error: 'unsynchronized'};
		}
		const happened = fromTS23(snapshot.remoteUsec, readTime23(bytes).ts23);
		const at = snapshot.localTime(happened);
		return {at, error: incredible(snapshot, now, at, oldest)};
	}

	/**
	 * Takes what the peer's toTS23 returned, in a datagram that arrived now, and returns the local
	 * time at which that event happened. It is off by at most the peer's errorBound of that time.
	 * @param {Usec} now
	 * @param {number} event
	 * @param {number} oldest how long ago it may have happened, us, up to 50 s
	 * @returns {Event}
	 */
	acceptEvent(now, event, oldest) {
		const snapshot = this.snapshot(now);
		const at = fromTS23(now, event);
		return {at, error: incredible(snapshot, now, at, oldest)};
	}
}

/**
 * @typedef {object} Event when something happened
 * @property {Usec | null} at local time
 * @property {'' | 'truncated' | 'unsynchronized' | 'future' | 'before' | 'old'} error 'future':
 *   after now by more than the error bound; 'before': before the peer started, or before or less
 *   than 15 s after a clock step; 'old': too long ago
 */

const maxAhead = 16 * second; // a payload time reaches 16.8 s ahead

/**
 * Returns what is wrong with an event.
 * @param {Snapshot} snapshot
 * @param {Usec} now
 * @param {Usec} at
 * @param {number} oldest us
 * @returns {Event['error']}
 */
function incredible(snapshot, now, at, oldest) {
	const age = since(now, at);
	if (!snapshot.known) {
		return 'unsynchronized';
	}
	if (-age > snapshot.errorBound) {
		return 'future';
	}
	const isUnsettled = snapshot.stepSeen && snapshot.sinceStep < settledTime;
	if (isUnsettled || age > snapshot.sinceStep + snapshot.errorBound) {
		return 'before';
	}
	return age > oldest ? 'old' : '';
}

/**
 * Takes what the peer's proposeInstant returned, when it arrives, and returns the local time at
 * which to act.
 * @param {Usec} now
 * @param {number} instant
 * @returns {{at: Usec, error: '' | 'passed'}}
 */
export function acceptInstant(now, instant) {
	const at = fromTS23(now, instant);
	return {at, error: since(at, now) < 0 ? 'passed' : ''};
}

/**
 * Returns the payload and 3 bytes that tell a peer's readEvent when something happened, by our own
 * clock. They mean the same to every peer, whether we know its clock or not.
 * @param {Uint8Array} payload
 * @param {Usec} happened
 * @returns {Uint8Array}
 */
export function appendEvent(payload, happened) {
	return append23(payload, toTS23(happened));
}

/**
 * Returns the payload and the 3 bytes of a payload time, whose top bit says whether there is one.
 * @param {Uint8Array} payload
 * @param {number | null} ts23
 * @returns {Uint8Array}
 */
export function appendTime23(payload, ts23) {
	return append23(payload, ts23 === null ? 0 : ts23 | 1 << 23);
}

/**
 * Reads the first 3 bytes as a payload time, and their top bit: whether there is one.
 * @param {Uint8Array} bytes
 * @returns {{ts23: number, known: boolean}}
 */
export function readTime23(bytes) {
	return {ts23: get24(bytes, 0) & 0x7fffff, known: (bytes[2] & 128) !== 0};
}

/**
 * @param {Uint8Array} payload
 * @param {number} value
 * @returns {Uint8Array}
 */
function append23(payload, value) {
	const bytes = new Uint8Array(payload.length + 3);
	bytes.set(payload);
	put24(bytes, payload.length, value);
	return bytes;
}

// ---- Requests and replies: WIRE.md, "ping: request and reply" ----

const requestSize = 13;
const replySize = 29;
const kindRequest = 0x70;
const kindReply = 0x71;

const lateReply = 10 * second; // "very slow responses (over 10 seconds) are discarded" (Slot)
const coarseServer = 200_000; // us: a server with a coarse clock may seem to answer this early
const exchangeSkew = 600e-6; // the largest difference in rate between the two clocks
const roundingOfReadings = 2; // us
const pendingMost = 64; // requests that are remembered
const recentMost = 64; // exchanges that are remembered
const manyServers = 3; // of 8 exchanges contradict the others if several machines answer

/**
 * Exchange is a request and its reply: t1 is when the client sent the request, t2 when it reached
 * the server, t3 when the server sent the reply, and t4 when that reached the client.
 */
class Exchange {
	/**
	 * @param {Usec} t1
	 * @param {Usec} t2
	 * @param {Usec} t3
	 * @param {Usec} t4
	 */
	constructor(t1, t2, t3, t4) {
		this.t1 = t1;
		this.t2 = t2;
		this.t3 = t3;
		this.t4 = t4;
	}

	/** How long the client waited, us. */
	get away() {
		return since(this.t4, this.t1);
	}

	/** How long the server held the request, us. */
	get hold() {
		return since(this.t3, this.t2);
	}

	/** How long both messages were on their way, us; negative if clocks are coarse. */
	get roundTrip() {
		return this.away - this.hold;
	}

	/** How far a time of the server may lie beyond those of the client, us. */
	get slack() {
		return Math.trunc(this.away * exchangeSkew) + roundingOfReadings;
	}

	/**
	 * Says whether these can be the times of an exchange.
	 * @returns {'accepted' | 'impossible' | 'too late'}
	 */
	get verdict() {
		if (this.away < 0 || this.hold < -coarseServer) {
			return 'impossible';
		}
		if (this.away > lateReply) {
			return 'too late';
		}
		return this.hold > this.away + this.slack ? 'impossible' : 'accepted';
	}

	/**
	 * Returns whether the offset can be within bound of what is given.
	 * @param {bigint} offset
	 * @param {number} bound us
	 */
	allows(offset, bound) {
		const least = since(this.t3 - this.t4, offset);
		const most = since(this.t2 - this.t1, offset);
		const doubt = bound + this.slack;
		return least <= doubt && most >= -doubt;
	}
}

/**
 * Ends are the two ends of a conversation between Synchronizers. The client keeps both: its own,
 * and the one that the server would keep. A request counts as a datagram from here, a reply as one
 * from there, and each carries the report of its end.
 */
class Ends {
	here = new Synchronizer();
	#there = new Synchronizer();

	/**
	 * @param {boolean} isNew an exchange contradicted the ends before these
	 * @param {number} steps jumps of the time until these began
	 */
	constructor(isNew, steps) {
		this.isNew = isNew;
		this.#stepsBefore = steps;
	}

	/** @type {number} */
	#stepsBefore;

	/** The jumps of the time so far. */
	get steps() {
		return this.#stepsBefore + this.here.steps;
	}

	/**
	 * Tells there what the request would have told it, and here what the reply tells.
	 * @param {Exchange} exchange
	 */
	learn({t1, t2, t3, t4}) {
		this.#there.datagram(toTS24(t1), t2);
		const out = this.here.minDelta(t1);
		if (out !== null) {
			this.#there.report(out, t2);
		}
		this.here.datagram(toTS24(t3), t4);
		this.here.anchor(t3, t4);
		const back = this.#there.minDelta(t3);
		if (back !== null) {
			this.here.report(back, t4);
		}
	}

	/**
	 * Returns whether what is known and an exchange cannot both be true of the same two clocks.
	 * @param {Exchange} exchange
	 */
	contradict(exchange) {
		const {known, offsetUsec, errorBound} = this.here.snapshot(exchange.t4);
		return known && !exchange.allows(offsetUsec, errorBound);
	}

	/**
	 * Returns whether a message was faster than this path allows, by more than its jitter. Then a
	 * clock may have been set by less than the bound shows.
	 * @param {Exchange} exchange
	 */
	isSurprised({t1, t2, t3, t4}) {
		const snapshot = this.here.snapshot(t4);
		if (!snapshot.known) {
			return false;
		}
		const jitter = Math.max(snapshot.floorScatter, hostJitter);
		const to = since(t2 - t1, snapshot.offsetUsec);
		const from = since(snapshot.offsetUsec, t3 - t4);
		const {minimumDelayToPeer, minimumOneWayDelay} = snapshot;
		return to < minimumDelayToPeer - jitter || from < minimumOneWayDelay - jitter;
	}

	/**
	 * Returns how long ago the last clock step was noticed.
	 * @param {Usec} now
	 */
	sinceStep(now) {
		const {stepSeen, sinceStep} = this.here.snapshot(now);
		return stepSeen ? sinceStep : Infinity;
	}
}

const groupSize = 8; // exchanges judge a path
const fastInterval = 100_000; // us: other engines always ask this often
// An interval is at most this part of the time for which the server's clock has been known. Less up
// to a second, and the clocks drift apart before their rates are known. Above a second a rate takes
// longer: this many exchanges at one pace show it.
const firstPart = 16;
const firstEnough = second;
const laterPart = 64;
const retryInterval = second; // while nothing was answered
const retries = 60; // for a minute
const quiet = 8 * second; // after this time without a request one exchange tells little

/**
 * Schedule says when to ask: in a group after a silence, and otherwise less often the longer the
 * server's clock has been known.
 */
class Schedule {
	asked = 0; // requests so far
	#last = 0n; // local time of the last one
	#group = 0; // requests of the present group; may exceed its size
	/** @type {Usec | null} */
	#since = null; // from when on the server's clock is known

	/**
	 * Notes a request that is sent.
	 * @param {Usec} now
	 */
	request(now) {
		if (since(now, this.#last) >= quiet) {
			this.#group = 0;
		}
		this.asked++;
		this.#group++;
		this.#last = now;
	}

	/**
	 * Says that the server's clock is known from now on: at first, and after a clock step.
	 * @param {Usec} now
	 */
	start(now) {
		this.#since = now;
	}

	/** Asks for a group of requests, unless one is under way. */
	check() {
		if (this.#group >= groupSize) {
			this.#group = 0;
		}
	}

	/**
	 * Returns how long to wait before the next request, if requests should be an interval apart.
	 * @param {Usec} now
	 * @param {number} interval us
	 */
	next(now, interval) {
		if (this.asked === 0) {
			return 0;
		}
		if (this.#group < groupSize) {
			interval = Math.min(interval, fastInterval);
		} else if (this.#since !== null) {
			const known = since(this.#last, this.#since);
			const first = clamp(known / firstPart, fastInterval, firstEnough);
			interval = Math.min(interval, Math.max(first, known / laterPart));
		} else if (this.asked < groupSize + retries) {
			interval = Math.min(interval, retryInterval);
		}
		const ago = since(now, this.#last);
		if (ago < -interval) {
			return 0; // the local clock was set back, so it reads last again much later
		}
		// Requests keep no rhythm with a server's coarse clock: multiples of the golden ratio soon
		// come close to every value.
		const irregular = interval / 16 * (this.asked * 0.618034 % 1);
		return Math.max(interval - irregular - Math.max(ago, 0), 0);
	}
}

/**
 * @typedef {'accepted' | 'synced' | 'stepped' | 'many servers'} Used 'synced': for the first time;
 *   'stepped': a clock step; 'many servers': steps as frequent as if several machines answered
 */

/**
 * @typedef {'malformed' | 'old session' | 'unknown request' | 'duplicate' | 'overtaken' |
 *   'too late' | 'impossible'} Unused
 */

/**
 * Ping asks a server for its time, as over a WebSocket. Send request() whenever next() is 0, and
 * pass what comes to reply(). For the next connection take a new Ping.
 */
export class Ping extends RemoteClock {
	#session;
	#interval;
	#schedule = new Schedule();
	/** @type {Map<bigint, {sent: Usec, number: number, answered: boolean}>} */
	#pending = new Map(); // by nonce
	#latest = 0; // number of the last request that was answered; earlier ones were overtaken
	/** @type {number[]} */
	#roundTrips = []; // of the last exchanges, us
	#contradicted = 0; // a bit for each of the last 8 exchanges
	#steps = 0; // jumps of the time until reset
	/** @type {Ends | null} */
	#ends = null;
	#unknown = new View();

	/**
	 * @param {number} [session] a number that the server knows, too
	 * @param {number} [interval] us between two requests, or up to a sixteenth less
	 */
	constructor(session = 0, interval = 250_000) {
		super();
		this.#session = session >>> 0;
		this.#interval = interval;
	}

	/**
	 * @protected
	 * @returns {View}
	 */
	view() {
		return this.#ends === null ? this.#unknown : viewOfClock(this.#ends.here);
	}

	/** How often the remote time jumped. The first synchronization does not count. */
	get steps() {
		return this.#ends?.steps ?? this.#steps;
	}

	/**
	 * Returns what is known. Its age counts from when the next reply was due, and stepSeen also
	 * says that an exchange contradicted what was known before.
	 * @param {Usec} now
	 * @returns {Snapshot}
	 */
	snapshot(now) {
		const ends = this.#ends;
		if (ends === null) {
			return new Snapshot();
		}
		const snapshot = ends.here.snapshot(now);
		return new Snapshot({
			...snapshot,
			steps: ends.steps,
			stepSeen: snapshot.stepSeen || ends.isNew,
			age: Math.max(snapshot.age - this.#interval, 0),
		});
	}

	/**
	 * Returns how long to wait before the next request, us; 0: now. Ask again after each reply.
	 * @param {Usec} now
	 * @returns {number}
	 */
	next(now) {
		return this.#schedule.next(now, this.#interval);
	}

	/**
	 * Returns a request of 13 bytes, to send at once. One that gets lost needs no attention.
	 * @param {Usec} now
	 * @param {bigint} [nonce] random, for tests
	 * @returns {Uint8Array}
	 */
	request(now, nonce = crypto.getRandomValues(new BigUint64Array(1))[0]) {
		const bytes = new Uint8Array(requestSize);
		const b = viewOf(bytes);
		b.setUint8(0, kindRequest);
		b.setUint32(1, this.#session, true);
		b.setBigUint64(5, nonce, true);
		this.#pending.set(nonce, {sent: now, number: this.#schedule.asked, answered: false});
		if (this.#pending.size > pendingMost) {
			const [oldest] = this.#pending.keys();
			this.#pending.delete(oldest);
		}
		this.#schedule.request(now);
		return bytes;
	}

	/**
	 * Takes a reply, and returns what became of it. A refused one changes nothing.
	 * @param {Uint8Array} bytes
	 * @param {Usec} now when it arrived
	 * @returns {Used | Unused}
	 */
	reply(bytes, now) {
		if (bytes.length !== replySize || bytes[0] !== kindReply) {
			return 'malformed';
		}
		const b = viewOf(bytes);
		if (b.getUint32(1, true) !== this.#session) {
			return 'old session';
		}
		const request = this.#pending.get(b.getBigUint64(5, true));
		if (request === undefined) {
			return 'unknown request';
		}
		if (request.answered) {
			return 'duplicate';
		}
		const received = b.getBigUint64(13, true);
		const sent = b.getBigUint64(21, true);
		const exchange = new Exchange(request.sent, received, sent, now);
		const {verdict} = exchange;
		if (verdict !== 'accepted') {
			return verdict;
		}
		if (request.number < this.#latest) {
			return 'overtaken'; // its round trip is the longer one, nothing is lost
		}
		// The times of requests do not say which came before: the local clock may have been set.
		request.answered = true;
		this.#latest = request.number;
		return this.#use(exchange);
	}

	/**
	 * Lets an exchange change what is known.
	 * @param {Exchange} exchange
	 * @returns {Used}
	 */
	#use(exchange) {
		const ends = this.#ends;
		this.#contradicted = this.#contradicted << 1 & 255;
		if (ends === null) {
			this.#begin(new Ends(false, this.#steps), exchange);
			return 'synced';
		}
		if (!ends.contradict(exchange)) {
			return this.#goOn(ends, exchange);
		}
		// There was a clock step, or a machine was suspended, or this is another server. What was
		// learnt before is void.
		this.#contradicted |= 1;
		this.#begin(new Ends(true, ends.steps + 1), exchange);
		return this.#isManyServers ? 'many servers' : 'stepped';
	}

	get #isManyServers() {
		let count = 0;
		for (let bits = this.#contradicted; bits !== 0; bits >>= 1) {
			count += bits & 1;
		}
		return count >= manyServers;
	}

	/**
	 * Lets new ends begin with an exchange.
	 * @param {Ends} ends
	 * @param {Exchange} exchange
	 */
	#begin(ends, exchange) {
		this.#roundTrips = [exchange.roundTrip];
		if (!this.#isManyServers) { // asking several machines more often does not help
			this.#schedule.start(exchange.t4);
		}
		ends.learn(exchange);
		this.#ends = ends;
	}

	/**
	 * Lets the ends learn an exchange.
	 * @param {Ends} ends
	 * @param {Exchange} exchange
	 * @returns {Used}
	 */
	#goOn(ends, exchange) {
		this.#roundTrips.push(exchange.roundTrip);
		if (this.#roundTrips.length > recentMost) {
			this.#roundTrips.shift();
		}
		if (ends.isSurprised(exchange)) {
			this.#schedule.check();
		}
		const {steps} = ends;
		const sinceStep = ends.sinceStep(exchange.t4);
		ends.learn(exchange);
		if (sinceStep - ends.sinceStep(exchange.t4) > second) { // less is rounding
			this.#schedule.start(exchange.t4);
		}
		return ends.steps !== steps ? 'stepped' : 'accepted';
	}

	/**
	 * Forgets the server, as after a reconnection. Only replies of the new session, and to later
	 * requests, will be accepted. What is synchronized next is a step.
	 * @param {number} [session]
	 */
	reset(session = 0) {
		if (this.#ends !== null) {
			this.#steps = this.#ends.steps + 1;
		}
		this.#ends = null;
		this.#session = session >>> 0;
		this.#schedule = new Schedule();
		this.#pending = new Map();
		this.#latest = 0;
		this.#roundTrips = [];
		this.#contradicted = 0;
	}

	/**
	 * Takes that the local machine slept until now, so that its clock may have stood still. It
	 * asks a group of requests, and within() says 'unchecked' until the answers have shown what
	 * the clock is.
	 * @param {Usec} now
	 */
	slept(now) {
		this.#ends?.here.slept(now);
		this.#schedule.check();
	}

	/**
	 * Returns the 20th, 50th and 80th percentiles of the round trips of the last 64 exchanges, or
	 * of those since the start or since one contradicted what was known. A path whose 80th
	 * percentile is far above its 20th has queues.
	 * @returns {{p20: number, p50: number, p80: number} | null} us
	 */
	roundTrips() {
		if (this.#roundTrips.length === 0) {
			return null;
		}
		const sorted = this.#roundTrips.map(v => Math.max(v, 0)).sort((a, b) => a - b);
		const percentile = (/** @type {number} */ percent) =>
			sorted[Math.ceil(sorted.length * percent / 100) - 1];
		return {p20: percentile(20), p50: percentile(50), p80: percentile(80)};
	}
}

/**
 * Returns the answer of a server to a request, or null if it is none of this session.
 * @param {Uint8Array} request
 * @param {number} session
 * @param {Usec} received the server's clock when it arrived
 * @param {Usec} sent the server's clock now
 * @returns {Uint8Array | null}
 */
export function appendReply(request, session, received, sent) {
	const isRequest = request.length === requestSize && request[0] === kindRequest;
	if (!isRequest || viewOf(request).getUint32(1, true) !== session >>> 0) {
		return null;
	}
	const bytes = new Uint8Array(replySize);
	bytes.set(request);
	const b = viewOf(bytes);
	b.setUint8(0, kindReply);
	b.setBigUint64(13, received, true);
	b.setBigUint64(21, sent, true);
	return bytes;
}

// ---- How long to wait for what arrives: package jitter ----

const usualShare = 0.01;
const leastShare = 0.001;
const mostShare = 0.5;
const oneTick = 20_000; // us: what was held up together counts like what was sent in this time
const stopLength = 250_000; // us: what a stop held up comes this far above the level
const stopAlone = 5 * second; // a stop is alone if the one before began this long ago
const stopLasts = 250_000; // us: a program may take some frames to catch up
const batchLasts = second; // how long after the first one things count as held up together
// A late one lowers the share that is aimed at by this part of what is asked for. One that was
// held up together with it lowers it by half of that.
const aimGain = 1 / 45;
const heldGain = aimGain / 2;
const aimLeast = 0.1;
const aimMost = 1.3;
const longestDelay = 24 * 3600 * second; // a delay that differs by more is of another clock
const pendingLate = 8; // late ones that are not counted yet
const heldMost = 255; // what was held up with them

/**
 * JitterEstimator learns from the arrivals of things that are sent at an even rate how long to
 * wait for them, so that no more than a share comes too late: states of a game, frames of sound,
 * pictures. The doc of package jitter says how, and what to expect.
 *
 *	const jitter = new JitterEstimator(0.01); // 1 in 100 may be late
 *	jitter.add(sent, arrived);                // for each thing that arrives
 *	const showAt = sent + jitter.wait;
 *
 * The times are readings of two clocks, in microseconds: the sender's for sent, the receiver's for
 * arrived. How far apart the clocks are drops out of sent + wait.
 */
export class JitterEstimator {
	/** The share that may come too late, from 0.001 to 0.5. It may be changed at any time. */
	share;
	#first = 0; // the first delay: all delays are counted from it
	#level = 0;
	#wait = 0;
	#recent = new Recent();
	#tail = new Tail();
	#aim = 0; // part of the share asked for that is aimed at; 0 before the first arrival
	#sending = new Sending();
	#batch = {sent: 0, arrived: 0, excess: 0, late: false}; // what may have been held up together
	#stop = {known: false, alone: false, began: 0, ended: 0}; // a time in which nothing came
	/** @type {number[]} */
	#pending = []; // the last late ones, which are not counted yet, as bins of the tail
	#held = 0; // how many more were held up together with them
	#before = 0; // the level before the first of them

	/** @param {number} [share] */
	constructor(share = usualShare) {
		this.share = share;
	}

	/**
	 * Takes that something was sent, and has arrived. Call it in the order of arrival. Of things
	 * that were sent at the same time only the first counts.
	 * @param {number} sent us, by the sender's clock
	 * @param {number} arrived us, by the receiver's clock
	 */
	add(sent, arrived) {
		let delay = arrived - sent - this.#first;
		if (!Number.isFinite(delay)) {
			return;
		}
		if (this.#aim === 0 || Math.abs(delay) > longestDelay) {
			this.reset();
			this.#first = arrived - sent;
			this.#aim = 1;
			delay = 0;
		}
		if (this.#sending.add(sent)) {
			return;
		}
		const now = sent + delay;
		const late = this.#recent.size > 0 && delay > this.#wait;
		const due = sent + this.#level;
		if (late && this.#stopLasts(now) && due < this.#stop.ended) {
			return; // the stop held it up, in whichever order it came
		}
		const apart = this.#heldUp(sent, now, late);
		const ago = now - this.#batch.arrived;
		if (apart > 0) {
			this.#batch.excess = Math.max(this.#batch.excess, delay);
			const isStop = this.#batch.excess - this.#level >= stopLength;
			if (isStop && this.#stopped(now)) {
				return;
			}
			if (apart >= oneTick) {
				this.#held = Math.min(this.#held + 1, heldMost);
				return;
			}
		} else if (!this.#batch.late || ago < 0 || ago >= oneTick) {
			if (!late) {
				this.#countPending();
			}
			this.#batch = {sent, arrived: now, excess: delay, late};
		}
		this.#learn(delay, late);
	}

	/**
	 * How long after its sending to show a thing, us: show it when the receiver's clock reads sent
	 * + wait. It is null before the first arrival.
	 * @returns {number | null}
	 */
	get wait() {
		return this.#aim > 0 ? this.#first + this.#wait : null;
	}

	/**
	 * The median of the last delays, us, or null before the first arrival.
	 * @returns {number | null}
	 */
	get level() {
		return this.#aim > 0 ? this.#first + this.#level : null;
	}

	/** How long it is from one sending to the next, us: 0 before two things have arrived. */
	get interval() {
		return this.#sending.interval();
	}

	/**
	 * Takes that all delays are longer by a time from now on, because of a clock step.
	 * @param {number} by us
	 */
	shift(by) {
		this.#first += by;
	}

	/** Forgets all but share, as for a new connection. */
	reset() {
		this.#first = 0;
		this.#level = 0;
		this.#wait = 0;
		this.#recent = new Recent();
		this.#tail = new Tail();
		this.#aim = 0;
		this.#sending = new Sending();
		this.#batch = {sent: 0, arrived: 0, excess: 0, late: false};
		this.#stop = {known: false, alone: false, began: 0, ended: 0};
		this.#pending = [];
		this.#held = 0;
		this.#before = 0;
	}

	/** The share that counts. */
	get #asked() {
		return this.share > 0 ? clamp(this.share, leastShare, mostShare) : usualShare;
	}

	/**
	 * Returns whether a stop is still felt.
	 * @param {number} now
	 */
	#stopLasts(now) {
		const ago = now - this.#stop.began;
		return this.#stop.known && ago >= 0 && ago < (this.#stop.alone ? stopLasts : oneTick);
	}

	/**
	 * Returns how far apart in sending a late arrival is from the first of the batch, if it was
	 * held up together with it, and otherwise 0.
	 * @param {number} sent
	 * @param {number} now
	 * @param {boolean} late
	 */
	#heldUp(sent, now, late) {
		const apart = clamp(sent - this.#batch.sent, -longestDelay, longestDelay);
		if (apart < 0 && !this.#batch.late) {
			return 0; // it was overtaken
		}
		const ago = now - this.#batch.arrived;
		const together = ago >= 0 && ago <= Math.min(Math.abs(apart) / 2, batchLasts);
		return late && together ? Math.abs(apart) : 0;
	}

	/**
	 * Takes that the batch was held up by a stop, and returns whether that counts for nothing.
	 * @param {number} now
	 */
	#stopped(now) {
		const stop = this.#stop;
		if (!this.#stopLasts(now)) {
			const ago = now - stop.began;
			stop.alone = !stop.known || ago < 0 || ago > stopAlone;
			stop.known = true;
			stop.began = now;
		}
		stop.ended = now;
		if (stop.alone) {
			this.#pending = [];
			this.#held = 0;
		}
		return stop.alone;
	}

	/**
	 * Counts the late ones that no stop has held up. Those that the level explains by now are of a
	 * path that has become longer, and count as one.
	 */
	#countPending() {
		for (const [i, bin] of this.#pending.entries()) {
			if (i === 0 || this.#level - this.#before < binEnd(bin) / 2) {
				this.#tail.count(bin, this.#asked);
			}
			this.#aim = Math.max(this.#aim - aimGain, aimLeast);
		}
		this.#aim = Math.max(this.#aim - heldGain * this.#held, aimLeast);
		this.#pending = [];
		this.#held = 0;
	}

	/**
	 * Learns a delay that counts.
	 * @param {number} delay
	 * @param {boolean} late
	 */
	#learn(delay, late) {
		const share = this.#asked;
		if (this.#recent.size === 0) {
			this.#level = delay;
		}
		const before = this.#level;
		const bin = binOf(delay - before);
		this.#level = this.#recent.add(delay);
		this.#aim = Math.min(this.#aim + aimGain * share, aimMost);
		if (!late) {
			this.#tail.count(bin, share);
		} else if (this.#pending.length < pendingLate) {
			if (this.#pending.length === 0) {
				this.#before = before;
			}
			this.#pending.push(bin);
		} else { // as of a row that is longer than any stop
			this.#tail.count(bin, share);
			this.#aim = Math.max(this.#aim - aimGain, aimLeast);
		}
		this.#wait = this.#level + this.#tail.quantile(share * this.#aim);
	}
}

/** Recent is the last 7 delays. */
class Recent {
	/** @type {number[]} */
	#delays = [];

	get size() {
		return this.#delays.length;
	}

	/**
	 * Takes a delay, and returns the median.
	 * @param {number} delay
	 */
	add(delay) {
		this.#delays.push(delay);
		if (this.#delays.length > 7) {
			this.#delays.shift();
		}
		const sorted = [...this.#delays].sort((a, b) => a - b);
		return sorted[sorted.length - 1 >> 1];
	}
}

const senderRestart = 10 * second; // a sender whose clock goes back this far is another one

/** Sending is when the last 12 things were sent, the earliest first. */
class Sending {
	/** @type {number[]} */
	#times = [];

	/**
	 * Takes when something was sent, and returns whether it has come before.
	 * @param {number} sent
	 */
	add(sent) {
		const times = this.#times;
		if (times.length > 0 && times[times.length - 1] - sent > senderRestart) {
			times.length = 0;
		}
		let at = times.length;
		while (at > 0 && times[at - 1] > sent) {
			at--;
		}
		if (at > 0 && times[at - 1] === sent) {
			return true;
		}
		times.splice(at, 0, sent);
		if (times.length > 12) {
			times.shift();
		}
		return false;
	}

	/** Returns the median of the last 7 gaps, or of those that are known. */
	interval() {
		const gaps = this.#times.slice(1).map((sent, i) => sent - this.#times[i]).slice(-7);
		if (gaps.length === 0) {
			return 0;
		}
		gaps.sort((a, b) => a - b);
		return gaps[gaps.length >> 1];
	}
}

const bins = 128;
const finest = 32; // us: the width of the first 16 bins; then each is an eighth of an octave
const perOctave = 8;
const halfShares = 20; // one half of the counts takes this many times 1/share

/**
 * Returns the bin of a height above the level.
 * @param {number} above us
 */
function binOf(above) {
	const units = Math.floor(Math.max(above, 0) / finest);
	const octave = units < 2 * perOctave ? 0 : Math.floor(Math.log2(units)) - 3;
	return Math.min(octave * perOctave + Math.floor(units / 2 ** octave), bins - 1);
}

/**
 * Returns where a bin ends and the next one begins, us.
 * @param {number} bin
 */
function binEnd(bin) {
	const next = bin + 1;
	if (next < 2 * perOctave) {
		return next * finest;
	}
	const octave = Math.floor(next / perOctave) - 1;
	return (perOctave + next % perOctave) * 2 ** octave * finest;
}

/**
 * Tail counts how far delays are above the level. Two halves take turns: when the younger is full,
 * the older is emptied. So what is older than both is forgotten completely.
 */
class Tail {
	#counts = [new Uint16Array(bins), new Uint16Array(bins)];
	#totals = [0, 0];
	#young = 0;
	#at = 0; // the bin in which the quantile was last
	#beyond = 0; // how many are counted in higher bins

	/**
	 * @param {number} bin
	 * @param {number} share
	 */
	count(bin, share) {
		if (this.#totals[this.#young] >= halfShares / share) {
			this.#young ^= 1;
			const old = this.#counts[this.#young];
			for (const count of old.subarray(this.#at + 1)) {
				this.#beyond -= count;
			}
			old.fill(0);
			this.#totals[this.#young] = 0;
		}
		this.#counts[this.#young][bin]++;
		this.#totals[this.#young]++;
		if (bin > this.#at) {
			this.#beyond++;
		}
	}

	/** @param {number} bin */
	#in(bin) {
		return this.#counts[0][bin] + this.#counts[1][bin];
	}

	/**
	 * Returns the height that a share of what was counted exceeds, and half an observation more:
	 * the median estimate.
	 * @param {number} share
	 */
	quantile(share) {
		const may = share * (this.#totals[0] + this.#totals[1]) + 0.5;
		while (this.#at < bins - 1 && this.#beyond > may) {
			this.#at++;
			this.#beyond -= this.#in(this.#at);
		}
		while (this.#at > 0 && this.#beyond + this.#in(this.#at) <= may) {
			this.#beyond += this.#in(this.#at);
			this.#at--;
		}
		const begin = binEnd(this.#at - 1);
		const end = binEnd(this.#at);
		const count = this.#in(this.#at);
		// The part of the bin that may be late, too.
		const late = count > 0 ? clamp((may - this.#beyond) / count, 0, 1) : 0;
		return end - (end - begin) * late;
	}
}

// ---- Game time: WIRE.md, "tick: Welcome and Hello" ----

const helloSize = 17;
const flagsAt = 33;
const debtAt = 34;
const welcomeSize = 36;
const kindHello = 3; // 1 and 2 were those of the first version
const kindWelcome = 4;
const kindMost = 16; // of all versions
const flagHeard = 1;
const flagPaused = 2;
const flagInputs = 4;
const noneCame = -32768; // for an input that never came
const earlyUnit = 100; // us
const inputsMost = 64; // that a Welcome tells of
const maxStart = 1n << 61n; // ns: 73 years

/**
 * @typedef {{num: number, den: number}} Rate num / den ticks a second
 */

/**
 * @typedef {object} Welcome what a server says of its game time
 * @property {bigint} epoch
 * @property {number} num of the rate
 * @property {number} den of the rate
 * @property {Usec} origin what the server's clock reads at game time 0
 * @property {bigint} tick now, on the server
 * @property {boolean} heard the server has had a Hello
 * @property {boolean} paused
 * @property {number} debt by how many ticks the server is behind
 * @property {bigint} newest of which inputs it tells: this one,
 * @property {number[]} early newest - 1 and so on: by how many units of 0.1 ms each came early,
 *   below 0 late, -32768 if none came
 * @property {Usec} sent the start of tick, by the server's clock
 */

/**
 * Says whether bytes are a tick message of another version, as of an older or newer server. Both
 * ends need the same one.
 * @param {Uint8Array} bytes
 * @returns {boolean}
 */
export function isOtherTickVersion(bytes) {
	const kind = bytes[0];
	return kind > 0 && kind <= kindMost && kind !== kindHello && kind !== kindWelcome;
}

/**
 * Reads a Welcome, or returns null.
 * @param {Uint8Array} bytes
 * @returns {Welcome | null}
 */
export function readWelcome(bytes) {
	if (bytes.length < welcomeSize || bytes[0] !== kindWelcome) {
		return null;
	}
	const b = viewOf(bytes);
	const flags = bytes[flagsAt];
	const epoch = b.getBigUint64(1, true);
	const num = b.getUint32(9, true);
	const den = b.getUint32(13, true);
	const origin = b.getBigUint64(17, true);
	const tick = b.getBigInt64(25, true);
	const inputs = readInputs(bytes, (flags & flagInputs) !== 0);
	const isKnown = flags <= (flagHeard | flagPaused | flagInputs) && inputs !== null;
	if (!isKnown || epoch < 1n || epoch >= 1n << 63n || num === 0 || num > 1e9 * den) {
		return null;
	}
	const start = startOf(tick, {num, den});
	if (start > maxStart || start < -maxStart) {
		return null;
	}
	return {
		epoch,
		num,
		den,
		origin,
		tick,
		heard: (flags & flagHeard) !== 0,
		paused: (flags & flagPaused) !== 0,
		debt: b.getUint16(debtAt, true),
		newest: inputs.newest,
		early: inputs.early,
		sent: u64(origin + floorDivide(start, 1000n)),
	};
}

/**
 * Reads what a Welcome says of inputs, which must be all that is left, or returns null.
 * @param {Uint8Array} bytes
 * @param {boolean} tells
 * @returns {{newest: bigint, early: number[]} | null}
 */
function readInputs(bytes, tells) {
	if (!tells) {
		return bytes.length === welcomeSize ? {newest: 0n, early: []} : null;
	}
	const b = viewOf(bytes);
	const first = welcomeSize + 9;
	const count = bytes.length < first ? 0 : bytes[first - 1];
	if (count < 1 || count > inputsMost || bytes.length !== first + 2 * count) {
		return null;
	}
	const early = Array.from({length: count}, (_, i) => b.getInt16(first + 2 * i, true));
	return {newest: b.getBigInt64(welcomeSize, true), early};
}

/**
 * Divides, and rounds down.
 * @param {bigint} a
 * @param {bigint} b above 0
 * @returns {bigint}
 */
function floorDivide(a, b) {
	return a / b - (a % b < 0n ? 1n : 0n);
}

const nanosecondsPerSecond = 1_000_000_000n;

/**
 * Returns when a tick starts, ns of game time.
 * @param {bigint} tick
 * @param {Rate} rate
 * @returns {bigint}
 */
function startOf(tick, rate) {
	return -floorDivide(-tick * nanosecondsPerSecond * BigInt(rate.den), BigInt(rate.num));
}

/**
 * Returns when a tick starts, us of game time.
 * @param {bigint} tick
 * @param {Rate} rate
 * @returns {number}
 */
export function tickStart(tick, rate) {
	return Number(startOf(tick, rate)) / 1000;
}

/**
 * Returns the tick at a game time, such as those of clocks().
 * @param {number} time us
 * @param {Rate} rate
 * @returns {bigint}
 */
export function tickAt(time, rate) {
	const nanoseconds = BigInt(Math.round(time * 1000));
	return floorDivide(nanoseconds * BigInt(rate.num), nanosecondsPerSecond * BigInt(rate.den));
}

/**
 * Returns how long a tick is, us.
 * @param {Rate} rate
 */
function tickLength(rate) {
	return second * rate.den / rate.num;
}

const adaptReach = second; // how far a buffer may move from where it began
const adaptFresh = 3 * second; // how long arrivals say where a clock should be
const adaptLeast = 500; // us: the least margin: clocks are a little off while they are slewed
const rowLeast = 4; // late ones in a row move the median of 7 delays
const jumpLeast = 2000; // us: less is slewed
const debtLeast = 20_000; // us: an input that is earlier found a server whose ticks were late
const lateMemory = 4096; // arrivals over which the share of late ones is told

/**
 * @typedef {object} Arrival an input or a state that has come
 * @property {number} sent us, by the reference or the server's clock
 * @property {number} distance us: how far the clock should have been for it to be just in time
 */

/**
 * Follower lets a clock follow arrivals: it learns how far the clock must be ahead of the
 * reference, or behind it, so that no more than a share comes late.
 */
class Follower {
	#jitter = new JitterEstimator();
	/** @type {Arrival | null} */
	#batch = null; // the first of those that came at one moment
	#toldAt = 0n;
	#news = false; // since distance was found
	#held = 0; // us: the distance from the reference
	#buffer = 0; // us: the distance from where the remote clock puts the fastest arrival
	#remote = 0; // us: and that of this from the reference
	#late = 0; // late arrivals, of the last thousands
	#all = 0; // all of these; 0 only before the first one
	row = 0; // how many were late in a row, up to the last one

	/**
	 * @param {Arrival} arrival
	 * @param {Usec} now
	 */
	add(arrival, now) {
		const batch = this.#batch;
		this.#news = true;
		this.#toldAt = now;
		const isTogether = batch !== null && arrival.sent >= batch.sent &&
			batch.distance - arrival.distance >= (arrival.sent - batch.sent) / 2;
		if (!isTogether) {
			this.#batch = arrival;
		} else if (arrival.distance < (this.#jitter.level ?? 0) - debtLeast) {
			return; // what a server that was stopped has found waiting is early for it
		}
		this.#jitter.add(arrival.sent, arrival.sent + arrival.distance);
	}

	/**
	 * Counts an arrival that came late or not.
	 * @param {boolean} late
	 */
	count(late) {
		this.#all++;
		this.#late += late ? 1 : 0;
		if (this.#all >= lateMemory) {
			this.#all /= 2;
			this.#late /= 2;
		}
	}

	/**
	 * Counts how many are late in a row. The caller leaves out those from before a jump.
	 * @param {boolean} late
	 */
	countRow(late) {
		this.row = late ? this.row + 1 : 0;
	}

	/** Whether it has heard of any. */
	get isMeasured() {
		return this.#all > 0;
	}

	/** The share of late arrivals. */
	get lateShare() {
		return this.#late / Math.max(this.#all, 1);
	}

	/** How long it is from one sending to the next, us. */
	get interval() {
		return this.#jitter.interval;
	}

	/**
	 * Returns how far from the reference the clock should be, given where the remote clock puts
	 * the fastest arrival, the buffer that is used until arrivals are told, what the clock needs
	 * beyond the wait for them, and how many may be late.
	 * @param {number} fastest us
	 * @param {number} buffer us
	 * @param {number} more us
	 * @param {number} share
	 * @param {Usec} now
	 */
	distance(fastest, buffer, more, share, now) {
		const {wait, level} = this.#jitter;
		this.#remote = fastest;
		if (wait === null || level === null) {
			this.#buffer = buffer;
		} else if (since(now, this.#toldAt) <= adaptFresh) {
			this.#jitter.share = share;
			const want = wait + adaptLeast;
			// The wait changes with each arrival: what is a little less is left.
			const isLess = want < this.#held - Math.max(adaptLeast, (wait - level) / 8);
			if (this.#news && (want > this.#held || isLess)) {
				this.#held = want;
			}
			this.#news = false;
			const needed = this.#held + more - fastest;
			this.#buffer = clamp(needed, buffer - adaptReach, buffer + adaptReach);
		}
		return fastest + this.#buffer;
	}

	/**
	 * Returns whether to set the clock at once, because it is so far off that arrivals come too
	 * late: the path has become longer.
	 * @param {number} off us
	 */
	jumps(off) {
		const {wait, level} = this.#jitter;
		return this.row >= rowLeast && off > jumpLeast + (wait ?? 0) - (level ?? 0);
	}

	/**
	 * Takes that the reference moved: each distance becomes longer by that, unless it shows the
	 * move already. With all, every distance does.
	 * @param {number} by us
	 * @param {boolean} all
	 */
	shift(by, all) {
		const nearer = (/** @type {number} */ off) => all || Math.abs(off) <= Math.abs(off - by);
		if (this.#jitter.wait !== null && nearer(this.#jitter.wait - this.#remote)) {
			this.#jitter.shift(by);
			if (this.#batch !== null) {
				this.#batch = {...this.#batch, distance: this.#batch.distance + by};
			}
		}
		if (nearer(this.#held - this.#remote)) {
			this.#held += by;
		}
	}
}

/** FrameTimes is how long it was from one frame to the next, of the last 16. */
class FrameTimes {
	/** @type {number[]} */
	#last = [];

	/** @param {number} length us */
	add(length) {
		this.#last.push(length);
		if (this.#last.length > 16) {
			this.#last.shift();
		}
	}

	/** Returns the third longest: one or two slow frames say nothing of the next. */
	usual() {
		return [...this.#last].sort((a, b) => b - a)[2] ?? 0;
	}
}

const hitchMost = 3 * second; // a server that is behind for longer is a longer path
const hitchAlone = 5 * second; // one that comes sooner after another is the same

/** Hitch is a time in which the server is behind with its ticks, and so are its states. */
class Hitch {
	#known = false;
	#lasts = false;
	#beganAt = 0n;
	#endedAt = 0n;
	#last = 0n; // of one that is over: states up to this tick may be late because of it

	/**
	 * Takes a Welcome.
	 * @param {Welcome} welcome
	 * @param {Usec} now
	 */
	told(welcome, now) {
		const isBehind = welcome.debt > 0;
		if (isBehind && !this.#lasts) {
			if (!this.#known || since(now, this.#endedAt) >= hitchAlone) {
				this.#beganAt = now;
			}
			this.#known = true;
			this.#lasts = true;
		} else if (!isBehind && this.#lasts) {
			this.#lasts = false;
			this.#endedAt = now;
			this.#last = welcome.tick;
		}
	}

	/**
	 * Returns whether a state is late because of it.
	 * @param {bigint} tick
	 * @param {Usec} now when it came
	 */
	delays(tick, now) {
		const isShort = this.#known && since(now, this.#beganAt) < hitchMost;
		return isShort && (this.#lasts || tick <= this.#last);
	}
}

const sentMost = 1024; // ticks of which is known when their inputs were sent
const statesMost = 128; // more than a second at 60 Hz

/**
 * Buffers finds how far a client's predicted clock should be ahead of the shared clock, and its
 * server clock behind it, from when inputs reach the server and states reach the client. It counts
 * from a reference: the local clock at the rate of the server's. The remote clock's idea of the
 * delays may change although the path does not, and the other way round.
 */
class Buffers {
	ahead = new Follower(); // the predicted clock, by the server's word of inputs
	behind = new Follower(); // the server clock, by states
	every = 0; // us: how long it is from one state to the next; 0 is not known
	hitch = new Hitch(); // of the server
	reference = 0; // us of game time
	#referenceAt = 0n;
	#skew = 0;
	#gap = 0; // where the remote clock put the shared clock, minus the reference
	#begun = false;
	#rebase = false; // there was a pause: until track finds another gap nothing counts
	/** @type {Map<bigint, Arrival & {fresh: boolean}>} */
	#sent = new Map(); // inputs, by tick
	/** @type {bigint | null} */
	#newest = null; // the last tick that was due
	#jumped = 0n; // inputs from this tick on were sent after the last jump of the clock
	/** @type {Set<bigint>} */
	#states = new Set(); // that have come

	/**
	 * Returns the reference at a time near the last track.
	 * @param {Usec} now
	 */
	#read(now) {
		return this.reference + since(now, this.#referenceAt) * (1 + this.#skew);
	}

	/**
	 * Lets the reference go on at a rate, when the remote clock puts the shared clock at game. If
	 * that has jumped, there was a clock step, and the path is what it was. Arrivals may have
	 * shown the jump before the remote clock did.
	 * @param {number} game us
	 * @param {number} skew
	 * @param {Usec} now
	 */
	track(game, skew, now) {
		if (!this.#begun) {
			this.#begun = true;
			this.reference = game;
		} else {
			this.reference = this.#read(now);
		}
		this.#referenceAt = now;
		this.#skew = skew;
		const gap = game - this.reference;
		const by = gap - this.#gap;
		this.#gap = gap;
		if (!this.#rebase && Math.abs(by) <= hardThreshold) {
			return;
		}
		this.ahead.shift(by, this.#rebase);
		this.behind.shift(-by, this.#rebase);
		for (const sent of this.#sent.values()) {
			sent.distance += by;
			sent.fresh &&= this.#rebase;
		}
		this.#rebase = false;
	}

	/** Takes that the game is paused. */
	pause() {
		this.#rebase = true;
	}

	/**
	 * Takes that inputs are due for all ticks up to this one.
	 * @param {bigint} due
	 * @param {Rate} rate
	 */
	inputsDue(due, rate) {
		let tick = this.#newest === null ? due : this.#newest + 1n;
		if (due - tick >= sentMost) {
			tick = due - BigInt(sentMost) + 1n;
		}
		for (; tick <= due; tick++) {
			const distance = tickStart(tick, rate) - this.reference;
			this.#sent.delete(tick); // the oldest stand first
			this.#sent.set(tick, {sent: this.reference, distance, fresh: true});
			this.#newest = tick;
		}
		while (this.#sent.size > sentMost) {
			const [oldest] = this.#sent.keys();
			this.#sent.delete(oldest);
		}
	}

	/**
	 * Takes what the server says of inputs.
	 * @param {Welcome} welcome
	 * @param {Usec} now
	 */
	inputsCame(welcome, now) {
		for (let i = welcome.early.length - 1; i >= 0; i--) { // the oldest first
			const tick = welcome.newest - BigInt(i);
			const early = welcome.early[i] * earlyUnit;
			const sent = this.#sent.get(tick);
			if (welcome.early[i] === noneCame || sent === undefined || !sent.fresh) {
				continue;
			}
			sent.fresh = false;
			this.ahead.add({sent: sent.sent, distance: sent.distance - early}, now);
			this.ahead.count(early < 0);
			if (tick >= this.#jumped) {
				this.ahead.countRow(early < 0);
			}
		}
	}

	/**
	 * Takes that the state for a tick came when the server clock showed another time. It is late
	 * if what is between it and the state before was shown already. Of a tick the first one
	 * counts.
	 * @param {bigint} tick
	 * @param {Rate} rate
	 * @param {number} shown us
	 * @param {boolean} waited it may have waited on this machine
	 * @param {Usec} now
	 */
	stateCame(tick, rate, shown, waited, now) {
		if (this.#states.has(tick)) {
			return;
		}
		this.#states.add(tick);
		if (this.#states.size > statesMost) {
			const [oldest] = this.#states;
			this.#states.delete(oldest);
		}
		if (this.#rebase || waited) {
			return;
		}
		const start = tickStart(tick, rate);
		const late = shown > start - this.every;
		if (this.hitch.delays(tick, now)) {
			this.behind.count(late);
			return;
		}
		this.behind.add({sent: start, distance: this.#read(now) - start}, now);
		this.every = this.behind.interval || this.every;
		this.behind.count(late);
		this.behind.countRow(late);
	}

	/**
	 * Takes that the predicted clock jumped: inputs before this tick say nothing of where it is
	 * now.
	 * @param {bigint} tick
	 */
	jumped(tick) {
		this.#jumped = tick;
		this.ahead.row = 0;
	}
}

/**
 * @typedef {object} Times game times, us
 * @property {number} server what to show of others
 * @property {number} shared now, the same for all
 * @property {number} predicted what to play
 */

/**
 * @typedef {object} Clocks
 * @property {Times} bounds how far off each may be while there is no clock step, us
 * @property {bigint} epoch
 * @property {Rate} rate
 * @property {boolean} paused
 */

/**
 * @typedef {object} BufferOptions
 * @property {number} [clientBuffer] us that others are shown behind the fastest states; without it
 *   that is one tick at first, and then follows what state() is told
 * @property {number} [serverBuffer] us that inputs are ahead of what the fastest need; without it
 *   that is two ticks at first, and then follows what the server says of inputs (AcceptInput)
 * @property {number} [lateShare] how many inputs, and states, may come too late; 0.01
 */

const serverSilence = 3 * second; // the server should have announced itself three times
const welcomeAhead = second; // how far a Welcome may be ahead of the remote clock
const welcomeLate = 3 * second; // and how late it may be, beside the delay
const hang = 250_000; // us: how long a frame may take
const hardThreshold = 200_000; // us: from this error on clocks are set
const slewRate = 0.01; // at 60 Hz 1 % is not seen
const slewNear = 50_000; // us: what is farther off is slewed faster
const slewScale = 500_000; // us: the slew grows by the speed of time for each of these
const slewMost = 0.25; // more is felt as another speed of the game
const gameWarmUp = 3 * second; // what came first may have waited while the server hung
const warmUpMost = 20_000; // us: in that time clocks are set from this error on
const longestFrame = 8; // ticks

/**
 * Returns by how much a clock that is off is slewed in a time.
 * @param {number} off us
 * @param {number} passed us
 */
function slewBy(off, passed) {
	const far = Math.max(Math.abs(off) - slewNear, 0);
	const most = passed * Math.min(slewRate + far / slewScale, slewMost);
	return clamp(off, -most, most);
}

/**
 * TickClient follows the game time of a server of package tick. For the next connection take a new
 * one.
 */
export class TickClient {
	/** How often the times jumped. */
	steps = 0;
	/** They may be changed. @type {BufferOptions} */
	buffers;
	/** Whether the server has sent messages of another version: then nothing will come of it. */
	otherVersion = false;
	#remote;
	/** @type {Welcome | null} */
	#welcome = null;
	#heardAt = 0n; // when the last Welcome came
	#aliveAt = 0n; // when the last Welcome or state came
	#own = new Buffers();
	#frames = new FrameTimes();
	/** @type {(Times & {now: Usec}) | null} */
	#shown = null; // as clocks() found them
	#countsFrom = 0n; // what arrived before may have waited on this machine
	#stands = false; // the server clock stands still, until it is right
	#beganAt = 0n; // when the clocks began

	/**
	 * @param {RemoteClock} remote a Link, or a Ping
	 * @param {BufferOptions} [buffers]
	 */
	constructor(remote, buffers = {}) {
		this.#remote = remote;
		this.buffers = buffers;
	}

	/**
	 * Takes a Welcome, and returns whether it counts. A server of another version is in
	 * otherVersion from then on.
	 * @param {Uint8Array} bytes
	 * @param {Usec} now when it arrived
	 * @returns {boolean}
	 */
	welcome(bytes, now) {
		this.otherVersion ||= isOtherTickVersion(bytes);
		const next = readWelcome(bytes);
		const last = this.#welcome;
		if (next === null) {
			return false;
		}
		if (last !== null && since(now, this.#heardAt) < serverSilence && isBefore(next, last)) {
			return false;
		}
		const isSame = last !== null && next.epoch === last.epoch;
		if (last !== null && !(isSame && next.num === last.num && next.den === last.den)) {
			this.#own = new Buffers();
			this.#shown = null;
			this.#stands = false;
		}
		this.#welcome = next;
		this.#heardAt = now;
		this.#aliveAt = now;
		this.#own.hitch.told(next, now);
		if (this.clocks(now) !== null) {
			this.#own.inputsCame(next, now);
		}
		return true;
	}

	/**
	 * Takes that a state came.
	 * @param {bigint} epoch
	 * @param {bigint} tick
	 * @param {Usec} now when it arrived
	 */
	state(epoch, tick, now) {
		const clocks = this.clocks(now);
		if (clocks === null || epoch !== clocks.epoch) {
			return;
		}
		this.#aliveAt = now;
		if (!clocks.paused) {
			const waited = since(now, this.#countsFrom) < 0;
			this.#own.stateCame(tick, clocks.rate, clocks.server, waited, now);
		}
	}

	/**
	 * Returns '' if clocks(now).shared is at most tolerable from the truth, else why nobody should
	 * rely on it: as Link and Ping do, but 'silent' after 3 s without a Welcome or a state.
	 * @param {number} tolerable us
	 * @param {Usec} now
	 * @returns {Trust}
	 */
	within(tolerable, now) {
		const clocks = this.clocks(now);
		if (clocks === null) {
			return 'unsynchronized';
		}
		if (since(now, this.#aliveAt) > serverSilence) {
			return 'silent';
		}
		const slewing = clocks.bounds.shared - (this.#remote.errorBound(now) ?? 0);
		return this.#remote.within(tolerable - slewing, now);
	}

	/**
	 * Returns the message to send some times a second, or null once the server has heard it.
	 * @param {Usec} now
	 * @returns {Uint8Array | null}
	 */
	hello(now) {
		const welcome = this.#welcome;
		if (welcome === null || welcome.heard || this.#remote.remoteTime(now) === null) {
			return null;
		}
		const bytes = new Uint8Array(helloSize);
		const b = viewOf(bytes);
		b.setUint8(0, kindHello);
		b.setBigUint64(1, welcome.epoch, true);
		b.setUint32(9, welcome.num, true);
		b.setUint32(13, welcome.den, true);
		return bytes;
	}

	/** The share of inputs that came too late, of some thousands. */
	get lateInputs() {
		return this.#own.ahead.lateShare;
	}

	/** The share of states that came too late, of some thousands. */
	get lateStates() {
		return this.#own.behind.lateShare;
	}

	/**
	 * Returns the three times, or null while they are not known. They are slewed by 1 %, or by up
	 * to 25 % where they are far off. All jump, which steps counts, if one is off by over 0.2 s
	 * and does not follow arrivals; predicted jumps forward if inputs are late in a row. If states
	 * are, server stands still.
	 *
	 * Call it in each frame, and send the inputs for the ticks that are due then: it takes them
	 * for sent.
	 * @param {Usec} now
	 * @returns {(Times & Clocks) | null}
	 */
	clocks(now) {
		const welcome = this.#welcome;
		const goal = welcome === null ? null : this.#goal(welcome, now);
		const bound = this.#remote.errorBound(now);
		if (welcome === null || goal === null || bound === null) {
			return null;
		}
		const times = this.#steer(welcome, goal, now);
		if (!welcome.paused) {
			this.#own.inputsDue(tickAt(times.predicted, welcome), welcome);
		}
		const boundOf = (/** @type {keyof Times} */ which) =>
			bound + Math.abs(goal[which] - times[which]);
		return {
			...times,
			bounds: {
				server: boundOf('server'),
				shared: boundOf('shared'),
				predicted: boundOf('predicted'),
			},
			epoch: welcome.epoch,
			rate: {num: welcome.num, den: welcome.den},
			paused: welcome.paused,
		};
	}

	/**
	 * Returns where the clocks should be.
	 * @param {Welcome} welcome
	 * @param {Usec} now
	 * @returns {Times | null}
	 */
	#goal(welcome, now) {
		const remote = this.#remote;
		const usec = remote.remoteTime(now);
		const from = remote.minimumOneWayDelay();
		const to = remote.minimumDelayToPeer();
		if (usec === null || from === null || to === null) {
			return null;
		}
		const age = since(now, this.#heardAt);
		const late = since(usec, welcome.sent) - age; // of the Welcome, as the remote clock has it
		if (age < serverSilence && (late < -welcomeAhead || late > welcomeLate + from)) {
			return null; // it is another clock: the server restarted, or there was a clock step
		}
		const shared = welcome.paused ?
			tickStart(welcome.tick, welcome) : since(usec, welcome.origin);
		const own = this.#own;
		const {clientBuffer, serverBuffer, lateShare = usualShare} = this.buffers;
		const tick = tickLength(welcome);
		const share = lateShare / 2; // with room for what is not known yet
		own.track(shared, (remote.skew?.() ?? 0) * 1e-6, now);
		let server = shared - from - (clientBuffer ?? 0);
		let predicted = shared + to + (serverBuffer ?? 0);
		if (clientBuffer === undefined) {
			const early = own.reference - (shared - from);
			server = own.reference - own.behind.distance(early, tick, own.every, share, now);
		}
		if (serverBuffer === undefined) {
			const frame = Math.min(this.#frames.usual(), longestFrame * tick);
			const ahead = shared + to - own.reference;
			predicted = own.reference + own.ahead.distance(ahead, 2 * tick, frame, share, now);
		}
		if (welcome.paused) {
			own.pause();
		}
		return {server, shared, predicted};
	}

	/**
	 * Moves the clocks toward where they should be.
	 * @param {Welcome} welcome
	 * @param {Times} goal
	 * @param {Usec} now
	 * @returns {Times}
	 */
	#steer(welcome, goal, now) {
		const own = this.#own;
		const shown = this.#shown;
		const passed = shown === null ? 0 : Math.max(since(now, shown.now), 0);
		if (passed > 0) {
			this.#frames.add(passed);
		}
		if (shown === null) {
			this.#countsFrom = now;
			this.#beganAt = now;
		} else if (passed > hang) { // the page hung
			this.#countsFrom = later(now, hang);
		}
		if (shown === null || welcome.paused) {
			return this.#show(goal, now);
		}
		const was = {
			server: shown.server + passed,
			shared: shown.shared + passed,
			predicted: shown.predicted + passed,
		};
		const off = {
			server: goal.server - was.server,
			shared: goal.shared - was.shared,
			predicted: goal.predicted - was.predicted,
		};
		if (this.#isFar(off, since(now, this.#beganAt))) {
			this.steps++;
			this.#stands = false;
			own.jumped(tickAt(goal.predicted, welcome) + 1n);
			return this.#show(goal, now);
		}
		const times = {
			server: was.server + slewBy(off.server, passed),
			shared: was.shared + slewBy(off.shared, passed),
			predicted: was.predicted + slewBy(off.predicted, passed),
		};
		if (this.buffers.serverBuffer === undefined && own.ahead.jumps(off.predicted)) {
			this.steps++;
			times.predicted = goal.predicted;
			own.jumped(tickAt(goal.predicted, welcome) + 1n);
		}
		if (this.buffers.clientBuffer === undefined && own.behind.jumps(-off.server)) {
			this.#stands = true;
			own.behind.row = 0;
		}
		this.#stands &&= off.server < 0;
		if (this.#stands) {
			times.server = was.server + Math.max(off.server, -passed);
		}
		return this.#show(times, now);
	}

	/**
	 * Returns whether the clocks should jump. A clock that follows arrivals needs no jump of its
	 * own.
	 * @param {Times} off
	 * @param {number} age us: how long ago the clocks began
	 */
	#isFar(off, age) {
		const {clientBuffer, serverBuffer} = this.buffers;
		const follows = clientBuffer === undefined && this.#own.behind.isMeasured;
		const leads = serverBuffer === undefined && this.#own.ahead.isMeasured;
		return Math.abs(off.shared) > (age < gameWarmUp ? warmUpMost : hardThreshold) ||
			!follows && Math.abs(off.server) > hardThreshold ||
			!leads && Math.abs(off.predicted) > hardThreshold;
	}

	/**
	 * Notes what is shown. A time of receipt may be later than now, since it is rounded up.
	 * @param {Times} times
	 * @param {Usec} now
	 * @returns {Times}
	 */
	#show(times, now) {
		const {server, shared, predicted} = times;
		const last = this.#shown;
		const isBack = last !== null && since(now, last.now) < 0;
		this.#shown = {server, shared, predicted, now: isBack ? last.now : now};
		return {server, shared, predicted};
	}
}

/**
 * Returns whether a Welcome is of an earlier epoch than another, or was sent before it.
 * @param {Welcome} a
 * @param {Welcome} b
 */
function isBefore(a, b) {
	return a.epoch < b.epoch || a.epoch === b.epoch && since(a.sent, b.sent) < 0;
}

/**
 * States keeps the last states of a server, so that a client can show what is between two of them.
 * @template S
 */
export class States {
	/** @type {{tick: bigint, state: S}[]} */
	#list = []; // the oldest first

	/**
	 * Adds the state of a tick. One for the same tick, or that is older than all that are kept,
	 * changes nothing.
	 * @param {bigint} tick
	 * @param {S} state
	 */
	put(tick, state) {
		const list = this.#list;
		let at = list.length;
		while (at > 0 && list[at - 1].tick >= tick) {
			at--;
		}
		if (at < list.length && list[at].tick === tick || at === 0 && list.length === statesMost) {
			return;
		}
		list.splice(at, 0, {tick, state});
		if (list.length > statesMost) {
			list.shift();
		}
	}

	/**
	 * Returns the state before a game time, such as clocks().server, and the one after it, and by
	 * how much to blend them: 0 is the first, and below 1. Before the oldest state, and after the
	 * newest, both are that one. It returns null while there is none.
	 * @param {number} time us
	 * @param {Rate} rate
	 * @returns {{before: S, after: S, blend: number} | null}
	 */
	around(time, rate) {
		const list = this.#list;
		if (list.length === 0) {
			return null;
		}
		const next = list.findIndex(({tick}) => tickStart(tick, rate) > time);
		if (next <= 0) {
			const {state} = list[next === 0 ? 0 : list.length - 1];
			return {before: state, after: state, blend: 0};
		}
		const before = list[next - 1];
		const after = list[next];
		const begin = tickStart(before.tick, rate);
		const blend = (time - begin) / (tickStart(after.tick, rate) - begin);
		return {before: before.state, after: after.state, blend: Math.min(blend, 1 - 2 ** -53)};
	}

	/** Forgets all, as where the server has started anew. */
	clear() {
		this.#list = [];
	}
}
