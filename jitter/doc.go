// SPDX-License-Identifier: BSD-3-Clause

// Package jitter tells a receiver how long to wait for what arrives: states of a game, frames of
// sound, pictures. Something is sent at an even rate, and each piece takes a time of its own. Who
// waits for long shows all of it, late; who does not wait misses some. An Estimator finds the
// shortest wait by which no more than a share that you choose comes too late.
//
//	estimator := jitter.Estimator{Share: 0.01} // 1 in 100 may be late
//	estimator.Add(sent, arrived)               // for each piece that arrives
//	wait, ok := estimator.Wait()               // show it at sent + wait
//
// The times are readings of two clocks that run evenly, each from a start of its own: the
// sender's for sent, the receiver's for arrived. How far apart the clocks are is part of every
// delay and of the wait, and drops out of sent + wait. A clock that is set is a path that changed
// by as much; if you know of it, call Shift. A drift of 0.1 % or less does no harm.
//
// An Estimator has about 0.8 kB, allocates nothing, and takes about 0.1 us for an arrival. It is
// not safe for use by several goroutines at once: guard it with a mutex.
//
// # What is estimated
//
// The delay of a piece is arrived - sent. Two things about delays change at different speeds.
// Where most of them lie, the level, shifts within a moment when the path becomes another one.
// How far single delays lie above the level, the tail, takes hundreds of arrivals to know, and
// hardly changes when the level does. So they are estimated apart:
//
//	level = the median of the last 7 delays
//	tail  = by how much each delay was above the level as it stood before that delay
//	wait  = level + the tail's quantile 1 - share
//
// The quantile is a median estimate: of n observations share n + 1/2 may lie above it. The mean
// estimate, share (n + 1), would wait much longer at first where tails are heavy, since the
// longest of few observations is far beyond the quantile more often than not.
//
// Since the tail counts from the level before, whatever the level is too slow for shows up in the
// tail: a queue that fills, a path that wanders. Neither needs a rule of its own.
//
// Three rules are needed besides. Each has its reason in how networks and programs behave.
//
//   - What was held up until one moment counts as one observation. When a path stops for a while,
//     or a program, all that is due comes at its end. That is one event, not fifty late arrivals.
//     A piece that is late is held up if it came after another late one in less than half the
//     time after which it was sent. It then counts only if it was sent within 20 ms of that other
//     one.
//   - A stop is not a longer path. If what was held up came 250 ms or more above the level, it
//     was a stop. A stop that comes alone, 5 s or more after the one before, counts for nothing:
//     no wait that anybody wants would have covered it. Stops that recur count as one observation
//     each. Late arrivals are counted when the next one is in time. Those that the level explains
//     by then are a path that has become longer, and count as one.
//   - The share that comes late follows the share that is asked for. Quantiles of what was say
//     too little about what comes while a path changes. So each late observation lowers the share
//     for which the quantile is read by 1/45 of what is asked for, and each arrival raises it so
//     that these balance. What was held up together with a late one lowers it by half as much: it
//     is not in the tail, but it is late. The share that is read stays between 0.1 and 1.3 times
//     what is asked for.
//
// # Constants
//
//	7 delays       are the level: a path that is longer is believed after 4 arrivals
//	128 bins       have the tail's counts: 8 in each octave from 0.5 ms to 8 s, below that bins of 32 us
//	20/share       observations are half of what the tail counts, so it forgets completely after 40/share:
//	               67 s at 60 a second and 1 %
//	half, 20 ms    say what is held up: a game that catches up runs 3 to 8 ticks in the time of one, and a tick
//	               takes about 20 ms
//	250 ms, 5 s    say what a stop is: longer than two beacons of Wi-Fi, and than most people like to wait
//	1/45           is how much a late one moves the share that is read
//	0.1, 1.3       bound that share, so that a bad minute is not paid for, nor a good one used up, for long
//
// This is what each of them does: what changes if one thing is taken out. The worlds are those by
// which the tests judge: 19 kinds, of six rates, seeds 900 and 901, and recordings of real paths.
// 1 % may be late. A wait of 1 is that of an oracle that knows 10 s of the future. The last column
// is how much longer the wait still is 2 s after a stop, at most.
//
//	                                     late   wait   after a stop
//	all of it                            1.03   0.98     6 ms
//	a median of 5                        +0.01  -0.01    the same
//	a median of 9                        -0.01  0.00     the same; shifts are believed later
//	halves of 10/share                   +0.02  0.00     the same
//	halves of 30/share                   0.00   0.00     the same
//	what was held up counts in full      -0.02  0.00    98 ms
//	of 10 ms, not 20                     +0.01  0.00     the same; recordings 2.0 %, not 1.8
//	what a stop held up, out of order,
//	    counts                           -0.01  0.00    61 ms
//	no stop is left out                  -0.07  +0.04  413 ms
//	every stop is left out               +0.06  -0.01    the same; recordings 2.9 %, not 1.8
//	late ones count at once              -0.07  +0.04  165 ms
//	the share is not fed back            +0.22  -0.06    the same; 36 worlds too late, not 15
//	with 1/30, not 1/45                  -0.03  +0.01    the same
//	up to what is asked for only         -0.02  0.00     the same
//	what was held up moves no share      +0.02  -0.01    the same; recordings 1.9 %, not 1.8
//	a mean estimate of the quantile      -0.01  0.00     the same; heavy tails wait 1 % longer
//	things that come twice count         -0.02  +0.01    the same
//
// # What to expect
//
// Before the first arrival nothing is known. After 1/share arrivals the share that comes late is
// about what was asked for.
//
// A path that becomes longer, or shorter, by any amount is followed within 4 arrivals, or 0.5 s
// where 10 or more are sent a second. Two seconds after a stop the wait is what it was before, to
// within some milliseconds. Where one a second or less is sent, a stop holds up a single piece,
// and looks like any delay: the wait then grows to cover one stop in 40/share arrivals.
//
// A share below 0.001 counts as 0.001, since to see one late arrival in 10,000 takes more time
// than a path stays the same. If you need fewer, wait longer than Wait says, or send things
// twice.
//
// Wait changes a little with every arrival. A player should not follow each change: let it slow
// down at once when the wait grows, and run a little faster when the wait has been shorter for a
// while.
package jitter
