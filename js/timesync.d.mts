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
/**
 * @typedef {bigint} Usec a reading of a clock: microseconds, modulo 2^64
 */
/**
 * Returns v modulo 2^64.
 * @param {bigint} v
 * @returns {bigint}
 */
export function u64(v: bigint): bigint;
/**
 * Returns a - b as a span in microseconds, the shorter way round.
 * @param {Usec} a
 * @param {Usec} b
 * @returns {number}
 */
export function since(a: Usec, b: Usec): number;
/**
 * Returns v modulo 2^bits, from 0 on.
 * @param {number} v
 * @param {number} bits
 * @returns {number}
 */
export function wrap(v: number, bits: number): number;
/**
 * Returns v on a ring of 2^bits, from minus half of it on.
 * @param {number} v
 * @param {number} bits
 * @returns {number}
 */
export function ring(v: number, bits: number): number;
/**
 * Returns the number nearest to near whose low bits are small.
 * @param {bigint} near
 * @param {bigint} small
 * @param {number} bits
 * @returns {bigint}
 */
export function expand(near: bigint, small: bigint, bits: number): bigint;
/**
 * Returns clock.now().
 * @returns {Usec}
 */
export function nowUsec(): Usec;
/**
 * Returns clock.received().
 * @returns {Usec}
 */
export function receivedUsec(): Usec;
/**
 * Returns the stamp of a datagram that is sent now.
 * @param {Usec} now
 * @returns {number}
 */
export function toTS24(now: Usec): number;
/**
 * Returns a payload time of 23 bits, in units of 8 us.
 * @param {Usec} remote by the receiver's clock
 * @returns {number}
 */
export function toTS23(remote: Usec): number;
/**
 * Returns a payload time of 16 bits, in units of 512 us.
 * @param {Usec} remote by the receiver's clock
 * @returns {number}
 */
export function toTS16(remote: Usec): number;
/**
 * Reads a payload time of 23 bits.
 * @param {Usec} now
 * @param {number} ts
 * @returns {Usec} from 50.3 s before now to 16.8 s after it
 */
export function fromTS23(now: Usec, ts: number): Usec;
/**
 * Reads a payload time of 16 bits.
 * @param {Usec} now
 * @param {number} ts
 * @returns {Usec} from 25.2 s before now to 8.4 s after it
 */
export function fromTS16(now: Usec, ts: number): Usec;
/**
 * Returns the report of a delta. It is never 0, which says that nothing came, and never has the
 * remainder 2, which an original's may have.
 * @param {number} delta us
 * @returns {number}
 */
export function toReport(delta: number): number;
/**
 * Takes what the peer's proposeInstant returned, when it arrives, and returns the local time at
 * which to act.
 * @param {Usec} now
 * @param {number} instant
 * @returns {{at: Usec, error: '' | 'passed'}}
 */
export function acceptInstant(now: Usec, instant: number): {
    at: Usec;
    error: "" | "passed";
};
/**
 * Returns the payload and 3 bytes that tell a peer's readEvent when something happened, by our own
 * clock. They mean the same to every peer, whether we know its clock or not.
 * @param {Uint8Array} payload
 * @param {Usec} happened
 * @returns {Uint8Array}
 */
export function appendEvent(payload: Uint8Array, happened: Usec): Uint8Array;
/**
 * Returns the payload and the 3 bytes of a payload time, whose top bit says whether there is one.
 * @param {Uint8Array} payload
 * @param {number | null} ts23
 * @returns {Uint8Array}
 */
export function appendTime23(payload: Uint8Array, ts23: number | null): Uint8Array;
/**
 * Reads the first 3 bytes as a payload time, and their top bit: whether there is one.
 * @param {Uint8Array} bytes
 * @returns {{ts23: number, known: boolean}}
 */
export function readTime23(bytes: Uint8Array): {
    ts23: number;
    known: boolean;
};
/**
 * Returns the answer of a server to a request, or null if it is none of this session.
 * @param {Uint8Array} request
 * @param {number} session
 * @param {Usec} received the server's clock when it arrived
 * @param {Usec} sent the server's clock now
 * @returns {Uint8Array | null}
 */
