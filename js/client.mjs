// SPDX-License-Identifier: BSD-3-Clause

// Tests what vectors do not decide of timesync.mjs, in simulated time: trust, and how
// TickClient follows late inputs and states:
//
//	node js/client.mjs

import {check, finish, generator} from './testing.mjs';
import * as ts from './timesync.mjs';

const random = generator(1);
const exp = mean => (mean === 0 ? 0 : -mean * Math.log(1 - random()));

const AHEAD = 5_000_000_000; // us: the server's clock minus true time
const RATE = {num: 60, den: 1};
const TICK = 1e6 / 60; // us

/**
 * A server and a client, which plays as docs/BROWSER.md shows. The test may change up, down (us)
 * and jitter while it runs. The client's clock is true time plus set. With tcp what is sent
 * arrives in order.
 */
class World {
	up = 30_000;
	down = 30_000;
	jitter = 1000;
	set = 0;
	cut = false;
	tcp = false;
	t = 1_000_000;
	events = [];
	epoch = 5n;
	origin = 0; // true time at game time 0
	late = 0;
	inputs = 0;
	lateStates = 0;
	states = 0;
	errors = 0;
	readings = 0;
	came = new Map();
	newest = -1n;
	next = null;
	wait = 0;
	last = {up: 0, down: 0};
	hangs = false;
	waiting = [];
	asked = 0;
	answered = 0;
	step = 0; // of the page's clock: times of receipt are rounded up by it
	constructor(kind, buffers, interval) {
		this.kind = kind;
		this.remote = kind === 'link' ? new ts.Link() : new ts.Ping(0, interval);
		this.peer = new ts.Link();
		this.game = new ts.TickClient(this.remote, buffers);
		this.every(16_000, () => this.frame());
		this.every(TICK, () => this.serverTick());
		this.every(1e6, () => this.announce());
	}
	at(t, f) {
		this.events.push({t, f});
	}
	every(span, f) {
		const again = () => {
			f();
			this.at(this.t + span, again);
		};
		this.at(this.t, again);
	}
	run(seconds) {
		for (const end = this.t + seconds * 1e6; ;) {
			const i = this.events.reduce(
				(best, e, i) => (e.t < this.events[best].t ? i : best),
				0,
			);
			if (this.events[i].t > end) {
				this.t = end;
				return this;
			}
			const [{t, f}] = this.events.splice(i, 1);
			this.t = t;
			f();
		}
	}
	clear() {
		this.late = this.inputs = this.lateStates = this.states = this.errors = this.readings = 0;
		return this;
	}
	get now() {
		return BigInt(Math.floor(this.t + this.set));
	}
	get server() {
		return BigInt(Math.floor(this.t + AHEAD));
	}
	get gameTime() {
		return this.t - this.origin;
	}
	way(way, f) {
		if (this.cut) return;
		let at = this.t + this[way] + exp(this.jitter);
		if (this.tcp) at = this.last[way] = Math.max(at, this.last[way]);
		this.at(at, f);
	}
	toServer(payload) {
		const b = this.kind === 'link' ? [...this.remote.header(this.now), ...payload] : payload;
		this.way('up', () => this.atServer(new Uint8Array(b)));
	}
	toClient(payload) {
		const b = this.kind === 'link' ? [...this.peer.header(this.server), ...payload] : payload;
		this.way('down', () => this.atClient(new Uint8Array(b)));
	}
	hang(seconds) {
		this.hangs = true;
		this.run(seconds);
		this.hangs = false;
		for (const b of this.waiting.splice(0)) this.atServer(b);
	}
	atServer(b) {
		if (this.hangs) return this.waiting.push(b);
		if (this.kind === 'link') b = this.peer.open(b, this.server).payload;
		if (b[0] === 0x70) {
			const r = new Uint8Array(29);
			const v = new DataView(r.buffer);
			r.set(b);
			r[0] = 0x71;
			v.setBigUint64(13, this.server, true);
			v.setBigUint64(21, this.server, true);
			this.toClient(r);
		}
		if (b[0] === 3) this.heard = true;
		if (
			b[0] !== 0x10 ||
			new DataView(b.buffer, b.byteOffset).getBigUint64(1, true) !== this.epoch
		)
			return;
		const n = new DataView(b.buffer, b.byteOffset).getBigInt64(9, true);
		const early = ts.tickStart(n, RATE) - this.gameTime;
		this.inputs++;
		if (early < 0) {
			this.late++;
			this.owes = true;
		}
		if (this.came.has(n)) check(false, 'twice', n);
		this.came.set(n, early);
		if (n > this.newest) this.newest = n;
	}
	ask(now) {
		this.asked++;
		this.toServer(this.remote.request(now));
	}
	serverTick() {
		if (this.hangs) return;
		const b = new Uint8Array(17);
		const v = new DataView(b.buffer);
		b[0] = 0x11;
		v.setBigUint64(1, this.epoch, true);
		v.setBigInt64(9, ts.tickAt(this.gameTime, RATE), true);
		this.toClient(b);
		if (this.owes) {
			this.owes = false;
			this.announce();
		}
	}
	announce() {
		if (this.hangs) return;
		const n = Math.min(this.came.size, 64);
		const b = new Uint8Array(n ? 45 + 2 * n : 36);
		const v = new DataView(b.buffer);
		b[0] = 4;
		v.setBigUint64(1, this.epoch, true);
		v.setUint32(9, 60, true);
		v.setUint32(13, 1, true);
		v.setBigUint64(17, BigInt(Math.floor(this.origin + AHEAD)), true);
		v.setBigInt64(25, ts.tickAt(this.gameTime, RATE), true);
		b[33] = (this.heard ? 1 : 0) | (n ? 4 : 0);
		if (n) {
			v.setBigInt64(36, this.newest, true);
			b[44] = n;
		}
		for (let i = 0; i < n; i++) {
			const early = this.came.get(this.newest - BigInt(i));
			v.setInt16(
				45 + 2 * i,
				early === undefined ? -32768 : Math.max(Math.floor(early / 100), -32767),
				true,
			);
		}
		this.toClient(b);
	}
	atClient(b) {
		const now = this.now + BigInt(this.step);
		if (this.kind === 'link') b = this.remote.open(b, now).payload;
		if (b[0] === 0x71) {
			this.remote.reply(b, now);
			this.answered++;
		}
		if (b[0] === 4) this.game.welcome(b, now);
		if (b[0] !== 0x11) return;
		const v = new DataView(b.buffer, b.byteOffset);
		const tick = v.getBigInt64(9, true);
		const c = this.game.clocks(now);
		if (c && c.epoch === this.epoch) {
			this.states++;
			if (ts.tickStart(tick, c.rate) < c.server) this.lateStates++;
		}
		if (tick !== this.told) this.game.state(v.getBigUint64(1, true), tick, now);
		this.told = tick;
	}
	frame() {
		const now = this.now;
		const c = this.game.clocks(now);
		const hello = this.game.hello(now);
		if (this.kind === 'ping' && this.remote.next(now) === 0) this.ask(now);
		if (hello) this.toServer(hello);
		if (!c) return this.kind === 'link' && this.toServer([]);
		const due = ts.tickAt(c.predicted, c.rate);
		if (this.played !== c.epoch || due - this.next > 60n) {
			this.played = c.epoch;
			this.next = due;
		}
		for (; this.next <= due; this.next++) {
			const b = new Uint8Array(17);
			const v = new DataView(b.buffer);
			b[0] = 0x10;
			v.setBigUint64(1, c.epoch, true);
			v.setBigInt64(9, this.next, true);
			this.toServer(b);
		}
		this.readings++;
		if (Math.abs(c.shared - this.gameTime) > c.bounds.shared) this.errors++;
	}
	get lead() {
		const c = this.game.clocks(this.now);
		return (c.predicted - c.shared) / 1e3;
	}
	get behind() {
		const c = this.game.clocks(this.now);
		return (c.shared - c.server) / 1e3;
	}
}

