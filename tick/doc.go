// Package tick is game time: ticks over any synchronized clock.
//
// A server's Loop counts ticks of a fixed Rate. A client's Loop follows it through a
// RemoteClock, such as a timesync.TimeSynchronizer, and keeps three clocks:
//
//	Server ----- delay and 1 tick ----- Shared ----- delay and 2 ticks ----- Predicted
//
// Server is what to show of others: the state that has arrived by now. Shared is the
// time that all peers have at this moment. Predicted is what to play and send: input
// for a predicted tick reaches the server before the server gets there. So the server
// converts no times, and a message means the same tick to everybody. On a server or
// host the three are equal. What interacts must be sampled in one clock: see
// examples/elevator.
//
// The delays are those that were measured: Shared rests on the assumption that both
// ways take equally long and can be off by half of their difference; Server and
// Predicted do not. (The Network Time System adds a round trip to the time of the last
// snapshot, which is the same but for its jitter; its successor adds half of one, and
// inputs come late.) Jitter is what the buffers are for.
//
// # Loop
//
// Advance, called in every frame, moves the clocks and runs the ticks that are due in
// predicted time; Run does so by itself. Each tick runs once and in order, with the
// clocks pinned to its start. What is not run is reported: Stalled, Skipped by the
// CatchUp policy, or passed by a step of the clocks. Stepped is also the only way for
// ticks to run again within an epoch, with ClientProvider.NeverBack not even that, and
// for a clock to go back. Times are arguments: nothing here reads a clock, but Run
// does, and that one is monotonic. It need not run while the machine sleeps; the remote
// clock then shows a step.
//
// A handshake of two messages starts a client and compares the tick rates: the server
// sends Welcome (Announce, OnWelcome), the client answers when Synced is reported
// (Hello, OnHello). Messages of the game should carry epoch and tick; Accept guards
// against those of another epoch and those far off.
//
// # Network Time System
//
// What its document names, and where it is here:
//
//   - ServerTime, PredictedTime: Server, Predicted; shared time: Shared; receive time:
//     Server; local time: Predicted. NetworkTime, the old single time: Predicted.
//   - TickRate, 60: Config.Rate. NetworkTime struct: Time, with Time, FixedTime,
//     FixedDeltaTime (FixedDelta), Tick, TickRate (Rate); its + and -: Add, Sub and
//     AddTicks. Adding two instants has no meaning; times of two rates can be compared
//     and need no assertion. NetworkTime(rate, tick, duration) is Rate.Time, which
//     carries; NetworkTime(rate, time) is Rate.Time(0, d).
//   - OnNetworkTick: Config.Tick; the internal one, for the package's own parts:
//     AfterTick. Polling the tick in Update: Frame, or Predicted.
//   - AdvanceNetworkTime: Advance; its scaled delta time: the caller's clock, which
//     ought not to be scaled. INetworkTimeProvider: Provider. ServerNetworkTimeProvider,
//     ClientNetworkTimeProvider: ServerProvider, ClientProvider, whose hard-reset-only
//     mode is HardOnly; k_AdjustmentRatio, k_CorrectionTolerance, k_HardResetThreshold:
//     SlewPPM, DeadBand, HardThreshold. A hard reset sets all clocks.
//   - ClientBufferTime, ServerBufferTime: Config.ClientBuffer and ServerBuffer,
//     SetBuffers. Their scope (there NetworkVariables, not RPCs nor spawns) is the
//     game's: show state at Server, and act on a message that should not wait at once.
//   - Lead by the length of the server's command queue, and RTT smoothing: the remote
//     clock's minimum filter; the server's report is when the client's datagrams arrive.
//   - Receive Tickrate, Event Tickrate, Network Tick Interval Sec, Max Receive Events
//     Per Tick: one Rate. The network is read in BeforeLoop or BeforeTick, and how much
//     of it is the game's choice. TimeSync message: Welcome.
//
// Not taken over: comparing FixedTime, which adds a tick of sawtooth to the error;
// carrying only above a whole interval; float32; several ticks of one frame with the
// server clock a fixed number of whole ticks behind (here it is where it was then).
//
// # netfox NetworkTime
//
//   - before_tick_loop, before_tick, on_tick, after_tick, after_tick_loop: BeforeLoop,
//     BeforeTick, Tick, AfterTick, AfterLoop. Loops without ticks call none.
//   - time, tick: Shared. There ticks run in this clock, here in Predicted; Step has
//     both. local_time, local_tick (deprecated): Stats.Ticks, or the caller's clock.
//     remote_time, remote_tick, remote_rtt (deprecated): the remote clock itself, which
//     may jump, and twice its MinimumOneWayDelay. tick_factor: Fraction. ticktime:
//     Step.Delta. Conversions: Rate.Ticks, Rate.Duration.
//   - start(): Start and WaitSynced, or Run; stop(): Stop. Starting twice does nothing.
//     A client that starts before its connection waits. after_sync: Synced; the
//     estimate is refined with every datagram after it. after_client_sync:
//     ClientSynced. is_client_synced: the same event. Suppress Offline Peer Warning:
//     NewServer needs no network and warns of nothing.
//   - Pausing: Pause and Resume. The editor's pause: it looks like a stall.
//   - Tickrate: Config.Rate. Max Ticks Per Frame: MaxTicks, CatchUp. Recalibrate
//     Threshold: HardThreshold. Stall Threshold: StallThreshold. Sync to Physics: Step.
//     Tickrate Mismatch Action: OnMismatch with Warn, Disconnect, Adjust, Signal.
//   - Sync Interval, Sync Samples, Sync Adjust Steps: settings of the remote clock, if
//     it has them (package ping). Sync Sample Interval (deprecated there): none.
package tick
