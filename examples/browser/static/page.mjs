// SPDX-License-Identifier: BSD-3-Clause

// The page: it runs the game, draws it, and hands it what the sliders, buttons and keys say.

import {Clock, since} from './timesync.mjs';
import {Game} from './game.mjs';
import {GRAPH_SPAN, drawDelays, drawElevator, drawOffset, span} from './draw.mjs';

const WORK_EVERY = 8; // ms
const SAMPLE_EVERY = 50; // ms
const TELL_EVERY = 250; // ms
const SLEEP_FOR = 5000; // ms
const STEP_BY = 2000; // ms
const LAMPS = 4;
const BEAT = 500_000; // us
const PRESETS = {
	cable: {up: [5, 0.2, 0], down: [5, 0.2, 0]}, // delay and jitter in ms, loss in %
	wifi: {up: [15, 4, 1], down: [12, 3, 1]},
	mobile: {up: [60, 15, 2], down: [40, 8, 1]},
	unequal: {up: [150, 2, 0], down: [30, 2, 0]},
};

const TRUST = { // what TickClient.within() says
	'': 'The time can be relied on to 100 ms.',
	unsynchronized: 'The time is not known yet.',
	silent: 'Nothing was heard of the server for a while.',
	ambiguous: 'The server\u2019s clock is known only modulo 67 s.',
	stepped: 'A clock was stepped a short time ago, so do not rely on the time yet.',
	unchecked: 'Too little was heard since a silence or a step to rely on the time.',
	wide: 'The error bound is wider than 100 ms.',
};

const byId = id => document.getElementById(id);
const query = new URLSearchParams(location.search);

// ---- The page's clock, which the user can set ----

let ahead = 0; // ms: of the browser's clock
const clock = new Clock(() => performance.now() + ahead);

// ---- The game ----

const samples = []; // of the last GRAPH_SPAN
const delays = [];
const game = new Game({
	base: location.href,
	clock,
	datagrams: query.get('transport') !== 'websocket',
	say,
	onDelay: (way, us) => delays.push({at: performance.now(), way, us}),
});

/** What tests look at. */
const demo = {
	game, clock, samples, delays, view: null, said: [], others: new Map(), remoteAt, timeOrigin,
};
window.demo = demo;

function say(text) {
	demo.said.push(text);
	const item = document.createElement('li');
	item.textContent = `${(performance.now() / 1000).toFixed(1)} s: ${text}`;
	byId('log').prepend(item);
	while (byId('log').childElementCount > 50) byId('log').lastChild.remove();
}

// ---- What the page knows, and what is true ----

/** Whether the server runs on this machine: then both read one time of day. */
const sameMachine = ['127.0.0.1', 'localhost', '[::1]'].includes(location.hostname);
let firstOffset = null; // else offsets are shown less the first one

let origin = performance.timeOrigin;

/**
 * The time of day less performance.now(), ms. performance.timeOrigin is read once, when the page
 * loads, and the time of day may be set or slewed later. So it is corrected by Date.now().
 */
function timeOrigin() {
	const before = performance.now();
	const unix = Date.now(); // rounded down to 1 ms
	const after = performance.now();
	const stopped = after - before > 0.2; // performance.now() itself counts in 0.1 ms
	if (!stopped) origin = Math.min(Math.max(origin, unix - after), unix + 1 - before);
	return origin;
}

/** The server's clock less the true one at a moment of performance.now(), us. */
function errorAt(at, remote) {
	if (sameMachine) {
		const unix = (timeOrigin() + at) * 1000;
		return Number(remote) - (unix - game.greeting.unixAtZero);
	}
	firstOffset ??= Number(remote) - at * 1000;
	return Number(remote) - at * 1000 - firstOffset;
}

/** The server's clock at a moment of performance.now(), or null. */
function remoteAt(at) {
	return game.link.remoteTime(BigInt(Math.floor((at + ahead) * 1000)));
}

function sample() {
	const at = performance.now();
	const now = clock.now();
	const {link} = game;
	const remote = game.asleep ? null : remoteAt(at);
	if (remote === null) {
		samples.push({at});
		return;
	}
	samples.push({
		at,
		error: errorAt(at, remote),
		bound: link.errorBound(now),
		to: link.minimumDelayToPeer(),
		from: link.minimumOneWayDelay(),
		steps: link.steps,
	});
}

function forget() {
	const oldest = performance.now() - GRAPH_SPAN;
	for (const list of [samples, delays]) {
		const kept = list.findIndex(s => s.at >= oldest);
		if (kept > 0) list.splice(0, kept);
	}
}

// ---- Two tabs in step ----

// Tabs of one browser share a time of day, so each can tell what another reads at one moment.
const tabs = new BroadcastChannel('timesync');
const me = crypto.randomUUID();

function tellOthers() {
	const at = performance.now();
	const remote = game.asleep ? null : remoteAt(at);
	const server = game.greeting?.hash; // tabs of different servers have nothing in common
	if (remote !== null) {
		const bound = game.link.errorBound(clock.now());
		tabs.postMessage({me, server, wall: timeOrigin() + at, remote, bound});
	}
	for (const [other, {heardAt}] of demo.others) {
		if (at - heardAt > 3000) demo.others.delete(other);
	}
}

