// SPDX-License-Identifier: BSD-3-Clause

// These tests prove what a transfer does to a simulated link and to a game on it, with and
// without synchronized clocks, and that a receiver that lies gains little.
package ledbat

import (
	"flag"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"timesync/internal/sim"
	"timesync/internal/stat"
)

var table = flag.Bool("table", false, "print the whole table: 10 minutes of skew, 3 seeds, about a minute")

var nets = []net{
	{10, 300 * time.Millisecond, 10 * time.Millisecond},
	{50, 40 * time.Millisecond, 10 * time.Millisecond},
}

// tested are the networks of a test: one of them with -short.
func tested() []net {
	if testing.Short() {
		return nets[:1]
	}
	return nets
}

// kinds are how the sender measures delays.
var kinds = []struct {
	name           string
	raw, slowdowns bool
}{
	{"synchronized", false, false},
	{"raw stamps, base of 10 minutes", true, false},
	{"raw stamps, base by slowdowns", true, true},
}

// change is what happens to a transfer that runs alone, from a time on and until the end.
type change struct {
	name     string
	from, to time.Duration
	longer   time.Duration // one way, for good
	clock    sim.ClockSpec // the receiver's
}

// play returns for how many seconds in a row the transfer has less than 85 % of the link, at most; where a
// way becomes longer, until when it lacks that for longer than a slowdown: 2 s. And the game's p99 beyond
// the path's delay.
func (c change) play(n net, seed uint64, f *flow) (seconds int, p99 float64) {
	w := n.world(seed)
	w.longer, w.at, f.receiver = c.longer, c.from, c.clock
	w.transfer(f)
	w.Run(c.to)
	run := 0
	for at := c.from; at+time.Second <= c.to; at += time.Second {
		if run++; f.rate(at, at+time.Second) >= 0.85 {
			run = 0
		}
		if c.longer == 0 {
			seconds = max(seconds, run)
		} else if run > 2 {
			seconds = int((at + time.Second - c.from) / time.Second)
		}
	}
	return seconds, w.p99()
}

// set is a receiver's clock that is set.
func set(step time.Duration) change {
	clock := sim.ClockSpec{Events: []sim.ClockEvent{{At: 40 * time.Second, Step: step}}}
	return change{name: fmt.Sprintf("receiver's clock set by %v", step), from: 40 * time.Second, to: 80 * time.Second, clock: clock}
}

// skewed is a receiver's clock that runs faster.
func skewed(ppm float64, lasting time.Duration) change {
	name := fmt.Sprintf("%+g ppm for %v", ppm, lasting)
	return change{name: name, from: 10 * time.Second, to: lasting, clock: sim.ClockSpec{SkewPPM: ppm}}
}

var longerPath = change{
	name: "one way longer by 20 ms for good", from: 30 * time.Second, to: 80 * time.Second, longer: 20 * time.Millisecond,
}

// p99 returns the 99th percentile of the game's delays beyond the path's, in ms.
func (w *world) p99() float64 { return stat.Quantile(w.game, 0.99) }

// TestBeside: alone, a transfer fills the link, and the game hardly notices; as with wrong clocks. Beside
// TCP it leaves the link to that.
func TestBeside(t *testing.T) {
	for _, c := range []struct {
		cubic       bool
		least, most float64 // of the link
		more        float64 // by which the game's p99 may grow, ms
	}{{false, 0.95, 1, 10}, {true, 0, 0.1, 1}} {
		for _, n := range tested() {
			f := &flow{from: 10 * time.Second}
			without, with := n.world(1), n.world(1)
			with.transfer(f)
			for _, w := range []*world{without, with} {
				if c.cubic {
					w.fill(0)
				}
				w.Run(60 * time.Second)
			}
			rate, more := f.rate(12*time.Second, 60*time.Second), with.p99()-without.p99()
			t.Logf("%v, CUBIC %v: %.1f %% of the link, game's p99 %+.1f ms", n, c.cubic, 100*rate, more)
			if rate < c.least || rate > c.most || more > c.more {
				t.Errorf("%v: %.3f of the link, game's p99 %+.1f ms, want %+v", n, rate, more, c)
			}
		}
	}
}

// TestStalls: a machine or a radio that stands still now and then is no queue. One world says
// little: the mean of three.
func TestStalls(t *testing.T) {
	const worlds = 3
	for _, n := range tested() {
		for _, stalls := range []time.Duration{5 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond} {
			rate := 0.0
			for seed := range uint64(worlds) {
				w := n.world(seed)
				w.stalls = stalls
				f := w.transfer(&flow{})
				w.Run(63 * time.Second)
				rate += f.rate(10*time.Second, 63*time.Second) / worlds
			}
			if t.Logf("%v, stalls of up to %v: %.1f %% of the link", n, stalls, 100*rate); rate < 0.7 {
				t.Errorf("%v, stalls of up to %v: %.3f of the link, want 0.7", n, stalls, rate)
			}
		}
	}
}

