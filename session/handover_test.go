// Handovers, splits, late joiners, silent hosts and clocks that are set.

package session

import (
	"flag"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"timesync/internal/sim/simnet"
	"timesync/internal/testkit"
)

var (
	first = flag.Uint64("seed.first", 490_000_000, "seed of the first world")
	young = flag.Duration("young", 5*sec,
		"for how long a member that has joined is not judged, and does not become host")
)

// setting is how many peers there are, on which ways, and by how much their clocks are off.
type setting struct {
	peers int
	way   path
	ppm   float64
}

// worlds runs n worlds, with -long five times as many, and adds up what their judges say. It fails
// if a bound was wrong, or session time went back.
func worlds(t *testing.T, n uint64, in setting, run func(x *mesh)) *judge {
	t.Helper()
	n = testkit.Sized(2, n, 5*n)
	t.Logf("%d worlds from -seed.first %d on", n, *first)
	var wg sync.WaitGroup
	var mu sync.Mutex
	j := new(judge)
	for i := range n {
		wg.Go(func() {
			x := newMesh(t, *first+i, in)
			run(x)
			mu.Lock()
			defer mu.Unlock()
			j.add(&x.judge)
		})
	}
	wg.Wait()
	t.Log(j)
	if j.wrong > 0 || j.wrongTo > 0 || j.back > 0 || j.readings == 0 {
		t.Error("a bound is wrong, or session time went back")
	}
	return j
}

// oneHost fails if two peers follow different hosts.
func (x *mesh) oneHost() {
	of := x.peers[0].last
	for _, p := range x.peers {
		same := p.last.Host == of.Host && p.last.Generation == of.Generation
		if !same || of.Generation == 0 {
			x.t.Errorf("seed %d: peer %d has %+v, peer 1 %+v", x.seed, p.id, p.last, of)
		}
	}
}

// within fails if the p99 of how far members were apart, or a jump, was more than so many us.
func (j *judge) within(t *testing.T, apart, jump int64) {
	t.Helper()
	apartGot := testkit.SpreadOf(j.apart).P99
	jumpGot := testkit.SpreadOf(j.jumps).Max
	if apartGot > apart || jumpGot > jump || j.steps > 0 {
		t.Errorf("p99 apart %d us, of %d at most; jump %d us, of %d at most; %d steps",
			apartGot, apart, jumpGot, jump, j.steps)
	}
}

// TestHandovers: ten handovers a minute, with ways that take equally long. The host is killed, or
// gives up. Who is killed starts anew 1 s later, with another clock, and knows the time within 4 s,
// although an announcement may be lost. Members that have joined 5 s ago or earlier agree.
func TestHandovers(t *testing.T) {
	worlds(t, 20, setting{5, bad, 50}, func(x *mesh) {
		const n = 10
		host := x.peers[0]
		for i := range n {
			at := 15*sec + time.Duration(i)*6*sec
			x.w.At(at, func() {
				// One of those that have been there for a while takes over.
				var next *peer
				for next == nil || next == host || !x.settled(next) {
					next = x.peers[x.rng.IntN(len(x.peers))]
				}
				if old := host; x.rng.IntN(2) == 0 {
					old.alive = false
					x.w.At(at+sec, func() { x.restart(old) })
					x.w.At(at+5*sec, func() {
						_, ok := old.m.peek(old.node.NowUsec())
						check(x.t, ok, true, "seed %d: peer %d knows the time 4 s after it began",
							x.seed, old.id)
					})
				}
				host = next
				// It is told, or notices after up to 2 s.
				x.w.At(at+x.upTo(2*sec), func() { x.host(next) })
			})
		}
		x.w.Run(15*sec + n*6*sec)
		if r := x.peers[0].last; r.Generation < n/2 {
			t.Errorf("seed %d: generation %d after %d handovers", x.seed, r.Generation, n)
		}
	}).within(t, 1000, 2000)
}

// TestMixture: kills, handovers, splits, two hosts at once and silences at random, with unequal
// ways, queues, stalls, and clocks that are up to 200 ppm apart. All bounds hold, also to the
// founder that may live on, and after the last event all follow one host.
func TestMixture(t *testing.T) {
	worlds(t, 20, setting{5, harsh, 100}, func(x *mesh) {
		member := func() *peer { return x.peers[x.rng.IntN(len(x.peers))] }
		takeOver := func() {
			if p := member(); x.settled(p) {
				x.host(p)
			}
		}
		for at := 5 * sec; at < 120*sec; at += x.upTo(8 * sec) {
			lasting := x.upTo(20 * sec)
			switch x.rng.IntN(4) {
			case 0:
				x.w.At(at, takeOver)
			case 1: // two, of which one may not know of the other
				x.w.At(at, takeOver)
				x.w.At(at+x.upTo(200*ms), takeOver)
			case 2: // a peer dies, if others know the time
				x.w.At(at, func() {
					known := 0
					for _, p := range x.peers {
						if _, ok := p.m.peek(0); ok && p.alive {
							known++
						}
					}
					if p := member(); known > 2 && p.alive {
						p.alive = false
						x.w.At(x.w.Now()+min(lasting, 5*sec), func() { x.restart(p) })
						x.w.At(x.w.Now()+2*sec, takeOver)
					}
				})
			case 3: // some are cut off from the others
				x.w.At(at, func() {
					some := x.rng.IntN(32)
					x.apart = func(i, j int) bool { return some>>i&1 != some>>j&1 }
					x.w.At(x.w.Now()+lasting, x.meet)
				})
			}
		}
		x.w.At(150*sec, func() {
			for _, p := range x.peers {
				if _, ok := p.m.peek(0); ok {
					x.host(p)
				}
			}
		})
		x.w.Run(170 * sec)
		x.oneHost()
	})
}

