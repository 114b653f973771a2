// These tests run both ends as they are, but over a network and by a time that are simulated, so
// they say exactly what is played when, however busy the machine is. TestDemo runs them over real
// sockets: sound is played, never late, before and after the end that plays was stopped and has started
// anew.
package main

import (
	"bytes"
	"cmp"
	"io"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"timesync/examples/internal/exampletest"
	"timesync/examples/internal/program"
	"timesync/examples/seal"
	"timesync/internal/stat"
)

var (
	speakerAt  = netip.MustParseAddrPort("192.0.2.1:1")
	listenerAt = netip.MustParseAddrPort("192.0.2.2:2")
)

// world is a speaker, the lives of a listener, and a network of 20 +- 5 ms.
type world struct {
	config
	rng     *rand.Rand
	now     int64 // true time, us
	speaker *speaker
	lives   []*listener
	ways    [2][]parcel // the first to arrive first
	stopped bool        // the listener is, as a process is: what arrives waits
	slept   int64       // us, the listener's machine has
	loss    float64     // share of datagrams

	frames  uint32
	capture int64 // when the next frame is captured
	say     int64 // when the listener speaks next
}

type parcel struct {
	at       int64 // when it arrives
	datagram []byte
}

const never = 1 << 62

func newWorld(seed uint64, latency time.Duration) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 'w'))}
	w.latency, w.Skew = latency, 50
	w.speakerBirth()
	w.birth()
	return w
}

func (w *world) clock(ppm float64) program.Clock {
	return program.Clock{Start: w.rng.Uint64(), PPM: ppm}
}

// speakerBirth starts the speaker, perhaps anew: what was captured before is remembered for the judge.
func (w *world) speakerBirth() {
	s := newSpeaker(w.config, w.clock(w.Skew/2), listenerAt)
	s.now, s.send = func() int64 { return w.now }, w.way(0)
	if w.speaker != nil {
		s.captured = w.speaker.captured
	}
	w.speaker = s
}

// birth starts the listener anew.
func (w *world) birth() {
	l := newListener(w.config, w.clock(-w.Skew/2))
	l.now, l.begun = w.speaker.now, w.now
	l.ahead, l.was = func() int64 { return w.slept }, w.slept
	l.send = w.way(1)
	w.lives = append(w.lives, l)
	w.say = w.now
}

func (w *world) listener() *listener { return w.lives[len(w.lives)-1] }

// way sends datagrams one way.
func (w *world) way(way int) func([]byte, netip.AddrPort) {
	return func(datagram []byte, _ netip.AddrPort) {
		if w.rng.Float64() >= w.loss {
			at := w.now + 15_000 + w.rng.Int64N(10_000)
			w.ways[way] = append(w.ways[way], parcel{at, bytes.Clone(datagram)})
			slices.SortStableFunc(w.ways[way], func(a, b parcel) int { return cmp.Compare(a.at, b.at) })
		}
	}
}

// run lets both ends do what they do until a true time.
func (w *world) run(until int64) {
	for {
		l := w.listener()
		at, do := until, func() {}
		earlier := func(when int64, what func()) {
			if when < at {
				at, do = max(when, w.now), what
			}
		}
		earlier(w.capture, func() {
			w.speaker.capture(w.frames, w.now)
			w.frames++
			w.capture += frameTime.Microseconds()
		})
		earlier(w.arrives(1), func() { w.take(1, w.speaker.side, listenerAt, w.speaker.take) })
		if !w.stopped {
			earlier(w.arrives(0), func() { w.take(0, l.side, speakerAt, l.take) })
			earlier(w.say, func() { l.say(l.end.Peer().Addr); w.say += sayEvery.Microseconds() })
			if due, ok := l.buffer.Due(); ok {
				earlier(l.clock.True(due)+1, l.pop) // True is right to 1 us
			}
		}
		w.now = at
		if at >= until {
			return
		}
		do()
	}
}

// arrives says when the next parcel of a way does.
func (w *world) arrives(way int) int64 {
	if len(w.ways[way]) == 0 {
		return never
	}
	return w.ways[way][0].at
}

// take does as seal.Serve with the parcel that arrives first.
func (w *world) take(way int, s *side, from netip.AddrPort, take func(seal.Datagram, error)) {
	p := w.ways[way][0]
	w.ways[way] = w.ways[way][1:]
	d, answer, err := s.end.Take(p.datagram, from, s.clock.At(p.at), hold)
	if answer != nil {
		s.send(answer, from)
	}
	take(d, err)
}

// stop stops the listener for some time.
func (w *world) stop(lasting time.Duration) {
	l := w.listener()
	w.stopped, l.stopped.from = true, w.now
	w.run(w.now + lasting.Microseconds())
	w.stopped, l.stopped.to = false, w.now
}

// sleep lets the listener's machine sleep for some time: its clock stands still, and what arrives
// is lost.
func (w *world) sleep(lasting time.Duration) {
	w.stop(lasting)
	w.ways[0] = nil
	w.listener().clock.Start -= uint64(lasting.Microseconds())
	w.slept += lasting.Microseconds()
}

// set sets the listener's clock, and says so.
func (w *world) set(by int64) {
	w.listener().clock.Start += uint64(by)
	w.listener().buffer.Shift(by)
}

// end lets what is under way be played, and judges.
func (w *world) end() *result {
	w.capture = never
	w.run(w.now + 200_000)
	return judge(w.speaker, w.lives)
}

// worlds is how many to try; the race detector needs fewer.
func worlds(n uint64) uint64 {
	if testing.Short() {
		return n / 10
	}
	return n
}