for (const kind of ['link', 'ping']) {
	const say = (name, w, ...more) =>
		console.log(
			`${kind}, ${name}: late ${w.late} of ${w.inputs} inputs, ` +
				`${w.lateStates} of ${w.states} states; lead ${w.lead.toFixed(0)}, ` +
				`behind ${w.behind.toFixed(0)} ms, ${w.game.steps} jumps`,
			...more,
		);
	{
		const w = new World(kind);
		check(
			w.remote.within(1e9, w.now) === 'unsynchronized' &&
				w.game.within(1e9, w.now) === 'unsynchronized',
			'before',
		);
		w.run(20).clear().run(10);
		say('calm', w);
		check(
			w.late <= 12 &&
				w.lateStates <= 12 &&
				w.inputs >= 595 &&
				w.errors === 0 &&
				w.game.steps === 0,
			'calm',
			w.inputs,
			w.errors,
		);
		check(
			w.lead > 30 && w.lead < 70 && w.behind > 40 && w.behind < 75,
			'lengths',
			w.lead,
			w.behind,
		);
		check(
			w.remote.within(60_000, w.now) === '' &&
				w.game.within(60_000, w.now) === '' &&
				w.remote.within(20_000, w.now) === 'wide',
			'trust',
		);
		check(
			Math.abs(w.remote.minimumOneWayDelay() - 30_000) < 1000,
			'delay',
			w.remote.minimumOneWayDelay(),
		);

		w.up += 80_000;
		w.run(1.5);
		say('the way up 80 ms longer, the first 1.5 s', w);
		check(w.game.steps >= 1 && w.game.steps <= 3, 'no jump forward', w.game.steps);
		w.clear().run(20);
		say('then', w);
		check(
			w.late <= 40 && w.inputs >= 1190 && w.errors === 0 && w.lead > 75,
			'inputs stay late',
			w.late,
			w.errors,
		);

		w.up -= 80_000;
		w.run(40).clear().run(10);
		say('short again', w);
		check(w.lead < 80 && w.late <= 12 && w.errors === 0, 'the lead stays long', w.lead);

		w.down += 80_000;
		w.run(3).clear().run(20);
		say('the way down 80 ms longer', w);
		check(
			w.lateStates <= 40 && w.errors === 0 && w.behind > 60,
			'states stay late',
			w.lateStates,
		);
		w.down -= 80_000;

		w.jitter = 25_000;
		w.run(20).clear().run(30);
		say('jitter of 25 ms', w);
		check(
			w.lateStates < 0.03 * w.states && w.late < 0.03 * w.inputs && w.errors === 0,
			'jitter',
			w.lateStates,
			w.late,
		);

		w.jitter = 1000;
		w.run(20);
		w.cut = true;
		w.run(4);
		check(
			w.game.within(1e6, w.now) === 'silent' && w.remote.within(1e6, w.now) === '',
			'after 4 s',
			w.game.within(1e6, w.now),
			w.remote.within(1e6, w.now),
		);
		w.run(12);
		check(w.remote.within(1e6, w.now) === 'silent', 'after 16 s');
		w.cut = false;
		w.run(3);
		check(w.game.within(60_000, w.now) === '', 'again', w.game.within(60_000, w.now));

		const {steps} = w.remote;
		w.set = 2_000_000; // the client's clock is set
		w.run(3);
		check(
			w.remote.steps > steps &&
				w.remote.within(1e6, w.now) === 'stepped' &&
				w.game.within(1e6, w.now) === 'stepped',
			'set',
			w.remote.steps,
		);
		w.run(16).clear().run(5);
		check(w.game.within(60_000, w.now) === '' && w.errors === 0, 'settled');

		const jumps = w.game.steps;
		w.epoch++;
		w.origin = w.t;
		w.came.clear();
		w.newest = -1n;
		w.heard = false; // the server starts anew, its clock goes on
		w.run(2).clear().run(5);
		say('another epoch', w);
		check(
			w.game.clocks(w.now).epoch === w.epoch &&
				w.late <= 6 &&
				w.inputs > 290 &&
				w.heard &&
				w.game.steps === jumps,
			'epoch',
			w.inputs,
		);
	}
	{
		const w = new World(kind, {clientBuffer: 10_000, serverBuffer: 20_000});
		w.run(5);
		w.up += 80_000;
		w.run(20);
		say('fixed buffers', w);
		check(w.late > 250 && w.lead < 131 && w.game.steps === 0, 'fixed', w.lead, w.game.steps);
		w.game.buffers = {};
		w.clear().run(2).clear().run(5);
		check(w.late < 10, 'free again', w.late);
	}
	{
		const w = new World(kind);
		w.tcp = true;
		w.jitter = 3000;
		w.run(15);
		for (let i = 0; i < 10; i++) {
			// a segment is lost: what follows waits 250 ms
			w.last.up = w.last.down = w.t + 250_000;
			w.run(2);
		}
		say('head-of-line blocking', w);
		check(
			w.late < 0.12 * w.inputs && w.lead < 400 && w.errors === 0,
			'blocking',
			w.lead,
			w.errors,
		);
	}
}