export function appendReply(request: Uint8Array, session: number, received: Usec, sent: Usec): Uint8Array | null;
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
export function isOtherTickVersion(bytes: Uint8Array): boolean;
/**
 * Reads a Welcome, or returns null.
 * @param {Uint8Array} bytes
 * @returns {Welcome | null}
 */
export function readWelcome(bytes: Uint8Array): Welcome | null;
/**
 * Returns when a tick starts, us of game time.
 * @param {bigint} tick
 * @param {Rate} rate
 * @returns {number}
 */
export function tickStart(tick: bigint, rate: Rate): number;
/**
 * Returns the tick at a game time, such as those of clocks().
 * @param {number} time us
 * @param {Rate} rate
 * @returns {bigint}
 */
export function tickAt(time: number, rate: Rate): bigint;
/**
 * Clock is a monotonic clock in microseconds, made of one that counts milliseconds.
 *
 * A clock that advances in steps reads too early, by up to a step. Where that is the time of
 * receipt, a message looks faster than it was. So received() is rounded up by a step.
 */
export class Clock {
    /**
     * @param {() => number} [read] a monotonic clock that nobody sets, ms; the default is
     *   performance.now. An AudioWorklet has none. There take
     *   new Clock(() => currentTime * 1000, 128e6 / sampleRate)
     * @param {number} [step] by how much it may lag behind, us; by default that is measured
     */
    constructor(read?: () => number, step?: number);
    /**
     * Returns the time for all purposes but that of receipt.
     * @returns {Usec}
     */
    now(): Usec;
    /**
     * Returns the time for a message that has just arrived: now, rounded up by a step. Call it
     * before anything else.
     * @returns {Usec}
     */
    received(): Usec;
    /**
     * By how much a reading may lag behind, us. The first use measures it, which takes as long as
     * 32 steps but at most 0.1 s, or two steps if these are longer.
     * @returns {number}
     */
    get step(): number;
    #private;
}
/** The page's clock. */
export const clock: Clock;
/** clock.step, us; 0 where there is no performance. */
export const clockStep: number;
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
    /**
     * @param {object} [options]
     * @param {Clock} [options.clock] the page's clock
     * @param {() => number} [options.wall] a clock that runs on in sleep, ms; Date.now
     * @param {EventTarget & {visibilityState?: string}} [options.document] the page's document
     * @param {(away: Away) => void} [options.onAway] gets what check returns, unless that is null
     */
    constructor(options?: {
        clock?: Clock | undefined;
        wall?: (() => number) | undefined;
        document?: (EventTarget & {
            visibilityState?: string;
        }) | undefined;
        onAway?: ((away: Away) => void) | undefined;
    });
    /** Whether the page is hidden. Its timers then run once a second, or once a minute. */
    get hidden(): boolean;
    /**
     * Returns for how long the page was away since the last check, or null if that is less than
     * 0.25 s.
     * @returns {Away | null}
     */
    check(): Away | null;
    /** Stops watching the document. */
    close(): void;
    #private;
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
    /**
     * Reads what toBytes, or Go, wrote, or returns null. Whoever can forge bytes can move the
     * clock.
     * @param {Uint8Array} bytes
     * @returns {Snapshot | null}
     */
    static fromBytes(bytes: Uint8Array): Snapshot | null;
    /** @param {Partial<Snapshot>} [fields] */
    constructor(fields?: Partial<Snapshot>);
    /** The remote clock. */
    remoteUsec: bigint;
    /** Remote minus local clock, us. */
    offsetUsec: bigint;
    /** How far remoteUsec may be off, us. Only an empty snapshot has 0. */
    errorBound: number;
    /** The shortest recent one-way delay from the peer, us. */
    minimumOneWayDelay: number;
    /** The shortest recent one-way delay to the peer, us. */
    minimumDelayToPeer: number;
    /** The interarrival jitter of RFC 3550, us. */
    jitter: number;
    /** The mean distance of the fastest datagrams from the shortest delay, us; 0: not known. */
    floorScatter: number;
    /** The time since the last report, us. */
    age: number;
    /** The age from which on the peer counts as silent, us: 15 s, or more if reports are rare. */
    silentAfter: number;
    /** The time since a clock step was last detected, or since the first datagram, us. */
    sinceStep: number;
    /** The remote minus the local rate, parts per million. */
    skew: number;
    /** How far skew may be off, parts per million. */
    skewError: number;
    /** Jumps of the remote time so far. */
    steps: number;
    /** Whether a clock step was detected since the first datagram. */
    stepSeen: boolean;
    /** Whether too little has arrived since a silence or a clock step to confirm what is known. */
    unchecked: boolean;
    /** Whether the multiple of 67.1 s is in doubt. */
    ambiguous: boolean;
    /** How many mappings then() put behind the first one. */
    hops: number;
    /** Whether anything is known. */
    get known(): boolean;
    /**
     * The local time of the snapshot.
     * @returns {Usec}
     */
    get localUsec(): Usec;
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
    within(tolerable: number): Trust;
    /**
     * Returns what the snapshot says of another local time, later or earlier.
     * @param {Usec} local
     * @returns {Snapshot}
     */
    at(local: Usec): Snapshot;
    /**
     * Returns the local time at which the remote clock reads remote, or 1 us more.
     * @param {Usec} remote
     * @returns {Usec}
     */
    localTime(remote: Usec): Usec;
    /**
     * Returns the first and the last remote time that the error bound allows.
     * @returns {{earliest: Usec, latest: Usec}}
     */
    interval(): {
        earliest: Usec;
        latest: Usec;
    };
    /**
     * Chains two mappings: this one leads from the local clock to a second one, next from the
     * second one to a third. The result leads from the local clock to the third. A relay uses it
     * to tell its receivers what it knows of a sender. Its steps are no longer a count, but they
     * change when those of either mapping do.
     * @param {Snapshot} next
     * @returns {Snapshot}
     */
    then(next: Snapshot): Snapshot;
    /** Returns the snapshot in a line, for logs. */
    toString(): string;
    /**
     * Returns the 63 bytes in which a snapshot travels, as Go's AppendBinary does.
     * @returns {Uint8Array}
     */
    toBytes(): Uint8Array;
    #private;
}
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
    protected view(): View;
    /** Whether anything is known. */
    get synchronized(): boolean;
    /** How often the remote time jumped. The first synchronization does not count. */
    get steps(): number;
    /**
     * Returns the remote clock. For increasing local times the result never goes back except at a
     * step. Corrections of up to 50 ms are slewed; soon after a clock step, of up to 0.5 ms.
     * @param {Usec} now
     * @returns {Usec | null}
     */
    remoteTime(now: Usec): Usec | null;
    /**
     * Returns the local time at which remoteTime reaches remote: the inverse. remoteTime of the
     * result is remote or 1 us more.
     * @param {Usec} remote
     * @returns {Usec | null}
     */
    localTime(remote: Usec): Usec | null;
    /**
     * Returns how far remoteTime may be off while there is no clock step: at least half the round
     * trip.
     * @param {Usec} now
     * @returns {number | null} us
     */
    errorBound(now: Usec): number | null;
    /**
     * Returns how long the fastest datagrams from the peer took recently.
     * @returns {number | null} us
     */
    minimumOneWayDelay(): number | null;
    /**
     * Returns how long the fastest datagrams to the peer took recently.
     * @returns {number | null} us
     */
    minimumDelayToPeer(): number | null;
    /**
     * Returns the rate of the remote clock minus that of the local one. It is null until it is
     * known to 25 parts per million.
     * @returns {number | null} parts per million
     */
    skew(): number | null;
    /**
     * Returns the peer's clock at a local time, for a payload. The peer reads it with fromTS23.
     * @param {Usec} local
     * @returns {number | null}
     */
    toTS23(local: Usec): number | null;
    /**
     * Returns the peer's clock at a local time, for a payload. The peer reads it with fromTS16.
     * @param {Usec} local
     * @returns {number | null}
     */
    toTS16(local: Usec): number | null;
    /**
     * Returns everything that is known at a local time. While that is nothing, known is false.
     * @param {Usec} now
     * @returns {Snapshot}
     */
    snapshot(now: Usec): Snapshot;
    /**
     * Returns '' if remoteTime(now) is at most tolerable from the truth, else why nobody should
     * rely on it: see Snapshot.within.
     * @param {number} tolerable us
     * @param {Usec} now
     * @returns {Trust}
     */
    within(tolerable: number, now: Usec): Trust;
}
/**
 * Synchronizer estimates the offset to the clock of one peer from stamps and reports. Link feeds
 * one from the headers of datagrams, Ping two from exchanges.
 */
