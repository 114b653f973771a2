// SPDX-License-Identifier: BSD-3-Clause

// The page without WebAssembly: timesync.mjs knows the server's clock by stamps over WebTransport
// and by ping over the WebSocket, and follows the server's game time.

import {Link, Ping, TickClient, nowUsec, receivedUsec, u64} from './timesync.mjs';
import {datagramWriter, openSocket, openWebTransport, readDatagrams} from './transport.js';

const sampleEvery = 50, sendEvery = 32, retryAfter = 300; // ms
const welcome = 'w'.charCodeAt(0), hello = 'h'.charCodeAt(0); // the game's kinds of messages
const byId = id => document.getElementById(id);
const sleep = ms => new Promise(done => setTimeout(done, ms));

// demo is what tests look at, as on the other page.
const demo = window.demo = {samples: [], events: [], transport: '', game: null, heard: false};
let ahead = 0n; // the local clock minus the browser's
const clock = () => u64(nowUsec() + ahead), received = () => u64(receivedUsec() + ahead);

byId('step').addEventListener('click', () => ahead += 2000000n);

// connection keeps time until the connection ends.
async function connection() {
	const {socket, over, greeting: first} = openSocket(), timers = [];
	let session = null;
	try {
		const greeting = await first;
		session = await openWebTransport(greeting);
		const link = new Link(), ping = new Ping(), game = new TickClient(session ? link : ping);
		const writer = session && datagramWriter(session);
		const sendDatagram = payload => writer.write(new Uint8Array([...link.header(clock()), ...payload])).catch(() => {}); // the reader sees the end
		const take = (payload, now) => {
			if (payload[0] === welcome) game.welcome(payload.subarray(1), now);
		};
		demo.transport = session ? 'WebTransport' : 'WebSocket';
		socket.onmessage = e => {
			const now = received();
			if (typeof e.data === 'string') return;
			const b = new Uint8Array(e.data);
			if (ping.reply(b, now) === 'malformed') take(b, now);
		};
		const work = () => {
			const message = game.hello(clock()), payload = message ? [hello, ...message] : [];
			if (session) sendDatagram(payload);
			else if (message) socket.send(new Uint8Array(payload));
			if (ping.next(clock()) === 0) socket.send(ping.request(clock()));
		};
		timers.push(setInterval(work, sendEvery), setInterval(() => sample(greeting, link, ping, game), sampleEvery));
		await Promise.race([over, ...session ? [readDatagrams(session, b => {
			const now = received(), {payload} = link.open(b, now);
			if (payload) take(payload, now);
		})] : []]);
	} finally {
		timers.forEach(clearInterval);
		session?.close();
		socket.close();
	}
}

// sample notes how well the server's clock is known: the page's machine is the server's, so the time
// of day tells.
function sample(greeting, link, ping, game) {
	const now = clock(), at = Number(u64(now - ahead)) / 1000; // one look: a page may stand still between two
	const truth = (performance.timeOrigin + at) * 1000 - greeting.unixAtZero;
	const reading = remote => remote.remoteTime(now) === null ? null : {
		error: Number(remote.remoteTime(now)) - truth, bound: remote.errorBound(now), delay: remote.minimumOneWayDelay(), steps: remote.steps,
	};
	const stamps = reading(link), pings = reading(ping);
	demo.samples.push({at, stamps, ping: pings});
	demo.game = game.clocks(now);
	demo.heard = game.last?.heard ?? false;
	byId('status').textContent = `Connected over ${demo.transport}.`;
	const line = (name, r) => r ? `${name}: off by ${r.error.toFixed(0)} us, at most ${r.bound.toFixed(0)} us\n` : '';
	byId('numbers').textContent = line('stamps', stamps) + line('ping', pings) + (demo.game ? `game time ${(demo.game.shared / 1e6).toFixed(2)} s` : '');
}

for (;;) {
	try {
		await connection();
	} catch (error) {
		demo.events.push(error.message ?? String(error));
	}
	demo.transport = '';
	byId('status').textContent = 'The server does not answer; trying again.';
	await sleep(retryAfter);
}
