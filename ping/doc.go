// SPDX-License-Identifier: BSD-3-Clause

// Package ping learns a server's time by request and reply. Use it where datagrams cannot be
// stamped: over TCP, a WebSocket, or an RPC. A single exchange is enough to start. Where datagrams
// can be stamped, package link is more accurate, and needs no packets of its own. Messages of a
// WebSocket can be stamped, too: docs/BROWSER.md compares both.
//
// # Use
//
// The server calls AppendReply for each request and keeps no state. The client has a Clock.
// Whenever Next says so, it sends what AppendRequest returns, and passes the answer to
// HandleReply. RemoteTime is then the server's clock, for any goroutine. A request is exactly
// 13 bytes long, a reply 29; docs/WIRE.md says what they contain.
//
// The package opens no socket, starts no goroutine and reads no clock. The caller passes in the
// time, from a monotonic clock such as that of package clock, so changes of the wall clock do not
// affect it: clock.Now as late as possible before sending, clock.Received as soon as possible after
// receiving, and neither once per frame. On a stream, a lost segment delays a reply until it is sent
// again. Such exchanges have long round trips, and the default rule ignores them.
//
// After dialing anew call Reset, or take a new Clock: the server may be another process. Else its clock seems to have
// been set, and Within fails for 15 s.
//
// A Clock can be the remote clock of package tick.
//
// # What an exchange tells
//
// An exchange is a request and its reply. The client sends at its time t1, the server receives at
// its t2 and answers at its t3, and the client receives at its t4. The round trip is (t4-t1) -
// (t3-t2). The offset is the server's clock minus the client's. No packet arrives before it is
// sent, so the offset lies between t3-t4 and t2-t1, which are a round trip apart. The middle is
// wrong by half of the difference of the two ways, at most by half a round trip. Two parties
// cannot measure that difference.
//
// A Clock adds four things:
//
//   - It takes the fastest request and the fastest reply of late, which are seldom those of one exchange.
//   - ErrorBound is how far off the time can be while no clock is set, however unequal the two
//     ways are.
//   - The skew, the server's rate minus the client's, keeps the clock right through minutes of
//     silence.
//   - If the bounds of two exchanges exclude each other, a clock was set or a machine slept. The
//     Clock then forgets the older exchanges and takes the new one.
//
// A step that is smaller than the bounds looks like an error of measurement: correcting it begins after
// up to 5 s, or 8 exchanges, and each exchange more corrects one part in AdjustSteps of the rest. The
// comment of ErrorBound says when the bound holds again. Some of such a step counts as skew meanwhile: of 4 ms up to 180 ppm for two
// minutes, and longer where the interval is above 8 s.
//
// A queue one way that lasts for longer than 5 s moves the time, since the fastest exchange of late is then a
// slow one, too. It moves it by up to half the shortest round trip while that is among the Samples, for 16 s,
// and after that by half of the delay that it adds.
//
// # Rules
//
// Others take one exchange as a whole. A Rule decides which one sets the clock: MinDelay, Percentile,
// SlotPercentile or Latest, each documented with its source. With 3 to 20 ms of jitter the default is two to three times
// as accurate as MinDelay (go test ./ping -run TestJitterFilter -v). The error is then removed in parts
// (AdjustSteps): the clock runs up to 1/16 faster or slower for a while, so readings never go
// back. Above RecalibrateThreshold the clock is set at once. For such a jump HandleReply returns
// Stepped, and Snapshot.Steps rises by one. Whatever the Rule, replies after more than 10 s are refused.
//
// # Sources
//
// docs/MIGRATING.md links them.
//
// Josh Sutphin, "Accurately syncing Unreal's network clock": Config{Rule: Latest, AdjustSteps:
// 1}, asked once. His code stores the server's time and does not advance it; this package stores
// the offset. His request contains a timestamp, which the server sends back. Here the client
// keeps its timestamp, and sends a nonce, a random number, instead. The "truly perfect solution"
// that he hopes for does not exist, since two parties cannot measure how unequal the ways are.
//
// Matt Slot, "Synchronizing Network Clocks": Config{Rule: SlotPercentile, AdjustSteps: 1,
// SyncInterval: 5 * time.Second}, with 32 or 64 Samples. Here the first 8 requests are 100 ms
// apart. His clock is set at once and may go back; this one slews. When the path becomes
// slower, SlotPercentile may refuse all exchanges for minutes; Percentile does not.
//
// netfox, NetworkTimeSynchronizer: SyncInterval, Samples, AdjustSteps and RecalibrateThreshold
// have the meaning of its settings. Its weights, which favor the slowest exchanges, are in the
// tests, for comparison. It does not correct old samples for drift; this package does.
package ping
