// SPDX-License-Identifier: BSD-3-Clause

// The graph of the last minute, logarithmic.

import {prepare, colours} from './elevator.js';

export const minute = 60000; // ms
const least = 1, most = 1e7; // us: the ends of the axis
const lines = [
	{what: 'delay', dash: [2, 4], width: 1.5},
	{what: 'bound', dash: [8, 5], width: 1.5},
	{what: 'error', dash: [], width: 2},
];

// drawGraph draws samples: {at, stamps, ping}, where at is in ms and the others are
// readings of the client, or null.
export function drawGraph(canvas, samples, now) {
	const {draw, width, height} = prepare(canvas), colour = colours();
	const left = 62, right = width - 12, top = 14, bottom = height - 28;
	const toX = at => right - (now - at) / minute * (right - left);
	const toY = us => {
		const share = Math.log10(Math.min(Math.max(us, least), most) / least) / Math.log10(most / least);
		return bottom - share * (bottom - top);
	};
	drawGrid(draw, colour, {left, right, top, bottom, toY});
	draw.save();
	draw.beginPath();
	draw.rect(left, 0, right - left, height);
	draw.clip();
	for (const series of ['ping', 'stamps']) {
		drawJumps(draw, colour.jump, samples, series, toX, top, bottom);
		draw.strokeStyle = colour[series];
		for (const line of lines) {
			drawLine(draw, samples, s => s[series] && (line.what !== 'delay' || s[series].delay > 0) ? Math.abs(s[series][line.what]) : null, line, toX, toY);
		}
	}
	draw.restore();
}

function drawGrid(draw, colour, {left, right, top, bottom, toY}) {
	draw.strokeStyle = colour.grid;
	draw.fillStyle = colour.text;
	draw.lineWidth = 1;
	draw.textAlign = 'right';
	for (let us = least; us <= most; us *= 10) {
		draw.beginPath();
		draw.moveTo(left, toY(us));
		draw.lineTo(right, toY(us));
		draw.stroke();
		draw.fillText(us < 1e3 ? `${us} us` : us < 1e6 ? `${us / 1e3} ms` : `${us / 1e6} s`, left - 8, toY(us) + 5);
	}
	draw.fillText('now', right, bottom + 20);
	draw.textAlign = 'left';
	draw.fillText('a minute ago', left, bottom + 20);
}

function drawLine(draw, samples, value, {dash, width}, toX, toY) {
	draw.lineWidth = width;
	draw.setLineDash(dash);
	draw.beginPath();
	let drawing = false;
	for (const s of samples) {
		const us = value(s);
		if (us === null) {
			drawing = false;
			continue;
		}
		draw[drawing ? 'lineTo' : 'moveTo'](toX(s.at), toY(us));
		drawing = true;
	}
	draw.stroke();
	draw.setLineDash([]);
}

// drawJumps marks where a reading was allowed to jump.
function drawJumps(draw, ink, samples, series, toX, top, bottom) {
	draw.strokeStyle = ink;
	draw.lineWidth = 1;
	let steps = null;
	for (const s of samples) {
		if (!s[series]) continue;
		if (steps !== null && s[series].steps > steps) {
			draw.beginPath();
			draw.moveTo(toX(s.at), top);
			draw.lineTo(toX(s.at), bottom);
			draw.stroke();
		}
		steps = s[series].steps;
	}
}
