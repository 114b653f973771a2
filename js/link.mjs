// SPDX-License-Identifier: BSD-3-Clause

// Tests how a Link notices that its peer has restarted, where the vectors do not decide: when a
// peer begins again with an earlier clock, and when the own clock is set meanwhile. In simulated
// time:
//
//	node js/link.mjs

import {check, finish} from './testing.mjs';
import {Link, since} from './timesync.mjs';

const oneWay = 20_000n; // us
const every = 50_000n; // us: time between two datagrams of an end

/** A Link, and a peer that can restart with another clock. */
class Session {
	t = 1_000_000_000n; // true time, us
	mine = 0n; // by how much the own clock is ahead
	theirs = 5_000_000_000n; // by how much the peer's clock is ahead
	link = new Link();
	peer = new Link();

	get now() {
		return this.t + this.mine;
	}

	get remote() {
		return this.t + this.theirs;
	}

	/** Lets the peer send, and the link too unless it is mute. */
	exchange(mute = false) {
		const back = this.peer.header(this.remote);
		const there = this.link.header(this.now);
		this.t += oneWay;
		this.link.open(back, this.now);
		if (!mute) {
			this.peer.open(there, this.remote);
		}
		this.t += every - oneWay;
	}

	run(seconds) {
		const end = this.t + BigInt(seconds * 1e6);
		while (this.t < end) {
			this.exchange();
		}
	}

	/** Restarts the peer, and returns after how many us the link forgets the one before. */
	restart(theirs) {
		this.peer = new Link();
		this.theirs = theirs;
		const from = this.t;
		while (this.link.synchronized) {
			this.exchange(true);
			if (this.t - from > 10_000_000n) {
				return Infinity;
			}
		}
		return Number(this.t - from);
	}

	get error() {
		return Math.abs(since(this.link.remoteTime(this.now), this.remote));
	}
}

// Three datagrams that ask, over 50 ms, are enough from a peer whose clock goes on. One whose
// clock began again may be from before, held up by an attacker: then it takes 0.5 s.
for (const [theirs, least, most] of [
	[5_000_000_000n, 50_000, 200_000],
	[-900_000_000n, 500_000, 650_000],
]) {
	const s = new Session();
	s.run(10);
	check(s.error < 100, 'at first', s.error);
	const took = s.restart(theirs);
	console.log(`the peer's clock began anew at ${theirs}: forgotten after ${took / 1e3} ms`);
	check(took >= least && took <= most, 'a restart', theirs, took);
	s.run(10);
	check(s.link.within(50_000, s.now) === '' && s.error < 100, 'again', s.error);
}

// The own clock is set back by a minute in the middle of the row: the row begins anew, and no
// minute passes.
{
	const s = new Session();
	s.run(10);
	s.peer = new Link();
	s.exchange(true);
	s.mine = -60_000_000n;
	const took = s.restart(s.theirs);
	console.log(`the own clock was set back meanwhile: forgotten after ${took / 1e3} ms`);
	check(took <= 250_000, 'set back in a row', took);
}

// Datagrams of the peer's start, held up until now, change nothing, however many there are: the
// others come between them.
{
	const s = new Session();
	const strays = Array.from({length: 5}, (_, i) => s.peer.header(s.remote + BigInt(16_000 * i)));
	s.run(10);
	for (const stray of strays) {
		s.link.open(stray, s.now);
		s.exchange();
	}
	for (const stray of strays) {
		s.link.open(stray, s.now); // all at once
	}
	check(s.link.synchronized, 'datagrams that were held up');
	s.run(1);
	check(s.link.within(50_000, s.now) === '' && s.error < 100, 'after them', s.error);
}

// Times of receipt may go back by a little, as where threads swap datagrams. That is no long time.
{
	const s = new Session();
	s.run(10);
	const fresh = new Link();
	for (const [i, at] of [1000n, 1001n, 999n].entries()) {
		s.link.open(fresh.header(s.remote - 1_000_000n + BigInt(1000 * i)), s.now + at);
	}
	check(s.link.synchronized, 'three that ask came within 2 us');
}
{
	const s = new Session();
	s.run(10);
	const turn = 1n << 27n; // us: stamps are the same again
	for (const [i, at] of [1000n, 1001n, 999n].entries()) {
		const sent = s.remote + BigInt(8 * i) - oneWay - turn;
		const bytes = new Uint8Array(12);
		const b = new DataView(bytes.buffer);
		b.setUint32(0, (16 | 4 | 2) + Number(BigInt.asUintN(24, sent >> 3n)) * 256, true);
		b.setBigUint64(4, sent, true);
		check(s.link.open(bytes, s.now + at).error === undefined, 'an old anchor');
	}
	check(s.error < 1000, 'three old anchors came within 2 us', s.error);
}

finish();
