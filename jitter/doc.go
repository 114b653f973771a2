// SPDX-License-Identifier: BSD-3-Clause

// Package jitter tells a receiver how long to wait for what arrives: states of a game, frames of
// sound, pictures. They are sent at an even rate, and each is under way for a time of its own. If
// you wait for long, all of them arrive in time, but everything is shown late. An Estimator finds
// the shortest wait by which no more than a share that you choose comes too late.
//
//	estimator := jitter.Estimator{Share: 0.01} // 1 in 100 may be late
//	estimator.Add(sent, arrived)               // for each piece that arrives
//	wait, ok := estimator.Wait()               // show it at sent + wait
//
// The times are readings of two clocks that run evenly: the sender's for sent, the receiver's for
// arrived. The clocks need not agree: their offset is part of every delay and of the wait, and
// drops out of sent + wait. A drift of 0.1 % or less does no harm. If you know that a clock was
// set, call Shift.
//
// An Estimator has about 0.8 kB, allocates nothing, and takes about 0.1 us for an arrival. It is
// not safe for use by several goroutines at once: guard it with a mutex.
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
// A share below 0.001 counts as 0.001: to see one late arrival in 10,000 takes longer than a path
// stays the same. If you need fewer, wait longer than Wait says, or send things twice.
//
// Wait changes a little with every arrival. A player should not follow each change. Let it slow
// down at once when the wait grows, and run a little faster when the wait has been shorter for a
// while.
//
// # What is estimated
//
// The delay of a piece is arrived - sent. The level is where most delays lie. It shifts within a
// moment when the path changes. The tail is how far single delays lie above the level. It takes
// hundreds of arrivals to know, and hardly changes when the level does. So they are estimated
// apart:
//
//	level = the median of the last 7 delays
//	tail  = by how much each delay was above the level as it stood before that delay
//	wait  = level + the tail's quantile 1 - share
//
// The quantile is a median estimate: of n observations share n + 1/2 may lie above it. The mean
// estimate, share (n + 1), would wait much longer at first where tails are heavy.
//
// Since the tail counts from the level before, whatever the level is too slow for shows up in the
// tail: a queue that fills, a path that wanders. Neither needs a rule of its own. Three rules are
// needed besides:
//
//   - What was held up until one moment counts as one observation. When a path or a program stops
//     for a while, all that is due comes at its end. That is one event, not fifty late arrivals. A
//     late piece was held up if it came after another late one in less than half the time after
//     which it was sent. It then counts only if it was sent within 20 ms of that other one.
//   - A stop is not a longer path. If what was held up came 250 ms or more above the level, it was
//     a stop. A stop that comes alone, 5 s or more after the one before, counts for nothing: no
//     wait that anybody wants would have covered it. Stops that recur count as one observation
//     each. Late arrivals are counted when the next one is in time. Those that the level explains
//     by then are a path that has become longer, and count as one.
//   - The share that comes late follows the share that is asked for. Past quantiles say too little
//     about what comes while a path changes. So each late observation lowers the share for which
//     the quantile is read, by 1/45 of what is asked for, and each arrival raises it so that these
//     balance. What was held up together with a late one lowers it by half as much. The share that
//     is read stays between 0.1 and 1.3 times what is asked for.
//
// # Constants
//
//	7 delays       are the level: a path that is longer is believed after 4 arrivals
//	128 bins       have the tail's counts: 8 in each octave from 0.5 ms to 8 s, below that bins of
//	               32 us
//	20/share       observations are half of what the tail counts, so it forgets completely after
//	               40/share: 67 s at 60 a second and 1 %
//	half, 20 ms    say what is held up: a game that catches up runs 3 to 8 ticks in the time of
//	               one, and a tick takes about 20 ms
//	250 ms, 5 s    say what a stop is: longer than two beacons of Wi-Fi, and than most people like
//	               to wait
//	1/45           is how much a late one moves the share that is read
//	0.1, 1.3       bound that share, so that a bad minute is not paid for, nor a good one used up,
//	               for long
package jitter
