// SPDX-License-Identifier: BSD-3-Clause

// Tests what a page does to time: the step of its clock, pages without performance.now, pages that
// were frozen or throttled, machines that slept. All clocks are made up, so nothing waits:
//
//	node js/page.mjs

import {check, finish, generator} from './testing.mjs';
import * as ts from './timesync.mjs';

// ---- The step of the clock ----

// Each clock is read each 0.3 us. Those of the second row advance at a random time within each
// step.
let reads = 0;
const tick = () => ++reads * .0003; // ms
for (const step of [.005, .1, 1, 16.7, 100]) {
	const clock = new ts.Clock(() => Math.floor(tick() / step) * step);
	check(clock.step >= 1000 * step && clock.step <= 1000 * step + 1, 'step', step, clock.step);
	const lag = ts.since(clock.received(), clock.now());
	check(lag >= clock.step - 1, 'received is not rounded up by', step, lag);
}
for (const step of [.1, 1]) {
	const advances = n => (n + .5 + .49 * Math.sin(n * n)) * step;
	const clock = new ts.Clock(() => {
		const now = tick();
		const n = Math.floor(now / step);
		return (now < advances(n) ? n : n + 1) * step;
	});
	const isRight = clock.step >= 2000 * step && clock.step <= 2000 * step + 2;
	check(isRight, 'jittered step', step, clock.step);
}
check(new ts.Clock(() => 5).step === 0, 'a clock that stands still has no step');
check(new ts.Clock(() => 5, 2667).received() === 7667n, 'a step that is given');
check(ts.clockStep > 0 && ts.clockStep < 2000, 'the step of this process', ts.clockStep);

// ---- Where there is no performance.now ----

const own = globalThis.performance;
delete globalThis.performance;
const bare = await import('./timesync.mjs?bare');
let why = '';
try {
	bare.nowUsec();
} catch (e) {
	why = e.message;
}
globalThis.performance = own;
check(bare.clockStep === 0, 'without performance', bare.clockStep);
check(why.includes('new Clock'), 'without performance', why);
const audio = new bare.Clock(() => 12.5, 128e3 / 48);
check(audio.now() === 12_500n, 'the clock of an AudioWorklet', audio.now());
check(audio.received() === 15_167n, 'a receipt in an AudioWorklet', audio.received());

// ---- PageWatch ----

/** A page whose clock and wall clock the test moves. */
class Page {
	now = 1000; // ms
	wall = 1.7e12;
	document = new EventTarget();
	told = [];
	interruptions = []; // ms, between readings of the two clocks

	constructor(step = 0) {
		this.clock = new ts.Clock(() => this.now, step);
		this.watch = new ts.PageWatch({
			clock: this.clock,
			wall: () => {
				this.pass(this.interruptions.shift() ?? 0);
				return Math.floor(this.wall);
			},
			document: this.document,
			onAway: away => this.told.push(away),
		});
	}

	pass(ms, slept = 0) {
		this.now += ms;
		this.wall += ms + slept;
	}

	show(visibilityState) {
		this.document.visibilityState = visibilityState;
		this.document.dispatchEvent(new Event('visibilitychange'));
	}
}
{
	const page = new Page();
	for (let i = 0; i < 1000; i++) {
		page.pass(16.7);
		check(page.watch.check() === null, 'a frame');
	}
	page.pass(700);
	let away = page.watch.check();
	check(away?.away === 700_000 && away.slept === 0 && !away.hidden, 'a hang', away);
	page.show('hidden');
	check(page.watch.hidden, 'hidden');
	page.pass(60_000);
	page.show('visible');
	away = page.told.at(-1);
	check(page.told.length === 2, 'told twice', page.told);
	check(away.away === 60_000_000 && away.slept === 0, 'throttled', away);
	page.interruptions = [150, 80];
	check(page.watch.check() === null, 'an interruption between two readings is no sleep');
	check(page.watch.check() === null, 'nor afterwards');
	page.pass(10, 300_000);
	away = page.watch.check();
	check(Math.abs(away.slept - 300e6) < 2e3, 'slept', away);
	check(Math.abs(away.away - 300.01e6) < 2e3, 'away', away);
	check(page.watch.check() === null, 'slept only once');
	page.watch.close();
	page.pass(60_000);
	page.show('hidden');
	check(page.told.length === 3, 'closed');
}
{
	const page = new Page();
	for (let i = 0; i < 72_000; i++) { // an hour
		page.pass(50, 50 * 100e-6);
		check(page.watch.check() === null, 'a wall clock that is 100 ppm fast is no sleep', i);
	}
}
{
	const page = new Page(100_000); // as where fingerprinting is resisted
	for (let i = 0; i < 1000; i++) {
		page.pass(16.7);
		page.wall += i % 2 ? 90 : -90;
		check(page.watch.check() === null, 'a coarse clock is no sleep');
	}
}

