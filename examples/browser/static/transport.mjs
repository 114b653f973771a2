// SPDX-License-Identifier: BSD-3-Clause

// A connection to the server: datagrams of WebTransport, or messages of a WebSocket where there is
// no WebTransport, or UDP is blocked.

const READY_WITHIN = 3000; // ms: where UDP is blocked nothing answers

/**
 * @typedef {object} Connection
 * @property {'WebTransport'|'WebSocket'} kind
 * @property {(bytes: Uint8Array) => void} send sends a datagram, or a message
 * @property {(text: string) => void} wish tells the server what the sliders say, for certain
 * @property {Promise<void>} closed when it is
 * @property {() => void} close
 *
 * @typedef {object} Options
 * @property {URL} url where the server takes connections; http or https
 * @property {string} hash of the server's certificate, in base64
 * @property {{received(): bigint}} clock
 * @property {(bytes: Uint8Array, now: bigint) => void} take is told what arrives, and when it did
 * @property {boolean} [datagrams] false: take a WebSocket in any case
 */

/** @param {Options} options @returns {Promise<Connection>} */
export async function connect(options) {
	if ('WebTransport' in globalThis && options.datagrams !== false) {
		try {
			return await overWebTransport(options);
		} catch (error) {
			console.info('no WebTransport:', error.message);
		}
	}
	return overWebSocket(options);
}

/** @param {Options} options @returns {Promise<Connection>} */
async function overWebTransport({url, hash, clock, take}) {
	const secure = new URL(url);
	secure.protocol = 'https:';
	const value = Uint8Array.from(atob(hash), c => c.charCodeAt(0));
	const session = new WebTransport(secure, {
		serverCertificateHashes: [{algorithm: 'sha-256', value}],
	});
	const closed = session.closed.catch(() => {}); // an end like any other
	const late = new Promise((_, fail) => {
		setTimeout(() => fail(new Error('no answer')), READY_WITHIN);
	});
	try {
		await Promise.race([session.ready, late]);
	} catch (error) {
		session.close();
		throw error;
	}
	const {datagrams} = session;
	const writer = (datagrams.createWritable?.() ?? datagrams.writable).getWriter();

	async function read() {
		const reader = datagrams.readable.getReader();
		for (;;) {
			const {done, value} = await reader.read();
			const now = clock.received(); // before anything else
			if (done) return;
			take(value, now);
		}
	}

	async function wish(text) {
		const stream = (await session.createUnidirectionalStream()).getWriter();
		await stream.write(new TextEncoder().encode(text));
		await stream.close();
	}

	const ended = () => {}; // the promise closed tells
	return {
		kind: 'WebTransport',
		send: bytes => { writer.write(bytes).catch(ended); },
		wish: text => { wish(text).catch(ended); },
		closed: Promise.race([closed, read().catch(ended)]),
		close: () => session.close(),
	};
}

/** @param {Options} options @returns {Promise<Connection>} */
async function overWebSocket({url, clock, take}) {
	const socket = new WebSocket(url.href.replace('http', 'ws'));
	socket.binaryType = 'arraybuffer';
	socket.onmessage = ({data}) => {
		const now = clock.received(); // before anything else
		take(new Uint8Array(data), now);
	};
	const closed = new Promise(done => {
		socket.onclose = done;
		socket.onerror = done; // Node calls both, or one of them
	});
	const opened = new Promise(done => socket.onopen = done);
	await Promise.race([opened, closed]);
	const send = data => {
		if (socket.readyState === WebSocket.OPEN) socket.send(data);
	};
	return {kind: 'WebSocket', send, wish: send, closed, close: () => socket.close()};
}
