// SPDX-License-Identifier: BSD-3-Clause

// A link end in a process of its own, for js_test.go. Each line that it reads is a call:
//
//	new               a fresh link
//	send NOW          answered by the header, in hex
//	open NOW HEX      by the delay in us, or an error
//	read NOW          by the remote time and its bound, or "-"
//	dial PORT RATE    sends so many datagrams a second to 127.0.0.1, by a clock of its own that runs
//	                  40 ppm fast, and says "wall now remote bound" every 50 ms, all in us
//	set USEC          sets that clock

import {createSocket} from 'node:dgram';
import {createInterface} from 'node:readline';
import {Link, u64} from './timesync.mjs';

let link = new Link(), ahead = 0n;
// The time of day, which the test reads, too. It goes on from performance.now, so nobody sets it.
const wall = () => (performance.timeOrigin + performance.now()) * 1000, began = wall();
const clock = () => u64(BigInt(Math.floor((wall() - began) * 1.00004)) + ahead);
const hex = b => Buffer.from(b).toString('hex');

function dial(port, rate) {
	const socket = createSocket('udp4');
	socket.on('message', b => {
		const now = clock();
		link.open(b, now);
	});
	socket.connect(port, '127.0.0.1', () => {
		setInterval(() => socket.send(link.header(clock())), 1000 / rate);
		setInterval(() => {
			const at = wall(), now = clock(), remote = link.remoteTime(now);
			console.log(Math.floor(at), `${now}`, `${remote ?? '-'}`, link.errorBound(now) ?? '-');
		}, 50);
	});
}

const calls = {
	new: () => { link = new Link(); },
	send: now => hex(link.header(BigInt(now))),
	open: (now, datagram) => { const r = link.open(Buffer.from(datagram, 'hex'), BigInt(now)); return r.error ?? r.delay ?? '-'; },
	read: now => link.remoteTime(BigInt(now)) === null ? '-' : `${link.remoteTime(BigInt(now))} ${link.errorBound(BigInt(now))}`,
	dial: (port, rate) => dial(Number(port), Number(rate)),
	set: usec => { ahead += BigInt(usec); },
};
for await (const line of createInterface({input: process.stdin})) {
	const [call, ...args] = line.split(' ');
	const answer = calls[call](...args);
	if (answer !== undefined) process.stdout.write(answer + '\n');
}
process.exit(); // the test has closed the pipe
