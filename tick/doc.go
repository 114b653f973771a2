// SPDX-License-Identifier: BSD-3-Clause

// Package tick is game time: ticks over any synchronized clock.
//
// A Server counts ticks of a fixed Rate. A Client follows it through a RemoteClock,
// such as a timesync.TimeSynchronizer. Both keep three clocks:
//
//	Server ----- delay and 1 tick ----- Shared ----- delay and 2 ticks ----- Predicted
//
// Server is what to show of others: the state that has arrived by now. Shared is the
// time that all peers have at this moment. Predicted is what to play and send: input
// for a predicted tick reaches the server before the server gets there. So the server
// converts no times, and a message means the same tick to everybody. On a server or
// host the three are equal. What interacts must be sampled in one clock: see
// examples/elevator. How a server looks back to what a player saw: see the example
// LagCompensation.
//
// The delays are measured. Shared assumes that both ways take equally long, and can
// be off by half of their difference. Server assumes nothing, and neither does Predicted where
// the remote clock knows the delay to the server, too: see RemoteClock. The ticks between
// the clocks are buffers for jitter, to begin with.
//
// # Buffers that set themselves
//
// Call Server.Received for each input that arrives, and Announce once a second and in the next
// datagram after an input that came too late. Call Client.Received for each state that arrives.
// The buffers then follow the arrivals: Predicted is so far ahead, and Server so far behind, that
// a share of the inputs and states comes too late, less than ClientConfig.LateShare. It does not
// matter what the remote clock knows of the delays.
//
// When the way to the server becomes longer, inputs are late in a row. The server says so, and the
// client sets Predicted forward at once: EventStepped, and the ticks between run, if they are no
// more than Config.MaxTicks. What is late meanwhile are the inputs of one or two round trips. All
// other changes are slewed. When states are late in a row, Server stands still until it is
// right. Client.Timing says how the clocks are set and how much comes late, for logs.
//
// A stop of the path of 300 ms every 10 s is jitter, too: for 1 % the lead becomes 230 ms. Who
// wants less of a lead there gives a larger LateShare, or buffers that are not zero.
//
// # Ticks
//
// Advance, called in every frame, moves the clocks and runs the ticks that are due in
// predicted time. Run does so by itself. Each tick runs once and in order, with the
// clocks pinned to its start. Ticks that are not run are reported: EventStalled after
// a pause in the calls, EventSkipped by the CatchUp policy, EventStepped when the
// clocks were set. A step is also the only way for ticks to run again within an epoch,
// and for a clock to go back; ClientConfig.NeverBack rules out both. Only a client that
// takes its server's rate (MismatchAdjust) counts its ticks anew: EventRateMismatch says
// which numbers come again or are left out.
//
// Times are arguments: readings of a monotonic local clock in microseconds. The clock
// need not run while the machine sleeps. Only Run reads a clock, and only a server's
// Start reads the wall clock, to number its epoch.
//
// Calls that change something, Advance, Pause and Resume, never go back: one with an earlier
// time than the last counts as of the time of the last. Calls that read may name any time.
// A reading from 20 ms before the last change to 20 ms after it is final: no later change
// alters it, steps apart. An earlier time is answered by the pace of that time,
// extrapolated back. For that, a correction and a pause begin 20 ms after the call that
// caused them.
//
// # Pauses
//
// Server and clients should pause at the same times, by a message of the game. Each Welcome
// says whether the server is paused. A client that is not, or that has gone on before its
// server, runs on uncorrected until a Welcome says that the server has gone on, and then
// steps once. So it does not matter which Welcomes around a pause are lost. A client that
// joins a paused server pauses with it, and goes on with the first Welcome that says so, or by
// Resume.
//
// # Handshake
//
// The server sends each peer a Welcome when it joins, and then once a second
// (Announce, OnWelcome). The first one starts a client. Each also says what the
// server's clock reads. A TimeSynchronizer that was not given an Anchor can be off by a
// multiple of 67.1 s, and the client corrects that by the Welcome.
//
// The client says Hello when it is synchronized, again and again until a Welcome says
// that the server heard it (Hello, OnHello). Both messages name the tick rate of their
// side. Messages of the game should carry epoch and tick. Accept refuses those of
// another epoch and those far off. For inputs, the server's AcceptInput also says what is
// too late. All of it must be authenticated, as the datagrams are.
//
// # Restarts
//
// An epoch is one life of a server's game time, from Start to Stop or to the end of
// the process. Its number is drawn from the wall clock, in microseconds, and is always
// higher than that of the life before in the same process.
//
// When the server restarts, the first Welcome of a later epoch ends the old one on
// the client: EventEpochChanged. The clocks are not known, and messages of the old
// life are refused. When the remote clock agrees with the Welcome the client goes on:
// EventStepped, which says by how much game time differs, and EventSynced. Its Hello
// is due again. The caller has nothing to do: with a Welcome a second, both are in
// step within 2 s, mostly within one, whether the synchronizer is a fresh one or must
// find out by itself, also if the server restarts twice in a second.
//
// A Welcome of an earlier epoch is refused: it was delayed on the way. But it may also
// be that the server's wall clock was set back before it started again. So the client
// remembers it, and believes it when none of the present epoch has come for 1.2 s and
// the remote clock agrees with it. That takes less than 2 s. One of an epoch that the
// client has left is refused until nothing else has come for 3 s.
//
// When the client restarts, it starts like any other. Call Forget on the server when
// its connection ends, so that its Hello is reported again.
//
// A new connection, to the same server or to another, has a fresh synchronizer: give
// it to Follow. The clocks run on until the next Welcome. Of the same epoch, it
// changes nothing. Any other epoch is entered, be it earlier or later. Welcomes of the
// old connection must not arrive any more. A host that goes on with another's game
// starts with FirstTick, and with an Epoch one higher.
//
// EventSilent says that the other side was not heard for 3 s, and EventHeard that it is back: no
// Welcome and nothing that was Received. That is no EventLost: the clocks are still known.
//
// A client that hears nothing runs on at the last known rate: for 5 minutes within a
// tick, if the skew was known. EventLost comes when the ErrorBound of the remote clock
// passes twice SyncBound. If the machine slept and its clock with it, the remote clock
// shows a step: EventLost until the next Welcome confirms it, then one EventStepped. If
// the clock ran on, the next Advance reports EventStalled.
//
// # Limits
//
// NewServer and NewClient return an error for what makes no sense. Game time may be 73
// years from tick 0, a buffer an hour long, a rate 10^9 ticks a second. Between two
// Advances 1024 events of messages are kept. Hellos and Welcomes beyond that are counted in
// Stats and wait for the next try. A datagram may be under way for 16 s.
//
// The names of Unity's Network Time System and of netfox are mapped to those here in
// docs/MIGRATING.md.
package tick
