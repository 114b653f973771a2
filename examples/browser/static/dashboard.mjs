// SPDX-License-Identifier: BSD-3-Clause

// Shows how old the last event is, by the server's clock: docs/BROWSER.md explains it.

import {PageWatch, Ping, nowUsec, receivedUsec, since} from './timesync.mjs';

const ping = new Ping();
const socket = new WebSocket(`ws://${location.host}/events`);
const age = document.getElementById('age');
const watch = new PageWatch({onAway: ({slept}) => {
	if (slept > 0) ping.slept(nowUsec());
}});
let event = null; // when it happened, by the server's clock

socket.binaryType = 'arraybuffer';
socket.onmessage = ({data}) => {
	if (typeof data === 'string') event = BigInt(data);
	else ping.reply(new Uint8Array(data), receivedUsec());
};
socket.onopen = () => setInterval(() => {
	watch.check();
	const now = nowUsec();
	if (ping.next(now) === 0) socket.send(ping.request(now));
	const known = event !== null && ping.within(100_000, now) === ''; // to 0.1 s
	age.value = known ? `${(since(ping.remoteTime(now), event) / 1e6).toFixed(1)} s` : 'unknown';
}, 20);
