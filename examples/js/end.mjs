// SPDX-License-Identifier: BSD-3-Clause

// A link end in a process of its own, for js_test.go. Each line that it reads is a call:
//
//	new               a fresh link
//	send NOW          answered by the header, in hex
//	open NOW HEX      by the delay in us, or an error
//	read NOW          by the remote time and its bound, or "-"

import {createInterface} from 'node:readline';
import {Link} from './timesync.mjs';

let link = new Link();
const hex = b => Buffer.from(b).toString('hex');

const calls = {
	new: () => { link = new Link(); },
	send: now => hex(link.header(BigInt(now))),
	open: (now, datagram) => { const r = link.open(Buffer.from(datagram, 'hex'), BigInt(now)); return r.error ?? r.delay ?? '-'; },
	read: now => link.remoteTime(BigInt(now)) === null ? '-' : `${link.remoteTime(BigInt(now))} ${link.errorBound(BigInt(now))}`,
};
for await (const line of createInterface({input: process.stdin})) {
	const [call, ...args] = line.split(' ');
	const answer = calls[call](...args);
	if (answer !== undefined) process.stdout.write(answer + '\n');
}
process.exit(); // the test has closed the pipe