// A server hangs, and then answers all that has waited: the time and the buffers stay.
for (const length of [1, 5, 9, 15]) {
	const w = new World('ping');
	w.tcp = true;
	w.run(30);
	w.hang(length);
	let off = 0;
	for (let i = 0; i < 5000; i++)
		off = Math.max(off, Math.abs(w.run(0.001).game.clocks(w.now).shared - w.gameTime));
	console.log(
		`ping, after a hang of ${length} s: off by ${(off / 1e3).toFixed(1)} ms; ` +
			`lead ${w.lead.toFixed(0)}, behind ${w.behind.toFixed(0)} ms, ${w.game.steps} jumps`,
	);
	check(
		off < 5000 && w.lead < 150 && w.behind < 85 && w.game.steps === 0 && w.errors === 0,
		'hang',
		length,
		off,
		w.lead,
		w.behind,
		w.errors,
	);
	w.clear().run(30).clear().run(10);
	check(w.late <= 12 && w.lead < 75, 'after the hang', w.late, w.lead);
}

// All that comes waits once, as after a hiccup of the machine: how long server stays further
// behind.
for (const kind of ['link', 'ping']) {
	for (const length of [0.1, 0.4, 5]) {
		const w = new World(kind);
		w.tcp = true;
		w.run(30);
		const was = w.behind;
		const from = w.t;
		const {steps} = w.game;
		w.last.down = w.t + length * 1e6;
		let most = 0;
		let until = 0;
		for (let i = 0; i < 1200; i++) {
			most = Math.max(most, w.run(0.05).behind - was);
			if (w.behind > was + 20) until = w.t - from;
		}
		console.log(
			`${kind}, a hiccup of ${length} s: server up to ${most.toFixed(0)} ms behind, ` +
				`over 20 ms for ${(until / 1e6).toFixed(0)} s, ${w.game.steps - steps} jumps`,
		);
		check(most < 25 && w.errors === 0, 'hiccup', kind, length, most);
	}
}