// ---- Link and Ping after a sleep, and Ping on a page that was throttled ----

const random = generator(3);

/** A Ping, and a server 20 ms away with a clock 5000 s ahead and 20 ppm fast. Times are in us. */
class Session {
	ping = new ts.Ping();
	t = 1_000_000n; // true time
	slept = 0n; // for so long the client's clock stood still
	waiting = []; // replies, on their way

	get now() {
		return this.t - this.slept;
	}

	/** The server's clock after a delay. */
	server(after = 0) {
		return BigInt(Math.floor((Number(this.t) + after) * 1.00002)) + 5_000_000_000n;
	}

	delay() {
		return 20_000 - 1000 * Math.log(1 - random());
	}

	/** Lets time pass. Timers run that often. Messages come at once, or if frozen with a timer. */
	run(seconds, every, frozen = false) {
		const start = this.t;
		const step = frozen ? every : 5000;
		for (let passed = 0; passed < seconds * 1e6; passed += step) {
			this.t = start + BigInt(passed);
			for (const {at, reply} of this.waiting.splice(0)) {
				if (at <= this.t) {
					this.ping.reply(reply, this.now);
				} else {
					this.waiting.push({at, reply});
				}
			}
			if (passed % every === 0 && this.ping.next(this.now) === 0) {
				const there = this.delay();
				const server = this.server(there);
				const reply = ts.appendReply(this.ping.request(this.now), 0, server, server);
				this.waiting.push({at: this.t + BigInt(Math.floor(there + this.delay())), reply});
			}
		}
		this.t = start + BigInt(seconds * 1e6);
		return this;
	}

	get error() {
		return Math.abs(ts.since(this.ping.remoteTime(this.now), this.server()));
	}

	get trust() {
		return this.ping.within(50_000, this.now);
	}
}
for (const frozen of [false, true]) {
	const s = new Session().run(60, 5000);
	check(s.trust === '' && s.error < 2000, 'ping', s.trust, s.error);
	s.run(1200, 60e6, frozen); // timers once a minute
	check(['', 'silent', 'wide', 'unchecked'].includes(s.trust), 'throttled', frozen, s.trust);
	s.run(1, 5000);
	const isBack = s.trust === '' && s.error < 5000;
	check(isBack, 'a second after the page was shown', frozen, s.trust, s.error);
}
{
	const s = new Session().run(60, 5000);
	s.waiting = [];
	s.t += 300_000_000n;
	s.slept += 300_000_000n;
	s.ping.slept(s.now);
	check(s.trust === 'unchecked', 'after a sleep nothing is trusted', s.trust);
	check(s.ping.next(s.now) < 500_000, 'it asks soon', s.ping.next(s.now));
	s.run(1, 5000);
	check(s.error < 5000, 'a second after a sleep', s.error, s.trust);
	s.run(16, 5000);
	check(s.trust === '' && s.error < 5000, 'trusted again', s.trust, s.error);
}
{
	const link = new ts.Link();
	const peer = new ts.Link();
	let t = 1_000_000n;
	let slept = 0n;
	const exchange = () => {
		const there = link.header(t - slept);
		peer.open(there, t + 20_000n);
		const back = peer.header(t + 20_000n);
		t += 50_000n;
		link.open(back, t - slept - 10_000n);
	};
	for (let i = 0; i < 400; i++) {
		exchange();
	}
	check(link.within(50_000, t) === '', 'link', link.within(50_000, t));
	t += 40_000_000n;
	slept = 40_000_000n;
	link.slept(t - slept);
	const trust = link.within(1e9, t - slept);
	check(trust === 'unchecked', 'link after a sleep', trust);
	for (let i = 0; i < 400; i++) {
		exchange();
	}
	const off = ts.since(link.remoteTime(t - slept), t);
	check(link.within(50_000, t - slept) === '' && Math.abs(off) < 10_000, 'link again', off);
}

finish();
