// SPDX-License-Identifier: BSD-3-Clause

// The elevator: the platform in three times, and on it those who stand in one of them.

const names = ['server time', 'shared time', 'predicted time'];
const topMetres = 3, widthMetres = 4; // as in package game
const close = 0.03; // metres: what nobody sees

// prepare fits a canvas to its place and returns what draws on it, in CSS pixels.
export function prepare(canvas) {
	const scale = devicePixelRatio, width = canvas.clientWidth, height = canvas.clientHeight;
	if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
		canvas.width = Math.round(width * scale);
		canvas.height = Math.round(height * scale);
	}
	const draw = canvas.getContext('2d');
	draw.setTransform(scale, 0, 0, scale, 0, 0);
	draw.clearRect(0, 0, width, height);
	draw.font = '14px system-ui, sans-serif';
	return {draw, width, height};
}

// colours returns the colours of the style sheet, light or dark.
export function colours() {
	const style = getComputedStyle(document.documentElement);
	return new Proxy({}, {get: (_, name) => style.getPropertyValue('--' + name)});
}

// drawElevator draws a frame of the client, or that there is none.
export function drawElevator(canvas, frame) {
	const {draw, width, height} = prepare(canvas), colour = colours();
	draw.textAlign = 'center';
	if (!frame) {
		draw.fillStyle = colour.faint;
		draw.fillText('waiting for the server\'s time', width / 2, height / 2);
		return;
	}
	const gap = 16, panel = (width - 4 * gap) / 3;
	for (let i = 0; i < 3; i++) {
		drawPanel(draw, colour, frame, i, {left: gap + i * (panel + gap), width: panel, height});
	}
}

function drawPanel(draw, colour, frame, i, {left, width, height}) {
	const ground = height - 50, head = 92; // room for numbers and names below, and for a figure and the title above
	const toY = metres => ground - metres / topMetres * (ground - head);
	const toX = metres => left + 22 + metres / widthMetres * (width - 44);

	draw.fillStyle = colour.text;
	draw.fillText(`${names[i]} ${frame.times[i].toFixed(2)} s`, left + width / 2, 22);
	draw.strokeStyle = colour.grid;
	draw.lineWidth = 2;
	draw.strokeRect(left, 34, width, ground - 8);

	const floor = toY(frame.levels[i]);
	draw.fillStyle = colour.platform;
	draw.fillRect(left + 4, floor, width - 8, 8);
	for (const figure of frame.drawn) {
		drawFigure(draw, colour, figure, toX(figure.x), toY(figure.height), floor, figure.height - frame.levels[i], ground);
	}
}

function drawFigure(draw, colour, figure, x, feet, floor, above, ground) {
	const ink = figure.own ? colour.own : figure.player === 0 ? colour.npc : colour.other;
	draw.fillStyle = draw.strokeStyle = ink;
	draw.beginPath();
	draw.arc(x, feet - 35, 7, 0, 2 * Math.PI);
	draw.roundRect(x - 6, feet - 26, 12, 26, 4);
	draw.fill();
	draw.fillText(figure.own ? 'you' : figure.player === 0 ? 'server' : 'player ' + figure.player, x, ground + 44);
	if (Math.abs(above) < close) return;
	draw.lineWidth = 1.5;
	draw.setLineDash([3, 3]);
	draw.beginPath();
	draw.moveTo(x, feet);
	draw.lineTo(x, floor);
	draw.stroke();
	draw.setLineDash([]);
	draw.fillText(`${above > 0 ? '+' : '\u2212'}${Math.abs(above).toFixed(2)} m`, x, above > 0 ? feet - 47 : feet + 20); // away from the platform
}