// The page's clock is coarse: times of receipt are ahead of those of frames, and game time must
// not run fast.
for (const kind of ['link', 'ping']) {
	const w = new World(kind);
	const take = w.atClient.bind(w);
	w.step = 1000;
	w.atClient = b => {
		take(b);
		w.game.clocks(w.now);
	}; // as work does after each message
	w.run(60);
	const off = w.game.clocks(w.now).shared - w.gameTime;
	console.log(
		`${kind}, a clock of 1 ms: shared off by ${(off / 1e3).toFixed(1)} ms, ` +
			`${w.game.steps} jumps`,
	);
	check(Math.abs(off) < 5000 && w.game.steps === 0, 'coarse', kind, off, w.game.steps);
}

// The page hangs, and then reads what has come: nothing of that says how long the path is.
for (const kind of ['link', 'ping']) {
	const w = new World(kind);
	w.run(30);
	const was = w.behind;
	const read = w.atClient.bind(w);
	const frame = w.frame.bind(w);
	const waited = [];
	w.atClient = b => waited.push(b);
	w.frame = () => {};
	w.run(3);
	w.atClient = read;
	w.frame = frame;
	for (const b of waited) read(b);
	let most = 0;
	for (let i = 0; i < 400; i++) most = Math.max(most, w.run(0.1).behind - was);
	console.log(
		`${kind}, after the page hung for 3 s: server up to ${most.toFixed(0)} ms further behind`,
	);
	check(most < 25, 'page', kind, most);
}