export class Synchronizer extends RemoteClock {
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
    datagram(stamp: number, now: Usec): number | null;
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
    report(report: number, now: Usec): void;
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
    anchor(remote: Usec, now: Usec): void;
    /** Forgets everything, as when another peer takes the place of this one. That is a step. */
    reset(): void;
    /**
     * Takes that the local machine slept until now, so that its clock may have stood still. Until
     * datagrams have shown what the clock reads, within() says 'unchecked'.
     * @param {Usec} now
     */
    slept(now: Usec): void;
    /**
     * Returns the report to send to the peer in the next datagram: the least delta since the last
     * report, or 0 if nothing arrived since. Reading a report ends its interval, so read one only
     * to send it. A repeated call returns the same number for a second. Beside a C++ original it
     * returns what an original would: the least delta of the last ten seconds, as it was measured.
     * @param {Usec} now
     * @returns {number | null} null before the first datagram
     */
    minDelta(now: Usec): number | null;
    #private;
}
/**
 * Link is one end of a connection. Put header() in front of each payload, and pass what arrives to
 * open(). Encrypt and authenticate both, and drop repeated datagrams: whoever can forge or replay
 * them can move the clock. For the next connection take a new Link.
 */
export class Link extends RemoteClock {
    /**
     * Returns what goes in front of the payload of a datagram, 4 to 15 bytes. Call it just before
     * the datagram is sent.
     * @param {Usec} now
     * @returns {Uint8Array}
     */
    header(now: Usec): Uint8Array;
    /**
     * Says that a datagram with a header was not sent. The next one then carries a report, for
     * what arrived since the one that may be lost.
     */
    sendFailed(): void;
    /**
     * Takes a datagram that is proven to come from the peer and was not seen before.
     * @param {Uint8Array} datagram
     * @param {Usec} now when it arrived
     * @returns {Opened | Refused}
     */
    open(datagram: Uint8Array, now: Usec): Opened | Refused;
    /** Forgets the peer, as for a new connection. That is a step. */
    reset(): void;
    /**
     * Takes that the local machine slept until now: see Synchronizer.slept.
     * @param {Usec} now
     */
    slept(now: Usec): void;
    /**
     * Returns how long ago the last datagram came. Use it to notice soon that the peer is gone:
     * within() is about the time, which goes on while the peer is silent.
     * @param {Usec} now
     * @returns {number | null} us
     */
    sinceHeard(now: Usec): number | null;
    /**
     * Returns the local time at as the peer's clock will read it, for a payload. The peer passes
     * it to acceptInstant, so both ends can act at the same instant. Send an instant that is
     * seconds ahead again in each datagram: later ones are more exact.
     * @param {Usec} now
     * @param {Usec} at up to 16 s ahead
     * @param {number} tolerable us that the peer's clock may be off
     * @returns {{instant: number, error: ''} | {instant: null, error: Trust | 'ahead'}}
     */
    proposeInstant(now: Usec, at: Usec, tolerable: number): {
        instant: number;
        error: "";
    } | {
        instant: null;
        error: Trust | "ahead";
    };
    /**
     * Reads the 3 bytes of the peer's appendEvent, in a datagram that arrived now, and returns the
     * local time at which that event happened, off by at most errorBound(now). Except for
     * 'truncated' and 'unsynchronized', there is a time even with an error.
     * @param {Usec} now
     * @param {Uint8Array} bytes
     * @param {number} oldest how long ago it may have happened, us
     * @returns {Event}
     */
    readEvent(now: Usec, bytes: Uint8Array, oldest: number): Event;
    /**
     * Takes what the peer's toTS23 returned, in a datagram that arrived now, and returns the local
     * time at which that event happened. It is off by at most the peer's errorBound of that time.
     * @param {Usec} now
     * @param {number} event
     * @param {number} oldest how long ago it may have happened, us, up to 50 s
     * @returns {Event}
     */
    acceptEvent(now: Usec, event: number, oldest: number): Event;
    #private;
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
    /**
     * @param {number} [session] a number that the server knows, too
     * @param {number} [interval] us between two requests, or up to a sixteenth less
     */
    constructor(session?: number, interval?: number);
    /**
     * Returns how long to wait before the next request, us; 0: now. Ask again after each reply.
     * @param {Usec} now
     * @returns {number}
     */
    next(now: Usec): number;
    /**
     * Returns a request of 13 bytes, to send at once. One that gets lost needs no attention.
     * @param {Usec} now
     * @param {bigint} [nonce] random, for tests
     * @returns {Uint8Array}
     */
    request(now: Usec, nonce?: bigint): Uint8Array;
    /**
     * Takes a reply, and returns what became of it. A refused one changes nothing.
     * @param {Uint8Array} bytes
     * @param {Usec} now when it arrived
     * @returns {Used | Unused}
     */
    reply(bytes: Uint8Array, now: Usec): Used | Unused;
    /**
     * Forgets the server, as after a reconnection. Only replies of the new session, and to later
     * requests, will be accepted. What is synchronized next is a step.
     * @param {number} [session]
     */
    reset(session?: number): void;
    /**
     * Takes that the local machine slept until now, so that its clock may have stood still. It
     * asks a group of requests, and within() says 'unchecked' until the answers have shown what
     * the clock is.
     * @param {Usec} now
     */
    slept(now: Usec): void;
    /**
     * Returns the 20th, 50th and 80th percentiles of the round trips of the last 64 exchanges, or
     * of those since the start or since one contradicted what was known. A path whose 80th
     * percentile is far above its 20th has queues.
     * @returns {{p20: number, p50: number, p80: number} | null} us
     */
    roundTrips(): {
        p20: number;
        p50: number;
        p80: number;
    } | null;
    #private;
}
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
    /** @param {number} [share] */
    constructor(share?: number);
    /** The share that may come too late, from 0.001 to 0.5. It may be changed at any time. */
    share: number;
    /**
     * Takes that something was sent, and has arrived. Call it in the order of arrival. Of things
     * that were sent at the same time only the first counts.
     * @param {number} sent us, by the sender's clock
     * @param {number} arrived us, by the receiver's clock
     */
    add(sent: number, arrived: number): void;
    /**
     * How long after its sending to show a thing, us: show it when the receiver's clock reads sent
     * + wait. It is null before the first arrival.
     * @returns {number | null}
     */
    get wait(): number | null;
    /**
     * The median of the last delays, us, or null before the first arrival.
     * @returns {number | null}
     */
    get level(): number | null;
    /** How long it is from one sending to the next, us: 0 before two things have arrived. */
    get interval(): number;
    /**
     * Takes that all delays are longer by a time from now on, because of a clock step.
     * @param {number} by us
     */
    shift(by: number): void;
    /** Forgets all but share, as for a new connection. */
    reset(): void;
    #private;
}
/**
 * TickClient follows the game time of a server of package tick. For the next connection take a new
 * one.
 */
