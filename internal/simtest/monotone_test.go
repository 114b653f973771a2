// This test proves that the remote time does not go back, but for the steps that are
// counted.

package simtest

import (
	"fmt"
	"testing"
	"time"

	"timesync"
	"timesync/internal/sim"
	"timesync/internal/testkit"
)

// watched is a subject that is asked for the remote time around everything that it is
// told: 100 us before, at it, just after and 100 us after. The local times never go
// back, not even between a question and what it is told next: a datagram that
// was received before a question but is handled after it may move the answer by half
// of the time between the two. Where the local clock itself goes back, nothing is
// asked until it is past the latest question.
type watched struct {
	subject
	fail func(format string, args ...any)

	due    bool // a question at dueAt
	dueAt  uint64
	asked  bool
	local  uint64 // of the latest question
	remote uint64
	ts23   timesync.Counter23
	ts16   timesync.Counter16
	steps  int
}

func (w *watched) ask(local uint64) {
	if w.asked && int64(local-w.local) < 0 {
		return
	}
	remote, ok := w.subject.RemoteTime(local, w.remote)
	ts23, ok23 := w.Sync.ToRemoteTime23(local)
	ts16, ok16 := w.Sync.ToRemoteTime16(local)
	if ok != ok23 || ok != ok16 {
		w.fail("at %d: RemoteTime knows %v, ToRemoteTime23 %v, ToRemoteTime16 %v",
			local, ok, ok23, ok16)
	}
	if w.asked && !ok {
		w.fail("at %d: no answer any more", local)
	}
	if !ok {
		w.asked = false
		return
	}
	steps := w.Steps()
	if w.asked && steps == w.steps {
		// The remote time is rounded to a microsecond and is known modulo 67.1 s; a
		// silence may be longer. The limits are half and one and a half of the local
		// speed, plus the largest skew.
		passed := float64(local - w.local)
		ran := float64(int64(remote - w.remote)) // nearest to the last answer
		d23 := ts23.Distance(w.ts23)
		d16 := ts16.Distance(w.ts16)
		tooSlow := ran < max(passed*(0.5-0.002)-2, 0)
		tooFast := ran > passed*(1.5+0.002)+2
		back := d23 < 0 || d16 < 0 && passed < 15e6
		if passed < 30e6 && (tooSlow || tooFast || back) {
			w.fail("at %d, in %.0f us: RemoteTime runs %.0f us, "+
				"ToRemoteTime23 %d, ToRemoteTime16 %d", local, passed, ran, d23, d16)
		}
	}
	w.asked = true
	w.local = local
	w.remote = remote
	w.ts23 = ts23
	w.ts16 = ts16
	w.steps = steps
}

// around asks 100 us before local and at it, lets something happen, and asks at local again and, if
// nothing happens before, 100 us after it.
func (w *watched) around(local uint64, happens func()) {
	if w.due && int64(local-w.dueAt) >= 0 {
		w.ask(w.dueAt)
	}
	w.ask(local - 100)
	w.ask(local)
	happens()
	w.ask(local)
	w.due = true
	w.dueAt = local + 100
}

// readerMargin is by how much a reader may be ahead of what comes next, or behind, in microseconds.
const readerMargin = 20_000

// final calls take, and asks within the reader margin of when, before and after: unless a step is
// counted, the answers stay as they are.
func (w *watched) final(when uint64, take func()) {
	var remote [5]uint64
	at := func(i int) uint64 { return when + uint64(i)*readerMargin/2 - readerMargin }
	_, ok := w.Sync.RemoteTime(when)
	for i := range remote {
		remote[i], _ = w.Sync.RemoteTime(at(i))
	}
	steps := w.Steps()
	take()
	if !ok || w.Steps() != steps {
		return
	}
	for i, was := range remote {
		if is, _ := w.Sync.RemoteTime(at(i)); is != was {
			w.fail("what came at %d moved the reading of %d by %d us", when, at(i), int64(is-was))
		}
	}
}

func (w *watched) OnDatagram(ts24 uint32, recvUsec uint64) (owd time.Duration, ok bool) {
	w.around(recvUsec, func() {
		w.final(recvUsec, func() { owd, ok = w.subject.OnDatagram(ts24, recvUsec) })
	})
	return owd, ok
}

func (w *watched) MinDelta(localUsec uint64) (delta uint32, ok bool) {
	w.around(localUsec, func() { delta, ok = w.subject.MinDelta(localUsec) })
	return delta, ok
}

func (w *watched) OnPeerMinDelta(delta uint32, recvUsec uint64) {
	w.around(recvUsec, func() {
		w.final(recvUsec, func() { w.subject.OnPeerMinDelta(delta, recvUsec) })
	})
}

func (w *watched) RemoteTime(localUsec, nearUsec uint64) (remote uint64, ok bool) {
	w.around(localUsec, func() { remote, ok = w.subject.RemoteTime(localUsec, nearUsec) })
	return remote, ok
}

// TestMonotone asks for the remote time all through every scenario: it never goes
// back and never runs at less than half or more than one and a half times the local
// speed, except where a step was counted. What was read within 20 ms of what comes
// next, before it or after, would be read again.
func TestMonotone(t *testing.T) {
	worlds := testkit.Sized(1, 2, 2)
	scenarios := sim.Scenarios()
	m := newMusts(t)
	played := eachSeed(len(scenarios)*worlds, func(i uint64) *[2]watched {
		var ends [2]watched
		sc := scenarios[int(i)/worlds]
		if testing.Short() {
			sc.Duration = min(sc.Duration, 140*sec)
		}
		seed := i%uint64(worlds) + 1
		for side := range ends {
			name := fmt.Sprintf("%s, seed %d, %c: ", sc.Name, seed, 'A'+rune(side))
			ends[side].fail = func(format string, args ...any) {
				m.fail(sc.Name, "%s", name+fmt.Sprintf(format, args...))
			}
		}
		pairs := []sim.Pair{{A: &ends[0], B: &ends[1]}}
		sim.Run(sc, seed, pairs, sim.Observer{Poll: func(*sim.Observation) {}})
		return &ends
	})
	var jumped []string
	for i, ends := range played {
		sc := &scenarios[i/worlds]
		seed := i%worlds + 1
		for side := range ends {
			steps := ends[side].steps
			if sc.Tag&sim.Jumped == 0 && steps > 1 {
				jumped = append(jumped, fmt.Sprintf("%s, seed %d, %c: %d",
					sc.Name, seed, 'A'+rune(side), steps))
			}
		}
	}
	ends := 2 * len(played)
	// A queue may look like a clock: at 4 of 120 ends of frames-bufferbloat.
	if len(jumped) > 1+ends/100 {
		m.fail("steps were counted where no clock jumps",
			"at %d of %d ends: %q", len(jumped), ends, jumped)
	}
}
