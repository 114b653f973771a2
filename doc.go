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
// # How it works
//
// Let r be the remote clock minus the local clock. A datagram that arrives here shows
//
//	delta = receive time - send stamp = its one-way delay - r
//
// and at the peer, where the clocks change places, its one-way delay + r. A datagram
// that did not queue has the smallest delta, so each side keeps the minimum of its
// deltas over the last 10 s, and reports it. With m the minimum that came in here and
// p the one that the peer reported, and if the shortest delays of both ways are the
// same,
//
//	r = (p - m) / 2    the shortest one-way delay = (p + m) / 2
//	a datagram's one-way delay = the shortest + (its delta - m)
//
// The stamp is modulo 2^27 us, so p - m is, and its half is known modulo 2^26 us,
// 67.1 s. That is why RemoteTime wants a guess, and why a payload timestamp has 23
// bits of 8 us.
//
// The sum p + m is a round trip. It contains no clock, so no step of a clock changes
// it, and no path makes it negative. When a minimum would, either a clock was set,
// and datagrams go on to say so (three in a row are believed), or it was a stray one,
// such as a datagram of more than 67 s ago. A step that is smaller than the round trip
// cannot be told from a change of the path, and takes up to 12 s to be made good, as
// in the original.
//
// # What it cannot know
//
// How the round trip divides into the two ways. If the shortest delays differ, the
// offset is wrong by half the difference, at most by the shortest one-way delay that
// is reported; both sides stay consistent. And while clocks drift apart, a minimum is
// up to 10 s old and a report up to 2 s: at a skew of 100 ppm the offset is 0.6 ms
// wrong at the 99th percentile (row ideal of go test ./internal/sim -run Accuracy -v).
//
// # Rounding
//
// Stamps and reports are rounded down, as the original does; offsets account for the
// middle of what reports lose, and timestamps are rounded to the nearest unit. Without
// noise a timestamp of 23 bits comes back at most 8 us wrong, or 9 us in one of 2,000
// cases while there was but one datagram each way, around zero; one of 16 bits at most
// 260 us. TestRoundTripError measures that.
package timesync