export class TickClient {
    /**
     * @param {RemoteClock} remote a Link, or a Ping
     * @param {BufferOptions} [buffers]
     */
    constructor(remote: RemoteClock, buffers?: BufferOptions);
    /** How often the times jumped. */
    steps: number;
    /** They may be changed. @type {BufferOptions} */
    buffers: BufferOptions;
    /** Whether the server has sent messages of another version: then nothing will come of it. */
    otherVersion: boolean;
    /**
     * Takes a Welcome, and returns whether it counts. A server of another version is in
     * otherVersion from then on.
     * @param {Uint8Array} bytes
     * @param {Usec} now when it arrived
     * @returns {boolean}
     */
    welcome(bytes: Uint8Array, now: Usec): boolean;
    /**
     * Takes that a state came.
     * @param {bigint} epoch
     * @param {bigint} tick
     * @param {Usec} now when it arrived
     */
    state(epoch: bigint, tick: bigint, now: Usec): void;
    /**
     * Returns '' if clocks(now).shared is at most tolerable from the truth, else why nobody should
     * rely on it: as Link and Ping do, but 'silent' after 3 s without a Welcome or a state.
     * @param {number} tolerable us
     * @param {Usec} now
     * @returns {Trust}
     */
    within(tolerable: number, now: Usec): Trust;
    /**
     * Returns the message to send some times a second, or null once the server has heard it.
     * @param {Usec} now
     * @returns {Uint8Array | null}
     */
    hello(now: Usec): Uint8Array | null;
    /** The share of inputs that came too late, of some thousands. */
    get lateInputs(): number;
    /** The share of states that came too late, of some thousands. */
    get lateStates(): number;
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
    clocks(now: Usec): (Times & Clocks) | null;
    #private;
}
/**
 * States keeps the last states of a server, so that a client can show what is between two of them.
 * @template S
 */
