// SPDX-License-Identifier: BSD-3-Clause

// Package tick is game time: it counts ticks by a synchronized clock, so that a server and its
// clients agree on which tick it is.
//
// # Quick start
//
//	var atClient, atServer link.Link // the two ends of a connection; see package link
//	server, _ := tick.NewServer(tick.ServerConfig{})
//	client, _ := tick.NewClient(tick.ClientConfig{Handlers: tick.Handlers{
//		Tick: func(s tick.Update) { /* read the input, play it, send it with s.Tick */ },
//	}}, &atClient)
//
//	const delay, ahead, player = 30_000, 5_000_000, 1 // us, us; the server's name for the client
//	server.Start(ahead)
//	client.Start(0)
//	for now := uint64(0); now < 2_000_000; now += 10_000 { // frames of 10 ms, client's clock
//		// A datagram each way, with Hello or Welcome as its payload.
//		atServer.ReadHeader(atClient.AppendHeader(nil, now), now+ahead+delay)
//		if hello, ok := client.Hello(); ok {
//			server.OnHello(player, hello)
//		}
//		atClient.ReadHeader(atServer.AppendHeader(nil, now+ahead), now+delay)
//		if welcome, ok := server.Announce(player, now+ahead); ok && now%1_000_000 == 0 {
//			client.OnWelcome(welcome, now+delay)
//		}
//		server.Advance(now + ahead) // runs the ticks that are due
//		client.Advance(now)
//	}
//
//	clocks, _ := client.Snapshot(2_008_000)
//	fmt.Println("others at tick", clocks.ServerTime.Tick(),
//		"now", clocks.SharedTime.Tick(),
//		"play", clocks.PredictedTime.Tick())
//
// It sends no inputs and no states. The examples Server and Client show more of each end.
// examples/game is a whole game; its programs import folders below internal, so copy parts of it.
//
// # Three clocks
//
// A Server counts ticks of a fixed Rate. A Client follows it through a RemoteClock, such as a
// link.Link, a timesync.TimeSynchronizer or a ping.Clock. Both keep three clocks:
//
//   - ServerTime is what to show of others: the tick whose state has arrived by now. It is not the
//     server's time now: that is SharedTime.
//   - SharedTime is the game time now, the same for all peers.
//   - PredictedTime is what to play and send: input for a predicted tick reaches the server before
//     the server runs that tick.
//
// Between them are the delays and buffers for jitter:
//
//	ServerTime ----- delay and 1 tick ----- SharedTime ----- delay and 2 ticks ----- PredictedTime
//
// A tick number means the same on all machines, so times need no conversion. On a server or host
// the three clocks are equal. Sample things that touch each other in the same clock: see
// examples/game/elevator_test.go. The example LagCompensation shows how a server looks back to
// what a player saw.
//
// The delays are measured. SharedTime assumes that both ways take equally long; if not, it is off
// by half of the difference. ServerTime does not depend on that. Neither does PredictedTime if the
// remote clock also knows the delay to the server: see RemoteClock. One and two ticks are the
// lengths of the buffers at first.
//
// Where the clocks begin and how they advance is decided by a Provider. One for servers and one
// for clients is built in; the example Provider replaces it.
//
// # Buffers that set themselves
//
// Pass each input that arrives to Server.AcceptInput, and each state to Client.AcceptState. The
// state of tick n is what the world is after that tick. Call Announce once a second, and once with
// the next state after inputs that came too late. The buffers then follow the arrivals. They
// become just long enough that fewer inputs and states are late than ClientConfig.LateShare
// allows.
//
// If the way to the server becomes longer, several inputs in a row are late. The server says so
// in its next Welcome. The client then sets PredictedTime forward at once (EventStepped) and runs
// the ticks between, if there are at most Config.MaxTicks. Inputs are late for one or two round
// trips. All other changes are slewed: by 1 % within 50 ms of the goal, and beyond that by up to
// 25 %. If several states in a row are late, ServerTime stands still until they are in time.
// Client.Timing says how the clocks are set and how much comes late, for logs.
//
// A path that stops, or a server, changes no buffer if it does so every 5 s or more seldom, and
// what was held up comes at one moment or in order. Inputs that overtake each other after a stop
// often move PredictedTime ahead by a part of that stop. It comes back within some seconds.
//
// A server that is behind with its ticks says so in its Welcomes (Debt); send one with each state
// then. The states are late because of the server, and count for nothing for up to 3 s.
//
// The lead also has the length of the client's frames, since a tick is played by the frame after
// its start: a client of 10 frames a second plays 0.1 s further ahead. One slow frame changes
// nothing. The delay also has the interval between two states, so that the later of the two
// around ServerTime has come, too; a States finds them. States that waited while the client's own
// program hung count for nothing.
//
// When the program was suspended, its socket may be full of datagrams that say nothing of the
// present. WasAway reports that: drop what is read then.
//
// Server.Peer says for each peer how many of its inputs come too late or much too early, and when
// it was heard last. Show it beside the player's name, or drop who is silent.
//
// # Ticks
//
// Call Advance in every frame. It moves the clocks and runs the ticks that are due in predicted
// time. Run calls it for you. Each tick runs once and in order, and sees the clocks of its own
// start. Ticks that are not run are reported: EventStalled after a pause in the calls,
// EventSkipped by the CatchUp policy, EventStepped when the clocks were set. Within an epoch (see
// Restarts), only such a step makes a tick run again or a clock go back; ClientConfig.NeverBack
// forbids both. A client that takes its server's rate (MismatchAdjust) renumbers its ticks:
// EventRateMismatch says which numbers come again or are left out.
//
// Times are arguments: readings of a monotonic local clock in microseconds, such as that of
// package clock. The clock may stand still while the machine sleeps. Only Run reads a clock, and
// only a server's Start reads the wall clock, to number its epoch. Run also reports EventSlept if
// the machine slept.
//
// Advance, Pause and Resume never go back in time: a call with an earlier time than the last one
// is taken at the time of the last one. If an Advance is more than a second earlier, the local
// clock was set back: EventClockSet says so, and clocks and ticks go on where they were. Calls
// that only read may name any time.
//
// A reading between 20 ms before the last change and 20 ms after it is final: only a step alters
// it. To make that possible, a correction or a pause begins 20 ms after the call that caused it. A
// reading for an earlier time is extrapolated back at the speed of that time.
//
// # Pauses
//
// Pause the server and the clients at the same times, by a message of the game: it names an
// instant that is soon (Link.ProposeInstant, repeated in each datagram until then), and all call
// Pause or Resume when it comes. No ticks run in a pause, so send datagrams and Welcomes outside
// of the Tick handler, some a second. Each Welcome (see Handshake) says whether the server is
// paused. A client that is not paused then, or that resumed before its server, runs on
// uncorrected. When a Welcome says that the server goes on, the client steps once where it
// differs by more than HardThreshold, and slews what is less: 100 ms take 6 s. So any Welcome
// around a pause may be lost. A client that joins a paused server pauses, too. It goes on with
// the first Welcome that says so, or by Resume.
//
// # Slow motion
//
// Do not slow game time itself: datagrams do not travel slower in slow motion, and a client that
// hears of the change late steps. Slow the world instead. A message of the game says from which
// tick on, and each peer then lets a tick move the world by a part of Update.Delta: see the
// example SlowMotion. All peers change at the same tick, inputs are sampled as often as before,
// and the clocks and their buffers stay what they are. A replay or a cut scene that nobody plays
// may have a clock of its own.
//
// # Handshake
//
// The server sends each peer a Welcome when it joins, and then once a second (Announce,
// OnWelcome). The first one starts the client. A Welcome also carries the server's clock, with
// which the client removes a multiple of 67.1 s from a TimeSynchronizer that was given no Anchor.
//
// No tick runs before the client is synchronized, and that takes datagrams both ways. So a client
// that sends in its Tick handler must also send outside of it, four times a second, while Snapshot
// knows nothing. A Welcome has 36 to 173 bytes and must be read whole: put it last in a datagram,
// or its length before it. Both sides need the same version of the messages: one of another
// version is ErrVersion.
//
// Once the client is synchronized, it says Hello, again and again until a Welcome says that the
// server heard it (Hello, OnHello). Both messages carry the tick rate of their side; AppendBinary
// and UnmarshalBinary of each write and read its bytes. Messages of the game should carry epoch
// and tick. Accept refuses those of another epoch and those far off. The server's AcceptInput
// also says which inputs are too late, and StartUsec when a tick starts. Authenticate all these
// messages, like the datagrams.
//
// Both sides need one tick rate: else tick n is another time here than there, and most inputs are
// refused. EventRateMismatch says so. To change the rate of a running game, Stop the server and
// start another one, with the new Rate, FirstTick and a later Epoch; clients with MismatchAdjust
// follow. What the buffers learned begins anew.
//
// # Restarts
//
// An epoch is one life of a server's game time, from Start to Stop or to the end of the process.
// Its number comes from the wall clock, in microseconds, and is always higher than the one before
// in the same process.
//
// When the server restarts, the first Welcome of a later epoch ends the old one on the client:
// EventEpochChanged. The clocks are then unknown, and messages of the old epoch are refused. Once
// the remote clock agrees with the Welcome, the client goes on: EventStepped, which says by how
// much game time differs, and EventSynced. It says Hello again. All this needs no call of yours:
// with a Welcome a second both are in step within 2 s, mostly within one, even if the server
// restarts twice in a second; one time in a hundred within 3 s, and where each way takes 100 ms
// or more, sometimes only within 5 s.
//
// A Welcome of an earlier epoch is refused: it was delayed on the way. But the server's wall
// clock may also have been set back before it restarted. So the client remembers that Welcome. It
// believes it when no Welcome of the present epoch has come for 1.2 s and the remote clock agrees
// with it. That takes less than 2 s. An epoch that the client has left is refused until no other
// one has come for 3 s.
//
// A client that restarts, or joins late, is like any other client that starts: it knows the game
// time after a Welcome and a round trip. What the world looks like is the game's to tell. Call
// Forget on the server when a connection ends, so that the next Hello of that peer is reported.
//
// A new connection, to the same server or to another, has a fresh remote clock: give it to
// Follow. The clocks run on until the next Welcome. If its epoch is the same, the client goes on
// as before; any other epoch, earlier or later, replaces the old one. Do not pass in a Welcome of
// the old connection after that. A host that continues another's game starts with FirstTick, and
// with an Epoch one higher.
//
// EventSilent says that the other side was not heard for 3 s: no Welcome or state, or no input.
// EventHeard says that it is back. The clocks are still known meanwhile.
//
// A client that hears nothing runs on at the last known rate. If it knew the skew, it stays
// within a tick for 5 minutes. EventLost comes when the ErrorBound of the remote clock exceeds
// twice SyncBound. If the machine slept and its clock stood still, the remote clock steps:
// EventLost until the next Welcome confirms it, then EventStepped. If the clock ran on, the next
// Advance reports EventStalled.
//
// # Limits
//
// NewServer and NewClient return an error for invalid settings. Game time may be up to 73 years
// from tick 0, a buffer up to one hour long, a rate up to 10^9 ticks a second. Between two calls
// of Advance up to 1024 events of messages are kept; Hellos and Welcomes beyond that are counted
// in Stats and take effect when they are sent again. A datagram may be on its way for up to 16 s.
//
// docs/MIGRATING.md maps the names of Unity's Network Time System, netfox and others to those
// here.
package tick
