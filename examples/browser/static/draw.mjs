// SPDX-License-Identifier: BSD-3-Clause

// Draws the elevator and the two graphs on canvases, in the colours of the style sheet.

export const GRAPH_SPAN = 30_000; // ms: how far the graphs look back
const FONT = 'system-ui, sans-serif';
const MINUS = '\u2212';
const CLOSE = 0.03; // metres: what nobody sees

/** Fits a canvas to its place. @param {HTMLCanvasElement} canvas */
function prepare(canvas) {
	const scale = devicePixelRatio;
	const width = canvas.clientWidth;
	const height = canvas.clientHeight;
	const fits = canvas.width === Math.round(width * scale) &&
		canvas.height === Math.round(height * scale);
	if (!fits) {
		canvas.width = Math.round(width * scale);
		canvas.height = Math.round(height * scale);
	}
	const pen = canvas.getContext('2d');
	pen.setTransform(scale, 0, 0, scale, 0, 0); // from here on in CSS pixels
	pen.clearRect(0, 0, width, height);
	const style = getComputedStyle(canvas);
	const colour = name => style.getPropertyValue(`--${name}`);
	return {pen, width, height, colour};
}

function line(pen, x1, y1, x2, y2) {
	pen.beginPath();
	pen.moveTo(x1, y1);
	pen.lineTo(x2, y2);
	pen.stroke();
}

// ---- The elevator ----

const PANELS = [
	{name: 'Server', clock: 'server'},
	{name: 'Shared', clock: 'shared'},
	{name: 'Predicted', clock: 'predicted'},
	{name: 'Each in its own', clock: null},
];

/**
 * Draws the same figures four times: on the platform as it is on each of the three clocks, and on
 * a platform that is drawn under each figure in the time of that figure.
 * @param {HTMLCanvasElement} canvas
 * @param {import('./game.mjs').View|null} view
 * @param {import('./game.mjs').Game} game
 */
export function drawElevator(canvas, view, game) {
	const {pen, width, height, colour} = prepare(canvas);
	if (!view) {
		pen.fillStyle = colour('faint');
		pen.font = `15px ${FONT}`;
		pen.textAlign = 'center';
		pen.fillText('Waiting for the server\u2019s time \u2026', width / 2, height / 2);
		return;
	}
	const columns = width < 640 ? 2 : 4;
	const rows = PANELS.length / columns;
	const gap = 14;
	const panelWidth = (width - gap * (columns - 1)) / columns;
	const panelHeight = (height - gap * (rows - 1)) / rows;
	PANELS.forEach((panel, i) => {
		const left = (i % columns) * (panelWidth + gap);
		const top = Math.floor(i / columns) * (panelHeight + gap);
		const box = {left, top, width: panelWidth, height: panelHeight};
		drawPanel(pen, colour, panel, view, game, box);
	});
}

function drawPanel(pen, colour, panel, view, game, {left, top, width, height}) {
	const {world} = game.greeting;
	const time = panel.clock && view.times[panel.clock];
	const right = left + width;
	const shaft = top + 26;
	const ground = top + height - 26;
	const perMetre = (ground - shaft - 50) / world.top; // with room for a figure above
	const toY = metres => ground - metres * perMetre;
	const toX = metres => left + 20 + metres / world.width * (width - 40);

	pen.font = `600 13px ${FONT}`;
	pen.fillStyle = colour('text');
	pen.textAlign = 'left';
	pen.fillText(width > 200 ? `${panel.name} time` : panel.name, left + 2, top + 14);
	if (panel.clock) {
		pen.font = `13px ${FONT}`;
		pen.fillStyle = colour('faint');
		pen.textAlign = 'right';
		pen.fillText(`${(time / 1e6).toFixed(2)} s`, right - 2, top + 14);
	}
	pen.fillStyle = colour('shaft');
	pen.beginPath();
	pen.roundRect(left, shaft, width, top + height - shaft, 10);
	pen.fill();
	pen.strokeStyle = colour('grid');
	pen.lineWidth = 1;
	for (let metres = 0; metres <= world.top; metres++) {
		line(pen, left + 8, toY(metres) + 0.5, right - 8, toY(metres) + 0.5);
	}

	pen.fillStyle = colour('platform');
	if (panel.clock) {
		const level = toY(game.platform(time));
		slab(pen, left + 8, level, width - 16);
	}
	for (const figure of view.figures) {
		const own = game.platform(figure.at);
		const level = panel.clock ? game.platform(time) : own;
		if (!panel.clock) {
			pen.fillStyle = colour('platform');
			slab(pen, toX(figure.x) - 13, toY(level), 26);
		}
		drawFigure(pen, colour, figure, {
			x: toX(figure.x),
			feet: toY(figure.height),
			floor: toY(level),
			above: figure.height - level,
			roomy: width > 200,
		});
	}
}