// The bound contains the truth also while the clock is slewed: a path that was unequal becomes
// equal.
for (const kind of ['link', 'ping']) {
	const w = new World(kind);
	w.up = 110_000;
	w.run(20).clear();
	w.up = 30_000;
	w.run(20);
	check(w.errors === 0, kind, 'beyond bounds.shared', w.errors, w.readings);
}

// A client that asks seldom, whose first requests were lost, soon asks again. Once some were
// answered it asks each second until it has known the clock for a minute, and then each 64th of
// that time. That makes 179 requests. Where a reply is faster than any before it asks a group more,
// which chance decides.
for (const lost of [true, false]) {
	const w = new World('ping', {}, 60e6);
	w.cut = lost;
	w.run(2);
	w.cut = false;
	w.run(200);
	console.log(
		`ping each minute, ${lost ? 'the first 2 s lost' : 'none lost'}: ` +
			`${w.asked} requests, ${w.answered} answered`,
	);
	const isPatient = w.asked >= 179 && w.asked <= 205;
	check(w.answered >= 8 && isPatient, 'ping asks again', lost, w.asked, w.answered);
}

// Game times and ticks, in us.
check(
	ts.tickAt(-0.001, RATE) === -1n &&
		ts.tickAt(0, RATE) === 0n &&
		ts.tickAt(16_666, RATE) === 0n &&
		ts.tickAt(16_666.667, RATE) === 1n,
	'tickAt',
);
for (const n of [-61n, -1n, 0n, 1n, 7n, 1_000_003n])
	check(ts.tickAt(ts.tickStart(n, RATE), RATE) === n, 'tickStart', n);

// A server whose ticks take half as long again for 2 s. If it says how far it is behind, its
// states move nothing.
const delayAfterHitch = tells => {
	const remote = {
		remoteTime: now => now,
		errorBound: () => 1000,
		minimumOneWayDelay: () => 30_000,
		minimumDelayToPeer: () => 30_000,
		within: () => '',
	};
	const game = new ts.TickClient(remote);
	const welcome = (now, debt) => {
		const bytes = new Uint8Array(36);
		const v = new DataView(bytes.buffer);
		bytes[0] = 4;
		v.setBigUint64(1, 7n, true);
		v.setUint32(9, 60, true);
		v.setUint32(13, 1, true);
		v.setBigInt64(25, ts.tickAt(now - 30_000, RATE), true);
		v.setUint16(34, tells ? debt : 0, true);
		game.welcome(bytes, BigInt(now));
	};
	let ready = 0; // when the server is ready for the next tick, us
	let most = 0;
	let before = 0;
	for (let n = 0n, now = 0; now < 13e6; now += 1000) {
		while (Math.max(ready, ts.tickStart(n, RATE)) + 30_000 <= now) {
			const takes = now > 10e6 && now < 12e6 ? 25_000 : 2000;
			ready = Math.max(ready, ts.tickStart(n, RATE)) + takes;
			game.state(7n, n, BigInt(now));
			n++;
			const debt = Number(ts.tickAt(now - 30_000, RATE) - n);
			if (debt > 1) welcome(now, debt);
		}
		if (now % 1e6 === 0) welcome(now, 0);
		const clocks = now % 16_000 === 0 ? game.clocks(BigInt(now)) : null;
		if (clocks && now < 10e6) before = clocks.shared - clocks.server;
		if (clocks && now > 10e6) most = Math.max(most, clocks.shared - clocks.server - before);
	}
	return most;
};
const [told, untold] = [delayAfterHitch(true), delayAfterHitch(false)];
check(told < 40_000 && untold > 100_000, 'a server that is behind', told, untold);

finish();
