// These tests measure how often an end has to send, and what it pays beside a peer that neglects a
// duty. They fill the tables of docs/PRODUCTION.md and docs/WIRE.md:
//
//	go test ./link -run 'TestQuietEnd|TestSkewKnown' -v -quiet.worlds 25
//	go test ./link -run TestDuties -v -duties.sessions 20
package link_test

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"timesync"
	"timesync/internal/sim/simnet"
	"timesync/internal/testkit"
	"timesync/link"
)

// wire is two ends with clocks of quartz, 40 ppm apart, and 20 ms of path with exponential
// jitter. Each end sends at a rate of its own. Times are true.
type wire struct {
	*simnet.World
	links  [2]link.Link
	clocks [2]simnet.Clock
	out    [2]*simnet.Link
	rng    *rand.Rand
	now    time.Duration // of the last thing that happened
	asked  func(side int)

	// sent returns what leaves instead of a header.
	sent func(side int, local uint64, header []byte) []byte
	// opened hears what arrived.
	opened func(side int, local uint64, datagram, payload []byte, owd time.Duration, known bool)
	// read returns what B takes its clock for.
	read func(local uint64) uint64
}

const askEvery = 50 * time.Millisecond

// newWire steps the clock of one end by step, at time at.
func newWire(
	seed uint64, rates [2]float64, jitter time.Duration, stepped int, at, step time.Duration,
) *wire {
	w := &wire{
		World:  simnet.NewWorld(seed),
		rng:    rand.New(rand.NewPCG(seed, 'q')),
		asked:  func(int) {},
		sent:   func(_ int, _ uint64, header []byte) []byte { return header },
		opened: func(int, uint64, []byte, []byte, time.Duration, bool) {},
		read:   func(local uint64) uint64 { return local },
	}
	for side := range w.clocks {
		spec := simnet.ClockSpec{
			OffsetUsec: w.rng.Uint64(),
			SkewPPM:    20 - 40*float64(side),
			SinePPM:    2,
			SinePeriod: 15 * time.Minute,
			SinePhase:  2 * math.Pi * w.rng.Float64(),
			WanderPPM:  0.01,
		}
		if step != 0 && side == stepped {
			spec.Events = []simnet.ClockEvent{{At: at, Step: step}}
		}
		w.clocks[side] = simnet.NewClock(spec, w.rng.Uint64())
		w.out[side] = &simnet.Link{
			Base:  simnet.Fixed(20 * time.Millisecond),
			Delay: simnet.Exp(jitter),
		}
		first := time.Duration(w.rng.Float64() / rates[side] * float64(time.Second))
		every := time.Duration(float64(time.Second) / rates[side])
		w.Every(every, first, func() { w.send(side) })
		w.Every(askEvery, askEvery, func() {
			w.now = w.Now()
			w.asked(side)
		})
	}
	return w
}

// run lets everything happen before a time.
func (w *wire) run(until time.Duration) { w.Run(until - 1) }

// local is what an end takes its clock for now.
func (w *wire) local(side int) uint64 {
	w.now = w.Now()
	local := w.clocks[side].Usec(w.now)
	if side == 1 {
		local = w.read(local)
	}
	return local
}

func (w *wire) send(side int) {
	local := w.local(side)
	header := w.sent(side, local, w.links[side].AppendHeader(nil, local))
	for _, at := range w.out[side].Arrivals(w.rng, w.now) {
		w.At(at, func() { w.arrive(1-side, header) })
	}
}

func (w *wire) arrive(side int, datagram []byte) {
	local := w.local(side)
	payload, owd, known, _ := w.links[side].ReadHeader(datagram, local)
	w.opened(side, local, datagram, payload, owd, known)
}

// look returns what an end knows now, and how far its idea of the other's clock is
// off, in microseconds.
func (w *wire) look(side int) (s timesync.Snapshot, off float64, ok bool) {
	s, ok = w.links[side].Snapshot(w.clocks[side].Usec(w.now))
	wrong := int64(s.RemoteUsec - w.clocks[1-side].Usec(w.now))
	return s, math.Abs(float64(wrong)), ok
}

var quietWorlds = flag.Int("quiet.worlds", 4,
	"worlds for each row of TestQuietEnd and TestSkewKnown")

func p50(v []float64) float64 { return testkit.Quantile(v, 0.5) }
func p99(v []float64) float64 { return testkit.Quantile(v, 0.99) }

// medianMost is how a table says so; what is never over is so from limit on.
func medianMost(v []float64, limit float64, never string) string {
	median := p50(v)
	most := testkit.Quantile(v, 1)
	switch {
	case median >= limit:
		return never
	case most >= limit:
		return fmt.Sprintf("%.1f / %s", median, never)
	}
	return fmt.Sprintf("%.1f / %.1f", median, most)
}