function slab(pen, left, top, width) {
	pen.beginPath();
	pen.roundRect(left, top, width, 7, 3);
	pen.fill();
}

function drawFigure(pen, colour, figure, {x, feet, floor, above, roomy}) {
	const isServer = figure.number === 0;
	const name = figure.own ? 'you' : isServer ? 'NPC' : `P${figure.number}`;
	pen.fillStyle = colour(figure.own ? 'own' : isServer ? 'npc' : 'other');
	pen.strokeStyle = pen.fillStyle;
	pen.beginPath();
	pen.arc(x, feet - 27, 6, 0, 2 * Math.PI);
	pen.roundRect(x - 6, feet - 19, 12, 19, [5, 5, 2, 2]);
	pen.fill();
	pen.textAlign = 'center';
	pen.font = `600 11px ${FONT}`;
	write(pen, name, x, feet - 37, colour('shaft'));
	if (Math.abs(above) < CLOSE) return;
	pen.lineWidth = 1.5;
	pen.setLineDash([3, 3]);
	line(pen, x, feet, x, floor);
	pen.setLineDash([]);
	const centimetres = Math.round(Math.abs(above) * 100);
	const unit = roomy ? ' cm' : '';
	pen.font = `11px ${FONT}`;
	const text = `${above > 0 ? '+' : MINUS}${centimetres}${unit}`;
	write(pen, text, x, Math.max(feet, floor + 7) + 13, colour('shaft'));
}

/** Writes on something: with a rim of the colour behind. */
function write(pen, text, x, y, behind) {
	const ink = pen.strokeStyle;
	pen.strokeStyle = behind;
	pen.lineWidth = 3;
	pen.lineJoin = 'round';
	pen.strokeText(text, x, y);
	pen.fillText(text, x, y);
	pen.strokeStyle = ink;
}

// ---- The graphs ----

/**
 * What was known of the server's clock at a moment; nothing but the moment while nothing was.
 * @typedef {object} Sample
 * @property {number} at ms
 * @property {number} [error] us
 * @property {number} [bound] us
 * @property {number} [to] the shortest delay to the server, us
 * @property {number} [from] and from it
 * @property {number} [steps] a count
 */

/** The frame of a graph: its axis, and where a moment is. */
function frame(canvas, now) {
	const {pen, width, height, colour} = prepare(canvas);
	const left = 64;
	const right = width - 10;
	const top = 10;
	const bottom = height - 24;
	const toX = at => right - (now - at) / GRAPH_SPAN * (right - left);
	pen.font = `12px ${FONT}`;
	pen.lineWidth = 1;
	pen.fillStyle = colour('faint');
	pen.textAlign = 'left';
	pen.fillText(`${GRAPH_SPAN / 1000} s ago`, left, bottom + 18);
	pen.textAlign = 'right';
	pen.fillText('now', right, bottom + 18);
	const mark = (y, text) => {
		pen.strokeStyle = colour('grid');
		line(pen, left, Math.round(y) + 0.5, right, Math.round(y) + 0.5);
		pen.fillStyle = colour('faint');
		pen.textAlign = 'right';
		pen.fillText(text, left - 8, y + 4);
	};
	const clip = () => {
		pen.beginPath();
		pen.rect(left, top, right - left, bottom - top);
		pen.clip();
	};
	return {pen, colour, left, right, top, bottom, toX, mark, clip};
}

/** A span in words. @param {number} us */
export function span(us) {
	const size = Math.abs(us);
	const sign = us < 0 ? MINUS : '';
	if (size >= 999_500) return `${sign}${(size / 1e6).toFixed(size < 9_995_000 ? 2 : 1)} s`;
	if (size >= 999.5) return `${sign}${(size / 1e3).toFixed(size < 99_950 ? 1 : 0)} ms`;
	return `${sign}${size.toFixed(0)} \u00b5s`;
}

/** A span that is a power of ten, for an axis. */
const round = us => (us >= 1e6 ? `${us / 1e6} s` : us >= 1e3 ? `${us / 1e3} ms` : `${us} \u00b5s`);

const LINEAR = 10; // us: within this the axis of the offset is linear, and logarithmic beyond
const DECADES = [1e3, 1e4, 1e5, 1e6, 1e7]; // us: where that axis may end

