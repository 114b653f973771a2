// SPDX-License-Identifier: BSD-3-Clause

// Package record writes down everything that a synchronizer is given, so that you can see later
// what happened to the clock.
//
// Pass a Recorder to the method Record of a link.Link, or use it in place of a
// timesync.TimeSynchronizer. It writes each stamp with its time of receipt, each report, each
// anchor and each Reset to an io.Writer. Once a second it adds what the synchronizer answers then.
// Read iterates over a recording. Replay feeds it to a fresh synchronizer, which goes through the
// same states and gives the same answers.
//
// A recording contains no payloads, addresses or keys. At 60 datagrams a second with up to 10 ms
// of jitter it takes at most 6 bytes a datagram. format.go describes the format.
//
// A Recorder has one goroutine, which alone calls the io.Writer. Only Flush and Close wait for it.
// If the io.Writer is slow, fails or panics, whole blocks are dropped. The recording and Dropped
// count them. In a bubble of testing/synctest, make the Recorder inside the bubble.
//
// A replay is bit-identical for the same version of timesync on the same kind of processor: some,
// such as arm64 and amd64 with GOAMD64=v3, round a product and a sum at once. Where a recording
// lacks blocks, the fresh synchronizer sees lost datagrams.
package record

import (
	"time"

	"timesync"
)

// Kind says what an Event is.
type Kind uint8

const (
	Datagram Kind = iota // a stamp arrived: Counter is TS24
	Report               // a report arrived: Counter is MinDelta
	Anchor               // at LocalUsec the peer's clock read RemoteUsec
	Reset                // the synchronizer forgot everything
	Answered             // Answer is what the synchronizer knew at LocalUsec
	Missing              // Count blocks were dropped, or are missing from the recording
)

// Event is what a synchronizer was given, or what it answered.
type Event struct {
	Kind Kind // which of the other fields have a meaning
	// LocalUsec is the local time in microseconds that the synchronizer was given: for what
	// arrived, the time of receipt. Reset and Missing have no time of their own and repeat that
	// of the event before, or 0.
	LocalUsec  uint64
	Counter    timesync.Counter24 // of Datagram and Report
	RemoteUsec uint64             // of Anchor: the remote clock in microseconds
	Answer     Answer             // of Answered
	Count      uint32             // of Missing: blocks
	// Wall is the time of day at the end of the block, to the millisecond: up to a second after
	// the event. It is meaningless on a machine without a wall clock.
	Wall time.Time
}

// give passes the event to a synchronizer, and returns its answer for a datagram.
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

// Answer is what a synchronizer knows at one local time. New fields of timesync.Snapshot and
// timesync.Stats go into the format behind the rest of an answer.
type Answer struct {
	OK       bool              // whether the offset is known; if not, Snapshot is zero
	Snapshot timesync.Snapshot // at that time
	Stats    timesync.Stats    // up to that time
}

// Ask returns what a synchronizer knows at localUsec.
func Ask(s *timesync.TimeSynchronizer, localUsec uint64) (a Answer) {
	a.Snapshot, a.OK = s.Snapshot(localUsec)
	a.Stats = s.Stats()
	return a
}
