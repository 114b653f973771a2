// The test in this file proves what somebody on the path can do who has no key: drop, delay and
// hold back what passes, either way, at once, slowly or in step with the other way. SECURITY.md
// has its figures.
package simtest

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"timesync"
	"timesync/internal/sim/simnet"
	"timesync/internal/testkit"
	"timesync/link"
)

var onPathWorlds = testkit.Count(
	"onpath.worlds", "worlds of TestOnPath for each attack", 4, 10, 100)

// pathAttack is what somebody does to datagrams on their way.
type pathAttack struct {
	name string
	// late is for how much longer than usual a datagram is under way that is sent to a side at a
	// time since the attack began; less than 0 drops it.
	late func(p *attackedPath, to int, since time.Duration) time.Duration
	// lasting is for how long; 0 draws 1 to 5 min.
	lasting func(p *attackedPath) time.Duration
	// always begins the attack before the first datagram. Otherwise both ends know each other for
	// 1 to 2 min.
	always bool

	// What follows are limits. off is how far off the time may be, as a share of the delay that
	// the attack adds, and with noiseOfPath; outside is for which share of the trusted answers the
	// truth is outside of ErrorBound today.
	off, outside float64
	// silent says that Within fails, in the end at least.
	silent bool
}

// attackedPath is a world of two links, and somebody on the path between them.
type attackedPath struct {
	*simnet.World
	simnet.Dice
	ends   [2]link.Link
	clocks [2]*simnet.ManualClock
	attack *pathAttack
	delay  time.Duration // that it adds
	rate   float64       // how fast it does, where it is slow: seconds a second
	from   time.Duration
	to     time.Duration
}

// harm is what an attack does to one end.
type harm struct {
	off      time.Duration // the greatest error,
	excess   time.Duration // and how much that is more than the attack may cause
	trusted  int           // answers that Within lets through
	outside  int           // and so many of them were further off than their bound
	by       time.Duration // by so much at most
	wider    time.Duration // by how much the bound became wider
	steps    uint32
	silent   bool          // Within said so at the end of the attack
	recovers time.Duration // how long after the attack the time was more than a millisecond off
}

const (
	attackRest = 600 * sec // what is watched after an attack
	pathPeriod = 50 * ms
	// noiseOfPath is how far off the time may be besides, by the jitter of the worlds: of 3 ms in
	// the mean.
	noiseOfPath = 8 * ms
)

func newAttackedPath(seed uint64, a *pathAttack) *attackedPath {
	r := newRand(seed, 'o')
	p := &attackedPath{World: simnet.NewWorld(seed), Dice: simnet.Dice{R: r}, attack: a}
	base := p.LogSpan(2*ms, 80*ms)
	p.delay = p.LogSpan(10*ms, 500*ms)
	p.rate = p.LogBetween(10e-6, 500e-6)
	if !a.always {
		p.from = p.Span(60*sec, 120*sec)
	}
	p.to = p.from + p.Span(60*sec, 300*sec)
	if a.lasting != nil {
		p.to = p.from + a.lasting(p)
	}
	for side := range p.ends {
		jitter := simnet.Exp(p.LogSpan(50*us, 3*ms))
		p.clocks[side] = simnet.NewManualClock(r.Uint64(), p.Between(-50, 50))
		p.Every(pathPeriod, p.Span(0, pathPeriod), func() {
			datagram := p.ends[side].AppendHeader(nil, p.clocks[side].Usec(p.Now()))
			late := time.Duration(0)
			if p.Now() >= p.from && p.Now() < p.to {
				late = a.late(p, 1-side, p.Now()-p.from)
			}
			if late < 0 {
				return
			}
			p.At(p.Now()+base+late+jitter(r, p.Now()), func() {
				p.ends[1-side].ReadHeader(datagram, p.clocks[1-side].Usec(p.Now()))
			})
		})
	}
	return p
}