export class States<S> {
    /**
     * Adds the state of a tick. One for the same tick, or that is older than all that are kept,
     * changes nothing.
     * @param {bigint} tick
     * @param {S} state
     */
    put(tick: bigint, state: S): void;
    /**
     * Returns the state before a game time, such as clocks().server, and the one after it, and by
     * how much to blend them: 0 is the first, and below 1. Before the oldest state, and after the
     * newest, both are that one. It returns null while there is none.
     * @param {number} time us
     * @param {Rate} rate
     * @returns {{before: S, after: S, blend: number} | null}
     */
    around(time: number, rate: Rate): {
        before: S;
        after: S;
        blend: number;
    } | null;
    /** Forgets all, as where the server has started anew. */
    clear(): void;
    #private;
}
/**
 * a reading of a clock: microseconds, modulo 2^64
 */
export type Usec = bigint;
/**
 * by: ms; count: readings since the one before
 */
export type Advance = {
    by: number;
    count: number;
};
/**
 * An edge of the lower convex hull of the points (Moon, Skelly and Towsley 1999): a floor that
 * turns below them leaves one point there and touches the next.
 */
export type Edge = {
    slope: number;
    /**
     * us: the sum of the heights of all points above a floor with that slope
     */
    total: number;
};
/**
 * a datagram that was taken
 */
