// SPDX-License-Identifier: BSD-3-Clause

package tick

import (
	"sync/atomic"
	"time"
)

// snapshot is what readers see. It does not change once they can see it.
type snapshot struct {
	courses [3]course
	paused  bool
	rate    Rate
	epoch   uint64
}

// read returns clock i at nowUsec.
func (s *snapshot) read(i int, nowUsec uint64) time.Duration { return s.courses[i].read(nowUsec) }

// clocks returns all clocks at nowUsec.
func (s *snapshot) clocks(nowUsec uint64) Clocks {
	read := func(i int) Time { return s.rate.instant(s.read(i, nowUsec)) }
	return Clocks{SharedTime: read(shared), ServerTime: read(server), PredictedTime: read(predicted)}
}

// origin returns what the local clock reads at game time zero, and the game time at nowUsec.
func (s *snapshot) origin(nowUsec uint64) (zeroUsec uint64, at time.Duration) {
	at = s.read(predicted, nowUsec)
	usec, _ := floorDiv(int64(at), 1000)
	return nowUsec - uint64(usec), at
}

// readers is what any goroutine may ask at any time. It takes no lock and does not allocate.
type readers struct {
	snap atomic.Pointer[snapshot] // nil while the clocks are not known
	next atomic.Int64             // the tick to run next

	past, future             time.Duration // see Config
	refused, oldEpoch, early atomic.Uint64 // see Stats
}

// Snapshot returns the three clocks at one instant, localUsec of the local clock. ok is
// false while they are not known. It takes no lock and does not allocate.
//
// A reading from 20 ms before the last Advance, Pause or Resume to 20 ms after it is final: no
// later one changes it, steps apart. An earlier time is answered by the pace of that time,
// extrapolated back. So for increasing localUsec, at most 20 ms ahead of the next of these
// calls, a clock goes back only where EventStepped, EventEpochChanged or a Start is between.
func (r *readers) Snapshot(localUsec uint64) (c Clocks, ok bool) {
	if s := r.snap.Load(); s != nil {
		return s.clocks(localUsec), true
	}
	return Clocks{}, false
}

func (r *readers) clock(i int, localUsec uint64) (t Time, ok bool) {
	if s := r.snap.Load(); s != nil {
		return s.rate.instant(s.read(i, localUsec)), true
	}
	return Time{}, false
}

// SharedTime returns the shared clock at localUsec, like Snapshot.
func (r *readers) SharedTime(localUsec uint64) (t Time, ok bool) { return r.clock(shared, localUsec) }

// ServerTime returns the server clock at localUsec, like Snapshot.
func (r *readers) ServerTime(localUsec uint64) (t Time, ok bool) { return r.clock(server, localUsec) }

// PredictedTime returns the predicted clock at localUsec, like Snapshot.
func (r *readers) PredictedTime(localUsec uint64) (t Time, ok bool) {
	return r.clock(predicted, localUsec)
}

// Epoch returns the epoch of the game time, with which messages are to be marked. ok
// is false while the clocks are not known.
func (r *readers) Epoch() (epoch uint64, ok bool) {
	if s := r.snap.Load(); s != nil {
		return s.epoch, true
	}
	return 0, false
}

// Fraction returns how far predicted time is from the start of the last tick that ran
// to the start of the next, in [0, 1], for interpolation between their results.
func (r *readers) Fraction(localUsec uint64) float64 {
	s := r.snap.Load()
	if s == nil {
		return 0
	}
	last := s.rate.At(r.nextTick()-1, 0)
	past := s.read(predicted, localUsec) - last.Duration()
	return min(max(float64(past)/float64(last.length()), 0), 1)
}

// Accept reports whether a message about tick n of an epoch deserves attention: the
// epoch is the present one, and n starts at most Config.Past before the server clock and
// Config.Future after the predicted clock. What it refuses is counted.
func (r *readers) Accept(epoch uint64, n Tick, nowUsec uint64) bool {
	s := r.snap.Load()
	switch {
	case s == nil:
		r.early.Add(1)
		return false
	case epoch != s.epoch:
		r.oldEpoch.Add(1)
		return false
	}
	window := s.rate.Duration(windowTicks)
	past := orDefault(r.past, satAdd(defaultPast, window))
	future := orDefault(r.future, satAdd(defaultFuture, window))
	at := s.rate.Duration(n)
	if at < satAdd(s.read(server, nowUsec), -past) || at > satAdd(s.read(predicted, nowUsec), future) {
		r.refused.Add(1)
		return false
	}
	return true
}

func (r *readers) nextTick() Tick     { return Tick(r.next.Load()) }
func (r *readers) setNextTick(n Tick) { r.next.Store(int64(n)) }
