// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"time"

	"timesync/compare/play"
	"timesync/internal/sim"
)

// costTurns is how often a method's work is timed; the least counts, since the machine does
// other things as well.
const costTurns = 40

// tape records what one end is shown in a minute.
type tape struct {
	sim.Estimator
	heard []heard
	asked [][4]uint64
}

type heard struct {
	ts24, report uint32
	recv         uint64
	reported     bool
}

func (t *tape) OnDatagram(ts24 uint32, recvUsec uint64) (time.Duration, bool) {
	t.heard = append(t.heard, heard{ts24: ts24, recv: recvUsec})
	return t.Estimator.OnDatagram(ts24, recvUsec)
}

func (t *tape) OnPeerMinDelta(delta uint32, recvUsec uint64) {
	h := &t.heard[len(t.heard)-1]
	h.report, h.reported = delta, true
	t.Estimator.OnPeerMinDelta(delta, recvUsec)
}

func (t *tape) OnExchange(t1, t2, t3, t4 uint64) {
	t.asked = append(t.asked, [4]uint64{t1, t2, t3, t4})
}

// measureCosts returns the nanoseconds that each method takes for a datagram or an exchange
// of what an end is shown in a minute of 3 ms of jitter.
func measureCosts() (ns []float64) {
	world := sim.ScenarioNamed("mediumjitter")
	world.Duration = time.Minute
	for _, m := range play.Methods {
		t := &tape{Estimator: m.Make()}
		sim.Run(world, play.FirstSeed, []sim.Pair{{A: t, B: m.Make()}}, sim.Observer{})
		best := time.Duration(1 << 62)
		for range costTurns {
			est := m.Make()
			start := time.Now()
			t.play(est, m.Per)
			best = min(best, time.Since(start))
		}
		n := len(t.heard)
		if m.Per == "exchange" {
			n = len(t.asked)
		}
		ns = append(ns, float64(best.Nanoseconds())/float64(n))
	}
	return ns
}

// play shows a method what its cost counts.
func (t *tape) play(est sim.Estimator, per string) {
	if per == "exchange" {
		x := est.(sim.Exchanger)
		for _, e := range t.asked {
			x.OnExchange(e[0], e[1], e[2], e[3])
		}
		return
	}
	for i := range t.heard {
		h := &t.heard[i]
		est.OnDatagram(h.ts24, h.recv)
		if h.reported {
			est.OnPeerMinDelta(h.report, h.recv)
		}
	}
}