export type Opened = {
    /**
     * what follows the header, without a copy
     */
    payload: Uint8Array;
    /**
     * its one-way delay, us; null while that is not known
     */
    delay: number | null;
    error?: undefined;
};
/**
 * a datagram that was refused
 */
export type Refused = {
    /**
     * 'version': the peer speaks an
     * older one
     */
    error: "truncated" | "reserved" | "version" | "anchor";
};
export type Header = {
    /**
     * bytes
     */
    size: number;
    stamp: number;
    report: number | null;
    anchor: Usec | null;
    hasAnchor: boolean;
    asks: boolean;
    checks: boolean;
};
/**
 * num / den ticks a second
 */
export type Rate = {
    num: number;
    den: number;
};
/**
 * what a server says of its game time
 */
export type Welcome = {
    epoch: bigint;
    /**
     * of the rate
     */
    num: number;
    /**
     * of the rate
     */
    den: number;
    /**
     * what the server's clock reads at game time 0
     */
    origin: Usec;
    /**
     * now, on the server
     */
    tick: bigint;
    /**
     * the server has had a Hello
     */
    heard: boolean;
    paused: boolean;
    /**
     * by how many ticks the server is behind
     */
    debt: number;
    /**
     * of which inputs it tells: this one,
     */
    newest: bigint;
    /**
     * newest - 1 and so on: by how many units of 0.1 ms each came early,
     * below 0 late, -32768 if none came
     */
    early: number[];
    /**
     * the start of tick, by the server's clock
     */
    sent: Usec;
};
export type Away = {
    /**
     * us in which no code of the page ran
     */
    away: number;
    /**
     * us of these in which the page's clock stood still: the machine slept
     */
    slept: number;
    /**
     * whether the page is hidden
     */
    hidden: boolean;
};
/**
 * '' is for yes
 */
export type Trust = "" | "unsynchronized" | "silent" | "ambiguous" | "stepped" | "unchecked" | "wide";
/**
 * what both ways say together at one time
 */
export type Look = {
    /**
     * us
     */
    roundTrip: number;
    /**
     * us: offset minus midpoint
     */
    correction: number;
    /**
     * us: two looks at the same round trip differ by less
     */
    deadBand: number;
    /**
     * us: and most of them by less than this
     */
    pathBand: number;
};
/**
 * the fastest datagram of a span of time
 */
