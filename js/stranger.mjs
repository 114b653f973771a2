// SPDX-License-Identifier: BSD-3-Clause

// The least that a peer must do, written from docs/WIRE.md alone: it stamps, it reports, and it
// has hardly an estimator. Beside it, a Go end knows the time as well as beside another Go end
// (TestStranger). It serves one connection to one peer that does not restart.

const windowLength = 2_000_000n; // us
const reportEvery = 500_000n; // us

const ring = (v, bits) => Number(BigInt.asIntN(bits, v));
const least = values => values.reduce((a, b) => (a < b ? a : b));

export class Stranger {
	deltas = []; // of the last 2 s: {at, delta}, us
	reports = []; // of the peer, of the last 2 s: {at, delta}, us
	untold = []; // deltas since the last report
	first = null; // the first delta: all others are counted from it, since they are on a ring
	firstReport = null;
	reportedAt = null;
	anchor = null; // remote minus local clock, so far off as the datagram took
	heardOfUs = false; // the peer has our anchor
	asked = true; // the last datagram asked

	get synchronized() {
		return this.first !== null && this.firstReport !== null;
	}

	header(now) {
		const isFirst = this.reportedAt === null;
		const isDue = isFirst || now - this.reportedAt >= reportEvery || this.asked;
		const reports = this.first !== null && isDue;
		const anchors = reports || !this.synchronized || !this.heardOfUs;
		const bytes = new Uint8Array(4 + (reports ? 3 : 0) + (anchors ? 8 : 0));
		const view = new DataView(bytes.buffer);
		view.setUint32(0, Number(BigInt.asUintN(24, now >> 3n)) * 256, true);
		bytes[0] = 16 | (reports ? 1 : 0) | (anchors ? 2 : 0) | (this.synchronized ? 0 : 8);
		if (this.synchronized && this.anchor !== null && !this.asked) {
			bytes[0] |= 4;
		}
		if (reports) {
			const report = this.report();
			bytes.set([report & 255, report >> 8 & 255, report >> 16], 4);
			this.reportedAt = now;
			this.asked = false;
		}
		if (anchors) {
			view.setBigUint64(bytes.length - 8, now, true);
		}
		return bytes;
	}

	/** The least delta since the last report, in units of 8 us; 0: none came. */
	report() {
		if (this.untold.length === 0) {
			return 0;
		}
		const delta = this.first + least(this.untold);
		this.untold = [];
		const units = Math.floor((delta + 4) / 8);
		const modulo = units % 2 ** 24;
		const ours = modulo % 3 !== 2 ? modulo : modulo + (delta > 8 * units ? 1 : -1);
		return ours % 2 ** 24 || 1;
	}

	open(datagram, now) {
		const view = new DataView(datagram.buffer, datagram.byteOffset, datagram.byteLength);
		const flags = datagram[0];
		const stamp = view.getUint32(0, true) >>> 8;
		const knew = this.synchronized;
		const delta = BigInt.asUintN(27, now - BigInt(8 * stamp));
		this.first ??= Number(delta);
		const above = ring(delta - BigInt(this.first), 27);
		this.deltas.push({at: now, delta: above});
		this.untold.push(above);
		if (flags & 1 && (knew || !(flags & 4))) {
			const report = datagram[4] | datagram[5] << 8 | datagram[6] << 16;
			if (report !== 0) {
				this.firstReport ??= 8 * report;
				const delta = ring(BigInt(8 * report - this.firstReport), 27);
				this.reports.push({at: now, delta});
			}
		}
		if (flags & 2) {
			this.anchor = view.getBigUint64(4 + (flags & 1 ? 3 : 0), true) - now;
		}
		this.heardOfUs = (flags & 4) !== 0;
		this.asked ||= (flags & 8) !== 0;
		for (const list of [this.deltas, this.reports]) {
			while (list.length > 1 && now - list[0].at > windowLength) {
				list.shift();
			}
		}
	}

	/** The offset modulo 2^26, and the round trip, us. */
	look() {
		const floor = this.first + least(this.deltas.map(d => d.delta));
		const peer = this.firstReport + least(this.reports.map(d => d.delta));
		return {
			offset: ring(BigInt(Math.round(peer - floor)), 27) / 2,
			trip: ring(BigInt(Math.round(peer + floor)), 27),
		};
	}

	remoteTime(now) {
		if (!this.synchronized) {
			return null;
		}
		const offset = BigInt(Math.floor(this.look().offset));
		return BigInt.asUintN(64, now + this.anchor + BigInt.asIntN(26, offset - this.anchor));
	}

	/** Half the round trip; 0.4 ms by which clocks 200 ppm apart drift in 2 s; rounding. */
	errorBound() {
		return this.synchronized ? this.look().trip / 2 + 450 : null;
	}
}
