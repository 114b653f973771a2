// SPDX-License-Identifier: BSD-3-Clause

// Plays games in which something goes wrong, with a TickClient: the server stops, the path queues,
// states are rare, the page is slow or was suspended. In simulated time:
//
//	node js/games.mjs

import {check, finish, generator} from './testing.mjs';
import {Link, TickClient, readWelcome, tickAt, tickStart} from './timesync.mjs';

const random = generator(11);

const rate = {num: 60, den: 1};
const oneWay = 30_000; // us
const step = 1000; // us of simulated time

/** The server's clock, known exactly. */
const exact = {
	remoteTime: now => now,
	errorBound: () => 1000,
	minimumOneWayDelay: () => oneWay,
	minimumDelayToPeer: () => oneWay,
	within: () => '',
};

/** What a server of package tick says of itself, and of inputs. */
function welcomeOf({tick, debt, inputs}) {
	const bytes = new Uint8Array(inputs.length > 0 ? 45 + 2 * inputs.length : 36);
	const b = new DataView(bytes.buffer);
	b.setUint8(0, 4);
	b.setBigUint64(1, 1n, true); // epoch
	b.setUint32(9, rate.num, true);
	b.setUint32(13, rate.den, true);
	b.setBigInt64(25, tick, true);
	b.setUint8(33, inputs.length > 0 ? 5 : 1);
	b.setUint16(34, debt, true);
	if (inputs.length > 0) {
		b.setBigInt64(36, inputs[0].tick, true);
		b.setUint8(44, inputs.length);
	}
	for (const [i, {early}] of inputs.entries()) {
		b.setInt16(45 + 2 * i, early, true);
	}
	return bytes;
}

/** A server and a TickClient, on a path of 30 ms each way. Times are in us. */
class Game {
	client = new TickClient(exact);
	now = 0;
	late = 0; // inputs that came too late
	inputs = 0;
	starved = 0; // frames that had no later state to show
	frames = 0;
	most = 0; // us: the longest that server was behind
	next = 0n; // tick of the server
	#played = null; // the last tick for which an input was sent
	#newest = -1n; // tick of the last state
	#flying = []; // in the order of arrival
	#came = []; // inputs that were not told of yet

	/**
	 * @param {object} options
	 * @param {number} [options.frame] us from one frame of the page to the next
	 * @param {number} [options.serverFrame] us from one frame of the server to the next
	 * @param {number} [options.announce] us from one Welcome to the next
	 * @param {bigint} [options.each] a state is sent each so many ticks
	 * @param {number} [options.jitter] us
	 * @param {(now: number) => boolean} [options.stops] says when the server stops
	 * @param {(now: number) => boolean} [options.hangs] says when the page does
	 * @param {(now: number) => number} [options.queue] what the way from the server adds, us
	 */
	constructor(options) {
		this.options = {
			frame: 16_000,
			serverFrame: step,
			announce: 1e6,
			each: 1n,
			jitter: 0,
			stops: () => false,
			hangs: () => false,
			queue: () => 0,
			...options,
		};
	}

	run(seconds) {
		const {frame, serverFrame, announce, stops, hangs} = this.options;
		const end = this.now + seconds * 1e6;
		for (; this.now < end; this.now += step) {
			if (this.now % serverFrame < step && !stops(this.now)) {
				this.#advance();
			}
			if (this.now % announce === 0 && !stops(this.now)) {
				this.#announce();
			}
			if (!hangs(this.now)) {
				this.#deliver();
			}
			if (this.now % frame === 0 && !hangs(this.now)) {
				this.#frame();
			}
		}
		return this;
	}

	clear() {
		this.late = 0;
		this.inputs = 0;
		this.starved = 0;
		this.frames = 0;
		this.most = 0;
		return this;
	}

	/** How far server is behind the shared time, us. */
	get delay() {
		const {shared, server} = this.client.clocks(BigInt(this.now));
		return shared - server;
	}

	/** How far predicted is ahead of the shared time, us. */
	get lead() {
		const {shared, predicted} = this.client.clocks(BigInt(this.now));
		return predicted - shared;
	}

