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
	SharedTime    Time // what everybody has at this moment: the server's game time now
	ServerTime    Time // what to show: the state of the server that has arrived by now; its time now is SharedTime
	PredictedTime Time // what to play: when a message that is sent now arrives at the server
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

// Update is what the handlers of a tick are told.
type Update struct {
	Tick   Tick          // its number
	Delta  time.Duration // its length
	Clocks               // pinned to its start, even if several ticks run at once; PredictedTime is exactly the start
}

// EventKind is the kind of an Event.
type EventKind uint8

const (
	EventSynced       EventKind = iota + 1 // the remote clock is known; on a server at Start
	EventClientSynced                      // server: the client Peer is synchronized, once per peer
	EventStepped                           // the clocks were set, the predicted one by By; First to Last are never run or, if Again, run again
	EventStalled                           // By passed between two calls of Advance; First to Last are never run
	EventSkipped                           // catching up: First to Last are never run
	EventLost                              // client: the remote clock is not known any more; the clocks run on
	EventRateMismatch                      // the server's, or Peer's, Rate differs; where a client takes it, First to Last are never run or, if Again, run again
	EventEpochChanged                      // client: the server's game time is another, Epoch; EventSynced follows
	EventSilent                            // the server, or the Peer, of which there was an input, was not heard for By, 3 s; the clocks run on
	EventHeard                             // it is heard again, after By
	EventClockSet                          // the local clock was set back, by By, which is negative; the clocks and ticks go on
	EventTooWide                           // client: for 3 s it has not started, only since SyncBound is less than By, the remote clock's ErrorBound
	EventSlept                             // Run: the machine slept for By; its clock may have stood still
	eventUpdated                           // client: for AfterSync
)

// Event is something that happened.
type Event struct {
	Kind        EventKind     // what happened, and which of the other fields have a meaning
	AtUsec      uint64        // reading of the local clock at the last Advance, Pause or Resume
	By          time.Duration // EventStepped: positive forward; EventStalled, EventSilent, EventHeard, EventSlept: how long; EventClockSet, EventTooWide
	First, Last Tick          // EventStepped, EventStalled, EventSkipped, EventRateMismatch; First > Last means no ticks
	Again       bool          // EventStepped, EventRateMismatch: First to Last run again
	Peer        uint64        // on a server, EventClientSynced, EventRateMismatch, EventSilent, EventHeard: whom it is about
	Rate        Rate          // EventRateMismatch: that of the other side
	Epoch       uint64        // EventSynced, EventEpochChanged: the epoch that begins
}

// String returns the event in words. A peer is named unless its number is 0, as on a client.
func (e Event) String() string {
	ticks, who, whose := "", "", ""
	if e.Peer != 0 {
		who, whose = fmt.Sprintf("peer %d ", e.Peer), fmt.Sprintf(" of peer %d", e.Peer)
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
	Ticks      uint64 // ticks run
	Skipped    uint64 // ticks never run, as events say
	Steps      uint32 // EventStepped; 0 after the first synchronization
	Stalls     uint64 // EventStalled
	Losses     uint64 // EventLost
	Refused    uint64 // what Accept refused because its tick was out of the window
	OldEpoch   uint64 // what Accept, OnWelcome and OnHello refused because it was of another epoch, or overtaken
	Early      uint64 // what Accept refused while the clocks were not known, as before the first Welcome; what OnWelcome and OnHello refused while stopped
	Backwards  uint64 // calls of Advance with a time before the last one, taken as the last one
	EventsLost uint64 // Hellos and Welcomes that were ignored, since 1024 events of messages wait for an Advance; they come again
	Debt       Tick   // ticks that are due and will be run by the next Advances
}