tabs.onmessage = ({data: {me: other, server, wall, remote, bound}}) => {
	const mine = remoteAt(wall - timeOrigin());
	if (mine === null || game.asleep || server !== game.greeting.hash) return;
	const apart = Math.abs(since(mine, remote));
	const allowed = bound + game.link.errorBound(clock.now());
	demo.others.set(other, {apart, allowed, heardAt: performance.now()});
};

// ---- Texts ----

function put(id, text) {
	if (byId(id).textContent !== text) byId(id).textContent = text;
}

function tell() {
	const last = samples.at(-1);
	const known = last !== undefined && 'error' in last;
	const kind = game.connection?.kind;
	byId('status').dataset.state = game.asleep ? 'asleep' : known ? 'good' : 'waiting';
	put('status', game.asleep ? 'asleep' : kind ?? 'connecting \u2026');
	put('error', known ? span(last.error) : '\u2013');
	put('bound', known ? `at most ${span(last.bound)}` : 'not known yet');
	put('to', known ? span(last.to) : '\u2013');
	put('from', known ? span(last.from) : '\u2013');
	const doubt = demo.view?.doubt;
	put('trust', TRUST[known && demo.view ? doubt : 'unsynchronized']);
	put('inputs', `${game.inputs.inTime} inputs came in time, ${game.inputs.late} too late.`);
	const others = [...demo.others.values()];
	const worst = others.reduce((a, b) => (a && a.apart > b.apart ? a : b), null);
	put('apart', worst ? span(worst.apart) : '\u2013');
	put('apart-note', worst ? `at most ${span(worst.allowed)}` : 'open this page in a second tab');
	tellOthers();
	forget();
}

// ---- Frames ----

const newLamp = () => byId('lamps').appendChild(document.createElement('i'));
const lamps = Array.from({length: LAMPS}, newLamp);
let drawnAt = -Infinity;

function show() {
	const now = performance.now();
	demo.view = game.look();
	drawElevator(byId('elevator'), demo.view, game);
	const shared = demo.view?.times.shared ?? null;
	const lit = shared === null ? -1 : Math.floor(shared / BEAT) % LAMPS;
	lamps.forEach((lamp, i) => lamp.classList.toggle('lit', i === lit));
	put('shared', shared === null ? '\u2013' : `${(shared / 1e6).toFixed(1)} s`);
	if (now - drawnAt >= SAMPLE_EVERY) {
		drawnAt = now;
		drawOffset(byId('offset'), samples, now);
		drawDelays(byId('delays'), samples, delays, now);
	}
	requestAnimationFrame(show);
}

// ---- Controls ----

const sliders = [...document.querySelectorAll('#network input')];

function wishes() {
	const wish = {up: {}, down: {}};
	for (const {name, value} of sliders) {
		const [way, what] = name.split('-');
		wish[way][what] = Number(value);
	}
	return JSON.stringify(wish);
}

function setSlider(slider, value) {
	slider.value = value;
	byId(`${slider.name}-value`).textContent = `${slider.value} ${slider.dataset.unit}`;
}

function applySliders() {
	const difference = Math.abs(byId('up-delay').value - byId('down-delay').value) / 2;
	put('asymmetry', difference === 0
		? 'Both ways are equally long, so the offset can be right.'
		: `The ways differ by ${2 * difference} ms. Two ends alone cannot measure that: the offset `
			+ `may be ${difference} ms off. The bound allows for it.`);
	game.wish(wishes());
}

let pending = 0;
for (const slider of sliders) {
	setSlider(slider, query.get(slider.name) ?? slider.value);
	slider.addEventListener('input', () => {
		setSlider(slider, slider.value);
		clearTimeout(pending);
		pending = setTimeout(applySliders, 50); // once for many small moves
	});
}

for (const button of document.querySelectorAll('[data-preset]')) {
	button.addEventListener('click', () => {
		for (const [way, values] of Object.entries(PRESETS[button.dataset.preset])) {
			for (const [i, what] of ['delay', 'jitter', 'loss'].entries()) {
				setSlider(byId(`${way}-${what}`), values[i]);
			}
		}
		applySliders();
	});
}

byId('step').addEventListener('click', () => {
	ahead += STEP_BY;
	say(`This page\u2019s clock was stepped by ${STEP_BY / 1000} s.`);
});

byId('sleep').addEventListener('click', () => {
	if (game.asleep) return;
	game.asleep = true;
	say('This page sleeps: its clock stands still.');
	setTimeout(() => {
		ahead -= SLEEP_FOR;
		game.asleep = false;
	}, SLEEP_FOR);
});

const KEYS = {ArrowLeft: -1, ArrowRight: 1};
addEventListener('keydown', e => {
	if (!(e.key in KEYS) || e.target.matches('input')) return;
	e.preventDefault();
	game.walk = KEYS[e.key];
});
addEventListener('keyup', e => {
	if (e.key in KEYS) game.walk = 0;
});
addEventListener('blur', () => game.walk = 0);
for (const button of document.querySelectorAll('[data-walk]')) {
	button.addEventListener('pointerdown', () => game.walk = Number(button.dataset.walk));
	for (const end of ['pointerup', 'pointerleave', 'pointercancel']) {
		button.addEventListener(end, () => game.walk = 0);
	}
}

applySliders();
game.run();
setInterval(() => game.work(), WORK_EVERY);
setInterval(sample, SAMPLE_EVERY);
setInterval(tell, TELL_EVERY);
requestAnimationFrame(show);
