// SPDX-License-Identifier: BSD-3-Clause

package link_test

import (
	"cmp"
	"flag"
	"math"
	"slices"
	"testing"
	"time"

	"timesync"
	"timesync/internal/sim"
	"timesync/internal/stat"
)

var dutySessions = flag.Uint64("duties.sessions", 3, "sessions for each row of TestDuties")

// neglect is a peer that does not do all that docs/WIRE.md asks for.
type neglect struct {
	name   string
	rate   float64       // datagrams a second; 0: 60
	step   time.Duration // the peer's clock is set by this after 60 s
	unlike bool          // datagrams to the peer take 0 ms at least, and from it 20 ms, not 10 each

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

// least returns the least delta of the last 10 s, us.
func (p *badPeer) least() uint64 {
	return slices.MinFunc(p.deltas, func(a, b delta) int { return int(signed27(a.usec - b.usec)) }).usec
}

// came notes the delta and the report of a datagram that arrived.
func (p *badPeer) came(local uint64, h []byte) {
	stamp := uint64(timesync.ReadCounter24(h[1:]))
	p.deltas = slices.DeleteFunc(p.deltas, func(d delta) bool { return local-d.at > 10e6 })
	p.deltas = append(p.deltas, delta{local, (local - 8*stamp) & ring27})
	if h[0]&1 != 0 {
		p.theirs = 8 * uint64(timesync.ReadCounter24(h[4:]))
	}
}

// withQuality returns the report with another quality.
func withQuality(report, quality uint64) uint64 { return report + 1 - (report+1+3-quality)%3 }

// windowed reports the least delta of 10 s, as the original does.
func windowed(p *badPeer, report uint64) uint64 {
	if len(p.deltas) == 0 {
		return report
	}
	return withQuality(p.least()/8, 1)
}

// forgetting is windowed, and after an impossible round trip the older deltas are forgotten.
func forgetting(p *badPeer, report uint64) uint64 {
	if len(p.deltas) > 0 && p.theirs != 0 && signed27(p.least()+p.theirs) < -100 {
		p.deltas = p.deltas[len(p.deltas)-1:]
	}
	return windowed(p, report)
}

var duties = []neglect{
	{name: "all kept"},
	{name: "all kept; its clock is set by 125 ms", step: 125 * time.Millisecond},
	{name: "the clock is read once per frame of 16.7 ms", frames: true, clock: func(local uint64) uint64 { return local - local%16_667 }},
	{name: "the clock is set back by 20 ms every 10 s", clock: func(local uint64) uint64 { return local - local/10_000_000*20_000 }},
	{name: "one datagram a second", rate: 1},
	{name: "one datagram in 5 s", rate: 0.2},
	{name: "a report every 30 s", pause: 30e6},
	{name: "a report every 30 s; its clock is set by 125 ms", pause: 30e6, step: 125 * time.Millisecond},
	{name: "the report is the minimum of the last 10 s", report: windowed},
	{name: "the same; its clock is set by 125 ms", report: windowed, step: 125 * time.Millisecond},
	{name: "the same, but it forgets after an impossible round trip", report: forgetting, step: 125 * time.Millisecond},
	{name: "quality 1 always, and the report is the last datagram", report: func(p *badPeer, report uint64) uint64 {
		return withQuality(p.deltas[len(p.deltas)-1].usec/8, 1)
	}},
	{name: "quality 1 always, and the report is 2 ms too low; 0 ms to it, 20 ms from it", unlike: true,
		report: func(p *badPeer, report uint64) uint64 { return withQuality(report-250, 1) }},
	{name: "quality 0 always", report: func(p *badPeer, report uint64) uint64 { return withQuality(report, 0) }},
	{name: "quality 2 once, after 60 s", report: func(p *badPeer, report uint64) uint64 {
		if !p.strayed && p.latest-p.begun > 60e6 {
			p.strayed = true
			return withQuality(report, 2)
		}
		return report
	}},
	{name: "quality 2 always", report: func(p *badPeer, report uint64) uint64 { return withQuality(report, 2) }},
	{name: "reports of 0 from 30 s on", report: func(p *badPeer, report uint64) uint64 {
		if p.latest-p.begun > 30e6 {
			return 0
		}
		return report
	}},
}

// TestDuties measures what a Go end pays beside a peer that neglects a duty, from 15 s after the start and after
// a clock was set on. It fills the table of docs/WIRE.md:
//
//	go test ./link -run TestDuties -v -duties.sessions 20
func TestDuties(t *testing.T) {
	paid := map[string]price{}
	for _, n := range duties {
		c := n.cost()
		paid[n.name] = c
		t.Logf("%-75s p99 %5.0f us, bound median %.1f p99 %.1f ms, %.1f %% of bounds wrong; off by over 1 ms for %.1f s at most",
			n.name, stat.Quantile(c.errs, .99), stat.Quantile(c.bounds, .5)/1e3, stat.Quantile(c.bounds, .99)/1e3, 100*c.wrong, c.waits)
	}
	kept, plain, forgets := paid["all kept"], paid["the same; its clock is set by 125 ms"], paid["the same, but it forgets after an impossible round trip"]
	if stat.Quantile(kept.errs, .99) > 60 || kept.wrong > 0 {
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
	for seed := range *dutySessions {
		w := newWire(48_700_000+seed, [2]float64{60, cmp.Or(n.rate, 60)}, 5*time.Millisecond, 1, stepAt, n.step)
		for i := range w.out {
			w.out[i].Base, w.out[i].Loss = sim.Fixed(10*time.Millisecond), sim.Bernoulli(0.02)
			if n.unlike {
				w.out[i].Base = sim.Fixed(time.Duration(i) * 20 * time.Millisecond)
			}
		}
		p := new(badPeer)
		w.read = func(side int, local uint64) uint64 {
			if side == 1 && n.clock != nil {
				return n.clock(local)
			}
			return local
		}
		w.came = func(side int, local uint64, h []byte) {
			if side == 1 {
				p.came(local, h)
			}
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
			err, ok := w.err(0)
			if n.clock != nil && !n.frames {
				remote, _ := w.links[0].RemoteTime(w.clocks[0].Usec(w.now))
				err = math.Abs(float64(int64(remote - n.clock(w.clocks[1].Usec(w.now)))))
			}
			bound, _ := w.links[0].ErrorBound(w.clocks[0].Usec(w.now))
			since := w.now - stepAt
			if n.step != 0 && since >= 0 && (!ok || err > 1000) {
				c.waits = max(c.waits, since.Seconds())
			}
			if w.now < settles || n.step != 0 && since >= 0 && since < settles {
				return
			}
			c.errs, c.bounds = append(c.errs, err), append(c.bounds, float64(bound.Microseconds()))
			if !ok || err > float64(bound.Microseconds()) {
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
		timesync.NewCounter24(n.report(p, uint64(timesync.ReadCounter24(h[4:])))).Put(h[4:])
	}
	return h
}
