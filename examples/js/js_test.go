// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that timesync.mjs is a peer as docs/WIRE.md describes one: it does what the
// vectors say, and beside a Go end both know the time as well as two Go ends. They need Node, and
// say so where there is none.
package js

import (
	"bufio"
	"cmp"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"timesync"
	"timesync/examples/internal/relay"
	"timesync/internal/sim"
	"timesync/internal/stat"
	"timesync/link"
)

var (
	seeds = flag.Uint64("js.seeds", 2, "sessions of TestBesideGo for each world")
	first = flag.Uint64("js.first", 48_000_000, "the first seed")
)

// node returns Node, or skips the test.
func node(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("node")
	if err != nil {
		t.Skip("NOT TESTED in JavaScript: there is no Node")
	}
	return path
}

// TestVectors: timesync.mjs does what testdata/wire says, and what testdata says of counters.
func TestVectors(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), node(t), "vectors.mjs").CombinedOutput()
	if t.Logf("%s", out); err != nil {
		t.Error(err)
	}
}

// TestMutations: for each rule of docs/WIRE.md that vectors can decide, one of them notices that it is broken.
func TestMutations(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 7 s")
	}
	out, err := exec.CommandContext(t.Context(), node(t), "mutations.mjs").CombinedOutput()
	if t.Logf("%s", out); err != nil {
		t.Error(err)
	}
}

// TestSize: one file of at most 450 lines that imports nothing.
func TestSize(t *testing.T) {
	source, err := os.ReadFile("timesync.mjs")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), "\n"); n > 450 || strings.Contains(string(source), "import") {
		t.Errorf("%d lines, or an import", n)
	}
}

// end is one end of a link, in either language.
type end interface {
	anew()
	send(now uint64) (header []byte)
	open(datagram []byte, now uint64)
	read(now uint64) (remote uint64, bound float64, ok bool) // us
}

type goEnd struct{ link *link.Link }

func (e *goEnd) anew()                     { e.link = new(link.Link) }
func (e *goEnd) send(now uint64) []byte    { return e.link.AppendHeader(nil, now) }
func (e *goEnd) open(b []byte, now uint64) { e.link.Open(b, now) }
func (e *goEnd) read(now uint64) (remote uint64, bound float64, ok bool) {
	s, ok := e.link.Snapshot(now)
	return s.RemoteUsec, float64(s.ErrorBound.Microseconds()), ok
}

// jsEnd is a link in a process of Node's.
type jsEnd struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Scanner
}

