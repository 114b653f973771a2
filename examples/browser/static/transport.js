// SPDX-License-Identifier: BSD-3-Clause

// Opens the WebSocket of the game, and WebTransport where there is some.

const timeout = 3000; // ms: where UDP is blocked nothing answers

// openSocket returns a WebSocket, a promise that fails when it is closed, and one of what the server says first.
export function openSocket() {
	const socket = new WebSocket(`ws://${location.host}/game`);
	socket.binaryType = 'arraybuffer';
	const over = new Promise((_, fail) => socket.onclose = () => fail(new Error('the WebSocket was closed')));
	over.catch(() => {}); // it may come before anybody waits for it
	const greeting = new Promise(done => {
		socket.onmessage = e => { if (typeof e.data === 'string') done(JSON.parse(e.data)); };
	});
	return {socket, over, greeting: Promise.race([over, greeting])};
}

// openWebTransport returns a session, or null where there is none.
export async function openWebTransport({url, hash}) {
	if (!('WebTransport' in window) || new URLSearchParams(location.search).get('transport') === 'websocket') return null;
	let session;
	try {
		const value = Uint8Array.from(atob(hash), c => c.charCodeAt(0));
		session = new WebTransport(url, {serverCertificateHashes: [{algorithm: 'sha-256', value}]});
		session.closed.catch(() => {}); // the reader tells
		const late = new Promise((_, fail) => setTimeout(() => fail(new Error('no answer')), timeout));
		await Promise.race([session.ready, late]);
		return session;
	} catch (error) {
		console.info('no WebTransport:', error.message ?? error);
		session?.close();
		return null;
	}
}

// datagramWriter returns what a session's datagrams are written to.
export const datagramWriter = session => (session.datagrams.createWritable?.() ?? session.datagrams.writable).getWriter();

// readDatagrams calls take for each datagram, and throws when the session ends.
export async function readDatagrams(session, take) {
	const reader = session.datagrams.readable.getReader();
	for (;;) {
		const {done, value} = await reader.read();
		if (done) throw new Error('WebTransport was closed');
		take(value);
	}
}