	/** The server plays what is due. */
	#advance() {
		const due = tickAt(this.now, rate);
		const isBehind = due - this.next > 1n;
		for (; this.next <= due; this.next++) {
			if (this.next % this.options.each === 0n) {
				const tick = this.next;
				this.#send(() => {
					this.#newest = tick > this.#newest ? tick : this.#newest;
					this.client.state(1n, tick, BigInt(this.now));
				});
			}
		}
		if (isBehind) {
			this.#announce();
		}
	}

	#announce() {
		const inputs = this.#came.splice(0).slice(-64).reverse();
		const tick = tickAt(this.now, rate);
		const bytes = welcomeOf({tick, debt: Number(tick - this.next + 1n), inputs});
		check(readWelcome(bytes) !== null, 'a Welcome', inputs);
		this.#send(() => this.client.welcome(bytes, BigInt(this.now)));
	}

	#send(arrive) {
		const {jitter, queue} = this.options;
		const at = this.now + oneWay + jitter * random() + queue(this.now);
		const i = this.#flying.findLastIndex(one => one.at <= at);
		this.#flying.splice(i + 1, 0, {at, arrive});
	}

	#deliver() {
		while (this.#flying.length > 0 && this.#flying[0].at <= this.now) {
			this.#flying.shift().arrive();
		}
	}

	/** The page plays a frame, and sends what is due. */
	#frame() {
		const clocks = this.client.clocks(BigInt(this.now));
		if (clocks === null) {
			return;
		}
		this.frames++;
		this.starved += clocks.server > tickStart(this.#newest, rate) ? 1 : 0;
		this.most = Math.max(this.most, clocks.shared - clocks.server);
		const due = tickAt(clocks.predicted, rate);
		for (let tick = (this.#played ?? due - 1n) + 1n; tick <= due; tick++) {
			const early = tickStart(tick, rate) - this.now - oneWay;
			this.inputs++;
			this.late += early < 0 ? 1 : 0;
			this.#came.push({tick, early: Math.max(Math.floor(early / 100), -32767)});
		}
		this.#played = due;
	}
}

const ms = us => (us / 1e3).toFixed(0);
const during = (from, seconds) => now => now > from && now < from + seconds * 1e6;

// What is held up once, by the server, the path or the page, is no longer path. How far others are
// shown behind stays as it was.
for (const [what, options] of [
	['the server stops for 0.7 s', {serverFrame: 16_700, stops: during(20e6, 0.7)}],
	['a server of 30 frames/s stops for 0.8 s', {serverFrame: 33_000, stops: during(20e6, 0.8)}],
	['a young server stops for 0.7 s', {serverFrame: 16_700, stops: during(4e6, 0.7)}],
	['the path stops for 0.7 s', {queue: t => during(20e6, 0.7)(t) ? 20.7e6 - t : 0}],
	['the page hangs for 0.7 s', {hangs: during(20e6, 0.7)}],
]) {
	const game = new Game({jitter: 5000, ...options});
	const from = what.includes('young') ? 3.5 : 19;
	const before = game.run(from).delay;
	const most = game.clear().run(60).most;
	console.log(`${what}: others ${ms(before)} ms behind before, up to ${ms(most)} ms after`);
	check(most < before + 25_000, what, before, most);
}

// A queue that has ended is forgotten in a few seconds, however long it was.
{
	const game = new Game({queue: t => during(60e6, 20)(t) ? 900_000 : 0});
	const before = game.run(59).delay;
	const within = game.run(20).delay;
	game.run(1 + 0.9 + 8);
	const after = game.delay;
	console.log(`a queue of 0.9 s: others ${ms(before)} ms behind before, ` +
		`${ms(within)} ms in it, ${ms(after)} ms 8 s later`);
	check(within > 900_000 && after < before + 50_000, 'a queue', before, within, after);
}

// States that are sent more seldom than ticks starve no frame.
{
	const game = new Game({each: 3n}).run(20).clear().run(40);
	const {starved, frames, client} = game;
	console.log(`20 states/s: ${starved} of ${frames} frames starve; ` +
		`lateStates ${client.lateStates.toFixed(3)}, others ${ms(game.delay)} ms behind`);
	check(starved < 0.01 * frames && client.lateStates < 0.01, 'rare states', starved, frames);
}

