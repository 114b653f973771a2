// SPDX-License-Identifier: BSD-3-Clause

// A link end at the other end of a pipe, for js_test.go. Each line is a call, and the answer one:
//
//	new               a fresh link
//	send NOW          the header, in hex
//	open NOW HEX      the delay in us, or an error
//	read NOW          the remote time and its bound, or "-"

import {createInterface} from 'node:readline';
import {Link} from './timesync.mjs';

let link = new Link();
const calls = {
	new: () => { link = new Link(); return '-'; },
	send: now => Buffer.from(link.header(BigInt(now))).toString('hex'),
	open: (now, hex) => { const r = link.open(Buffer.from(hex, 'hex'), BigInt(now)); return r.error ?? r.delay ?? '-'; },
	read: now => { const t = link.remoteTime(BigInt(now)); return t === null ? '-' : `${t} ${link.errorBound(BigInt(now))}`; },
};
for await (const line of createInterface({input: process.stdin})) {
	const [call, ...args] = line.split(' ');
	process.stdout.write(calls[call](...args) + '\n');
}
