// SPDX-License-Identifier: BSD-3-Clause

// The client of the game, for pages and Node: it keeps time with the server, sends an input for
// each tick, and says where everybody is. It draws nothing.

import {
	Link, PageWatch, States, TickClient, readWelcome, since, tickAt, tickStart,
} from './timesync.mjs';
import {connect} from './transport.mjs';

// The first byte of a message.
const WELCOME = 4;
const INPUT = 0x10;
const STATE = 0x11;
const NONE_CAME = -32768; // for a tick, in a Welcome
const RETRY_AFTER = 300; // ms
const HELLO_EVERY = 200_000; // us
const STAMP_EVERY = 30_000; // us
const TOLERABLE = 100_000; // us: what this game can bear

const sleep = ms => new Promise(done => setTimeout(done, ms));

/**
 * Somebody who stands somewhere.
 * @typedef {object} Figure
 * @property {number} number 0 is the server's
 * @property {boolean} own
 * @property {number} x metres
 * @property {number} height metres
 * @property {number} at the game time at which it stands there, us
 *
 * What the server says first.
 * @typedef {object} Greeting
 * @property {{top: number, rise: number, width: number, speed: number}} world
 * @property {string} hash
 * @property {number} unixAtZero
 *
 * What to draw.
 * @typedef {object} View
 * @property {{server: number, shared: number, predicted: number}} times game times, us
 * @property {Figure[]} figures
 * @property {string} doubt why not to trust it, or ''
 */

export class Game {
	/**
	 * @param {object} options
	 * @param {string} options.base where the page is
	 * @param {import('./timesync.mjs').Clock} options.clock
	 * @param {boolean} [options.datagrams] false: over a WebSocket in any case
	 * @param {(text: string) => void} [options.say] is told what happens
	 * @param {(way: 'to'|'from', us: number) => void} [options.onDelay] is told how long each
	 *   datagram took
	 */
	constructor({base, clock, datagrams, say = () => {}, onDelay = () => {}}) {
		this.base = base;
		this.clock = clock;
		this.datagrams = datagrams;
		this.say = say;
		this.onDelay = onDelay;
		this.connections = 0;
		this.walk = 0; // -1 to the left, +1 to the right
		this.wishes = ''; // what the sliders say
		this.asleep = false; // nothing is sent and nothing is heard, as while a machine sleeps
		this.watch = new PageWatch({clock, onAway: away => this.wasAway(away)});
		this.begin();
	}

	/** For each connection all is new: the server may be another one, with another clock. */
	begin() {
		/** @type {import('./transport.mjs').Connection|null} */
		this.connection = null;
		this.link = new Link();
		this.ticks = new TickClient(this.link);
		this.epoch = null; // of the inputs and states
		this.next = null; // the tick of the next input
		this.states = new States();
		this.inputs = {inTime: 0, late: 0, newest: null}; // as the server got them, up to a tick
		this.you = null; // your number
		this.x = 0; // where you stand, and stood a tick before
		this.was = 0;
		this.saidHelloAt = null;
		this.sentAt = null;
	}

	/** Plays, and connects again whenever the connection ends. */
	async run() {
		for (;;) {
			try {
				await this.playOnce();
			} catch (error) {
				this.say(`No connection: ${error.message}.`);
			}
			this.begin();
			await sleep(RETRY_AFTER);
		}
	}

	async playOnce() {
		const response = await fetch(new URL('greeting', this.base));
		/** @type {Greeting} */
		this.greeting = await response.json();
		const {clock, datagrams, link} = this;
		const url = new URL('play', this.base);
		url.searchParams.set('wish', this.wishes);
		const connection = await connect({
			url, clock, datagrams,
			hash: this.greeting.hash,
			take: (bytes, now) => {
				const isOld = this.link !== link; // of a connection that has ended
				if (!isOld && !this.asleep) this.take(bytes, now);
			},
		});
		this.connection = connection;
		this.connections++;
		this.say(`Connected over ${connection.kind}.`);
		await connection.closed;
		connection.close();
		this.say('The connection has ended.');
	}

	/** Tells the server how to treat messages. @param {string} text JSON */
	wish(text) {
		this.wishes = text; // of later connections, too
		this.connection?.wish(text);
	}

	/** @param {import('./timesync.mjs').Away} away */
	wasAway({slept}) {
		if (slept === 0) return; // a page that was frozen or slow has a clock that ran on
		this.link.slept(this.clock.now());
		this.say(`This machine slept for ${(slept / 1e6).toFixed(1)} s.`);
	}

	/** Takes what arrived at now. @param {Uint8Array} datagram @param {bigint} now */
	take(datagram, now) {
		this.watch.check();
		const {payload, delay, error} = this.link.open(datagram, now);
		if (error) return;
		if (delay !== null) this.onDelay('from', delay);
		if (payload[0] === WELCOME) this.takeWelcome(payload, now);
		if (payload[0] === STATE) this.takeState(payload, now);
		this.work(); // timers are slow while the page is hidden
	}

	/**
	 * Takes where the game time is, and how early or late inputs came.
	 * @param {Uint8Array} payload
	 * @param {bigint} now
	 */
	takeWelcome(payload, now) {
		if (!this.ticks.welcome(payload, now)) return;
		const {inputs} = this;
		const {newest, early} = readWelcome(payload);
		early.forEach((by, i) => {
			const isNew = inputs.newest === null || newest - BigInt(i) > inputs.newest;
			if (by === NONE_CAME || !isNew) return;
			if (by < 0) inputs.late++;
			else inputs.inTime++;
		});
		if (early.length) inputs.newest = newest;
	}

