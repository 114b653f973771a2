// SPDX-License-Identifier: BSD-3-Clause

// What the test scripts share.

let checks = 0;
let wrong = 0;

/**
 * Counts a check, and prints what if it is wrong.
 * @param {unknown} ok
 * @param {...unknown} what
 */
export function check(ok, ...what) {
	checks++;
	if (!ok) {
		console.log('wrong:', ...what);
		wrong++;
	}
}

/** Prints the counts. Node then fails if something was wrong. */
export function finish() {
	console.log(`${checks} checks, ${wrong} wrong`);
	process.exitCode = wrong ? 1 : 0;
}

/**
 * Returns a generator of numbers from 0 to 1 that are the same in every run.
 * @param {number} seed
 * @returns {() => number}
 */
export function generator(seed) {
	let state = seed;
	return () => {
		state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
		return state / 2 ** 32;
	};
}
