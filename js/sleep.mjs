// SPDX-License-Identifier: BSD-3-Clause

// Two Links, one of whose machines sleeps, which stops its clock and its program: within() must
// never say '' while the time is further off than the bound, and it must say '' again:
//
//	node js/sleep.mjs

import {generator} from './testing.mjs';
import * as ts from './timesync.mjs';

const awakeFor = 60e6; // us until the sleep
const watched = 35e6; // us after it
const tolerable = 100e3; // us
const step = 1000; // us of simulated time

const usec = v => BigInt.asUintN(64, BigInt(Math.floor(v)));

const random = generator(7);

/** One machine. */
class Machine {
	link = new ts.Link();
	wrong = 0; // ms for which it trusted a time that was beyond its bound
	worst = 0; // us by which that was off
	trusts = Infinity; // us after the sleep until it trusted a right time for good

	constructor(ahead, ppm, sleeps, sleep) {
		this.ahead = ahead;
		this.rate = 1 + ppm * 1e-6;
		this.sleeps = sleeps;
		this.sleep = sleep;
	}

	isAsleep(t) {
		return this.sleeps && t >= awakeFor && t < awakeFor + this.sleep;
	}

	clock(t) {
		const slept = this.sleeps ? Math.min(Math.max(t - awakeFor, 0), this.sleep) : 0;
		return usec(this.ahead + (t - slept) * this.rate);
	}

	judge(peer, t) {
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

/** Plays a sleep of one machine, and returns both. */
function play({sleep, rate, jitter, mine}) {
	const me = new Machine(3e12, 20, mine, sleep);
	const peer = new Machine(5e12, -20, !mine, sleep);
	const queue = []; // in flight, in the order of arrival
	const send = (from, to, t) => {
		if (from.isAsleep(t)) return;
		const at = t + 20e3 - jitter * Math.log(1 - random());
		const i = queue.findLastIndex(q => q.at <= at);
		queue.splice(i + 1, 0, {at, to, bytes: from.link.header(from.clock(t))});
	};
	const every = Math.round(1e6 / rate / step) * step;
	const waiting = []; // in the socket of the machine that sleeps
	for (let t = step; t < awakeFor + sleep + watched; t += step) {
		for (const q of waiting.splice(0)) {
			if (q.to.isAsleep(t)) waiting.push(q);
			else if (waiting.length < 100) q.to.link.open(q.bytes, q.to.clock(t)); // a full socket
		}
		while (queue.length > 0 && queue[0].at <= t) {
			const q = queue.shift();
			if (!q.to.isAsleep(t)) q.to.link.open(q.bytes, q.to.clock(t));
			else if (waiting.length < 50) waiting.push(q);
		}
		if (t % every === 0) send(me, peer, t);
		if (t % every === Math.floor(every / 3 / step) * step) send(peer, me, t);
		if (t % 10e3 === 0 && t > 10e6) {
			for (const [one, other] of [
				[me, peer],
				[peer, me],
			]) {
				// 0.1 s after waking: what has come by then can be known
				if (!one.isAsleep(t) && (t < awakeFor || t > awakeFor + sleep + 100e3))
					one.judge(other, t);
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
let bad = 0;
for (const rate of [20, 4]) {
	for (const jitter of [0, 3e3]) {
		for (const mine of [false, true]) {
			for (const seconds of lengths) {
				const {me, peer} = play({sleep: seconds * 1e6, rate, jitter, mine});
				const who = mine ? 'I' : 'the peer';
				const world = `${rate}/s, jitter ${jitter / 1e3} ms, ${who} slept ${seconds} s`;
				console.log(`${world}; ${said('I', me)}; ${said('the peer', peer)}`);
				for (const {wrong, trusts} of [me, peer]) {
					if (wrong > 0 || trusts > patience) {
						console.log('that is too bad');
						bad++;
					}
				}
			}
		}
	}
}
console.log(`${bad} problems`);
process.exitCode = bad ? 1 : 0;