	/** Keeps a state until it is shown. @param {Uint8Array} payload @param {bigint} now */
	takeState(payload, now) {
		const view = new DataView(payload.buffer, payload.byteOffset, payload.byteLength);
		const epoch = view.getBigUint64(1, true);
		const tick = view.getBigInt64(9, true);
		const you = view.getUint32(17, true);
		const delay = view.getInt32(21, true);
		/** @type {Map<number, {x: number, height: number}>} */
		const players = new Map();
		for (let at = 25; at < payload.length; at += 12) {
			const x = view.getFloat32(at + 4, true);
			const height = view.getFloat32(at + 8, true);
			players.set(view.getUint32(at, true), {x, height});
		}
		if (delay >= 0) this.onDelay('to', delay);
		if (this.you === null) this.x = this.was = players.get(you).x;
		this.you = you;
		this.ticks.state(epoch, tick, now);
		if (epoch !== this.ticks.clocks(now)?.epoch) return;
		this.states.put(tick, players);
	}

	/** Sends what is due. Call it by a timer; arriving messages and frames call it, too. */
	work() {
		if (!this.connection || this.asleep) return;
		this.watch.check();
		const now = this.clock.now();
		const clocks = this.ticks.clocks(now);
		if (!clocks || this.you === null) {
			const isTime = this.sentAt === null || since(now, this.sentAt) >= STAMP_EVERY;
			if (isTime) this.send([]); // a stamp alone
			return;
		}
		const hello = this.ticks.hello(now);
		if (hello && (this.saidHelloAt === null || since(now, this.saidHelloAt) >= HELLO_EVERY)) {
			this.saidHelloAt = now;
			this.send(hello);
		}
		// An input that is sent now comes in time for this tick.
		const due = tickAt(clocks.predicted, clocks.rate);
		if (this.epoch !== clocks.epoch) this.states.clear(); // the ticks of another server
		// Inputs that waited for over 1/4 s are late anyway. Those for over 1 s ahead were
		// refused.
		const second = BigInt(Math.ceil(clocks.rate.num / clocks.rate.den));
		const missed = due - (this.next ?? due);
		const far = missed > second / 4n || missed < -second;
		if (this.next === null || this.epoch !== clocks.epoch || far) this.next = due;
		this.epoch = clocks.epoch;
		for (; this.next <= due; this.next++) this.send(this.input(clocks, this.next));
	}

	/** Plays a tick: you walk, and stand on the platform as it is at that tick. */
	input({epoch, rate}, tick) {
		const {speed, width} = this.greeting.world;
		this.was = this.x;
		this.x = Math.min(Math.max(this.x + this.walk * speed * rate.den / rate.num, 0), width);
		const bytes = new Uint8Array(25);
		const view = new DataView(bytes.buffer);
		bytes[0] = INPUT;
		view.setBigUint64(1, epoch, true);
		view.setBigInt64(9, tick, true);
		view.setFloat32(17, this.x, true);
		view.setFloat32(21, this.platform(tickStart(tick, rate)), true);
		return bytes;
	}

	/** Sends a message of the game, or nothing but a stamp. @param {ArrayLike<number>} payload */
	send(payload) {
		const now = this.clock.now();
		const header = this.link.header(now);
		const datagram = new Uint8Array(header.length + payload.length);
		datagram.set(header);
		datagram.set(payload, header.length);
		this.sentAt = now;
		this.connection.send(datagram);
	}

	/** How high the platform is at a game time. @param {number} us @returns {number} metres */
	platform(us) {
		const {top, rise} = this.greeting.world;
		const cycle = 2 * rise;
		const phase = (us / 1e6 % cycle + cycle) % cycle;
		return top * (1 - Math.abs(phase / rise - 1));
	}

	/**
	 * What to draw now, or null while that is not known.
	 * @returns {View|null}
	 */
	look() {
		if (this.asleep) return null;
		this.work(); // or clocks would be ahead of what was sent
		const now = this.clock.now();
		const clocks = this.ticks.clocks(now);
		if (!clocks || this.you === null) return null;
		const {server, shared, predicted, rate} = clocks;
		const figures = this.othersAt(server, rate);
		const start = tickStart(tickAt(predicted, rate), rate);
		const fraction = (predicted - start) / 1e6 * rate.num / rate.den;
		figures.push({
			number: this.you,
			own: true,
			x: this.was + (this.x - this.was) * fraction,
			height: this.platform(predicted),
			at: predicted,
		});
		const doubt = this.ticks.within(TOLERABLE, now);
		return {times: {server, shared, predicted}, figures, doubt};
	}

	/** Where the others are: between the states before and after, of which some may be lost. */
	othersAt(us, rate) {
		/** @type {Figure[]} */
		const figures = [];
		const around = this.states.around(us, rate);
		for (const [number, a] of around?.before ?? []) {
			const b = around.after.get(number);
			if (number === this.you || !b) continue; // who is not in both has left
			const x = a.x + (b.x - a.x) * around.blend;
			const height = a.height + (b.height - a.height) * around.blend;
			figures.push({number, own: false, x, height, at: us});
		}
		return figures;
	}
}