// TestExact: at 20 +- 5 ms, 1 % of loss and 50 ppm, frames are played when they should be: a fixed latency after
// their capture, or one that follows what arrives.
func TestExact(t *testing.T) {
	for _, c := range []struct {
		latency     time.Duration
		least, most float64 // of the latency in the end, ms: frames take 15 to 25, and up to 2 of clocks and steps
		woke        int64   // us, after a frame was due: it may have been due earlier
	}{{80 * time.Millisecond, 80, 80, 2}, {0, 25, 29, 200}} {
		var worst stat.Spread
		for seed := range worlds(20) {
			w := newWorld(seed, c.latency)
			w.loss = 0.01
			w.run(60e6)
			r := w.end()
			if r.Unplayed > 0 || r.Late > 0 || r.Woke.Max > c.woke || r.Played < 2900 {
				t.Errorf("seed %d: %+v", seed, r)
			}
			if r.Error.P99 > 1000 || r.Latency < c.least || r.Latency > c.most {
				t.Errorf("seed %d: latency %v ms, play - capture - latency: %v; want p99 of 1000 us at most", seed, r.Latency, r.Error)
			}
			worst.Median, worst.P99 = max(worst.Median, r.Error.Median), max(worst.P99, r.Error.P99)
			worst.Max, worst.Samples = max(worst.Max, r.Error.Max), worst.Samples+r.Error.Samples
		}
		t.Logf("%d worlds of a minute, latency %v: play - capture - latency, the worst each: %v", worlds(20), c.latency, worst)
	}
}

// TestFaults: whatever happens to a clock, a process or a machine, nothing is played late, and sound is
// back soon.
//
// Of an end that is stopped, what comes due meanwhile is lost, and nothing else. An end that starts anew
// loses what was on its way to the one before, or waited in it, and what the speaker said before it heard
// of the new one. That is an answer to its next datagram: frame, way, way back, so 70 ms at most. With
// the latency of 80 ms it is 8 frames. After a sleep, and after a clock was set, the speaker stamps wrongly until it
// knows, and that is refused.
func TestFaults(t *testing.T) {
	const far = 5_000_000 // us
	for _, c := range []struct {
		name   string
		worlds uint64
		lost   int  // frames, at most, besides those that are captured meanwhile
		stale  int  // frames that are played late since nobody can know better
		clocks bool // they are other ones: frames that arrive may be refused
		what   func(w *world)
	}{
		{"stopped", 50, 6, 0, false, func(w *world) { w.stop(time.Duration(w.rng.Int64N(3e9))) }},
		{"slept", 50, 30, 0, true, func(w *world) { w.sleep(3e8 + time.Duration(w.rng.Int64N(10e9))) }},
		{"slept, and nobody notices", 10, 30, 5, true, func(w *world) {
			was := w.slept
			w.sleep(5 * time.Second)
			w.slept = was
		}},
		{"the speaker's clock ahead", 10, 130, 0, true, func(w *world) { w.speaker.clock.Start += far }},
		{"the speaker's clock back", 10, 130, 0, true, func(w *world) { w.speaker.clock.Start -= far }},
		{"the listener's clock ahead, untold", 10, 130, 0, true, func(w *world) { w.listener().clock.Start += far }},
		{"the listener's clock ahead", 10, 130, 0, true, func(w *world) { w.set(far) }},
		{"the listener's clock back", 10, 130, 0, true, func(w *world) { w.set(-far) }},
		{"the speaker starts anew", 10, 30, 0, true, (*world).speakerBirth},
		{"the listener starts anew", 200, 8, 0, false, (*world).birth},
	} {
		most, over := 0, int64(0)
		for seed := range worlds(c.worlds) {
			w := newWorld(seed, 80*time.Millisecond)
			w.run(20e6 + w.rng.Int64N(100_000))
			from := w.now
			c.what(w)
			mayBeLost := c.lost + int((w.now-from)/frameTime.Microseconds())
			w.run(w.now + 10e6)
			lost := 0
			for n, at := range w.speaker.captured {
				played := false
				for _, l := range w.lives {
					p, ok := l.played[uint32(n)]
					played, over = played || ok, max(over, p.over)
				}
				if at >= from-200_000 && at < w.now-200_000 && !played {
					lost++
				}
			}
			most = max(most, lost)
			r := w.end()
			if !c.clocks && (r.Unplayed > 0 || r.Error.P99 > 1000) {
				t.Errorf("seed %d: %s: %+v", seed, c.name, r)
			}
			if r.Late > c.stale || c.stale == 0 && over > late.Microseconds() || lost > mayBeLost {
				t.Errorf("seed %d: %s: %d frames lost, want %d at most; %+v", seed, c.name, lost, mayBeLost, r)
			}
		}
		t.Logf("%s: at most %d frames were lost, none was more than %d us late", c.name, most, over)
	}
}

func TestDemo(t *testing.T) {
	r := demo(t.Context(), exampletest.Config(t, (*config).flags, (*config).check, "-for 12s"))
	exampletest.Must(t, r.check())
	t.Logf("%+v", r)
	if r.InFlight < 90 || r.Captured < 500 || r.Played > r.Captured-90 {
		t.Errorf("%+v", r)
	}
}

func TestFlags(t *testing.T) {
	for _, args := range []string{"-for 1s", "-skew NaN", "-loss 200", "-latency 1h", "-latency -1s", "x"} {
		if code := run(t.Context(), strings.Fields(args), io.Discard, io.Discard); code == 0 {
			t.Errorf("%s is accepted", args)
		}
	}
}
