// Package timesync lets two peers that exchange datagrams agree on time.
//
// Every authenticated datagram carries a 3-byte stamp and is a probe; now and then
// each side reports its minimum delta in 3 more bytes. Both then know the offset
// between their clocks, the one-way delay of every datagram, and can put timestamps
// of 2 or 3 bytes into payloads that mean the same instant on both machines. The
// design and the wire format are those of Christopher Taylor's TimeSync
// (github.com/catid/TimeSync), so a peer may run the C++ original.
//
// # Use
//
// Keep one TimeSynchronizer for each peer; the package knows no sockets, reads no
// clock but in NowUsec, and starts no goroutine. Example_sixSteps is the recipe.
//
// # Units and signs
//
// Clock readings are microseconds in a uint64 named ...Usec; they may start anywhere
// and wrap at 2^64. Offsets are the remote clock minus the local clock. On the wire
// all integers are little-endian.
//
//	TS24      8 us     134.2 s   stamp of a datagram: the sender's clock
//	MinDelta  8 us     134.2 s   the report
//	TS23      8 us      67.1 s   payload timestamp: the receiver's clock, -50.3 to +16.8 s from now
//	TS16    512 us      33.6 s   payload timestamp: the receiver's clock, -25.2 to +8.4 s from now
//
// # The model
//
// Let r be the remote clock minus the local clock. A datagram that arrives here shows
//
//	delta = receive time - send stamp = its one-way delay - r
//
// and at the peer, where the clocks change places, its one-way delay + r. The delta of
// a datagram that does not queue is the floor of its direction. Clocks differ in rate,
// so a floor is a straight line whose slope is minus the skew, and the other end's has
// the opposite slope. With m our floor and p the one that the peer reported, carried on
// to now,
//
//	r = (p - m) / 2 + hold    the shortest one-way delay = (p + m) / 2 + hold
//	a datagram's one-way delay = the shortest + (its delta - m)
//
// The stamp is modulo 2^27 us, so p - m is, and its half is known modulo 2^26 us,
// 67.1 s. That is why RemoteTime wants a guess, and why a payload timestamp has 23
// bits of 8 us. The sum p + m is a round trip: it contains no clock, so no step of a
// clock changes it, and no path makes it negative.
//
// # The line (ts24.go)
//
// Datagrams are judged by the fastest of a bucket of 0.2 s and at least 4 datagrams,
// and the fastest of a span of buckets is a point. Spans begin with a bucket, so that a
// slope is known after a second, and double up to 16 s; 12 points are kept. The window
// of the points is the one where noise/window^1.5 and the wander of quartzes times the
// window weigh the same, between 8 s (as long as the original looks back) and 128 s (an
// oscillator does not keep its rate for longer). The slope is the secant of the lower
// convex hull of the points over the middle half of the window, drawn to what was known
// before by the ratio of the variances: 100 ppm at first (two crystals of 50 ppm), then
// that of the fits, and 0.1 ppm more for each second (temperature). A slope of more
// than 5 standard deviations off is a queue. If it lasts for 12 s, only the newer half of
// the points counts, and a smaller slope is believed: then it was a slew that was known.
// If the level moves meanwhile, or hardly anything comes near the line on two levels in a
// row, no slope is known. The floor is the highest line of that slope below all points; a
// datagram below it lowers it at once.
//
// # What moves a floor
//
// Deltas further from the line than the gate, 8 times the points' mean distance and 0.1
// ms, say nothing about it: congestion is no evidence about clocks. But three datagrams
// in a row below the gate are believed (a stray stamp does not come thrice), as is a
// level above it that all datagrams of 12 s share, or of 4 s if it holds still to an
// eighth: a queue moves. From 6 s on a rise that holds still is reported at once, for if
// a clock was set the peer waits to hear it.
//
// When a floor moves, either a path changed or a clock was set:
//
//   - If the round trip is what it was, a clock was set: both floors moved by the same,
//     in opposite directions. So it is if the round trip comes out below zero; then the
//     peer's floor is moved as well, and reports that do not know of it are ignored. If
//     all datagrams are late and the peer's floor fell by as much, ours rose.
//   - Else a path changed: the offset stays, hold takes the difference. It is bounded by
//     the change of the round trip (a path that became longer by q moves the midpoint by
//     q/2) and returns to zero with it. It is forgotten in 40 s if there were three moves
//     or a silence of 5 s that no change of one path accounts for, or faster if the level
//     before was young.
//   - In the first 6 s a fall is believed: the first datagrams queued.
//   - A clock that is set again within 15 s is being slewed: its slope may be anything up
//     to 500 ppm, NTP's limit.
//
// 15 s is what two originals need to see and tell: a minimum lives for 10 s, a report for
// 2 s. An original is known by its reports: ours have an even number of ones. To an
// original a longer path is told after 10 s, for it has not forgotten the old one either,
// and when our floor falls beside one, the midpoint is believed, for the other side of it
// comes late.
//
// Corrections of less than 50 ms (0.5 ms after a clock was set) are slewed at half the
// speed of time, so that the remote time never goes back; larger ones are steps, which
// Stats counts.
//
// # The bound
//
// Whatever the asymmetry, r lies between -m and p: half the round trip from the midpoint.
// ErrorBound takes the longest round trip of late for that, and adds
//
//   - half of what the round trip shrank by since, for one floor may be wrong by all of it
//   - hold, a sixth of the round trip or 8 times the mean queueing, and 0.1 ms
//   - the highest residual of late, for a clock may have been set by as much; below the
//     gate it counts twice, since that datagram may have queued
//   - what moved and reports do not show yet, and the drift since the last report at the
//     error of the skew
//   - a thousandth of the time for which the next fit is overdue: a clock that is slewed in
//     silence, or behind a queue, shows only afterwards
//
// It takes for granted that a datagram of the time asked about has arrived, and that it
// did not queue for longer than a clock was set back in the meantime: such a datagram
// looks like any other that queued.
//
// # What it cannot know
//
// How the round trip divides into the two ways at first: if the shortest delays differ,
// the offset is wrong by half the difference; both ends stay consistent. Two paths that
// change by opposite amounts at the same time look like a step of a clock, and a step of a
// clock while a path changes by as much looks like the change of the other path. A slow
// change of one way looks like skew until it has lasted for longer than skews change.
//
// # Rounding
//
// Stamps are rounded down, as the original does, reports and timestamps to the nearest
// unit. Without noise a timestamp of 23 bits comes back at most 8 us wrong, or 9 us in one
// of 2,000 cases while there was but one datagram each way, around zero; one of 16 bits at
// most 260 us. TestRoundTripError measures that. From 6 s on the parity of reports costs
// up to 4 us more.
package timesync