// TestShares: transfers share the link, and one that comes 20 s later gets as much, from a minute after that.
func TestShares(t *testing.T) {
	for _, n := range tested() {
		for _, count := range []int{2, 4} {
			w := n.world(1)
			flows := []*flow{w.transfer(&flow{from: ready + 20*time.Second})}
			for range count - 1 {
				flows = append(flows, w.transfer(&flow{}))
			}
			w.Run(113 * time.Second)
			var rates []float64
			for _, f := range flows {
				rates = append(rates, f.rate(83*time.Second, 113*time.Second))
			}
			if t.Logf("%v: %d transfers: %.3f of the link", n, count, rates); slices.Max(rates) > 1.3*slices.Min(rates) {
				t.Errorf("%v: %d transfers have %.3f", n, count, rates)
			}
		}
	}
}

// TestChanges: a way that is longer for good costs the rate for 15 s, a clock that is set for 5 s at most;
// clocks that run differently cost nothing.
func TestChanges(t *testing.T) {
	lasting := 2 * time.Minute
	if testing.Short() {
		lasting = time.Minute
	}
	for _, c := range []struct {
		change
		most  int     // s, below 85 %
		least float64 // of the link
	}{
		{longerPath, 15, 0},
		{set(50 * time.Millisecond), 5, 0.9}, {set(-50 * time.Millisecond), 5, 0.9},
		{skewed(100, lasting), 5, 0.9}, {skewed(-100, lasting), 5, 0.9},
	} {
		for _, n := range tested() {
			var f flow
			seconds, p99 := c.play(n, 1, &f)
			rate := f.rate(10*time.Second, c.to)
			t.Logf("%v, %s: %.1f %% of the link, below 85 %% for %d s, game's p99 %.1f ms", n, c.name, 100*rate, seconds, p99)
			if seconds > c.most || rate < c.least {
				t.Errorf("%v, %s: %.3f of the link, below 85 %% for %d s", n, c.name, rate, seconds)
			}
			if control, _ := c.play(n, 1, &flow{raw: true}); c.longer > 0 && control < 30 {
				t.Errorf("%v: the control is back after %d s: nothing is tested", n, control)
			}
		}
	}
}

// TestTable prints what docs/USES.md shows: the worst of 3 seeds.
func TestTable(t *testing.T) {
	if !*table {
		t.Log("only with -table")
		return
	}
	out := fmt.Appendf(nil, "| one transfer | delays by | %s | %s |\n|---|---|---|---|\n", nets[0], nets[1])
	for _, c := range []change{
		longerPath, set(50 * time.Millisecond), set(-50 * time.Millisecond), skewed(100, 10*time.Minute), skewed(-100, 10*time.Minute),
	} {
		for _, kind := range kinds {
			out = fmt.Appendf(out, "| %s | %s |", c.name, kind.name)
			for _, n := range nets {
				worst, most := 0, 0.0
				for seed := range uint64(3) {
					seconds, p99 := c.play(n, seed+1, &flow{raw: kind.raw, slowdowns: kind.slowdowns})
					worst, most = max(worst, seconds), max(most, p99)
				}
				out = fmt.Appendf(out, " %d s, %.0f ms |", worst, most)
			}
			out = append(out, '\n')
		}
	}
	t.Log("\nSeconds in a row with less than 85 % of the link, and the game's p99 beyond the path's delay:\n\n" + string(out))
}

// TestLiar: a receiver that says that there is never a queue gets no more than a flow of
// TCP beside CUBIC, because losses still count.
func TestLiar(t *testing.T) {
	w := nets[0].world(1)
	f := w.transfer(&flow{liar: true})
	w.fill(ready)
	w.Run(93 * time.Second)
	if rate := f.rate(33*time.Second, 93*time.Second); rate > 0.5 {
		t.Errorf("a receiver that lies has %.3f of the link beside CUBIC", rate)
	}
}

