// SPDX-License-Identifier: BSD-3-Clause

// A dashboard that shows how old the last event is, by the server's clock: docs/BROWSER.md explains it.

import {Ping, nowUsec, receivedUsec, since} from './timesync.mjs';

const ping = new Ping(), socket = new WebSocket(`ws://${location.host}/events`);
let happened = null; // when, by the server's clock
socket.binaryType = 'arraybuffer';
socket.onmessage = ({data}) => {
	const now = receivedUsec(); // before anything else
	if (typeof data === 'string') happened = BigInt(data);
	else ping.reply(new Uint8Array(data), now);
};
setInterval(() => {
	if (socket.readyState === WebSocket.OPEN && ping.next(nowUsec()) === 0) socket.send(ping.request(nowUsec()));
	if (happened === null || ping.within(100_000, nowUsec()) !== '') return; // not known to 0.1 s
	age.textContent = `${(since(ping.remoteTime(nowUsec()), happened) / 1e6).toFixed(2)} s old`;
}, 20);