// TestSplit: two halves are cut off from each other for 20 s to 2 min, have up to three
// handovers each, and meet again. The founder lives on. All have one host then. The jumps are
// those at which they meet. In about one world of a hundred a half ran at a rate that was known
// badly, and they differ by more.
func TestSplit(t *testing.T) {
	var played, tooFar atomic.Int32
	worlds(t, 20, setting{5, bad, 50}, func(x *mesh) {
		half := func(i int) int { return (i + 1) / 3 } // 0, 1 and 2, 3, 4
		lasting := 20*sec + x.upTo(100*sec)
		x.w.At(15*sec, func() {
			x.apart = func(i, j int) bool { return half(i) != half(j) }
		})
		for h, members := range [][]*peer{x.peers[:2], x.peers[2:]} {
			for i := range h + x.rng.IntN(3) { // the half without a host has one at least
				at := 17*sec + time.Duration(i)*5*sec
				x.w.At(at, func() {
					x.host(members[x.rng.IntN(len(members))])
				})
			}
		}
		x.w.At(15*sec+lasting, x.meet)
		x.w.Run(15*sec + lasting - ms)
		one := x.peers[0].last
		other := x.peers[4].last
		if one.Host == other.Host && one.Generation == other.Generation {
			t.Errorf("seed %d: one host before they meet", x.seed)
		}
		x.judge.jumps = nil
		x.w.Run(15*sec + lasting + 3*sec)
		x.oneHost()
		x.w.Run(15*sec + lasting + 30*sec)
		// us: what the rates at which the halves ran make of the time.
		most := 300 + 50*int64(lasting.Seconds()+3)
		played.Add(1)
		jump := testkit.SpreadOf(x.judge.jumps).Max
		if jump > most {
			tooFar.Add(1)
			t.Logf("seed %d: after %v apart, the halves differ by %d us, of %d",
				x.seed, lasting, jump, most)
		}
		if x.judge.steps > 0 {
			t.Errorf("seed %d: after %v apart, %d steps", x.seed, lasting, x.judge.steps)
		}
	})
	if tooFar.Load() > played.Load()/50 {
		t.Errorf("in %d of %d worlds the halves differ by too much", tooFar.Load(), played.Load())
	}
}

// jump lets the clock of a peer be set, or stand still as that of a machine that sleeps.
func (x *mesh) jump(p *peer, by time.Duration) {
	old := p.node.Clock
	at := x.w.Now()
	p.node.Clock = simnet.NewClock(simnet.ClockSpec{
		OffsetUsec: old.Usec(at) - uint64(at/us),
		Events:     []simnet.ClockEvent{{At: at, Step: by}},
	}, 0)
	x.set = at
	p.last = Reading{}
}

// TestClockSet: a member whose clock is set, by 0.2 to 5 s, is right again. If the clock of a host
// is set, all others follow it by a step.
func TestClockSet(t *testing.T) {
	for who, name := range []string{"founder, the host", "second host", "member"} {
		t.Run(name, func(t *testing.T) {
			j := worlds(t, 20, setting{4, bad, 50}, func(x *mesh) {
				if who == 1 {
					x.w.At(15*sec, func() { x.host(x.peers[1]) })
				}
				by := 200*ms + x.upTo(5*sec)
				if x.rng.IntN(2) == 0 {
					by = -by
				}
				x.w.At(20*sec, func() {
					x.jump(x.peers[who], by)
					x.founder = x.peers[0].node.Clock
					if who == 1 {
						x.founder = nil
					}
				})
				x.w.Run(35 * sec)
				x.judge.apart = nil
				x.w.Run(60 * sec)
				for i, p := range x.peers {
					steps := who < 2 && i != who || who == 2 && i == who // a host cannot notice
					n := p.last.Steps
					if steps != (n > 0) || n > 3 {
						t.Errorf("seed %d, %v: peer %d counts %d steps", x.seed, by, p.id, n)
					}
				}
				x.judge.steps = 0
			})
			j.jumps = nil // session time jumps with the clock
			j.within(t, 1000, 0)
		})
	}
}