// play lets all of it happen and returns what became of both ends.
func (p *attackedPath) play() (harms [2]harm) {
	var before [2]time.Duration // the bound
	p.Every(250*ms, 125*ms, func() {
		for side := range p.ends {
			h := &harms[side]
			local := p.clocks[side].Usec(p.Now())
			s, ok := p.ends[side].Snapshot(local)
			if !ok {
				continue
			}
			err := time.Duration(int64(s.RemoteUsec-p.clocks[1-side].Usec(p.Now()))) * us
			why := s.Within(math.MaxInt64)
			h.steps = s.Steps
			switch {
			case p.Now() < p.from:
				before[side] = s.ErrorBound
				continue
			case p.Now() < p.to:
				h.silent = why == timesync.ErrSilent
				h.wider = max(h.wider, s.ErrorBound-before[side])
			case err.Abs() > ms:
				h.recovers = p.Now() - p.to
			}
			h.off = max(h.off, err.Abs())
			if why != nil {
				continue
			}
			h.trusted++
			if beyond := err.Abs() - s.ErrorBound; beyond > us {
				h.outside++
				h.by = max(h.by, beyond)
			}
		}
	})
	p.Run(p.to + attackRest)
	for side := range harms {
		h := &harms[side]
		h.excess = h.off - noiseOfPath - time.Duration(p.attack.off*float64(p.delay))
	}
	return harms
}

// slowly is a delay that grows up to the whole of it.
func (p *attackedPath) slowly(since time.Duration) time.Duration {
	return min(time.Duration(float64(since)*p.rate), p.delay)
}

// slowLasting is how long a slow attack lasts: until the whole delay is there, and a minute more.
// What does not come about within an hour is made shorter.
func slowLasting(p *attackedPath) time.Duration {
	const longest = time.Hour
	p.delay = min(p.delay, time.Duration(float64(longest)*p.rate))
	return time.Duration(float64(p.delay)/p.rate) + 60*sec
}

const dropped = -1

var pathAttacks = []pathAttack{
	{
		name: "nothing",
		late: func(*attackedPath, int, time.Duration) time.Duration { return 0 },
	},
	{
		name:   "drops all",
		late:   func(*attackedPath, int, time.Duration) time.Duration { return dropped },
		silent: true,
	},
	{
		name: "drops 19 of 20",
		late: func(p *attackedPath, _ int, _ time.Duration) time.Duration {
			if p.Chance(0.95) {
				return dropped
			}
			return 0
		},
	},
	{
		name: "drops all of one way",
		late: func(_ *attackedPath, to int, _ time.Duration) time.Duration {
			if to == 0 {
				return dropped
			}
			return 0
		},
		silent: true,
	},
	{
		name:   "delays one way, from the start",
		always: true,
		late: func(p *attackedPath, to int, _ time.Duration) time.Duration {
			return p.delay * time.Duration(to)
		},
		off: 0.5,
	},
	{
		name: "delays one way, later, for 1 to 3 min",
		late: func(p *attackedPath, to int, _ time.Duration) time.Duration {
			return p.delay * time.Duration(to)
		},
		lasting: func(p *attackedPath) time.Duration { return p.Span(60*sec, 180*sec) },
	},
	{
		name: "delays one way, later, for 5 to 10 min",
		late: func(p *attackedPath, to int, _ time.Duration) time.Duration {
			return p.delay * time.Duration(to)
		},
		lasting: func(p *attackedPath) time.Duration { return p.Span(300*sec, 600*sec) },
		off:     0.5,
	},
	{
		name: "delays both ways, later",
		late: func(p *attackedPath, _ int, _ time.Duration) time.Duration { return p.delay },
		// After 4 to 4.5 min one end may take the longer way for the only one, and the other not
		// yet: when both become short again, that looks for half a minute like a clock that was
		// set.
		off: 0.5,
	},
	{
		name: "delays half of all datagrams",
		late: func(p *attackedPath, _ int, _ time.Duration) time.Duration {
			return p.delay * time.Duration(p.R.IntN(2))
		},
	},
	{
		name: "holds all back, and lets go of it at once",
		late: func(p *attackedPath, _ int, since time.Duration) time.Duration {
			every := min(100*p.delay, 30*sec)
			return every - since%every
		},
		off: 0.2,
	},
	{
		// Stamps repeat after 134.2 s, so nobody can tell this from a shorter delay.
		name: "delays one way for longer than stamps take to repeat",
		late: func(p *attackedPath, to int, _ time.Duration) time.Duration {
			return p.delay * time.Duration(to)
		},
		lasting: func(p *attackedPath) time.Duration {
			p.delay = p.Span(135*sec, 300*sec)
			return 600 * sec
		},
		off:     1.5,
		outside: 1,
	},
	{
		name: "delays one way slowly",
		late: func(p *attackedPath, to int, since time.Duration) time.Duration {
			return p.slowly(since) * time.Duration(to)
		},
		lasting: slowLasting,
		off:     0.5,
	},
	{
		name: "delays both ways, then swaps one for the other",
		late: func(p *attackedPath, to int, since time.Duration) time.Duration {
			if since < 30*sec {
				return p.delay
			}
			return 2 * p.delay * time.Duration(to)
		},
		off: 1,
	},
	{
		name: "delays both ways, then slowly swaps one for the other",
		late: func(p *attackedPath, to int, since time.Duration) time.Duration {
			moved := p.slowly(max(0, since-60*sec))
			return p.delay + moved*time.Duration(2*to-1)
		},
		lasting: func(p *attackedPath) time.Duration { return 60*sec + slowLasting(p) },
		off:     1,
	},
}

