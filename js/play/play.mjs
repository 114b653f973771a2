// SPDX-License-Identifier: BSD-3-Clause

// The client of main.go, for pages and Node: it knows the time of the game, sends an input for each tick, and says
// where the players are.

import {Ping, TickClient, nowUsec, receivedUsec, tickAt, tickStart} from './timesync.mjs';

export class Play {
	/** @param {string} url @param {(tick: bigint) => number} direction what the player does in a tick: -1, 0 or 1 */
	constructor(url, direction) {
		this.url = url; this.direction = direction;
		this.connect();
		setInterval(() => this.work(), 8);
	}
	/** For each connection all is new: the server may be another one, whose ticks begin at 0 again. */
	connect() {
		const ping = this.ping = new Ping(), game = this.game = new TickClient(ping);
		const socket = this.socket = new WebSocket(this.url);
		this.next = null; this.helloAt = -Infinity; this.states = new Map();
		socket.binaryType = 'arraybuffer';
		socket.onmessage = e => {
			const now = receivedUsec(), b = new Uint8Array(e.data); // the time before anything else
			if (b[0] === 0x71) ping.reply(b, now);
			if (b[0] === 4) game.welcome(b, now);
			if (b[0] === 0x11) this.state(b, now);
			this.work(); // timers are slow while the page is hidden
		};
		socket.onclose = socket.onerror = () => {
			socket.onclose = socket.onerror = null; // Node calls both, or one of them
			setTimeout(() => this.connect(), 300);
		};
	}
	/** Sends what is due. Call it by a timer, after each message, and in each frame before you draw. */
	work() {
		const {game, ping, socket} = this, now = nowUsec();
		if (socket.readyState !== WebSocket.OPEN) return;
		if (ping.next(now) === 0) socket.send(ping.request(nowUsec()));
		const hello = game.hello(now), clocks = game.clocks(now);
		if (hello && performance.now() - this.helloAt > 200) { // until the server has heard it
			this.helloAt = performance.now();
			socket.send(hello);
		}
		if (!clocks) return; // not known yet
		const due = tickAt(clocks.predicted, clocks.rate); // an input that is sent now comes in time for this tick
		const second = BigInt(Math.ceil(clocks.rate.num / clocks.rate.den)), missed = due - (this.next ?? due); // in ticks
		// Inputs that waited longer than 1/4 s are late anyway. Those sent for over 1 s ahead were refused: send them again.
		const far = this.next === null || this.epoch !== clocks.epoch || missed > second / 4n || -missed > second;
		if (far) this.next = due; // at first, with a server that has started anew, and after a sleep or a step
		this.epoch = clocks.epoch;
		for (; this.next <= due; this.next++) { // one for each tick, also where a frame takes longer than that
			socket.send(this.input(clocks.epoch, this.next));
		}
	}
	/** @param {bigint} epoch @param {bigint} tick */
	input(epoch, tick) {
		const b = new Uint8Array(18), v = new DataView(b.buffer);
		b[0] = 0x10; v.setBigUint64(1, epoch, true); v.setBigInt64(9, tick, true); v.setInt8(17, this.direction(tick));
		return b;
	}
	/** Keeps the state for a tick until it is shown. */
	state(b, now) {
		const v = new DataView(b.buffer), epoch = v.getBigUint64(1, true), tick = v.getBigInt64(9, true), at = new Map();
		for (let i = 17; i < b.length; i += 6) at.set(v.getUint32(i, true), v.getUint16(i + 4, true));
		this.game.state(epoch, tick, now);
		if (epoch !== this.game.clocks(now)?.epoch) return this.states.clear();
		this.states.set(tick, at);
		if (this.states.size > 120) this.states.delete(this.states.keys().next().value);
	}
	/** What to draw now: where the players are, by number, and in doubt why the time is not to be trusted, or ''. */
	look() {
		this.work(); // or clocks would be ahead of what was sent
		const now = nowUsec(), clocks = this.game.clocks(now), players = new Map();
		const doubt = this.socket.readyState !== WebSocket.OPEN ? 'not connected' : this.game.within(100_000, now);
		if (!clocks) return {doubt, clocks, players};
		const tick = tickAt(clocks.server, clocks.rate), share = (clocks.server - tickStart(tick, clocks.rate)) / 1e6 * clocks.rate.num / clocks.rate.den;
		const from = this.states.get(tick), to = this.states.get(tick + 1n) ?? from;
		for (const [player, x] of from ?? []) players.set(player, x + ((to.get(player) ?? x) - x) * share); // between two states
		return {doubt, clocks, players};
	}
}
