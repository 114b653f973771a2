// SPDX-License-Identifier: BSD-3-Clause

// Package timesync lets two peers that exchange datagrams agree on time.
//
// Every authenticated datagram carries a stamp of 3 bytes: what the sender's clock showed. Now
// and then each side adds a report of 3 more bytes: the least difference between the peer's stamps
// and their times of receipt. Both ends then know the offset between their clocks and the one-way
// delay of every datagram. Payloads can contain times of 2 or 3 bytes that mean the same moment on
// both machines.
//
// The wire format is that of Christopher Taylor's TimeSync (github.com/catid/TimeSync), so a peer
// may run that C++ program. It is called the original here.
//
// # Use
//
// Most programs need only package link. It puts all of this in front of the payload and takes
// it off again, also inside an encryption of your own. If your wire format cannot change, or the
// peer runs the original, do this:
//
//  1. Keep one TimeSynchronizer for each peer. Times are readings of package clock: Received for
//     the time at which a datagram arrived, Now for all others. Other monotonic clocks will do,
//     such as NowUsec in a copy of this folder.
//  2. Put the stamp timesync.LocalTimeToDatagramTS24(now) into each datagram, just before you send
//     it.
//  3. Add the report MinDeltaTS24(now), if it is ok, and now itself, 8 bytes: every 0.5 s for 20 s
//     from your first report on, then every second. Call MinDeltaTS24 only for a datagram that you
//     send. Mark such datagrams, by a flag or by their length. Where a header has room for the
//     stamp alone, put all else into the payload, also what step 7 adds.
//  4. When a datagram arrives that is authentic, did not arrive before and is less than a minute
//     old, pass its stamp and the time of receipt to OnAuthenticatedDatagramTimestamp. It returns
//     the one-way delay. Stamps repeat, so an older copy would move the clock. A sequence number
//     and a replay window that spans less than a minute keep it out.
//  5. If the datagram has a report, pass the 8 bytes to Anchor and then the report to
//     OnPeerMinDeltaTS24. Pass neither if, in the last second, you passed a report that was sent
//     later, by its stamp (Counter24.Less) or your sequence number. You may leave out the 8 bytes
//     of all reports. The peer's clock is then known only modulo 67.1 s, and Within does not check
//     the multiple. But do not stop after some: from the first Anchor on, Within waits for another
//     after each silence.
//  6. Read the peer's clock: RemoteTime, LocalTime and Snapshot for yourself. For the time of an
//     event in a payload, AppendEvent appends 3 bytes, which the peer reads with
//     timesync.ReadEvent. They hold a time only while Snapshot.Within is nil. Within fails 15 s
//     after the last report, so send a datagram every 2 s even if there is nothing to say.
//  7. Notice a restart of the peer and a sleep of your machine, as the next section says.
//
// Example_sevenSteps is such a program. It is in example_test.go, in the repository.
//
// The package opens no socket and starts no goroutine. It reads a clock only in NowUsec.
//
// # Restarts and sleep
//
// When the program starts, draw a random number of 4 bytes that is not 0. Put it into each
// datagram, and behind it the echo: the number last heard from the peer, or 0. An SSRC or a
// connection id that is drawn at each start can be the number.
//
//   - Remember the number of every authentic datagram, to echo it.
//   - If its echo is not your number, use nothing else of the datagram: the peer has not heard you
//     yet, or the datagram is for your predecessor, or it is a recording of another session.
//   - Take the first number whose echo is right. Later drop a datagram with another number, which
//     may be a late one from before a restart, until three of them come in a row. Before you pass
//     the stamp of the third, call Reset, and begin steps 3 and 5 anew.
//
// Without number and echo a restart looks like a clock step, and recordings of earlier sessions are
// believed. If a restart makes a new connection with new keys, take a new TimeSynchronizer instead.
//
// The authentication tag can cover an echo that is not sent: verify first with your own number as
// the echo, then with 0. A datagram that fits only 0 comes from a peer that has not heard you.
//
// After your machine slept, drop what waits in the socket and call Reset: until then the time may
// be wrong by the sleep although Within is nil. clock.SleepWatch notices a sleep.
//
// # Terms
//
// The offset is the remote clock minus the local clock. The skew is the rate of the remote clock
// minus that of the local clock. The delta of a datagram is its time of receipt minus its stamp,
// which come from two clocks. The delay floor of a direction is the delta of a datagram that does
// not wait in a queue. The round trip is the sum of both floors: the clocks cancel in it. The
// offset is half their difference, if both ways take equally long. A step is a jump of the remote
// time.
// docs/GLOSSARY.md has a picture and the other terms, docs/DESIGN.md the rules of the estimator.
//
// # Units and signs
//
// Clock readings are microseconds in a uint64 named ...Usec. They may start anywhere and wrap at
// 2^64. On the wire all integers are little-endian.
//
//	         bytes   unit     wraps   meaning
//	TS24       3      8 us  134.2 s   stamp of a datagram: the sender's clock
//	MinDelta   3      8 us  134.2 s   the report: the least delta since the last
//	TS23       3      8 us   67.1 s   payload time: the receiver's clock, -50.3 s to +16.8 s
//	TS16       2    512 us   33.6 s   payload time: the receiver's clock, -25.2 s to +8.4 s
//
// The ranges of payload times count from the moment at which they are read. A time outside its
// range is read wrong by a whole period, 67.1 or 33.6 s, and the receiver cannot see that. The top
// bit of a TS23's 3 bytes is free. Datagrams show the offset modulo 67.1 s. Anchor supplies the
// rest.
//
// # Concurrency
//
// One goroutine at a time may call OnAuthenticatedDatagramTimestamp, OnPeerMinDeltaTS24, Anchor
// and Reset: the one that receives. Any goroutine may call all other methods at any time, such as
// the sender MinDeltaTS24. They take no lock and see one consistent state.
//
// # The error bound
//
// While no clock is set, and their rates differ by at most 500 ppm, the truth lies within
// ErrorBound of RemoteTime, however unequal the two ways are. lab/results/ACCURACY.md says how
// often that holds. After a clock step the truth may lie outside until both ends have noticed. In
// nearly all cases that takes at most 15 s of datagrams, SettleTime. Snapshot.Within says whether
// to wait, and why. A session that has just begun need not wait.
//
// In two cases a clock step may be mistaken for a change of the path: it comes within 10 s after
// a path became longer, and makes that way seem shorter again; or it comes just as the path
// changes. The time is then wrong by that step for four minutes, and Within does not tell. Most
// such steps are noticed after that.
//
// The bound holds while a crystal drifts by up to 0.1 ppm a second, and while chrony or ptp4l slews
// a clock by up to 500 ppm. Until a slew is noticed, the bound allows for what 500 ppm gain in 2 s.
// Faster slews are clock steps.
//
// One way may slowly become longer as the other becomes shorter by as much. Two ends cannot tell
// that from a difference of the rates, so whoever can delay datagrams can move the time by up to
// half of what they add to the round trip. The bound allows for that: if the rate changes while
// the round trip is longer than it was, the bound widens to half of the present round trip.
//
// Stalls, short queues, and paths that become longer do not widen the bound. A path that is long
// from the start does, since the bound is at least half the round trip.
//
// # A view that travels
//
// A Snapshot is a mapping from the local to the remote clock, with its bound. It can be kept and
// asked for another time (At), sent (AppendBinary), and put behind another one (Then). So a relay
// can tell a viewer what it knows of a camera's clock, and the viewer can date the camera's frames.
//
// # Limits
//
// Two ends cannot measure how the round trip divides into the two ways. If the shortest delays
// differ, the offset is wrong by half the difference. These changes of a path move the time:
//
//   - A way becomes longer by more than the jitter: the offset stays for four minutes, and then
//     moves by half of the change.
//   - A queue that was there from the start has gone: half of it stays in the offset for up to four
//     minutes.
//   - One way becomes longer and, within 15 s, the other becomes shorter, as when a download ends
//     and an upload begins: that looks like a clock step.
//   - A way becomes longer slowly and steadily: that looks like a difference of the rates.
//
// Whoever can forge a stamp can move the clock.
//
// # Rounding
//
// Stamps are rounded down to their unit, reports and payload times to the nearest one. A report
// may be off by one more unit, because its 24-bit value modulo 3 tells it from an original's; see
// MinDeltaTS24. Without network jitter a time that is sent as a TS23 is read within 7 us of the
// truth, as a TS16 within 258 us. After only one datagram each way it is 11 us for a TS23.
//
// # Copying
//
// This package can be copied into a folder of another module: docs/PRODUCTION.md has the commands.
// It needs Go 1.22 and the standard library. Its tests read testdata/fuzz and
// testdata/courses.txt. Leave example_test.go out: it imports this package by its path.
//
// The packages and documents that comments name, such as package link and docs/DESIGN.md, are in
// the repository only.
package timesync
