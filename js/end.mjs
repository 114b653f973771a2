// SPDX-License-Identifier: BSD-3-Clause

// A link end in a process of its own, for the Go tests. Each line that it reads is a call; times
// are in us:
//
//	new                        a fresh link
//	stranger                   a fresh Stranger
//	open NOW HEX               a header that came
//	send NOW                   answered by the header, in hex
//	read NOW                   by the remote time and its bound, or "-"
//	trusts NOW                 by whether the time is right within its bound
//	local REMOTE               by the local time, or "-"
//	propose NOW AT TOLERABLE   by the payload time, or an error
//	accept NOW TS23            by the local time, and an error
//	event NOW HEX OLDEST       by the local time, and an error
//	happened AT                by 3 bytes, in hex
//	view NOW                   by the snapshot, in hex
//	at HEX NOW, then HEX HEX   by another one
//	jitter SHARE SENT ARRIVED  by the wait, the level and the interval after each of many
//	dial PORT RATE             sends so many datagrams a second to 127.0.0.1, by a clock of its own
//	                           that runs 40 ppm fast, and says "wall now remote bound" every 50 ms
//	set USEC                   sets that clock

import {createSocket} from 'node:dgram';
import {createInterface} from 'node:readline';
import {
	JitterEstimator, Link, Snapshot, acceptInstant, appendEvent, u64,
} from './timesync.mjs';
import {Stranger} from './stranger.mjs';

let link = new Link();

let ahead = 0n;
const clock = () => u64(BigInt(Math.floor(performance.now() * 1000 * 1.00004)) + ahead);

// The time of day, us, and this end's clock at that moment. The test reads the time of day, too.
// Read anew each time: with performance.timeOrigin, which is read once, a test was 6 ms off from
// its first line to its last.
function timeOfDay() {
	for (;;) {
		const before = performance.now();
		const unix = Date.now(); // rounded down to 1 ms
		const now = clock();
		const stopped = performance.now() - before > 0.1;
		if (!stopped) return {now, wall: unix * 1000 + 500};
	}
}

const hex = b => Buffer.from(b).toString('hex');
const unhex = s => new Uint8Array(Buffer.from(s, 'hex'));

function dial(port, rate) {
	const socket = createSocket('udp4');
	socket.on('message', b => {
		const now = clock();
		link.open(b, now);
	});
	socket.connect(port, '127.0.0.1', () => {
		setInterval(() => socket.send(link.header(clock())), 1000 / rate);
		setInterval(() => {
			const {now, wall} = timeOfDay();
			const remote = link.remoteTime(now);
			console.log(wall, `${now}`, `${remote ?? '-'}`, link.errorBound(now) ?? '-');
		}, 50);
	});
}

const calls = {
	new() {
		link = new Link();
	},
	stranger() {
		link = new Stranger();
	},
	send(now) {
		return hex(link.header(BigInt(now)));
	},
	open(now, datagram) {
		link.open(unhex(datagram), BigInt(now));
	},
	read(now) {
		const remote = link.remoteTime(BigInt(now));
		return remote === null ? '-' : `${remote} ${link.errorBound(BigInt(now))}`;
	},
	trusts(now) {
		return link.within(3600e6, BigInt(now)) === '';
	},
	local(remote) {
		return link.localTime(BigInt(remote)) ?? '-';
	},
	propose(now, at, tolerable) {
		const {instant, error} = link.proposeInstant(BigInt(now), BigInt(at), Number(tolerable));
		return instant ?? error;
	},
	accept(now, instant) {
		const {at, error} = acceptInstant(BigInt(now), Number(instant));
		return `${at} ${error || '-'}`;
	},
	event(now, bytes, oldest) {
		const {at, error} = link.readEvent(BigInt(now), unhex(bytes), Number(oldest));
		return `${at ?? 0} ${error || '-'}`;
	},
	happened(at) {
		return hex(appendEvent(new Uint8Array(), BigInt(at)));
	},
	view(now) {
		return hex(link.snapshot(BigInt(now)).toBytes());
	},
	at(snapshot, now) {
		return hex(Snapshot.fromBytes(unhex(snapshot)).at(BigInt(now)).toBytes());
	},
	then(one, next) {
		return hex(Snapshot.fromBytes(unhex(one)).then(Snapshot.fromBytes(unhex(next))).toBytes());
	},
	jitter(share, ...times) {
		const jitter = new JitterEstimator(Number(share));
		const said = [];
		for (let i = 0; i < times.length; i += 2) {
			jitter.add(Number(times[i]), Number(times[i + 1]));
			said.push(jitter.wait, jitter.level, jitter.interval);
		}
		return said.join(' ');
	},
	dial(port, rate) {
		dial(Number(port), Number(rate));
	},
	set(usec) {
		ahead += BigInt(usec);
	},
};
for await (const line of createInterface({input: process.stdin})) {
	const [call, ...args] = line.split(' ');
	const answer = calls[call](...args);
	if (answer !== undefined) {
		process.stdout.write(`${answer}\n`);
	}
}
process.exit(); // the test has closed the pipe
