// SPDX-License-Identifier: BSD-3-Clause

// The browser's part: it opens the connections, hands what comes to the client in
// WebAssembly at once, with the time, and draws what the client says. The client puts its
// functions into timesyncPage.

import {drawElevator} from './elevator.js';
import {drawGraph, minute} from './graph.js';
import {datagramWriter, openSocket, openWebTransport, readDatagrams} from './transport.js';

const sampleEvery = 50; // ms
const workEvery = 8; // ms: half a tick
const retryAfter = 300; // ms

const byId = id => document.getElementById(id);
const sleep = ms => new Promise(done => setTimeout(done, ms));
const query = new URLSearchParams(location.search);

// demo is what tests look at.
const demo = window.demo = {samples: [], events: [], frame: null, transport: '', connections: 0, firstFrame: 0};
let socket = null, writer = null; // what there is to send by
const client = window.timesyncPage = {
	sendDatagram: bytes => writer?.write(bytes).catch(() => {}), // the reader sees the end
	sendMessage: bytes => { if (socket?.readyState === WebSocket.OPEN) socket.send(bytes); },
	event: line => {
		demo.events.push(line);
		const item = document.createElement('li');
		item.textContent = `${(performance.now() / 1000).toFixed(1)} s: ${line}`;
		byId('events').prepend(item);
		while (byId('events').childElementCount > 100) byId('events').lastChild.remove();
	},
};

// load starts the client, and says how far it is.
async function load() {
	const go = new Go(), ready = new Promise(done => client.ready = done);
	const response = await fetch('page.wasm');
	const size = Number(response.headers.get('Content-Length'));
	const parts = [];
	let had = 0;
	for (const reader = response.body.getReader(); ;) {
		const {done, value} = await reader.read();
		if (done) break;
		parts.push(value);
		had += value.length;
		say(`Loading ... ${Math.round(100 * had / size)} %`);
	}
	const {instance} = await WebAssembly.instantiate(await new Blob(parts).arrayBuffer(), go.importObject);
	go.run(instance);
	await ready;
}

function say(text) {
	if (byId('status').textContent !== text) byId('status').textContent = text;
}

// connectForEver keeps a connection.
async function connectForEver() {
	for (;;) {
		try {
			await connection();
		} catch (error) {
			console.info('connection:', error.message ?? error);
		}
		if (demo.transport) client.event('connection lost');
		demo.transport = '';
		say('The server does not answer; trying again.');
		await sleep(retryAfter);
	}
}

// connection opens a WebSocket and, if it can, WebTransport beside it, and returns when
// one of them ends.
async function connection() {
	const opened = openSocket(), {over} = opened;
	socket = opened.socket;
	let session = null;
	try {
		const greeting = await opened.greeting;
		sendWishes();
		say('Opening WebTransport ...');
		session = await openWebTransport(greeting);
		writer = session && datagramWriter(session);
		client.connect(greeting, session !== null);
		demo.transport = session ? 'WebTransport' : 'WebSocket';
		demo.connections++;
		socket.onmessage = e => arrived(client.onMessage, e.data);
		await Promise.race([over, ...session ? [readDatagrams(session, b => arrived(client.onDatagram, b))] : []]);
	} finally {
		writer = null;
		session?.close();
		socket.close();
	}
}

// arrived hands over what has come. In a tab in the background timers run once a second,
// but what arrives is told at once: so the client works then.
function arrived(handler, data) {
	const now = performance.now();
	if (sleeps(now)) return;
	handler(data instanceof ArrayBuffer ? new Uint8Array(data) : data, now);
	if (document.hidden) work();
}

// sleeps says whether the machine sleeps, as it is made to: its clock stands still, and what comes is lost.
const sleepFor = 5000; // ms
let awakeAt = 0;
function sleeps(now) {
	if (awakeAt > 0 && now >= awakeAt) {
		awakeAt = 0;
		client.stepClock(-sleepFor);
	}
	return awakeAt > 0;
}

