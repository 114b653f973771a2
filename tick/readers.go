// SPDX-License-Identifier: BSD-3-Clause

package tick

import (
	"cmp"
	"sync/atomic"
	"time"
)

// snapshot is what readers see. It does not change once they can see it.
type snapshot struct {
	known   bool // the clocks are known
	courses [3]course
	paused  bool
	rate    Rate
	epoch   uint64
}

// read returns clock i at nowUsec, and time the same as a Time.
func (s *snapshot) read(i int, nowUsec uint64) time.Duration { return s.courses[i].read(nowUsec) }
func (s *snapshot) time(i int, nowUsec uint64) Time {
	return Time{s.rate, s.read(i, nowUsec)}
}

// origin returns what the local clock reads at game time zero, and the game time at nowUsec.
func (s *snapshot) origin(nowUsec uint64) (zeroUsec uint64, at time.Duration) {
	at = s.read(predicted, nowUsec)
	return nowUsec - uint64(wholeUsec(at)), at
}

// readers is what any goroutine may read of a Server or Client, without a lock.
type readers struct {
	snap                     atomic.Pointer[snapshot]
	next                     atomic.Int64  // the tick to run next
	refused, oldEpoch, early atomic.Uint64 // see Stats
	behind, ahead            time.Duration // see Config.AcceptBehind
}

// Snapshot returns the three clocks at one instant, localUsec of the local clock. ok is
// false while they are not known. It takes no lock and does not allocate.
//
// A reading from 20 ms before the last Advance, Pause or Resume to 20 ms after it is final: later
// calls change it only by a step. An earlier time is extrapolated back at the pace of that time.
// So for increasing localUsec, at most 20 ms ahead of the next of these calls, a clock goes back
// only where EventStepped, EventEpochChanged or a Start is between.
func (g *readers) Snapshot(localUsec uint64) (c Clocks, ok bool) {
	s := g.snap.Load()
	c = Clocks{
		SharedTime:    s.time(shared, localUsec),
		ServerTime:    s.time(server, localUsec),
		PredictedTime: s.time(predicted, localUsec),
	}
	return c, s.known
}

func (g *readers) clock(i int, localUsec uint64) (t Time, ok bool) {
	s := g.snap.Load()
	return s.time(i, localUsec), s.known
}

// SharedTime returns the shared clock at localUsec, like Snapshot.
func (g *readers) SharedTime(localUsec uint64) (t Time, ok bool) {
	return g.clock(shared, localUsec)
}

// ServerTime returns the server clock at localUsec, like Snapshot.
func (g *readers) ServerTime(localUsec uint64) (t Time, ok bool) {
	return g.clock(server, localUsec)
}

// PredictedTime returns the predicted clock at localUsec, like Snapshot.
func (g *readers) PredictedTime(localUsec uint64) (t Time, ok bool) {
	return g.clock(predicted, localUsec)
}

// Epoch returns the epoch of the game time. Put it into messages that name a tick. ok is false
// while the clocks are not known.
func (g *readers) Epoch() (epoch uint64, ok bool) {
	s := g.snap.Load()
	return s.epoch, s.known
}

// Fraction returns how far predicted time is from the start of the last tick that ran
// to the start of the next, in [0, 1], for interpolation between their results.
func (g *readers) Fraction(localUsec uint64) float64 {
	s := g.snap.Load()
	if !s.known {
		return 0
	}
	last := s.rate.At(g.nextTick()-1, 0)
	past := s.read(predicted, localUsec) - last.Duration()
	return min(max(float64(past)/float64(last.length()), 0), 1)
}

// Accept reports whether a message about tick n of an epoch is to be used: the epoch is the
// present one, and n starts at most Config.AcceptBehind before the server clock and
// Config.AcceptAhead after the predicted clock. What it refuses is counted.
func (g *readers) Accept(epoch uint64, n Tick, nowUsec uint64) bool {
	s := g.snap.Load()
	switch {
	case !s.known:
		g.early.Add(1)
		return false
	case epoch != s.epoch:
		g.oldEpoch.Add(1)
		return false
	}
	// A retransmission or a stall of seconds is over, and what waits for its tick is little: in
	// lightyear a tick of the far future exhausted the memory. At any rate there is room besides
	// for the two ticks that a client plays ahead, the one under way, and one more.
	window := s.rate.Duration(4)
	past := cmp.Or(g.behind, satAdd(4*time.Second, window))
	future := cmp.Or(g.ahead, satAdd(time.Second, window))
	at := s.rate.Duration(n)
	earliest := satAdd(s.read(server, nowUsec), -past)
	latest := satAdd(s.read(predicted, nowUsec), future)
	if at < earliest || at > latest {
		g.refused.Add(1)
		return false
	}
	return true
}

func (g *readers) nextTick() Tick     { return Tick(g.next.Load()) }
func (g *readers) setNextTick(n Tick) { g.next.Store(int64(n)) }
