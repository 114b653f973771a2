// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that timesync.mjs is a peer: beside a Go end it knows the time, and the Go
// end knows it as beside Go. They need Node, and say so where there is none.
package js

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"timesync/internal/sim"
	"timesync/internal/stat"
	"timesync/link"
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
	cmd := exec.CommandContext(t.Context(), node(t), "end.mjs")
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	cmd.Stderr = os.Stderr
	if err3 := cmd.Start(); err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err1, err2, err3)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	return &jsEnd{t, in, bufio.NewScanner(out)}
}

func (e *jsEnd) call(format string, args ...any) string {
	if fmt.Fprintf(e.in, format+"\n", args...); !e.out.Scan() {
		e.t.Fatal("Node has stopped: ", e.out.Err())
	}
	return e.out.Text()
}

func (e *jsEnd) anew() { e.call("new") }
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

// session lets two ends, sides 0 and 1, talk over a bad path in simulated time: 10 ms and
// exponential 5 ms each way, 2 % loss; the clocks are 40 ppm apart. It returns of each side the
// errors and bounds from 15 s after the last happening on, and for how long it was wrong by over
// 2 ms after that.
type outcome struct {
	errs, bounds []float64
	wrongBounds  int
	heals        time.Duration
}

const (
	settles = 15 * time.Second
	askAt   = 50 * time.Millisecond
)

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
		ways[side] = &sim.Link{Base: sim.Fixed(10 * time.Millisecond), Delay: sim.Exp(5 * time.Millisecond),
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
		i, _ := slices.BinarySearchFunc(queue, e.at, func(e event, at time.Duration) int { return int(e.at - at) })
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
				truth := clocks[1-side].Usec(asked)
				remote, bound, ok := e.read(clocks[side].Usec(asked))
				err := math.Abs(float64(int64(remote - truth)))
				if !ok || err > 2000 {
					out[side].heals = max(out[side].heals, asked-last)
				}
				if asked < last+settles {
					continue
				}
				out[side].errs, out[side].bounds = append(out[side].errs, err), append(out[side].bounds, bound)
				if !ok || err > bound {
					out[side].wrongBounds++
				}
			}
		}
		e := queue[0]
		queue = queue[1:]
		happen(e.at)
		now := clocks[e.side].Usec(e.at)
		if e.datagram != nil {
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
	o.wrongBounds += p.wrongBounds
	o.heals = max(o.heals, p.heals)
}

func (o outcome) String() string {
	return fmt.Sprintf("error median %.0f, p99 %.0f us; bound median %.1f, p99 %.1f ms; %d of %d bounds wrong; right after %.2f s",
		stat.Quantile(o.errs, .5), stat.Quantile(o.errs, .99), stat.Quantile(o.bounds, .5)/1e3, stat.Quantile(o.bounds, .99)/1e3, o.wrongBounds, len(o.errs), o.heals.Seconds())
}

func TestBesideGo(t *testing.T) {
	javascript := newJSEnd(t)
	const s = time.Second
	for _, rate := range []float64{60, 4} {
		for _, c := range []struct {
			name    string
			happens []happening
		}{
			{"calm", nil},
			{"js restarts", []happening{{at: 40 * s, side: 0, fresh: true}}},
			{"go restarts", []happening{{at: 40 * s, side: 1, fresh: true}}},
			{"js set ahead", []happening{{at: 40 * s, side: 0, step: 2 * s}}},
			{"js set back", []happening{{at: 40 * s, side: 0, step: -2 * s}}},
			{"go set ahead", []happening{{at: 40 * s, side: 1, step: 2 * s}}},
			{"go set back", []happening{{at: 40 * s, side: 1, step: -2 * s}}},
			{"js set 5 ms", []happening{{at: 40 * s, side: 0, step: 5 * time.Millisecond}}},
			{"js set -5 ms", []happening{{at: 40 * s, side: 0, step: -5 * time.Millisecond}}},
			{"go set 15 ms", []happening{{at: 40 * s, side: 1, step: 15 * time.Millisecond}}},
			{"go set -15 ms", []happening{{at: 40 * s, side: 1, step: -15 * time.Millisecond}}},
		} {
			var mixed, goes [2]outcome
			for seed := uint64(48_000_000); seed < 48_000_010; seed++ {
				m := session(seed, rate, 100*s, [2]end{javascript, &goEnd{}}, c.happens...)
				g := session(seed, rate, 100*s, [2]end{&goEnd{}, &goEnd{}}, c.happens...)
				for side := range m {
					mixed[side].add(m[side])
					goes[side].add(g[side])
				}
			}
			t.Logf("%g/s, %s:\n  js %v\n  go %v\n  go of go-go %v", rate, c.name, mixed[0], mixed[1], goes[1])
		}
	}
	_ = strings.TrimSpace
}