// worstHarm returns the worst of each figure of many ends, and how many of them said that the peer
// is silent.
func worstHarm(all []harm) (w harm, silent int) {
	for _, h := range all {
		w.off = max(w.off, h.off)
		w.excess = max(w.excess, h.excess)
		w.trusted += h.trusted
		w.outside += h.outside
		w.by = max(w.by, h.by)
		w.wider = max(w.wider, h.wider)
		w.steps = max(w.steps, h.steps)
		w.recovers = max(w.recovers, h.recovers)
		silent += count(h.silent)
	}
	return w, silent
}

func inPercent(share float64) string { return fmt.Sprintf("%.1f%%", 100*share) }

// TestOnPath lets somebody on the path do all that, prints what comes of it at most, and holds it
// to limits. By default it plays 10 worlds of each attack, with -long 100. With 10 it also passes at
// -seed.first 771000, 882000 and 993000.
func TestOnPath(t *testing.T) {
	m := newMusts(t)
	var table strings.Builder
	const row = "%-55s %9v %9v %9v %9v %6v %7v %9v\n"
	fmt.Fprintf(&table, "\n"+row,
		"", "off", "outside", "by", "wider", "steps", "silent", "recovers")
	for i := range pathAttacks {
		a := &pathAttacks[i]
		played := eachSeed(onPathWorlds(), func(seed uint64) [2]harm {
			return newAttackedPath(*seedFirst+seed, a).play()
		})
		var all []harm
		for _, both := range played {
			all = append(all, both[:]...)
		}
		w, silent := worstHarm(all)
		outside := float64(w.outside) / float64(max(w.trusted, 1))
		saySilent := float64(silent) / float64(len(all))
		fmt.Fprintf(&table, row,
			a.name,
			w.off.Round(100*us),
			inPercent(outside),
			w.by.Round(ms),
			w.wider.Round(ms),
			w.steps,
			inPercent(saySilent),
			w.recovers.Round(sec))
		m.judge(a.name+": more off than it may be, us", float64(w.excess/us), 0, 0)
		m.misses("  share of trusted answers outside of the bound", outside, 0, a.outside)
		if a.silent && saySilent < 0.5 {
			t.Errorf("%s: %d of %d ends say that the peer is silent", a.name, silent, len(all))
		}
	}
	t.Log(table.String())
}