func newJSEnd(t *testing.T) *jsEnd {
	cmd := exec.Command(node(t), "end.mjs")
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	cmd.Stderr = os.Stderr
	if err3 := cmd.Start(); err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err1, err2, err3)
	}
	t.Cleanup(func() {
		in.Close() // which ends it
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	return &jsEnd{t, in, bufio.NewScanner(out)}
}

func (e *jsEnd) tell(format string, args ...any) {
	if _, err := fmt.Fprintf(e.in, format+"\n", args...); err != nil {
		e.t.Error("Node has stopped: ", err)
	}
}

func (e *jsEnd) call(format string, args ...any) string {
	if e.tell(format, args...); !e.out.Scan() {
		e.t.Fatal("Node has stopped: ", e.out.Err())
	}
	return e.out.Text()
}

func (e *jsEnd) anew() { e.tell("new") }
func (e *jsEnd) send(now uint64) []byte {
	b, err := hex.DecodeString(e.call("send %d", now))
	if err != nil {
		e.t.Fatal(err)
	}
	return b
}
func (e *jsEnd) open(b []byte, now uint64) { e.call("open %d %x", now, b) }
func (e *jsEnd) read(now uint64) (remote uint64, bound float64, ok bool) {
	n, _ := fmt.Sscan(e.call("read %d", now), &remote, &bound)
	return remote, bound, n == 2
}

// happening is what happens to an end at a time.
type happening struct {
	at    time.Duration
	side  int
	step  time.Duration // its clock is set by so much
	fresh bool          // or it starts anew
}

// outcome is what an end knew: errors and bounds in us, from 15 s after the start and each happening
// on, as the bound asks for.
type outcome struct {
	errs, bounds []float64
	wrong        int           // bounds
	heals        time.Duration // for how long it was wrong by over 2 ms after a happening
	low          float64       // us: a report that it took for confirmed was so far below the peer's floor
}

const (
	settles   = 15 * time.Second
	askAt     = 50 * time.Millisecond
	pathDelay = 10 * time.Millisecond
)

// lacking returns how far a report of quality 1 is below the floor, both in us, or 0 if there is none.
func lacking(datagram []byte, floor uint64) float64 {
	if datagram[0]&1 == 0 {
		return 0
	}
	report := uint64(timesync.ReadCounter24(datagram[4:]))
	if report%3 != 1 {
		return 0
	}
	return float64(int64((floor-8*report)<<37) >> 37) // modulo 2^27
}

// session lets two ends, sides 0 and 1, talk over a bad path in simulated time: 10 ms and exponential 5 ms
// each way, 2 % loss; the clocks are 40 ppm apart.
func session(seed uint64, rate float64, lasts time.Duration, ends [2]end, happens ...happening) (out [2]outcome) {
	rng := rand.New(rand.NewPCG(seed, 'j'))
	var clocks [2]*sim.Clock
	var ways [2]*sim.Link
	for side := range clocks {
		spec := sim.ClockSpec{OffsetUsec: rng.Uint64(), SkewPPM: 20 - 40*float64(side), SinePPM: 2, SinePeriod: 15 * time.Minute,
			SinePhase: 2 * math.Pi * rng.Float64(), WanderPPM: 0.01}
		for _, h := range happens {
			if h.side == side && h.step != 0 {
				spec.Events = append(spec.Events, sim.ClockEvent{At: h.at, Step: h.step})
			}
		}
		clocks[side] = sim.NewClock(spec, rng.Uint64())
		ways[side] = &sim.Link{Base: sim.Fixed(pathDelay), Delay: sim.Exp(5 * time.Millisecond),
			Loss: func(r *rand.Rand, _ time.Duration) bool { return r.Float64() < 0.02 }}
		ends[side].anew()
	}
	type event struct {
		at       time.Duration
		side     int
		datagram []byte // nil: to send
	}
	var queue []event
	add := func(e event) {
		i, _ := slices.BinarySearchFunc(queue, e.at, func(e event, at time.Duration) int { return cmp.Compare(e.at, at) })
		queue = slices.Insert(queue, i, e)
	}
	every := time.Duration(float64(time.Second) / rate)
	for side := range ends {
		add(event{at: time.Duration(rng.Float64() * float64(every)), side: side})
	}
	last, asked := time.Duration(0), askAt
	happen := func(until time.Duration) {
		for len(happens) > 0 && happens[0].at <= until {
			if last = happens[0].at; happens[0].fresh {
				ends[happens[0].side].anew()
			}
			happens = happens[1:]
		}
	}
	for queue[0].at < lasts {
		for ; asked <= queue[0].at; asked += askAt {
			happen(asked)
			for side, e := range ends {
				remote, bound, ok := e.read(clocks[side].Usec(asked))
				err := math.Abs(float64(int64(remote - clocks[1-side].Usec(asked))))
				if !ok || err > 2000 {
					out[side].heals = max(out[side].heals, asked-last)
				}
				if asked < last+settles {
					continue
				}
				out[side].errs, out[side].bounds = append(out[side].errs, err), append(out[side].bounds, bound)
				if !ok || err > bound {
					out[side].wrong++
				}
			}
		}
		e := queue[0]
		queue = queue[1:]
		happen(e.at)
		now := clocks[e.side].Usec(e.at)
		if e.datagram != nil {
			if last == 0 || e.at > last+settles {
				floor := uint64(pathDelay.Microseconds()) + clocks[1-e.side].Usec(e.at) - now
				out[e.side].low = max(out[e.side].low, lacking(e.datagram, floor))
			}
			ends[e.side].open(e.datagram, now)
			continue
		}
		header := ends[e.side].send(now)
		for _, at := range ways[e.side].Arrivals(rng, e.at) {
			add(event{at: at, side: 1 - e.side, datagram: header})
		}
		add(event{at: e.at + every, side: e.side})
	}
	return out
}

func (o *outcome) add(p outcome) {
	o.errs, o.bounds = append(o.errs, p.errs...), append(o.bounds, p.bounds...)
	o.wrong += p.wrong
	o.heals, o.low = max(o.heals, p.heals), max(o.low, p.low)
}

func (o outcome) p99() float64 { return stat.Quantile(o.errs, .99) }

func (o outcome) String() string {
	return fmt.Sprintf("error median %.0f, p99 %.0f us; bound median %.1f, p99 %.1f ms; %d of %d bounds wrong; right after %.2f s; heard floors at most %.0f us too low",
		stat.Quantile(o.errs, .5), o.p99(), stat.Quantile(o.bounds, .5)/1e3, stat.Quantile(o.bounds, .99)/1e3, o.wrong, len(o.errs), o.heals.Seconds(), o.low)
}

// TestBesideGo: beside a JavaScript end, a Go end knows the time as beside a Go end, and the
// JavaScript end hardly less well, also where either starts anew or its clock is set.
func TestBesideGo(t *testing.T) {
	javascript := newJSEnd(t)
	if testing.Short() {
		*seeds = 1
	}
	const s, ms = time.Second, time.Millisecond
	worlds := []struct {
		name    string
		happens []happening
	}{
		{"calm", nil},
		{"js restarts", []happening{{at: 30 * s, side: 0, fresh: true}}},
		{"go restarts", []happening{{at: 30 * s, side: 1, fresh: true}}},
		{"js is set ahead", []happening{{at: 30 * s, side: 0, step: 2 * s}}},
		{"go is set back", []happening{{at: 30 * s, side: 1, step: -2 * s}}},
		{"js is set back by 15 ms", []happening{{at: 30 * s, side: 0, step: -15 * ms}}},
		{"go is set ahead by 15 ms", []happening{{at: 30 * s, side: 1, step: 15 * ms}}},
	}
	for i, rate := range []float64{60, 4} {
		limit := [2]float64{250, 400}[i] // us; a Go end beside Go has about 30 and 300
		var js, besideJS, besideGo outcome
		for _, w := range worlds {
			var here [3]outcome
			for seed := *first; seed < *first+*seeds; seed++ {
				mixed := session(seed, rate, 100*s, [2]end{javascript, &goEnd{}}, w.happens...)
				alike := session(seed, rate, 100*s, [2]end{&goEnd{}, &goEnd{}}, w.happens...)
				here[0].add(mixed[0])
				here[1].add(mixed[1])
				here[2].add(alike[1])
			}
			t.Logf("%g/s, %s, seeds from %d:\n  js %v\n  go %v\n  go beside go %v", rate, w.name, *first, here[0], here[1], here[2])
			js.add(here[0])
			besideJS.add(here[1])
			besideGo.add(here[2])
		}
		t.Logf("%g/s, all:\n  js %v\n  go %v\n  go beside go %v", rate, js, besideJS, besideGo)
		most := 1.3*besideGo.p99() + 50
		if besideJS.p99() > most {
			t.Errorf("%g/s: the Go end's p99 is above %.0f us", rate, most)
		}
		if js.p99() > limit {
			t.Errorf("%g/s: the JavaScript end's p99 is above %.0f us", rate, limit)
		}
		if wide := stat.Quantile(besideGo.bounds, .99); wide > 1.3*stat.Quantile(besideJS.bounds, .99) {
			t.Errorf("%g/s: beside Go the bound of a Go end is %.1f ms, wider than beside JavaScript", rate, wide/1e3)
		}
		if low := max(js.low, besideJS.low); low > 100+20 { // and its rounding, and a datagram's delay
			t.Errorf("%g/s: a report of quality 1 was %.0f us too low", rate, low)
		}
		if js.wrong > 0 || besideJS.wrong > besideGo.wrong {
			t.Errorf("%g/s: a bound is wrong", rate)
		}
		if longest := max(5*s, besideGo.heals+s); js.heals > longest || besideJS.heals > longest {
			t.Errorf("%g/s: it takes over %v after something happened", rate, longest)
		}
	}
}

// live is a JavaScript end and a Go end on real sockets, with the relay between them.
type live struct {
	t        *testing.T
	name     string
	mu       sync.Mutex
	link     *link.Link // the Go end's
	js, goes known
}

// known is what an end knows of the other's clock.
type known struct {
	error, bound float64 // us
	ok           bool
	count        int // answers so far
}

// wallUsec is the time of day, which both processes read.
func wallUsec() int64 { return time.Now().UnixMicro() }

// goAhead is what the Go end's clock is ahead of the time of day, us.
const goAhead = 1 << 41

func goClock() uint64 { return uint64(wallUsec()) + goAhead }

// right waits until both ends know the time: within their bounds and 5 ms, 10 times in a row.
func (l *live) right(when string) {
	l.t.Helper()
	const patience, truth = 60 * time.Second, 5000 // us: two processes read the time of day, and may be stopped between
	for start, row, seen := time.Now(), 0, 0; row < 10; time.Sleep(20 * time.Millisecond) {
		l.mu.Lock()
		js, goes := l.js, l.goes
		l.mu.Unlock()
		if js.count == seen {
			continue
		}
		seen = js.count
		good := func(k known) bool { return k.ok && k.error <= k.bound+truth && k.error < 25_000 }
		if row++; !good(js) || !good(goes) {
			row = 0
		}
		if time.Since(start) > patience {
			l.t.Fatalf("%s, %s: after %v JavaScript is off by %+v, Go by %+v", l.name, when, patience, js, goes)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.t.Logf("%s, %s: JavaScript is off by %.0f us, its bound %.1f ms; Go by %.0f us, %.1f ms", l.name, when, l.js.error, l.js.bound/1e3, l.goes.error, l.goes.bound/1e3)
}

// TestThroughRelay: the same on real sockets, through the relay of the examples. What the machine
// does to them is not judged; TestBesideGo has the figures.
func TestThroughRelay(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 10 s")
	}
	for _, rate := range []int{60, 4} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			t.Parallel()
			l := &live{t: t, name: fmt.Sprintf("%d/s", rate), link: new(link.Link)}
			conn, err := relay.Loopback()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			r, err := relay.New(relay.Config{Delay: 10 * time.Millisecond, Jitter: 10 * time.Millisecond, Loss: 2, Seed: 48_600_000}, relay.Addr(conn))
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			var peer netip.AddrPort
			go func() { // the Go end receives
				buf := make([]byte, 2048)
				for {
					n, from, err := conn.ReadFromUDPAddrPort(buf)
					now := goClock()
					if err != nil {
						return
					}
					l.mu.Lock()
					peer = from
					l.link.Open(buf[:n], now)
					l.mu.Unlock()
				}
			}()
			stop := make(chan struct{})
			defer close(stop)
			go func() { // and sends
				for tick := time.NewTicker(time.Second / time.Duration(rate)); ; {
					select {
					case <-stop:
						tick.Stop()
						return
					case <-tick.C:
					}
					l.mu.Lock()
					if to := peer; to.IsValid() {
						conn.WriteToUDPAddrPort(l.link.AppendHeader(nil, goClock()), to)
					}
					l.mu.Unlock()
				}
			}()
			javascript := newJSEnd(t)
			javascript.tell("dial %d %d", r.Addr().Port(), rate)
			go func() { // what the JavaScript end says, and what the Go end knows then
				for javascript.out.Scan() {
					var wall int64
					var now, remote uint64
					var js known
					n, _ := fmt.Sscan(javascript.out.Text(), &wall, &now, &remote, &js.bound)
					js.ok, js.error = n == 4, math.Abs(float64(int64(remote-uint64(wall)-goAhead)))
					l.mu.Lock()
					js.count = l.js.count + 1
					at := uint64(wall) + goAhead
					s, ok := l.link.Snapshot(at)
					l.js = js
					l.goes = known{math.Abs(float64(int64(s.RemoteUsec - now))), float64(s.ErrorBound.Microseconds()), ok, js.count}
					l.mu.Unlock()
				}
			}()
			l.right("at the start")
			javascript.tell("set 2000000")
			time.Sleep(500 * time.Millisecond)
			l.right("after JavaScript's clock was set ahead by 2 s")
			l.mu.Lock()
			l.link = new(link.Link)
			l.mu.Unlock()
			l.right("after Go started anew")
			javascript.tell("new")
			l.right("after JavaScript started anew")
			javascript.tell("set -1000000000")
			time.Sleep(500 * time.Millisecond)
			l.right("after JavaScript's clock was set back by 1000 s")
		})
	}
}
