// SPDX-License-Identifier: BSD-3-Clause

// Holds timesync.mjs against the vectors of testdata/wire and, for the counters and payload times,
// those of testdata:
//
//	node js/vectors.mjs

import {readFileSync} from 'node:fs';
import {fileURLToPath} from 'node:url';
import {gunzipSync} from 'node:zlib';

const folder = new URL('../testdata/', import.meta.url);
const text = name => {
	const bytes = readFileSync(new URL(name, folder));
	return (name.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString().trimEnd().split('\n');
};
const read = new Map(); // mutations.mjs needs them many times
const once = (name, parse) => {
	if (!read.has(name)) read.set(name, parse(text(name)));
	return read.get(name);
};
const jsonLines = name => once('wire/' + name, lines => lines.map(line => JSON.parse(line)));
const csv = name =>
	once(name + '.csv.gz', lines => lines.slice(1).map(line => line.split(',').map(BigInt)));
const hex = b => Buffer.from(b).toString('hex');
const unhex = s => new Uint8Array(Buffer.from(s ?? '', 'hex'));
const near = (a, b, d, bits = 64) =>
	Math.abs(Number(BigInt.asIntN(bits, BigInt(a) - BigInt(b)))) <= d;
const quantile = (v, q) =>
	[...v].sort((a, b) => a - b)[Math.min(Math.floor(q * v.length), v.length - 1)];

/**
 * Holds ts, a module like timesync.mjs, against the vectors, and returns how many checks are wrong.
 * @param {function} say takes what to print */
export function run(ts, say = console.log) {
	let wrong = 0;
	let checks = 0;
	function check(ok, ...what) {
		checks++;
		if (ok) return;
		if (++wrong <= 20) say('wrong:', ...what);
	}
	function section(name, run) {
		const [before, bad] = [checks, wrong];
		run();
		say(`${name}: ${checks - before} checks, ${wrong - bad} wrong`);
		if (checks === before) throw new Error('no vectors');
	}
	section('payload times in bytes', () => {
		for (const l of jsonLines('payload.jsonl')) {
			const [to, from, bytes] =
					l.bits === 16 ? [ts.toTS16, ts.fromTS16, 2] : [ts.toTS23, ts.fromTS23, 3],
				x = l.ts ?? 0,
				time = BigInt(l.time ?? 0);
			if (l.event === 'write') check(to(time) === x, l, to(time));
			if (l.event === 'read') check(from(BigInt(l.now ?? 0), x) === time, l);
			if (l.event !== 'bytes') continue;
			check(
				Buffer.from(l.hex, 'hex').readUIntLE(0, bytes) === x + (l.flag ? 2 ** 23 : 0),
				l,
			);
			if (l.bits === 16) continue;
			const {ts23, known} = ts.readTime23(unhex(l.hex));
			check(ts23 === x && known === (l.flag ?? false), l, ts23, known);
			if (known) check(hex(ts.appendTime23(new Uint8Array(), x)) === l.hex, l);
		}
	});

	section('formulas', () => {
		for (const f of jsonLines('formulas.jsonl')) {
			const floor = Number(f.floor);
			if (f.kind === 'report') {
				check(ts.toReport(floor) === f.report, f);
				continue;
			}
			const s = new ts.Synchronizer();
			const stamp = 1 << 23;
			const now = (BigInt(stamp) << 3n) + BigInt(floor) + (1n << 27n);
			s.datagram(stamp, now);
			s.report(f.peer, now);
			// The first offset that is halved may lie half a ring away.
			check(near(s.remoteTime(now) - now, f.offset ?? 0, 1, 26), f, s.offset);
		}
	});

	section('malformed', () => {
		for (const m of jsonLines('malformed.jsonl'))
			check((new ts.Link().open(unhex(m.hex), 1000000n).error ?? '') === m.error, m);
	});

	section('ping', () => {
		let ping = new ts.Ping();
		let isFirst = true; // no exchange has come
		for (const l of jsonLines('ping.jsonl')) {
			const now = BigInt(l.now ?? 0);
			switch (l.event) {
				case 'new':
					ping = new ts.Ping(l.session ?? 0);
					isFirst = true;
					break;
				case 'serve': {
					const received = BigInt(l.recv ?? 0);
					const reply = ts.appendReply(
						unhex(l.request),
						l.session ?? 0,
						received,
						BigInt(l.sent ?? 0),
					);
					check(hex(reply ?? []) === (l.reply ?? ''), l, reply);
					break;
				}
				case 'request': {
					const nonce = new DataView(unhex(l.request).buffer).getBigUint64(5, true);
					check(hex(ping.request(now, nonce)) === l.request, l);
					break;
				}
				case 'next':
					check(Math.abs(ping.next(now) - (l.wait ?? 0)) <= 15_625, l, ping.next(now));
					break;
				case 'reply': {
					const verdict = ping.reply(unhex(l.reply), now);
					const isUsed = ['accepted', 'synced', 'stepped', 'many servers'].includes(
						verdict,
					);
					check((isUsed ? 'accepted' : verdict) === l.verdict, l, verdict);
					if (l.truth === undefined) {
						break;
					}
					const remote = ping.remoteTime(now);
					const bound = Math.ceil(ping.errorBound(now));
					const delay = ping.minimumOneWayDelay();
					check(near(remote, l.truth, bound), l, remote, bound);
					if (isFirst) {
						check(
							near(remote, l.remote, 8) && near(Math.round(delay), l.delay ?? 0, 8),
							l,
							remote,
							delay,
						);
					}
					isFirst = false;
				}
			}
		}
	});

	section('tick', () => {
		let remote;
		let client;
		for (const l of jsonLines('tick.jsonl')) {
			const now = BigInt(l.now ?? 0);
			if (l.event === 'welcome' || l.event === 'announce') {
				const w = ts.readWelcome(unhex(l.hex));
				const early = (l.early ?? []).map(v => v ?? -32768);
				check((w === null) === (l.error !== undefined), l, w);
				check(ts.isOtherTickVersion(unhex(l.hex)) === (l.error === 'version'), l);
				if (w) check(w.debt === Number(l.debt ?? 0), l, w.debt);
				if (w)
					check(
						w.newest === BigInt(l.newest ?? 0) && `${w.early}` === `${early}`,
						l,
						w.newest,
						w.early,
					);
				if (w && !l.error && l.event === 'welcome') {
					check(
						w.epoch === BigInt(l.epoch) &&
							w.num === l.num &&
							w.den === l.den &&
							w.origin === BigInt(l.origin ?? 0) &&
							w.tick === BigInt(l.tick ?? 0) &&
							w.heard === (l.heard ?? false) &&
							w.paused === (l.paused ?? false),
						l,
						w,
					);
				}
			}
			if (l.event === 'tick') {
				const start = BigInt(l.start ?? 0);
				const n = BigInt(l.tick ?? 0);
				const exact = start > -(1n << 50n) && start < 1n << 50n;
				const at = ns => ts.tickAt(Number(ns) / 1000, l); // to 1 ns
				check(
					ts.tickStart(n, l) === Number(start) / 1000 &&
						at(start) === n &&
						(!exact || at(start - 1n) === n - 1n),
					l,
				);
			}
			if (l.event === 'follow') {
				remote = {
					known: false,
					remoteTime: now => (remote.known ? now + 5000000000n : null),
					minimumOneWayDelay: () => 20000,
					minimumDelayToPeer: () => 20000,
					errorBound: () => 20000,
				};
				client = new ts.TickClient(remote);
			}
			if (l.event !== 'client') continue;
			remote.known = !l.unknown;
			check(client.welcome(unhex(l.hex), now) === !l.refused, l);
			if (l.refused) continue;
			const c = client.clocks(now);
			const ticks = c && [c.server, c.shared, c.predicted].map(us => ts.tickAt(us, c.rate));
			check(hex(client.hello(now) ?? []) === (l.hello ?? ''), l);
			check(`${ticks ?? ''}` === `${l.ticks ?? ''}`, l, ticks);
		}
	});

	section('link', () => {
		let ends = {};
		jsonLines('link.jsonl').forEach((e, i) => {
			const where = `line ${i + 1}, ${e.scenario}, ${e.end} at ${e.now}:`;
			if (e.event === 'begin') {
				ends = {A: new ts.Link(), B: new ts.Link()};
				return;
			}
			if (e.event === 'new') {
				ends[e.end] = new ts.Link();
				return;
			}
			const link = ends[e.end];
			const now = BigInt(e.now ?? 0);
			if (e.event === 'failed') link.sendFailed();
			if (e.event === 'send') {
				if (e.tell !== undefined) {
					const remote = link.remoteTime(BigInt(e.tell));
					const known = remote !== null;
					check(known === (e.ts23 !== undefined), where, 'payload time known', known);
					if (known)
						check(
							near(ts.toTS23(remote), e.ts23, 5, 23) &&
								near(ts.toTS16(remote), e.ts16, 1, 16),
							where,
							'payload times of',
							remote,
						);
				}
				const want = unhex(e.hex);
				const got = link.header(now);
				const v = new DataView(got.buffer);
				const reports = (got[0] & 1) !== 0;
				const judged = e.set ? 24 : 28; // flag 2 may be missing soon after a clock step
				check((got[0] & judged) === (want[0] & judged), where, 'flags', got[0], want[0]);
				check(
					e.report === 'may' || reports === (e.report === 'must'),
					where,
					'a report',
					reports,
					e.report,
				);
				const anchors = (got[0] & 2) !== 0;
				const isDue = reports || e.anchor === true;
				const checks = (got[0] & 32) !== 0; // what it knows
				const may = isDue || e.set === true || checks;
				check(isDue ? anchors : may || !anchors, where, 'an anchor', got[0], e.anchor);
				check(
					hex(got.subarray(1, 4)) === hex(want.subarray(1, 4)),
					where,
					'stamp',
					hex(got),
					e.hex,
				);
				check(
					got.length === 4 + (reports ? 3 : 0) + (got[0] & 2 ? 8 : 0),
					where,
					'length',
					hex(got),
				);
				if (got[0] & 2)
					check(v.getBigUint64(got.length - 8, true) === now, where, 'anchor', hex(got));
				const report = reports ? v.getUint16(4, true) | (got[6] << 16) : 0;
				if (reports) check(report % 3 !== 2, where, 'remainder', report % 3);
				if (report !== 0 && e.floor !== undefined)
					check(near(8 * report, e.floor, 32, 27), where, 'report', report, e.floor / 8);
			}
			if (e.event === 'open') {
				const r = link.open(unhex(e.hex), now);
				check((r.error ?? '') === (e.error ?? ''), where, r.error, e.error);
				check(
					hex(r.payload ?? []) === (e.payload ?? ''),
					where,
					'payload',
					hex(r.payload ?? []),
				);
				if (e.time23 !== undefined) {
					const v = new DataView(unhex(e.payload).buffer);
					const ts23 = v.getUint16(0, true) | ((v.getUint8(2) & 127) << 16);
					check(
						ts.fromTS23(now, ts23) === BigInt(e.time23) &&
							ts.fromTS16(now, v.getUint16(3, true)) === BigInt(e.time16),
						where,
						'payload times',
					);
				}
				check(
					(r.delay !== null) === (e.known ?? false),
					where,
					'delay known',
					r.delay,
					e.known,
				);
				if (e.known && e.delay !== undefined)
					check(
						near(Math.round(r.delay), e.delay, 32),
						where,
						'delay',
						r.delay,
						e.delay,
					);
				const remote = link.remoteTime(now);
				if (remote !== null && e.truth !== undefined)
					check(
						near(remote, e.truth, e.wide ? link.errorBound(now) : 32),
						where,
						'remote',
						remote,
						e.truth,
					);
			}
		});
	});

	section('sessions', () => {
		let begin = null;
		let ends = {};
		let errors = {A: [], B: []};
		let bounds = {A: [], B: []};
		const finish = () => {
			for (const end of begin ? ['A', 'B'] : []) {
				const p99 = quantile(errors[end], 0.99);
				const bound = quantile(bounds[end], 0.99);
				const wide = (bound / 1e3).toFixed(1);
				say(`  ${begin.scenario}, ${end}: p99 ${p99} us, of the bounds ${wide} ms`);
				check(p99 <= Number(begin.p99) && bound <= Number(begin.bound), 'limits', begin);
			}
			errors = {A: [], B: []};
			bounds = {A: [], B: []};
		};
		for (const e of jsonLines('sessions.jsonl.gz')) {
			if (e.event === 'begin') {
				finish();
				begin = e;
				ends = {A: new ts.Link(), B: new ts.Link()};
				continue;
			}
			const link = ends[e.end];
			const now = BigInt(e.now);
			if (e.event === 'send') {
				link.header(now);
			}
			if (e.event === 'open') {
				check(!link.open(unhex(e.hex), now).error, e);
			}
			if (e.event !== 'read') {
				continue;
			}
			const error = Math.abs(ts.since(link.remoteTime(now), BigInt(e.truth)));
			const bound = link.errorBound(now);
			errors[e.end].push(error);
			if (!e.set) {
				check(error <= bound, e, error, bound);
				bounds[e.end].push(bound);
			}
		}
		finish();
	});

	section('counters and payload times', () => {
		for (const [recent, bits, small, want] of csv('expand'))
			check(ts.expand(recent, small, Number(bits)) === want, 'expand', recent, bits, small);
		for (const [bits, a, b, , , , , , add, sub] of csv('compare')) {
			const [n, x, y] = [Number(bits), Number(a), Number(b)];
			check(
				ts.wrap(x + y, n) === Number(add) && ts.wrap(x - y, n) === Number(sub),
				'add or sub',
				bits,
				a,
				b,
			);
		}
		for (const [now, want] of csv('ts')) check(ts.toTS24(now) === Number(want), 'TS24', now);
		for (const [bits, now, t, want] of csv('from_local')) {
			check(
				(bits === 16n ? ts.fromTS16 : ts.fromTS23)(now, Number(t)) === want,
				'from local',
				bits,
				now,
				t,
			);
			check(
				(bits === 16n ? ts.toTS16 : ts.toTS23)(want) === Number(t),
				'to remote',
				bits,
				want,
			);
		}
	});

	say(`${checks} checks, ${wrong} wrong`);
	return wrong;
}

if (process.argv[1] === fileURLToPath(import.meta.url))
	process.exitCode = run(await import('./timesync.mjs')) ? 1 : 0;
