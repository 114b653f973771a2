// SPDX-License-Identifier: BSD-3-Clause

// Package timesync lets two peers that exchange datagrams agree on time.
//
// Every authenticated datagram carries a 3-byte stamp. Now and then each side adds a
// report of 3 more bytes. Both then know the offset between their clocks and the one-way
// delay of every datagram. They can put timestamps of 2 or 3 bytes into payloads that
// mean the same instant on both machines. The wire format is that of Christopher Taylor's
// TimeSync (github.com/catid/TimeSync), so a peer may run the C++ original.
//
// # Use
//
// Package link is all of it for most programs: it puts stamps and reports in front of the
// payload and takes them off again. With a header of your own, keep one TimeSynchronizer for
// each peer; Example_sixSteps is the recipe. The package knows no sockets, starts no
// goroutine and reads no clock except in NowUsec.
//
// # Units and signs
//
// Clock readings are microseconds in a uint64 named ...Usec. They may start anywhere and
// wrap at 2^64. The offset is the remote clock minus the local clock. On the wire all
// integers are little-endian.
//
//	TS24      8 us     134.2 s   stamp of a datagram: the sender's clock
//	MinDelta  8 us     134.2 s   the report
//	TS23      8 us      67.1 s   payload timestamp: the receiver's clock, -50.3 to +16.8 s from now
//	TS16    512 us      33.6 s   payload timestamp: the receiver's clock, -25.2 to +8.4 s from now
//
// # The model
//
// The delta of a datagram is its receive time minus its stamp. It is the datagram's
// one-way delay minus the offset, and at the peer its one-way delay plus the offset. The
// delay floor of a direction is the delta of a datagram that does not queue. It is a
// straight line over time, whose slope is the difference in rate of the two clocks. Each
// side tells the other its floor: that is the report. The sum of both floors is the
// shortest round trip, which contains no clock. Half their difference is the offset, if
// both ways take equally long. A clock that is set moves the floors by the same amount in
// opposite directions, and the offset follows. A path that becomes longer moves one floor
// and the round trip, and the offset stays. docs/DESIGN.md derives the rules.
//
// # Concurrency
//
// One goroutine at a time may call OnAuthenticatedDatagramTimestamp, OnPeerMinDeltaTS24,
// Anchor and Reset: the one that receives. All other methods may be called from any goroutine
// at any time, MinDeltaTS24 by the one that sends. They take no lock and see one consistent
// state.
//
// # The error bound
//
// While no clock is set, the truth lies within ErrorBound of RemoteTime, however unequal
// the two ways are. After a clock was set it may lie outside for as long as both ends need
// to see it and to tell, at most 15 s once datagrams arrive; Within of a Snapshot says whether to
// wait, and for what. Stalls, short queues and longer paths do not
// widen the bound; docs/ACCURACY.md says how far all this holds, by measurement.
//
// # Limits
//
// Nobody can tell at first how the round trip divides into the two ways: if the shortest
// delays differ, the offset is wrong by half the difference. If one way becomes longer and
// the other shorter by the same at the same time, that looks like a clock step. A way that
// becomes longer slowly and steadily looks like a difference in rate. Datagrams show the
// offset modulo 67.1 s: a peer whose clock may be further away says once what it reads, for
// Anchor. Whoever can forge a stamp can move the clock.
//
// # Rounding
//
// Stamps are rounded down to their unit, reports and timestamps to the nearest one. A
// report may be one more unit off, because its remainder modulo 3 is a mark; see MinDeltaTS24.
// TestRoundTripError measures how far a timestamp comes back from where it was.
package timesync