export type Sample = {
    /**
     * x at which the span begins
     */
    from: number;
    /**
     * x at which it ends
     */
    to: number;
    /**
     * x from which on its datagrams arrived; later than from if a report of 0
     * came
     */
    since: number;
    /**
     * x: about when the datagram arrived
     */
    at: number;
    /**
     * us: its height above the floor
     */
    least: number;
    /**
     * us: the height of the second fastest; Infinity if that is not known
     */
    next: number;
};
/**
 * the fastest datagram of a span
 */
export type Point = {
    /**
     * about when it arrived
     */
    x: number;
    /**
     * us
     */
    delta: number;
};
/**
 * when something happened
 */
export type Event = {
    /**
     * local time
     */
    at: Usec | null;
    /**
     * 'future':
     * after now by more than the error bound; 'before': before the peer started, or before or less
     * than 15 s after a clock step; 'old': too long ago
     */
    error: "" | "truncated" | "unsynchronized" | "future" | "before" | "old";
};
/**
 * 'synced': for the first time;
 *   'stepped': a clock step; 'many servers': steps as frequent as if several machines answered
 */
export type Used = "accepted" | "synced" | "stepped" | "many servers";
export type Unused = "malformed" | "old session" | "unknown request" | "duplicate" | "overtaken" | "too late" | "impossible";
/**
 * an input or a state that has come
 */
export type Arrival = {
    /**
     * us, by the reference or the server's clock
     */
    sent: number;
    /**
     * us: how far the clock should have been for it to be just in time
     */
    distance: number;
};
/**
 * game times, us
 */
export type Times = {
    /**
     * what to show of others
     */
    server: number;
    /**
     * now, the same for all
     */
    shared: number;
    /**
     * what to play
     */
    predicted: number;
};
export type Clocks = {
    /**
     * how far off each may be while there is no clock step, us
     */
    bounds: Times;
    epoch: bigint;
    rate: Rate;
    paused: boolean;
};
export type BufferOptions = {
    /**
     * us that others are shown behind the fastest states; without it
     * that is one tick at first, and then follows what state() is told
     */
    clientBuffer?: number | undefined;
    /**
     * us that inputs are ahead of what the fastest need; without it
     * that is two ticks at first, and then follows what the server says of inputs (AcceptInput)
     */
    serverBuffer?: number | undefined;
    /**
     * how many inputs, and states, may come too late; 0.01
     */
    lateShare?: number | undefined;
};
/** View is one consistent state for readers: how they get from a local time to the remote one. */
declare class View {
    from: bigint;
    whole: bigint;
    part: number;
    slew: number;
    skewBefore: number;
    skewAfter: number;
    steps: number;
    delay: number;
    toPeer: number;
    bound: number;
    dispersion: number;
    undisturbed: number;
    scatter: number;
    jitter: number;
    heard: bigint;
    patience: number;
    synced: boolean;
    disturbed: boolean;
    unchecked: boolean;
    ambiguous: boolean;
    /**
     * Returns the rate of the offset x us after from.
     * @param {number} x
     */
    skewAt(x: number): number;
    /**
     * Returns what is left of the slew x us after from.
     * @param {number} x
     */
    slewLeft(x: number): number;
    /**
     * Returns what readers add x us after from, where the rate is skew.
     * @param {number} x
     * @param {number} skew
     */
    offset(x: number, skew: number): {
        whole: bigint;
        part: number;
    };
    /**
     * Returns the remote clock at a local time.
     * @param {Usec} local
     * @returns {Usec}
     */
    remote(local: Usec): Usec;
    /**
     * Returns the error bound, in us, x us after from. It also contains what is left of the slew
     * and the drift of the skew.
     * @param {number} x
     */
    boundAt(x: number): number;
    /**
     * Takes the way from a local time to the remote one from another view.
     * @param {View} old
     */
    takeMap(old: View): void;
    /**
     * Returns the view, which holds from then on. What does not belong to one moment stays as it
     * was in the view before it.
     * @param {View} old
     * @param {Usec} from
     * @returns {View}
     */
    after(old: View, from: Usec): View;
}
export {};
