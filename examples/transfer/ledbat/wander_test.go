// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that a path whose delay wanders by itself, or that loses datagrams, is used
// all the same.

package ledbat

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"
)

var (
	// With seeds 23 and 25 transfers starved whose early slowdowns told the jitter.
	firstSeed = flag.Uint64("seed", 23, "the first seed")
	seeds     = flag.Uint64("seeds", 3, "how many seeds")
)

// wanderingPath is a bottleneck that is a FIFO, whose delay changes each 0.1 s by itself.
type wanderingPath struct {
	mbit    float64
	oneWay  float64 // us
	wander  float64 // us, at most
	loses   float64 // part of the datagrams
	seed    uint64
	seconds int
}

// share lets a transfer send alone. It returns the part of the link that the transfer had in
// the last two thirds, and the mean of its own queue in ms.
func (p wanderingPath) share() (share, queue float64) {
	var c Controller
	type ack struct {
		at, sent, owd float64
		lost          bool
	}
	var acks []ack
	r := rand.New(rand.NewPCG(p.seed, 2))
	free := 0.  // when the bottleneck has sent all that waits, us
	extra := 0. // what the path wanders by just now, us
	last := 0.  // when the last datagram arrives, us
	got := 0.   // bytes that arrived in the last two thirds
	waited := 0.
	n := 0. // datagrams
	const size = 1200.
	perUs := p.mbit / 8
	end := float64(p.seconds) * 1e6
	for us := 1.; us < end; us += 20 {
		if int(us)%100_000 < 20 {
			extra = r.Float64() * p.wander
		}
		for ; len(acks) > 0 && acks[0].at <= us; acks = acks[1:] {
			a := acks[0]
			if a.lost {
				c.OnLoss(uint64(us), uint64(a.sent), size)
				continue
			}
			owd := time.Duration(a.owd) * time.Microsecond
			c.OnAck(uint64(us), uint64(a.sent), size, NewDelay(owd, 0, true))
			if us > end/3 {
				got += size
			}
		}
		for {
			if _, ok := c.CanSend(uint64(us), size); !ok {
				break
			}
			c.OnSend(uint64(us), size)
			waited += max(free-us, 0)
			n++
			free = max(us, free) + size/perUs
			last = max(last, free+p.oneWay+extra)
			acks = append(acks, ack{last + p.oneWay, us, last - us, r.Float64() < p.loses})
		}
	}
	return got / (end * 2 / 3 * perUs), waited / n / 1e3
}

// TestWander: a transfer alone has at least 80 % of a link whose delay wanders. Its own queue
// stays shorter than the target and what the path wanders.
func TestWander(t *testing.T) {
	for _, mbit := range []float64{10, 50} {
		for _, wander := range []float64{0, 5e3, 10e3, 20e3, 40e3} {
			for seed := range *seeds {
				p := wanderingPath{
					mbit: mbit, oneWay: 20e3, wander: wander,
					seed: *firstSeed + seed, seconds: 120,
				}
				share, queue := p.share()
				t.Logf("%v Mbit/s, wanders by %v ms, seed %d: %.1f %%, own queue %.1f ms",
					mbit, wander/1e3, p.seed, 100*share, queue)
				if share < 0.8 || queue > 8+wander/1e3 {
					t.Errorf("%.3f of the link, own queue %.1f ms", share, queue)
				}
			}
		}
	}
}

// TestRandomLoss: 0.1 % of loss on a path of 135 ms leaves 60 % of the link, as it does on a path
// that wanders.
func TestRandomLoss(t *testing.T) {
	for _, path := range []wanderingPath{
		{mbit: 10, oneWay: 67.5e3},
		{mbit: 50, oneWay: 67.5e3},
		{mbit: 100, oneWay: 67.5e3},
		{mbit: 10, oneWay: 20e3, wander: 20e3},
		{mbit: 10, oneWay: 67.5e3, wander: 20e3},
	} {
		for seed := range *seeds {
			p := path
			p.loses = 0.001
			p.seed = *firstSeed + seed
			p.seconds = 240
			share, queue := p.share()
			t.Logf("%v Mbit/s, %v ms, wanders by %v ms, 0.1 %% lost, seed %d: %.1f %%, own queue %.1f ms",
				p.mbit, 2*p.oneWay/1e3, p.wander/1e3, p.seed, 100*share, queue)
			if share < 0.6 || queue > 8+p.wander/1e3 {
				t.Errorf("%.3f of the link, own queue %.1f ms", share, queue)
			}
		}
	}
}
