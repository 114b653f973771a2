// SPDX-License-Identifier: BSD-3-Clause

// Two Links, one of whose machines sleeps, which stops its clock and its program: within() must
// never say '' while the time is further off than the bound, and it must say '' again.
//
// A machine is judged from the first datagram after the sleep on, and from waking on where it slept
// itself and a PageWatch says so. What came in the sleep is lost, or it waited in the socket:
//
//	node js/sleep.mjs         half of the worlds: of what they differ in, any four in every combination
//	node js/sleep.mjs --all   every combination

import {generator} from './testing.mjs';
import * as ts from './timesync.mjs';

const awakeFor = 60e6; // us until the sleep
const watched = 35e6; // us after it
const tolerable = 100e3; // us
const step = 5000; // us of simulated time
const fullSocket = 50; // datagrams

const usec = v => BigInt.asUintN(64, BigInt(Math.floor(v)));

const random = generator(7);

/** One machine. */
class Machine {
	link = new ts.Link();
	t = 0; // us of simulated time
	heard = false; // a datagram came after the sleep
	wrong = 0; // ms for which it trusted a time that was beyond its bound
	worst = 0; // us by which that was off
	trusts = Infinity; // us after the sleep until it trusted a right time for good

	constructor({ahead, ppm, sleeps, sleep, watches}) {
		this.ahead = ahead;
		this.rate = 1 + ppm * 1e-6;
		this.sleeps = sleeps;
		this.sleep = sleep;
		this.watch = watches ? this.newWatch() : null;
	}

	/** Returns a PageWatch as pages have, whose wall clock runs on in sleep. */
	newWatch() {
		return new ts.PageWatch({
			clock: new ts.Clock(() => Number(this.clock(this.t)) / 1000, 0),
			wall: () => this.t / 1000,
			onAway: away => {
				if (away.slept > 0) {
					this.link.slept(this.clock(this.t));
				}
			},
		});
	}

	/** Returns whether it can know of the sleep: by its watch, or by a datagram. */
	knows() {
		return this.sleeps && this.watch !== null || this.heard;
	}

	/** What pages do first whenever their code runs. */
	wake(t) {
		this.t = t;
		this.watch?.check();
	}

	header(t) {
		this.wake(t);
		return this.link.header(this.clock(t));
	}

	open(bytes, t) {
		this.wake(t);
		this.link.open(bytes, this.clock(t));
		this.heard ||= t >= awakeFor + this.sleep;
	}

	isAsleep(t) {
		return this.sleeps && t >= awakeFor && t < awakeFor + this.sleep;
	}

	clock(t) {
		const slept = this.sleeps ? Math.min(Math.max(t - awakeFor, 0), this.sleep) : 0;
		return usec(this.ahead + (t - slept) * this.rate);
	}

	judge(peer, t) {
		this.wake(t);
		const now = this.clock(t);
		const {within, off, bound} = {
			within: this.link.within(tolerable, now),
			off: Math.abs(ts.since(this.link.remoteTime(now), peer.clock(t))),
			bound: this.link.errorBound(now),
		};
		if (within === '' && off > bound) {
			this.wrong += 10;
			this.worst = Math.max(this.worst, off);
		}
		if (within !== '') {
			this.trusts = Infinity;
		} else if (this.trusts === Infinity) {
			this.trusts = t - awakeFor - this.sleep;
		}
	}
}

/**
 * Plays a sleep of one machine, and returns both. Datagrams that come in the sleep wait in its
 * socket if it keeps them.
 */
function play({sleep, rate, jitter, mine, watches, keeps}) {
	const me = new Machine({ahead: 3e12, ppm: 20, sleeps: mine, sleep, watches});
	const peer = new Machine({ahead: 5e12, ppm: -20, sleeps: !mine, sleep, watches});
	const queue = []; // in flight, in the order of arrival
	const send = (from, to, t) => {
		if (from.isAsleep(t)) {
			return;
		}
		const at = t + 20e3 - jitter * Math.log(1 - random());
		const i = queue.findLastIndex(q => q.at <= at);
		queue.splice(i + 1, 0, {at, to, bytes: from.header(t)});
	};
	const every = Math.round(1e6 / rate / step) * step;
	const waiting = []; // in the socket of the machine that sleeps
	for (let t = step; t < awakeFor + sleep + watched; t += step) {
		for (const q of waiting.splice(0)) {
			if (q.to.isAsleep(t)) {
				waiting.push(q);
			} else {
				q.to.open(q.bytes, t);
			}
		}
		while (queue.length > 0 && queue[0].at <= t) {
			const q = queue.shift();
			if (!q.to.isAsleep(t)) {
				q.to.open(q.bytes, t);
			} else if (keeps && waiting.length < fullSocket) {
				waiting.push(q);
			}
		}
		if (t % every === 0) send(me, peer, t);
		if (t % every === Math.floor(every / 3 / step) * step) send(peer, me, t);
		if (t % 10e3 === 0 && t > 10e6) {
			for (const [one, other] of [
				[me, peer],
				[peer, me],
			]) {
				if (t < awakeFor || t >= awakeFor + sleep && one.knows()) {
					one.judge(other, t);
				}
			}
		}
	}
	return {me, peer};
}

/** Says how well a machine did. */
function said(name, {wrong, worst, trusts}) {
	const off = (worst / 1e6).toFixed(3);
	const after = (trusts / 1e6).toFixed(1);
	return `${name}: wrong for ${wrong} ms, up to ${off} s, trusts after ${after} s`;
}

const lengths = [5, 20, 40, 67, 101, 134.218, 300, 640]; // s
const patience = 30e6; // us: 15 s after a clock step, of which a sleep may look like two

/** Returns every way to combine what worlds differ in, or half of them. */
function worlds() {
	let all = [{}];
	for (const [name, values] of Object.entries({
		rate: [20, 4],
		jitter: [0, 3e3],
		mine: [false, true],
		watches: [true, false],
		keeps: [true, false],
		seconds: lengths,
	})) {
		all = all.flatMap(world => values.map(value => ({...world, [name]: value})));
	}
	return process.argv.includes('--all') ? all : all.filter(isInHalf);
}

/** Any four of the five say whether the fifth has to be this one. */
function isInHalf({rate, jitter, mine, watches, keeps}) {
	return [rate === 20, jitter === 0, mine, watches, keeps].filter(Boolean).length % 2 === 0;
}

let bad = 0;
for (const world of worlds()) {
	const {rate, jitter, mine, watches, keeps, seconds} = world;
	const {me, peer} = play({...world, sleep: seconds * 1e6});
	const who = mine ? 'I' : 'the peer';
	const notes = `${watches ? '' : ', unwatched'}${keeps ? '' : ', all lost'}`;
	const what = `${rate}/s, jitter ${jitter / 1e3} ms, ${who} slept ${seconds} s${notes}`;
	console.log(`${what}; ${said('I', me)}; ${said('the peer', peer)}`);
	for (const {wrong, trusts} of [me, peer]) {
		if (wrong > 0 || trusts > patience) {
			console.log('that is too bad');
			bad++;
		}
	}
}
console.log(`${bad} problems`);
process.exitCode = bad ? 1 : 0;
