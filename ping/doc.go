// SPDX-License-Identifier: BSD-3-Clause

// Package ping agrees on time with a server by request and response, where datagrams
// cannot be stamped: over TCP, a WebSocket, an RPC, or once and for all. Where they
// can, package timesync is more accurate for 3 bytes per datagram and without extra
// packets.
//
// # Use
//
// The server calls AppendReply for each request and keeps nothing. The client has a
// Clock: whenever Next says so it sends what AppendRequest returns, and passes what
// comes back to HandleReply. RemoteTime is then the server's clock, for any goroutine.
// The package opens no socket, starts no goroutine and reads no clock: the caller
// passes in the time, from a monotonic clock such as timesync.NowUsec, so a change of
// the wall clock is nothing to it. Read the clock as late as possible before sending
// and as soon as possible after receiving, not once per frame. On a stream, a segment
// that is lost delays a reply by a retransmission: such exchanges have long round
// trips, and the rules set them aside.
//
// A Clock serves as the remote clock of package tick as it is.
//
// # What an exchange tells
//
// The client sends at its time t1, the server receives at its t2 and answers at its
// t3, and the client receives at its t4. The round trip is (t4-t1) - (t3-t2). Offsets,
// and all signs here, are the server's clock minus the client's. No packet arrives
// before it is sent, so the offset lies between t3-t4 and t2-t1; these are a round trip
// apart. The middle is at most half a round trip wrong, and exactly half of the
// difference of the two ways. Nothing that two parties can measure tells these apart:
// the "truly perfect solution" that Sutphin hopes for does not exist.
//
// What a Clock adds to that: ErrorBound, within which the truth lies while no clock is
// set, however unequal the two ways are; the skew, so that the clock is right through
// minutes of silence; and the certainty that one of the clocks was set, or a machine
// suspended, when the bounds of two exchanges do not meet. Then what was known is
// forgotten, and the new exchange counts.
//
// A step that is smaller than the bounds cannot be told from an error of measurement: it
// takes up to 5 s to be corrected, or 8 exchanges. ErrorBound says when it holds again.
// If the step is under 10 ms, a little of it is taken for skew for two minutes.
//
// # Rules
//
// A Rule decides which exchange sets the clock: MinDelay (the default), Percentile,
// SlotPercentile or Latest, each documented with its source. The error is then taken
// away little by little (AdjustSteps), by running 1/16 faster or slower, so that
// readings never go back; or, above RecalibrateThreshold, at once. Such a jump has the
// verdict Stepped, and for readers Snapshot.Steps is one more.
//
// # Sources
//
// docs/MIGRATING.md links them.
//
// Josh Sutphin, "Accurately syncing Unreal's network clock": Config{Rule: Latest,
// AdjustSteps: 1}, asked once. His listing stores the server's time and does not
// advance it; here what is stored is the offset. His request's timestamp comes back
// from the server; here it stays at home, and a nonce travels instead.
//
// Matt Slot, "Synchronizing Network Clocks": Config{Rule: SlotPercentile, AdjustSteps:
// 1, SyncInterval: 5 * time.Second}, with 32 or 64 Samples. Replies after more than
// 10 s are refused. His clock is set hard and may go back; this one slews. Percentile
// does not go blind when the line becomes slower.
//
// netfox, NetworkTimeSynchronizer: SyncInterval, Samples, AdjustSteps and
// RecalibrateThreshold have the meaning of its settings. Its weights, which favor
// the slowest exchanges, are in the tests, as a control. It adjusts old samples by
// nothing; here they are carried forward.
package ping