// TestQuietEnd: one end sends 60 datagrams a second, the other fewer. The table says what
// both know of the time from 30 s on, and how long a clock that was set stays unnoticed.
func TestQuietEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("a long simulation")
	}
	const stepAt, end = 60 * time.Second, 240 * time.Second
	const jitter, stepBy = 3 * time.Millisecond, 30 * time.Millisecond
	var table strings.Builder
	for _, rate := range []float64{60, 10, 4, 2, 1, 0.5, 0.2, 0.1} {
		var errs, bounds [2][]float64
		var late []float64
		for seed := range uint64(*quietWorlds) {
			for stepped := range 2 {
				for _, step := range []time.Duration{stepBy, -stepBy} {
					w := newWire(seed, [2]float64{60, rate}, jitter, stepped, stepAt, step)
					wrong := [2]time.Duration{}
					w.asked = func(side int) {
						s, off, ok := w.look(side)
						switch {
						case w.now >= stepAt && (!ok || off > 5000):
							wrong[side] = w.now - stepAt
						case w.now >= 30*time.Second && w.now < stepAt:
							errs[side] = append(errs[side], off)
							bounds[side] = append(bounds[side], s.ErrorBound.Seconds()*1e3)
						}
					}
					w.run(end)
					late = append(late, max(wrong[0], wrong[1]).Seconds())
				}
			}
		}
		unnoticed := medianMost(late, (end - stepAt - askEvery).Seconds(), "over 180")
		fmt.Fprintf(&table, "| %g | %.0f / %.0f | %.0f / %.0f | %.1f | %.1f | %s |\n",
			rate,
			p50(errs[0]), p99(errs[0]),
			p50(errs[1]), p99(errs[1]),
			p50(bounds[0]), p50(bounds[1]),
			unnoticed)
		worst := max(p99(errs[0]), p99(errs[1]))
		if worst > 10000 || rate >= 1 && worst > 1000 {
			t.Errorf("%g a second: the error is %.0f us at p99", rate, worst)
		}
	}
	t.Logf("%d worlds a row: rate of the quiet end in 1/s; "+
		"error at the other end, at the quiet one, p50 / p99 in us; bounds, p50 in ms; "+
		"a step of 30 ms until noticed by both, median / most in s\n%s",
		4**quietWorlds, table.String())
}

// TestSkewKnown: after how long Skew is ok at both ends, and how far it is off then.
func TestSkewKnown(t *testing.T) {
	jitters := []time.Duration{
		100 * time.Microsecond,
		time.Millisecond,
		3 * time.Millisecond,
		10 * time.Millisecond,
	}
	var table strings.Builder
	for _, rate := range []float64{60, 10, 4, 1, 0.2} {
		fmt.Fprintf(&table, "| %g |", rate)
		for _, jitter := range jitters {
			var known, off []float64
			for seed := range uint64(*quietWorlds) {
				w := newWire(seed, [2]float64{rate, rate}, jitter, 0, 0, 0)
				at := math.Inf(1) // seconds until Skew is ok
				by := 0.0         // ppm that it is off then
				w.asked = func(side int) {
					ppm, ok := w.links[side].Skew()
					if ok && math.IsInf(at, 1) {
						at = w.now.Seconds()
						by = math.Abs(math.Abs(ppm) - 40)
					}
				}
				until := time.Second
				for until <= 20*time.Minute && math.IsInf(at, 1) {
					w.run(until)
					until += time.Second
				}
				known = append(known, at)
				off = append(off, by)
			}
			worst := testkit.Quantile(off, 1)
			cell := medianMost(known, math.Inf(1), "not in 20 min")
			if !math.IsInf(p50(known), 1) {
				cell += fmt.Sprintf(" s, %.0f", worst)
			}
			table.WriteString(" " + cell + " |")
			if rate >= 1 && math.IsInf(testkit.Quantile(known, 1), 1) {
				t.Errorf("%g a second, %v of jitter: not known after 20 min", rate, jitter)
			}
			if worst > 25+7 { // temperature moves the rates by 4
				t.Errorf("%g a second, %v of jitter: off by %.0f ppm when first known",
					rate, jitter, worst)
			}
		}
		table.WriteString("\n")
	}
	t.Logf("%d worlds a cell: datagrams a second each way; jitter of 0.1, 1, 3, 10 ms: "+
		"s until Skew is ok, median / most, and ppm that it is off then at most\n%s",
		*quietWorlds, table.String())
}

var dutySessions = flag.Uint64("duties.sessions", 3, "sessions for each row of TestDuties")