/**
 * Draws the offset as the page knows it, less the true one, and how sure it is of that: the truth,
 * which is the line at zero, must be within the band.
 * @param {HTMLCanvasElement} canvas @param {Sample[]} samples @param {number} now
 */
export function drawOffset(canvas, samples, now) {
	const {pen, colour, left, right, top, bottom, toX, mark, clip} = frame(canvas, now);
	const known = samples.filter(s => 'error' in s);
	const largest = Math.max(0, ...known.map(s => Math.max(Math.abs(s.error), s.bound)));
	const end = DECADES.find(d => d >= largest) ?? DECADES.at(-1);
	const log = us => Math.sign(us) * Math.log10(1 + Math.abs(us) / LINEAR);
	const toY = us => {
		const share = Math.max(Math.min(log(us) / log(end), 1.05), -1.05);
		return (top + bottom) / 2 - share * (bottom - top) / 2;
	};
	for (let us = 100; us <= end; us *= 10) {
		const crowded = toY(0) - toY(us) < 20 || Math.round(Math.log10(end / us)) % 2 !== 0;
		if (crowded) continue;
		mark(toY(us), `+${round(us)}`);
		mark(toY(-us), `${MINUS}${round(us)}`);
	}
	mark(toY(0), 'truth');
	pen.save();
	clip();
	pen.fillStyle = colour('band');
	for (const run of runs(samples)) {
		pen.beginPath();
		for (const s of run) pen.lineTo(toX(s.at), toY(s.error + s.bound));
		for (const s of run.toReversed()) pen.lineTo(toX(s.at), toY(s.error - s.bound));
		pen.fill();
	}
	pen.strokeStyle = colour('text');
	line(pen, left, Math.round(toY(0)) + 0.5, right, Math.round(toY(0)) + 0.5);
	drawSteps(pen, colour('step'), known, toX, top, bottom);
	pen.strokeStyle = colour('own');
	pen.lineWidth = 2;
	for (const run of runs(samples)) {
		pen.beginPath();
		for (const s of run) pen.lineTo(toX(s.at), toY(s.error));
		pen.stroke();
	}
	pen.restore();
}

/** The stretches in which the time was known. @param {Sample[]} samples */
function runs(samples) {
	const all = [[]];
	for (const s of samples) {
		if ('error' in s) all.at(-1).push(s);
		else all.push([]);
	}
	return all;
}

/** Marks when a clock was set. */
function drawSteps(pen, ink, known, toX, top, bottom) {
	pen.strokeStyle = ink;
	pen.lineWidth = 1.5;
	pen.setLineDash([4, 3]);
	known.forEach((s, i) => {
		if (i > 0 && s.steps > known[i - 1].steps) line(pen, toX(s.at), top, toX(s.at), bottom);
	});
	pen.setLineDash([]);
}

/**
 * Draws how long each datagram took, a dot for each, and as lines the shortest delays that the
 * page has calculated.
 * @param {HTMLCanvasElement} canvas
 * @param {Sample[]} samples
 * @param {{at: number, way: 'to'|'from', us: number}[]} delays
 * @param {number} now
 */
export function drawDelays(canvas, samples, delays, now) {
	const {pen, colour, toX, top, bottom, mark, clip} = frame(canvas, now);
	const sorted = delays.map(d => d.us).sort((a, b) => a - b);
	// A few slow ones are not worth a scale.
	const high = sorted.length ? sorted[Math.floor(0.9 * (sorted.length - 1))] : 0;
	const {end, step} = niceAxis(Math.max(1.8 * high, 400));
	const toY = us => bottom - us / end * (bottom - top);
	for (let us = 0; us <= end; us += step) mark(toY(us), us === 0 ? '0' : round(us));
	pen.save();
	clip();
	for (const way of ['to', 'from']) {
		pen.fillStyle = colour(way);
		pen.globalAlpha = 0.45;
		for (const d of delays) {
			if (d.way === way) pen.fillRect(toX(d.at) - 1, toY(d.us) - 1, 2, 2);
		}
		pen.globalAlpha = 1;
		pen.strokeStyle = colour(way);
		pen.lineWidth = 2;
		for (const run of runs(samples)) {
			pen.beginPath();
			for (const s of run) pen.lineTo(toX(s.at), toY(s[way]));
			pen.stroke();
		}
	}
	pen.restore();
}

/** An axis from 0 to a round number. @param {number} least us */
function niceAxis(least) {
	const power = 10 ** Math.floor(Math.log10(least / 4));
	const step = [1, 2, 5, 10].map(n => n * power).find(s => 4 * s >= least);
	return {step, end: Math.ceil(least / step) * step};
}
