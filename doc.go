// SPDX-License-Identifier: BSD-3-Clause

// Package timesync lets two peers that exchange datagrams agree on time.
//
// Every authenticated datagram carries a stamp of 3 bytes: what the sender's clock showed. Now
// and then each side adds a report of 3 more bytes: how its datagrams arrive. Both then know the
// offset between their clocks and the one-way delay of every datagram. They can put times of 2 or
// 3 bytes into payloads that mean the same moment on both machines. The wire format is that of
// Christopher Taylor's TimeSync (github.com/catid/TimeSync), so a peer may run that C++ program;
// it is called the original here.
//
// # Use
//
// Most programs need only package link: it puts stamps and reports in front of the payload and
// takes them off again. With a header of your own, keep one TimeSynchronizer for each peer;
// Example_sixSteps is the recipe. The package opens no socket, starts no goroutine and reads no
// clock except in NowUsec.
//
// # Terms
//
// The offset is the remote clock minus the local clock. The skew is the difference of their
// rates. The delta of a datagram is its time of receipt minus its stamp, read off two clocks. The
// delay floor of a direction is the delta of a datagram that waits in no queue. The round trip is
// the sum of both floors. A step is a jump of the remote time. docs/GLOSSARY.md has a picture and
// the other terms.
//
// # Units and signs
//
// Clock readings are microseconds in a uint64 named ...Usec. They may start anywhere and wrap at
// 2^64. On the wire all integers are little-endian.
//
//	         bytes   unit     wraps   meaning
//	TS24       3      8 us  134.2 s   stamp of a datagram: the sender's clock
//	MinDelta   3      8 us  134.2 s   the report: the sender's delay floor
//	TS23       3      8 us   67.1 s   payload time: the receiver's clock, from 50.3 s before now to 16.8 s after
//	TS16       2    512 us   33.6 s   payload time: the receiver's clock, from 25.2 s before now to 8.4 s after
//
// The top bit of a TS23's 3 bytes is free. Outside its range a payload time is off by a period,
// without a sign of it. The offset is known modulo 67.1 s: Anchor says which of the readings is
// meant.
//
// # The model
//
// The delta of a datagram is its one-way delay minus the offset, and at the peer its one-way
// delay plus the offset. The delay floor is a straight line over time, whose slope is the
// difference in rate of the two clocks. Each side reports its floor to the other. The sum of both
// floors is the shortest round trip, which contains no clock. Half their difference is the
// offset, if both ways take equally long. A clock that is set moves the floors by the same amount
// in opposite directions, and the offset follows. A path that becomes longer moves one floor and
// the round trip, and the offset stays. docs/DESIGN.md derives the rules.
//
// # Concurrency
//
// One goroutine at a time may call OnAuthenticatedDatagramTimestamp, OnPeerMinDeltaTS24, Anchor
// and Reset: the one that receives. All other methods may be called from any goroutine at any
// time, MinDeltaTS24 by the one that sends. They take no lock and see one consistent state.
//
// # The error bound
//
// While no clock is set, the truth lies within ErrorBound of RemoteTime, however unequal the two
// ways are. After a clock was set the truth may lie outside until both ends have noticed: for at
// most 15 s once datagrams flow, in nearly all cases. Snapshot.Within says whether to wait, and
// why. Stalls, short queues, and paths that become longer do not widen the bound. A path that is
// longer from the start does, since the bound is half the round trip at least. docs/ACCURACY.md
// says how often the bound holds, by measurement.
//
// # Limits
//
// How the round trip divides into the two ways cannot be measured by two ends: if the shortest
// delays differ, the offset is wrong by half the difference. If one way becomes longer and the
// other shorter by the same at the same time, that looks like a clock step. A way that becomes
// longer slowly and steadily looks like a difference in rate. Datagrams show the offset modulo
// 67.1 s: a peer whose clock may be further away sends its full reading once, for Anchor. Whoever
// can forge a stamp can move the clock.
//
// # Rounding
//
// Stamps are rounded down to their unit, reports and payload times to the nearest one. A report
// may be one more unit off, because its value modulo 3 carries a quality mark; see MinDeltaTS24.
// Without network jitter a TS23 comes back within 9 us and a TS16 within 260 us; while there was
// only one datagram each way, a TS23 within 13 us (TestRoundTripError).
package timesync
