// SPDX-License-Identifier: BSD-3-Clause

// Package record writes down everything that a synchronizer is given, so that you can see later
// what happened to the clock.
//
// A Recorder takes the place of a timesync.TimeSynchronizer, or is passed to Record of a
// link.Link. It writes every stamp with its time of receipt, every report, every anchor and every
// Reset to an io.Writer, and what the synchronizer answered: once a second, and in a silence each 2.5 s or
// more, when a report is asked for. Read iterates over a
// recording. Replay gives it to a fresh synchronizer. That one is then in the same state as the
// recorded one was, and gives the same answers.
//
// A recording contains neither payload nor address nor key. Of a stream of 60 datagrams a second
// with up to 10 ms of jitter, each takes at most 6 bytes. docs/RECORDING.md describes the format.
//
// A Recorder has one goroutine, which alone calls the io.Writer. Only Flush and Close wait for
// it. If the io.Writer is slow, fails or panics, whole blocks are dropped. The recording counts
// them, and so does Dropped. In a bubble of testing/synctest make the Recorder inside of it.
//
// Replay is bit-identical for the same version of timesync on the same kind of processor. Some
// kinds (arm64 and others, and amd64 with GOAMD64=v3) round a product and a sum at once. A
// recording that lacks blocks can be replayed, too: the fresh synchronizer sees lost datagrams.
package record

import (
	"time"

	"timesync"
)

// Kind is what an Event is.
type Kind uint8

const (
	Datagram Kind = iota // a stamp arrived: Counter is TS24
	Report               // a report arrived: Counter is MinDelta
	Anchor               // the peer said at LocalUsec that its clock reads RemoteUsec
	Reset                // everything was forgotten
	Answered             // Answer is what the synchronizer knew at LocalUsec
	Missing              // Count blocks were dropped, or are not in the recording
)

// Event is what a synchronizer was given, or what it answered.
type Event struct {
	Kind Kind // says which of the fields mean something
	// LocalUsec is the local clock in microseconds, such as that of package clock, as the
	// synchronizer was given it; of what arrived, the time of receipt. Reset and Missing
	// have no time of their own: there it is that of the event before, or 0.
	LocalUsec  uint64
	Counter    timesync.Counter24 // of Datagram and Report
	RemoteUsec uint64             // of Anchor: the remote clock in microseconds
	Answer     Answer             // of Answered
	Count      uint32             // of Missing: blocks
	// Wall is the time of day when the block was ended, in milliseconds: up to a second
	// after the event. A block from a machine without a clock has any.
	Wall time.Time
}

// give gives an event to a synchronizer, and returns what that says of a datagram.
func (e *Event) give(s *timesync.TimeSynchronizer) (owd time.Duration, ok bool) {
	switch e.Kind {
	case Datagram:
		return s.OnAuthenticatedDatagramTimestamp(e.Counter, e.LocalUsec)
	case Report:
		s.OnPeerMinDeltaTS24(e.Counter, e.LocalUsec)
	case Anchor:
		s.Anchor(e.LocalUsec, e.RemoteUsec)
	case Reset:
		s.Reset()
	}
	return 0, false
}

// Answer is what a synchronizer knows at one local time. What timesync.Snapshot and
// timesync.Stats gain has to go into the format, behind the rest of an answer.
type Answer struct {
	OK       bool              // the offset is known; Snapshot is zero if not
	Snapshot timesync.Snapshot // at that time
	Stats    timesync.Stats    // up to that time
}

// Ask returns what a synchronizer knows at localUsec.
func Ask(s *timesync.TimeSynchronizer, localUsec uint64) (a Answer) {
	a.Snapshot, a.OK = s.Snapshot(localUsec)
	a.Stats = s.Stats()
	return a
}
