// SPDX-License-Identifier: BSD-3-Clause

// What a datagram costs a Link must not depend on how many come, since a peer may send as many as
// it likes:
//
//	node js/flood.mjs
//
// Each rate is measured in short pieces, in turns with the others, of which the fastest counts:
// other programs make pieces slower, never faster.

import {Link, toTS24} from './timesync.mjs';

const rates = [60, 1000, 5000, 50_000]; // datagrams a second
const pieces = 40;
const perPiece = 300; // datagrams

/** A Link that knows its peer, and a clock to flood it by. */
class Victim {
	best = Infinity; // us for a datagram
	link = new Link();
	now = 1_000_000_000n;

	constructor(rate) {
		this.rate = rate;
		this.every = BigInt(Math.floor(1e6 / rate));
		const peer = new Link();
		for (let i = 0; i < 600; i++) {
			const there = this.link.header(this.now);
			const back = peer.header(this.now);
			peer.open(there, this.now + 20_000n);
			this.link.open(back, this.now + 20_000n);
			this.now += 100_000n;
		}
	}

	/** Datagrams that took 20 ms, and up to 1 ms in a queue. */
	datagrams() {
		return Array.from({length: perPiece}, (_, i) => {
			this.now += this.every;
			const stamp = toTS24(this.now - 20_000n - BigInt(i * 37 % 1000));
			const bytes = new Uint8Array([16 | 4, stamp & 255, stamp >> 8 & 255, stamp >> 16]);
			return {bytes, now: this.now};
		});
	}

	piece() {
		const datagrams = this.datagrams();
		const from = performance.now();
		for (const {bytes, now} of datagrams) {
			this.link.open(bytes, now);
		}
		this.best = Math.min(this.best, (performance.now() - from) * 1000 / perPiece);
	}
}

const victims = rates.map(rate => new Victim(rate));
for (let i = 0; i < pieces; i++) {
	for (const victim of victims) {
		victim.piece();
	}
}
const [usual] = victims;
let bad = 0;
for (const {rate, best, link, now} of victims) {
	const took = best.toFixed(2);
	console.log(`${rate}/s: ${took} us for a datagram; ${link.snapshot(now).toString()}`);
	if (best > 2 * usual.best + 1 || best > 20 || link.within(30_000, now) === 'unsynchronized') {
		console.log('too much, beside that of', usual.rate, 'a second');
		bad++;
	}
}
process.exitCode = bad ? 1 : 0;