// work does what is due, whether anything is seen or not.
let sampledAt = 0;
function work() {
	const now = performance.now();
	const asleep = sleeps(now);
	if (!asleep) client.advance(now);
	if (now - sampledAt < sampleEvery) return;
	sampledAt = now;
	demo.samples.push({at: now, ...asleep ? {stamps: null, ping: null} : client.sample(now, performance.timeOrigin + now)});
	while (demo.samples[0].at < now - minute) demo.samples.shift();
}

// show draws a frame.
function show() {
	const now = performance.now();
	demo.frame = sleeps(now) ? null : client.frame(now);
	drawElevator(byId('elevator'), demo.frame);
	drawGraph(byId('graph'), demo.samples, now);
	if (demo.frame && !demo.firstFrame) demo.firstFrame = now;
	requestAnimationFrame(show);
}

// tell brings the text up to date. Nobody reads faster.
function tell() {
	for (const series of ['stamps', 'ping']) tellNumbers(series);
	if (!demo.transport) return;
	const {frame} = demo;
	const players = frame ? frame.drawn.filter(f => f.player !== 0).length : 0;
	say(`Game time follows ${demo.transport === 'WebTransport' ? 'stamps over WebTransport' : 'ping over a WebSocket: there is no WebTransport'}. ` +
		`The page's clock steps by ${crossOriginIsolated ? '5 us' : '100 us, since the page is not isolated'}. ` +
		(frame ? `Players: ${players}. Inputs too late: ${(100 * frame.late).toFixed(1)} %.` : ''));
	if (frame && !touched.has('rate')) setSlider(slider('rate'), frame.rate);
}

function tellNumbers(series) {
	const cells = byId('row-' + series).querySelectorAll('td');
	const now = performance.now(), last = demo.samples.at(-1)?.[series];
	const errors = demo.samples.filter(s => s.at > now - 10000 && s[series]).map(s => Math.abs(s[series].error)).sort((a, b) => a - b);
	const quantile = q => errors[Math.min(Math.floor(q * errors.length), errors.length - 1)];
	const values = last && errors.length ? [last.error, quantile(.5), quantile(.99), last.bound, last.delay, last.steps] : [];
	cells.forEach((cell, i) => cell.textContent = values.length ? Math.round(values[i]).toLocaleString('en') : 'none');
}

// The controls.

const touched = new Set(); // sliders that were moved
const slider = name => byId('controls').elements[name];
const value = name => Number(slider(name).value);

function setSlider(input, to) {
	input.value = to;
	input.parentElement.querySelector('output').textContent = `${input.value} ${input.dataset.unit}`;
}

// sendWishes tells the server how the path is to be. The tick rate is everybody's, so only
// who moved that slider has a say.
function sendWishes() {
	if (socket?.readyState !== WebSocket.OPEN) return;
	socket.send(JSON.stringify({
		latency: value('latency'), uphill: value('uphill'), jitter: value('jitter'), loss: value('loss'),
		rate: touched.has('rate') ? value('rate') : 0,
	}));
	touched.delete('rate');
}

function setUpControls() {
	let pending = 0;
	for (const input of byId('controls').querySelectorAll('input')) {
		if (query.has(input.name)) touched.add(input.name);
		setSlider(input, query.get(input.name) ?? input.value);
		input.addEventListener('input', () => {
			touched.add(input.name);
			setSlider(input, input.value);
			applyBuffers();
			clearTimeout(pending);
			pending = setTimeout(sendWishes, 50); // one message for many small moves
		});
	}
	byId('step').addEventListener('click', () => client.stepClock(2000));
	byId('suspend').addEventListener('click', () => awakeAt ||= performance.now() + sleepFor);
	const keys = {ArrowLeft: -1, ArrowRight: 1};
	byId('elevator').addEventListener('keydown', e => {
		if (!(e.key in keys)) return;
		e.preventDefault();
		client.walk(keys[e.key]);
	});
	for (const end of ['keyup', 'blur']) byId('elevator').addEventListener(end, () => client.walk(0));
}

function applyBuffers() { client.setBuffers(value('clientBuffer'), value('serverBuffer')); }

try {
	setUpControls();
	await load();
	applyBuffers();
	connectForEver();
	setInterval(work, workEvery);
	setInterval(tell, 250);
	requestAnimationFrame(show);
} catch (error) {
	say('The page cannot start: ' + (error.message ?? error));
	throw error;
}
