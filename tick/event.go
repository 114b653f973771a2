// SPDX-License-Identifier: BSD-3-Clause

package tick

import (
	"cmp"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// Clocks are the three clocks of a peer at one instant. On a server or host they
// are equal.
type Clocks struct {
	// SharedTime is what everybody has at this moment: the server's game time now.
	SharedTime Time
	// ServerTime is what to show: the newest tick of the server whose state has arrived by now. It
	// is not the server's time now; that is SharedTime.
	ServerTime Time
	// PredictedTime is what to play: the tick at which the server gets a message that is sent now.
	PredictedTime Time
}

// LogValue returns the three clocks for package log/slog, in ticks, and by how much the others
// are ahead of Shared, in seconds.
func (c Clocks) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("shared", c.SharedTime.String()),
		slog.String("server", c.ServerTime.String()),
		slog.String("predicted", c.PredictedTime.String()),
		slog.Float64("server_ahead_s", c.ServerTime.Sub(c.SharedTime).Seconds()),
		slog.Float64("predicted_ahead_s", c.PredictedTime.Sub(c.SharedTime).Seconds()),
	)
}

// Update tells the handlers about the tick that they run.
type Update struct {
	// Tick is its number.
	Tick Tick
	// Delta is its length.
	Delta time.Duration
	// Clocks are those of its start, even if several ticks run at once. PredictedTime is exactly
	// the start.
	Clocks
}

// EventKind is the kind of an Event.
type EventKind uint8

const (
	// EventSynced: the remote clock is known. A server reports it at Start.
	EventSynced EventKind = iota + 1
	// EventClientSynced, on a server: the client Peer is synchronized. It comes once per peer.
	EventClientSynced
	// EventStepped: the clocks jumped, the predicted one by By. The ticks First to Last never run
	// or, if Again is set, run again.
	EventStepped
	// EventStalled: the time By passed between two calls of Advance. First to Last never run here.
	// Clients play the ticks that a server skips, and nothing tells them of it: tell them in your
	// state, or set StallThreshold to -1 with CatchUpRunAll.
	EventStalled
	// EventSkipped: the CatchUp policy left out First to Last, which never run here. Clients are
	// not told of these, either.
	EventSkipped
	// EventLost, on a client: the remote clock is no longer known. The clocks run on.
	EventLost
	// EventRateMismatch: the Rate of the server, or of Peer, differs. Where a client takes it,
	// First to Last never run or, if Again is set, run again.
	EventRateMismatch
	// EventEpochChanged, on a client: the server has begun another game time, Epoch. EventSynced
	// follows.
	EventEpochChanged
	// EventSilent: the server, or the Peer that had sent an input, was not heard for By, which is
	// 3 s. The clocks run on.
	EventSilent
	// EventHeard: the server, or the Peer, is heard again after By.
	EventHeard
	// EventClockSet: the local clock was set back by By, which is negative. Clocks and ticks go on
	// where they were.
	EventClockSet
	// EventTooWide, on a client: for 3 s only SyncBound has kept it from starting. By is the
	// ErrorBound of the remote clock, which is above SyncBound.
	EventTooWide
	// EventSlept, from Run: the machine slept for By. Its clock may have stood still.
	EventSlept

	eventUpdated // on a client: for AfterSync
)

// Event is something that happened.
type Event struct {
	// Kind says what happened, and which of the other fields have a meaning.
	Kind EventKind
	// AtUsec is the reading of the local clock at the last Advance, Pause or Resume, in
	// microseconds.
	AtUsec uint64
	// By is the length of a step, positive forward; the length of a stall, a silence or a sleep; or
	// what the EventKind says.
	By time.Duration
	// First and Last are the ticks concerned by EventStepped, EventStalled, EventSkipped and
	// EventRateMismatch. First > Last means none.
	First, Last Tick
	// Again says that First to Last run again, with EventStepped and EventRateMismatch.
	Again bool
	// Peer is whom the event is about, on a server.
	Peer uint64
	// Rate is that of the other side, with EventRateMismatch.
	Rate Rate
	// Epoch is the one that begins, with EventSynced and EventEpochChanged.
	Epoch uint64
}

// String returns the event in words. A peer is named unless its number is 0, as on a client.
func (e Event) String() string {
	ticks, who, whose := "", "", ""
	if e.Peer != 0 {
		who = fmt.Sprintf("peer %d ", e.Peer)
		whose = fmt.Sprintf(" of peer %d", e.Peer)
	}
	if e.First <= e.Last {
		fate := map[bool]string{false: "skipped", true: "run again"}[e.Again]
		ticks = fmt.Sprintf(", ticks %d to %d %s", e.First, e.Last, fate)
	}
	texts := map[EventKind]string{
		EventSynced:       "synced",
		EventClientSynced: fmt.Sprintf("peer %d synced", e.Peer),
		EventStepped:      fmt.Sprintf("stepped by %v%s", e.By, ticks),
		EventStalled:      fmt.Sprintf("stalled for %v%s", e.By, ticks),
		EventSkipped:      strings.TrimPrefix(ticks, ", "),
		EventLost:         "lost",
		EventRateMismatch: fmt.Sprintf("tick rate %v%s differs%s", e.Rate, whose, ticks),
		EventEpochChanged: fmt.Sprintf("epoch %d", e.Epoch),
		EventSilent:       fmt.Sprintf("%ssilent for %v", who, e.By),
		EventHeard:        fmt.Sprintf("%sheard again after %v", who, e.By),
		EventClockSet:     fmt.Sprintf("the local clock was set by %v", e.By),
		EventSlept:        fmt.Sprintf("the machine slept for %v", e.By),
		EventTooWide:      fmt.Sprintf("the error bound of %v is wider than SyncBound", e.By),
	}
	return cmp.Or(texts[e.Kind], fmt.Sprintf("event %d", e.Kind))
}

// Stats counts what happened since Start.
type Stats struct {
	// Ticks counts the ticks that ran.
	Ticks uint64
	// Skipped counts the ticks that never run, as events say.
	Skipped uint64
	// Steps counts EventStepped. It is 0 after the first synchronization.
	Steps uint32
	// Stalls counts EventStalled.
	Stalls uint64
	// Losses counts EventLost.
	Losses uint64
	// Refused counts what Accept refused because its tick was out of the window.
	Refused uint64
	// OldEpoch counts what Accept, OnWelcome and OnHello refused because it was of another epoch,
	// or because a later message had overtaken it.
	OldEpoch uint64
	// Early counts what Accept refused while the clocks were not known, as before the first
	// Welcome, and what OnWelcome and OnHello refused while stopped.
	Early uint64
	// Backwards counts calls of Advance with a time before the last one. They are taken at the time
	// of the last one.
	Backwards uint64
	// EventsLost counts Hellos and Welcomes that were ignored because 1024 events were waiting for
	// an Advance. They come again.
	EventsLost uint64
	// Debt is the number of ticks that are due and that the next calls of Advance will run.
	Debt Tick
}