// neglect is a peer that does not do all that docs/WIRE.md asks for.
type neglect struct {
	name   string
	rate   float64          // datagrams a second; 0: 60
	step   time.Duration    // the peer's clock is set by this after 60 s
	jitter time.Duration    // 0: 5 ms
	ways   [2]time.Duration // what datagrams to the peer take at least, and from it; 0: 10 ms each

	clock  func(local uint64) uint64              // what its clock shows instead
	frames bool                                   // it is right all the same, but read too early
	report func(p *badPeer, report uint64) uint64 // what it reports instead, in units of 8 us
	pause  uint64                                 // us between two reports, unless it asks
}

// badPeer is what such a peer knows.
type badPeer struct {
	deltas  []delta // of the last 10 s
	theirs  uint64  // what the other end reported last, us modulo 2^27
	begun   uint64  // local time, us, of its first report
	latest  uint64  // and of the last
	strayed bool
}

type delta struct{ at, usec uint64 }

const ring27 = 1<<27 - 1

func signed27(v uint64) int64 { return int64(v<<37) >> 37 }

// least returns the least delta of those that came within so many us before the last one.
func (p *badPeer) least(within uint64) uint64 {
	last := p.deltas[len(p.deltas)-1].at
	isOld := func(d delta) bool { return last-d.at > within }
	compare := func(a, b delta) int { return int(signed27(a.usec - b.usec)) }
	recent := slices.DeleteFunc(slices.Clone(p.deltas), isOld)
	return slices.MinFunc(recent, compare).usec
}

// came notes the delta and the report of a datagram that arrived.
func (p *badPeer) came(side int, local uint64, h, _ []byte, _ time.Duration, _ bool) {
	if side == 0 {
		return
	}
	stamp := uint64(timesync.ReadCounter24(h[1:]))
	p.deltas = slices.DeleteFunc(p.deltas, func(d delta) bool { return local-d.at > 10e6 })
	p.deltas = append(p.deltas, delta{local, (local - 8*stamp) & ring27})
	if h[0]&1 != 0 {
		p.theirs = 8 * uint64(timesync.ReadCounter24(h[4:]))
	}
}

// ours returns the report, or the next one if only an original sends it.
func ours(report uint64) uint64 { return report + report%3/2 }

// originals returns a report of the remainder by which an original is known.
func originals(report uint64) uint64 { return report + 2 - report%3 }

// windowed reports the least delta of 10 s, as the original does.
func windowed(p *badPeer, report uint64) uint64 {
	if len(p.deltas) == 0 {
		return report
	}
	return ours(p.least(10e6) / 8)
}

// overlapping reports the least delta of 2 s, though a report goes each second.
func overlapping(p *badPeer, report uint64) uint64 {
	if len(p.deltas) == 0 {
		return report
	}
	return ours(p.least(2e6) / 8)
}

// forgetting is windowed, and after an impossible round trip the older deltas are forgotten.
func forgetting(p *badPeer, report uint64) uint64 {
	if len(p.deltas) > 0 && p.theirs != 0 && signed27(p.least(10e6)+p.theirs) < -100 {
		p.deltas = p.deltas[len(p.deltas)-1:]
	}
	return windowed(p, report)
}

func coarse(local uint64) uint64 { return local - local%1000 }

var duties = []neglect{
	{name: "all kept"},
	{name: "all kept; its clock is set by 125 ms", step: 125 * time.Millisecond},
	{name: "the report is the minimum of the last 2 s", report: overlapping},
	{
		name:   "the report is the minimum of the last 2 s; its clock is set by 125 ms",
		report: overlapping,
		step:   125 * time.Millisecond,
	},
	{
		name:   "the clock is read once per frame of 16.7 ms",
		frames: true,
		clock:  func(local uint64) uint64 { return local - local%16_667 },
	},
	{
		name:   "the clock advances by 1 ms, and times of receipt are rounded down, too",
		frames: true,
		clock:  coarse,
	},
	{
		name:   "the same, 0.1 ms and 0.1 ms of jitter each way",
		frames: true,
		clock:  coarse,
		jitter: 100 * time.Microsecond,
		ways:   [2]time.Duration{100 * time.Microsecond, 100 * time.Microsecond},
	},
	{
		name:  "the clock is set back by 20 ms every 10 s",
		clock: func(local uint64) uint64 { return local - local/10_000_000*20_000 },
	},
	{name: "one datagram a second", rate: 1},
	{name: "one datagram in 5 s", rate: 0.2},
	{name: "a report every 30 s", pause: 30e6},
	{
		name:  "a report every 30 s; its clock is set by 125 ms",
		pause: 30e6,
		step:  125 * time.Millisecond,
	},
	{name: "the report is the minimum of the last 10 s", report: windowed},
	{
		name:   "the same; its clock is set by 125 ms",
		report: windowed,
		step:   125 * time.Millisecond,
	},
	{
		name:   "the same, but it forgets after an impossible round trip",
		report: forgetting,
		step:   125 * time.Millisecond,
	},
	{
		name: "the report is the last datagram",
		report: func(p *badPeer, report uint64) uint64 {
			return ours(p.deltas[len(p.deltas)-1].usec / 8)
		},
	},
	{
		name:   "the report is 2 ms too low; 0 ms to it, 20 ms from it",
		ways:   [2]time.Duration{0, 20 * time.Millisecond},
		report: func(p *badPeer, report uint64) uint64 { return ours(report - 250) },
	},
	{
		name: "remainder 2 once, after 60 s",
		report: func(p *badPeer, report uint64) uint64 {
			if !p.strayed && p.latest-p.begun > 60e6 {
				p.strayed = true
				return originals(report)
			}
			return report
		},
	},
	{
		name:   "remainder 2 always",
		report: func(p *badPeer, report uint64) uint64 { return originals(report) },
	},
	{
		name: "reports of 0 from 30 s on",
		report: func(p *badPeer, report uint64) uint64 {
			if p.latest-p.begun > 30e6 {
				return 0
			}
			return report
		},
	},
}