// TestGreed: acknowledgements of what was never sent, of more than was sent, and without a delay open
// nothing.
func TestGreed(t *testing.T) {
	var c, unknown Controller
	d := NewDelay(10*time.Millisecond, 0, true)
	for i := range uint64(1000) {
		c.OnAck(i*1000, 0, 1<<30, d)
		unknown.OnSend(i*1000, Segment)
		unknown.OnAck(i*1000+500, i*1000, Segment, NewDelay(0, 0, false))
	}
	if c.Window() != MinWindow || unknown.Window() != MinWindow {
		t.Errorf("the window is %d after acknowledgements of nothing, %d after those without a delay", c.Window(), unknown.Window())
	}
	c.OnSend(1e6, Segment)
	c.OnAck(1e6+20000, 1e6, 1<<30, d)
	if got := c.Window(); got > MinWindow+Segment || c.InFlight() != 0 {
		t.Errorf("an acknowledgement of too much opens the window to %d", got)
	}
}

func TestDelay(t *testing.T) {
	for _, c := range []struct {
		owd   time.Duration
		steps uint32
		ok    bool
		want  time.Duration
	}{
		{0, 0, true, 0},
		{time.Second, 7, true, time.Second},
		{15 * time.Microsecond, 8, true, 8 * time.Microsecond},
		{-time.Second, 9, true, 0},
		{time.Hour, 1, true, (1<<21 - 2) * 8 * time.Microsecond},
		{math.MaxInt64, math.MaxUint32, true, (1<<21 - 2) * 8 * time.Microsecond},
		{math.MinInt64, 0, true, 0},
		{time.Second, 5, false, 0},
	} {
		b := NewDelay(c.owd, c.steps, c.ok).Append(nil)
		owd, steps, ok := ReadDelay(b).Read()
		if len(b) != 3 || ok != c.ok || ok && owd != c.want || steps != c.steps%8 {
			t.Errorf("%+v: %v %v %v in %d bytes", c, owd, steps, ok, len(b))
		}
	}
}

func TestNoAllocations(t *testing.T) {
	var c Controller
	now := uint64(0)
	if n := testing.AllocsPerRun(10000, func() {
		c.OnSend(now, Segment)
		c.CanSend(now, Segment)
		c.OnAck(now+20000, now, Segment, NewDelay(10*time.Millisecond, 0, true))
		c.OnLoss(now+30000, now, Segment)
		now += 1000
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzController: no order of calls with any values leaves a window outside of its limits,
// bytes under way below zero, or a controller that does not work any more.
func FuzzController(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 0, 1, 2, 3, 4, 5, 6, 7, 2, 9, 9, 9, 3})
	f.Add([]byte("0123456789abcdef0123456789abcdef"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var c Controller
		now := uint64(0)
		next := func() (v uint64) {
			for i := range 4 {
				if len(b) > 0 {
					v |= uint64(b[0]) << (8 * i)
					b = b[1:]
				}
			}
			return v * 0x1_0001 // some are far beyond 32 bits
		}
		for len(b) > 0 {
			op := b[0]
			b = b[1:]
			now += next() >> (op >> 3)
			before := c.Window()
			switch op & 7 {
			case 0:
				c.OnSend(now, int(int32(next())))
			case 1:
				c.OnAck(now, now-next(), int(int32(next())), Delay(next()))
			case 2:
				c.OnLoss(now, now-next(), int(int32(next())))
			case 3:
				c.OnTimeout(now)
			case 4:
				now = next() << 32
			case 5, 6, 7:
				c.OnSend(now, Segment)
				now += next() & 0xffff
				c.OnAck(now, now-next()&0xffff, Segment, NewDelay(time.Duration(next()&0xffff)*time.Microsecond, 0, true))
			}
			if w := c.Window(); w < MinWindow || w > MaxWindow || c.InFlight() < 0 || w > before+MaxWindow {
				t.Fatalf("window %d, %d under way", w, c.InFlight())
			}
			if queueing, _ := c.Queueing(); queueing < 0 || c.Timeout() <= 0 {
				t.Fatalf("queueing delay %v, timeout %v", queueing, c.Timeout())
			}
			if wait, ok := c.CanSend(now, Segment); wait < 0 || wait > time.Second || ok && wait != 0 {
				t.Fatalf("wait for %v, %v", wait, ok)
			}
		}
		works(t, &c, now)
	})
}

// works proves that a transfer gets going again after an hour, whatever was before.
func works(t *testing.T, c *Controller, now uint64) {
	now += 3600e6
	c.OnTimeout(now)
	for range 20_000 { // 200 s
		now += 10_000
		c.OnSend(now, Segment)
		c.OnSend(now, Segment)
		c.OnAck(now+5000, now, Segment, NewDelay(2*time.Millisecond, 0, true))
		c.OnAck(now+5000, now, Segment, NewDelay(2*time.Millisecond, 0, true))
		if c.Window() > 2*MinWindow {
			return
		}
	}
	t.Fatalf("the window stays at %d: %+v", c.Window(), c)
}