// A slow page leads by as long as its frames need.
for (const frame of [100_000, 143_000, 500_000]) {
	const game = new Game({frame, announce: 250_000}).run(20).clear().run(60);
	const {late, inputs, lead, client} = game;
	console.log(`frames of ${ms(frame)} ms: ${late} of ${inputs} inputs late; ` +
		`lateInputs ${client.lateInputs.toFixed(2)}, lead ${ms(lead)} ms`);
	const isSmall = late < 0.03 * inputs && client.lateInputs < 0.05;
	check(isSmall && lead < oneWay + frame + 100_000, 'slow frames', frame, late, lead);
}

// Where the page starts while the server hangs, the server answers the first datagram late, and
// the others a moment later. The wrong time is replaced at once, since nobody has played yet.
for (const hang of [100_000, 200_000]) {
	const here = new Link();
	const there = new Link();
	const client = new TickClient(here);
	const toServer = [];
	const toPage = [];
	let off = 0; // us
	let first = null; // us by which the first time was off
	for (let now = 0; now < 10e6; now += step) {
		while (toPage[0]?.at <= now) {
			const {header, welcome} = toPage.shift();
			here.open(header, BigInt(now));
			client.welcome(welcome, BigInt(now));
		}
		if (now % 16_000 === 0) {
			toServer.push({at: now + oneWay, header: here.header(BigInt(now))});
		}
		if (now >= hang && toServer[0]?.at <= now) { // one at a time
			there.open(toServer.shift().header, BigInt(now));
			const welcome = welcomeOf({tick: tickAt(now, rate), debt: 0, inputs: []});
			toPage.push({at: now + oneWay, header: there.header(BigInt(now)), welcome});
		}
		const clocks = client.clocks(BigInt(now));
		if (clocks === null) {
			continue;
		}
		const error = Math.abs(clocks.shared - now);
		first ??= error;
		if (now > hang + 1.5e6) {
			off = Math.max(off, error);
		}
	}
	check(first > hang / 4, 'the first time should be wrong', first);
	console.log(`a start in a hang of ${ms(hang)} ms: off by up to ${ms(off)} ms 1.5 s later`);
	check(off < 20_000, 'a start in a hang', hang, off);
}

// A page that was suspended finds old datagrams waiting. They arrive at one instant, so they say
// nothing about the clock.
for (const asleep of [60e6, 67e6, 100e6, 134e6]) {
	const here = new Link();
	const there = new Link();
	const client = new TickClient(here);
	const room = 200; // datagrams that wait at most
	const flying = [];
	const wakes = 30e6 + asleep;
	let socket = [];
	let off = 0;
	let trusted = 0; // answers that were beyond their bound
	let unknown = 0; // frames in which no time was known
	for (let now = 0; now < wakes + 5e6; now += step) {
		const isAsleep = now >= 30e6 && now < wakes;
		if (now % 16_000 === 0) {
			const welcome = welcomeOf({tick: tickAt(now, rate), debt: 0, inputs: []});
			flying.push({at: now + oneWay, header: there.header(BigInt(now)), welcome});
		}
		while (flying.length > 0 && flying[0].at <= now) {
			const one = flying.shift();
			if (socket.length < room) {
				socket.push(one);
			}
		}
		if (now % 16_000 !== 0 || isAsleep) {
			continue;
		}
		for (const {header, welcome} of socket.splice(0)) {
			here.open(header, BigInt(now));
			client.welcome(welcome, BigInt(now));
		}
		there.open(here.header(BigInt(now)), BigInt(now + oneWay));
		const clocks = client.clocks(BigInt(now));
		if (now > wakes && clocks === null) {
			unknown++;
		}
		if (now > wakes && clocks !== null) {
			const error = Math.abs(clocks.shared - now);
			off = Math.max(off, error);
			const isBeyond = error > clocks.bounds.shared;
			trusted += isBeyond && client.within(1e9, BigInt(now)) === '' ? 1 : 0;
		}
	}
	const seconds = asleep / 1e6;
	console.log(`after ${seconds} s asleep with a full socket: off by up to ${ms(off)} ms`);
	check(off < 5000 && trusted === 0 && unknown <= 1, 'asleep', asleep, off, trusted, unknown);
}

finish();