// TestDuties measures what a Go end pays beside a peer that neglects a duty, from 15 s after the
// start and after a clock was set on.
func TestDuties(t *testing.T) {
	if testing.Short() {
		t.Skip("a long simulation")
	}
	paid := map[string]price{}
	for _, n := range duties {
		c := n.cost()
		paid[n.name] = c
		t.Logf("%-75s p99 %5.0f us, bound median %.1f p99 %.1f ms, %.1f %% of bounds wrong; "+
			"off by over 1 ms for %.1f s at most",
			n.name, p99(c.errs), p50(c.bounds)/1e3, p99(c.bounds)/1e3, 100*c.wrong, c.waits)
	}
	kept := paid["all kept"]
	plain := paid["the same; its clock is set by 125 ms"]
	forgets := paid["the same, but it forgets after an impossible round trip"]
	if p99(kept.errs) > 60 || kept.wrong > 0 {
		t.Error("a peer that does all costs something")
	}
	if forgets.waits > 4 || plain.waits < 2*forgets.waits {
		t.Error("to forget old minima does not help")
	}
}

// price is what the Go end knew.
type price struct {
	errs, bounds []float64 // us
	wrong        float64   // share of the bounds
	waits        float64   // s: longest time that it was off by over 1 ms after a clock was set
}

func (n neglect) cost() (c price) {
	const stepAt, settles = 60 * time.Second, 15 * time.Second
	rates := [2]float64{60, cmp.Or(n.rate, 60)}
	jitter := cmp.Or(n.jitter, 5*time.Millisecond)
	ways := cmp.Or(n.ways, [2]time.Duration{10 * time.Millisecond, 10 * time.Millisecond})
	for seed := range *dutySessions {
		w := newWire(48_700_000+seed, rates, jitter, 1, stepAt, n.step)
		for side, out := range w.out {
			out.Base = simnet.Fixed(ways[side])
			out.Loss = simnet.Bernoulli(0.02)
		}
		p := new(badPeer)
		w.opened = p.came
		if n.clock != nil {
			w.read = n.clock
		}
		w.sent = func(side int, local uint64, h []byte) []byte {
			if side == 1 && h[0]&1 != 0 {
				return n.header(p, local, h)
			}
			return h
		}
		w.asked = func(side int) {
			if side == 1 {
				return
			}
			known, err, ok := w.look(0)
			if !n.frames {
				read := w.read(w.clocks[1].Usec(w.now))
				err = math.Abs(float64(int64(known.RemoteUsec - read)))
			}
			bound := float64(known.ErrorBound.Microseconds())
			since := w.now - stepAt
			wasSet := n.step != 0 && since >= 0
			if wasSet && (!ok || err > 1000) {
				c.waits = max(c.waits, since.Seconds())
			}
			if w.now < settles || wasSet && since < settles {
				return
			}
			c.errs = append(c.errs, err)
			c.bounds = append(c.bounds, bound)
			if !ok || err > bound {
				c.wrong++
			}
		}
		w.run(2 * stepAt)
	}
	c.wrong /= float64(len(c.errs))
	return c
}

// header returns what the peer sends instead of a header with a report.
func (n neglect) header(p *badPeer, local uint64, h []byte) []byte {
	const report, asks = 1, 8
	p.begun = cmp.Or(p.begun, local)
	if h[0]&asks == 0 && local-p.latest < n.pause {
		h[0] &^= report
		return append(h[:4:4], h[7:]...)
	}
	p.latest = local
	if n.report != nil {
		honest := uint64(timesync.ReadCounter24(h[4:]))
		timesync.NewCounter24(n.report(p, honest)).Put(h[4:])
	}
	return h
}
