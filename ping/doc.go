// SPDX-License-Identifier: BSD-3-Clause

// Package ping learns a server's time by request and reply. Use it where datagrams cannot be
// stamped: over TCP, a WebSocket, or an RPC. A single exchange is enough to start. Where datagrams
// can be stamped, package link needs no packets of its own. Messages of a WebSocket can be stamped,
// too: docs/BROWSER.md compares both.
//
// # Use
//
// The server answers each request and keeps no state:
//
//	reply, ok := ping.AppendReply(nil, request, 0, received, clock.Now()) // ok: it was a request
//
// The client has a Clock, and asks whenever Next is 0:
//
//	if server.Next(clock.Now()) == 0 { // server is a ping.Clock
//		send(server.AppendRequest(nil, clock.Now()))
//	}
//	server.HandleReply(reply, clock.Received())      // when the reply comes
//	remoteUsec, ok := server.RemoteTime(clock.Now()) // the server's clock, for any goroutine
//
// A request is exactly 13 bytes long, a reply 29; docs/WIRE.md says what they contain.
//
// The package opens no socket, starts no goroutine and reads no clock. The caller passes in the
// time, from a monotonic clock such as that of package clock: clock.Now as late as possible before
// sending, clock.Received as soon as possible after receiving, and neither once per frame.
//
// After dialing anew call Reset, or take a new Clock: the server may be another process. Else its
// clock seems to have been set, and Within fails for 15 s.
//
// A Clock can be the remote clock of packages tick and session.
//
// # Why two synchronizers
//
// An exchange tells the client all four times: t1 and t4, when its request left and the reply came,
// and t2 and t3 of the server in between. That is all that two ends of package timesync would learn
// from a datagram each way. So the client keeps both ends, its own and the server's. The request's
// t1 and t2 go to the server's end, the reply's t3 and t4 to its own, and each hears the other's
// report, which cannot get lost. Nothing else estimates anything. Requests and replies that waited
// in a queue, or for a segment that TCP sent again, are told apart from fast ones on each way
// alone. A queue on one way does not move the time, the rate of the server's clock is learnt, and
// readings, bounds and delays have the promises of a TimeSynchronizer.
//
// A TimeSynchronizer needs time to find out that a clock was set. An exchange can prove it: the
// offset lies between t3-t4 and t2-t1, however long the messages took. If nothing between these is
// within the error bound of what was known, both ends begin anew with this exchange. Snapshot.Steps
// counts one more, and Within fails for 15 s.
//
// # Several servers
//
// All requests must reach the same machine. Behind a name server or a balancer each of them may
// meet another one, with another clock. HandleReply then returns ManyServers: of the last 8
// exchanges three contradicted what was known. The time is that of the machine that answered last,
// never a mean, and Within fails for 15 s after each change. Keep one connection, or address one
// machine. Machines whose clocks differ by less than the error bound look like jitter.
//
// # Accuracy
//
// TestWorlds has the figures; with -v it prints them. A clock step that is larger than the
// error bound is followed with the next reply. A smaller one takes some exchanges, which
// are then asked for at once.
//
// # Sources
//
// A PlainClock behaves as other systems do. docs/MIGRATING.md links them.
//
// Josh Sutphin, "Accurately syncing Unreal's network clock": PlainClock{Rule: Latest}, and one
// exchange. His code stores the server's time and does not advance it; this package stores the
// offset. His request contains a timestamp, which the server sends back. Here the client keeps its
// timestamp, and sends a nonce, a random number, instead. The "truly perfect solution" that he
// hopes for does not exist, since two parties cannot measure how unequal the ways are.
//
// Matt Slot, "Synchronizing Network Clocks": PlainClock{Rule: SlotPercentile}, with 32 or 64
// Samples, and SyncInterval: 5 * time.Second. When the path becomes slower, SlotPercentile may
// refuse all exchanges for minutes; Percentile does not. His three percentiles are RoundTrips.
//
// NTP (RFC 5905): PlainClock{Rule: MinDelay} is its clock filter, without what comes after that.
//
// netfox, NetworkTimeSynchronizer: PlainClock{Rule: Netfox, Samples: 8, AdjustSteps: 8,
// RecalibrateThreshold: 8 * time.Second}. These fields and SyncInterval have the meaning of its
// settings. It replaces samples by the rank of their round trips, not by age, so it is a little
// further off.
package ping
