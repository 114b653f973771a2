// These tests run both ends as they are, but over a network and by a time that are simulated, so
// they say exactly what is played when, however busy the machine is. TestDemo runs them over
// real sockets: sound is played, never late, before and after the end that plays was stopped and
// has restarted.
package main

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"timesync/examples/seal"
	"timesync/internal/program"
	"timesync/internal/program/programtest"
	"timesync/internal/sim/simnet"
	"timesync/internal/testkit"
)

var (
	speakerAt  = netip.MustParseAddrPort("192.0.2.1:1")
	listenerAt = netip.MustParseAddrPort("192.0.2.2:2")
)

// world is a speaker, the lives of a listener, and a network of 20 +- 5 ms.
type world struct {
	config
	*simnet.World
	rng     *rand.Rand
	speaker *speaker
	lives   []*listener
	stopped bool     // the listener is, as a process is
	waiting []func() // what arrives there meanwhile
	slept   int64    // us, the listener's machine has
	loss    float64  // share of datagrams
}

func newWorld(seed uint64, latency time.Duration) *world {
	w := &world{World: simnet.NewWorld(seed), rng: rand.New(rand.NewPCG(seed, 'w'))}
	w.latency, w.Skew = latency, 50
	w.speakerBirth()
	w.birth()
	w.Every(frameTime, 0, func() { w.speaker.capture(w.now()) })
	w.Every(frameTime, 0, func() {
		if l := w.listener(); !w.stopped {
			l.say(l.end.Peer().Addr)
		}
	})
	return w
}

func (w *world) now() int64 { return w.Now().Microseconds() }

func (w *world) clock(ppm float64) program.Clock {
	return program.Clock{Start: w.rng.Uint64(), PPM: ppm}
}

// speakerBirth starts the speaker, perhaps anew: what was captured before is remembered for the
// judge.
func (w *world) speakerBirth() {
	s := &speaker{side: newSide(0, w.config, w.clock(w.Skew/2)), to: listenerAt}
	s.now = w.now
	s.send = w.way(func(b []byte) { w.arrive(w.listener().side, b, speakerAt, w.listener().take) })
	if w.speaker != nil {
		s.captured = w.speaker.captured
	}
	w.speaker = s
}

// birth starts the listener anew.
func (w *world) birth() {
	l := newListener(w.config, w.clock(-w.Skew/2))
	l.now, l.begun = w.now, w.now()
	told := w.slept
	l.slept = func() time.Duration {
		slept := w.slept - told
		told = w.slept
		return time.Duration(slept) * time.Microsecond
	}
	l.send = w.way(func(b []byte) { w.arrive(w.speaker.side, b, listenerAt, w.speaker.take) })
	w.lives = append(w.lives, l)
}

func (w *world) listener() *listener { return w.lives[len(w.lives)-1] }

// way sends datagrams one way.
func (w *world) way(arrive func(datagram []byte)) func([]byte, netip.AddrPort) {
	path := &simnet.Link{
		Base:  simnet.Fixed(15 * time.Millisecond),
		Delay: simnet.Uniform(0, 10*time.Millisecond),
		Loss:  func(r *rand.Rand, _ time.Duration) bool { return r.Float64() < w.loss },
	}
	return func(datagram []byte, to netip.AddrPort) {
		if !to.IsValid() {
			return
		}
		w.Pass(path, w.rng, func() { arrive(bytes.Clone(datagram)) })
	}
}

// arrive does as seal.Serve. At an end that is stopped a datagram waits, with its time of
// receipt.
func (w *world) arrive(
	s *side, datagram []byte, from netip.AddrPort, take func(seal.Datagram, error),
) {
	received := s.clock.At(w.now())
	handle := func() {
		d, answer, err := s.end.Take(datagram, from, received, 0)
		if answer != nil {
			s.send(answer, from)
		}
		take(d, err)
		w.plan()
	}
	if w.stopped && from == speakerAt {
		w.waiting = append(w.waiting, handle)
	} else {
		handle()
	}
}

// plan lets the listener play when the next frame is due.
func (w *world) plan() {
	l := w.listener()
	due, ok := l.buffer.Due()
	if !ok {
		return
	}
	at := time.Duration(l.clock.True(due)+1) * time.Microsecond // True is right to 1 us
	w.At(at, func() {
		due, ok := l.buffer.Due()
		if ok && !w.stopped && int64(due-l.clock.At(w.now())) <= 0 {
			l.pop()
			w.plan()
		}
	})
}

// stop stops the listener for some time, and returns what it has to do then.
func (w *world) stop(lasting time.Duration) (waiting []func()) {
	l := w.listener()
	w.stopped, l.stopped.from = true, w.now()
	w.Run(w.Now() + lasting)
	w.stopped, l.stopped.to = false, w.now()
	waiting, w.waiting = append(w.waiting, w.plan), nil
	return waiting
}

// sleep lets the listener's machine sleep for some time: its clock stands still, and what arrives
// is lost.
func (w *world) sleep(lasting time.Duration) {
	w.stop(lasting)
	w.listener().clock.Start -= uint64(lasting.Microseconds())
	w.slept += lasting.Microseconds()
	w.plan()
}

// set sets the listener's clock, and says so.
func (w *world) set(by int64) {
	w.listener().clock.Start += uint64(by)
	w.listener().buffer.Shift(by)
}

// end lets what is under way be played, and judges.
func (w *world) end() *result {
	captured := w.speaker.captured
	w.Run(w.Now() + 200*time.Millisecond)
	w.speaker.captured = captured
	return judge(w.speaker, w.lives)
}

// TestExact: at 20 +- 5 ms, 1 % of loss and 50 ppm, frames are played when they should be: a
// fixed latency after their capture, or one that follows what arrives.
func TestExact(t *testing.T) {
	worlds := testkit.Sized[uint64](2, 20, 20)
	for _, c := range []struct {
		latency time.Duration
		// of the latency in the end, ms: frames take 15 to 25, and up to 2 of clocks and steps
		least, most float64
		woke        int64 // us, after a frame was due: it may have been due earlier
	}{{80 * time.Millisecond, 80, 80, 2}, {0, 25, 29, 200}} {
		var worst testkit.Spread
		for seed := range worlds {
			w := newWorld(seed, c.latency)
			w.loss = 0.01
			w.Run(time.Minute)
			r := w.end()
			if r.Unplayed > 0 || r.Late > 0 || r.Woke.Max > c.woke || r.Played < 2900 {
				t.Errorf("seed %d: %+v", seed, r)
			}
			if r.Error.P99 > 1000 || r.Latency < c.least || r.Latency > c.most {
				t.Errorf("seed %d: latency %v ms, play - capture - latency: %v; want p99 of 1000 us at most",
					seed, r.Latency, r.Error)
			}
			worst.Median, worst.P99 = max(worst.Median, r.Error.Median), max(worst.P99, r.Error.P99)
			worst.Max, worst.Samples = max(worst.Max, r.Error.Max), worst.Samples+r.Error.Samples
		}
		t.Logf("%d worlds of a minute, latency %v: play - capture - latency, the worst each: %v",
			worlds, c.latency, worst)
	}
}

// TestFaults: whatever happens to a clock, a process or a machine, nothing is played late, and
// sound is back soon.
//
// Of an end that is stopped, what comes due meanwhile is lost, and nothing else. An end that
// starts anew loses what was on its way to the one before, or waited in it, and what the speaker
// said before it heard of the new one. That is an answer to its next datagram: frame, way, way
// back, so 70 ms at most. With the latency of 80 ms it is 8 frames. After a sleep, and after a
// clock was set, the speaker stamps wrongly until it knows, and that is refused.
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
		{"stopped", 50, 6, 0, false, func(w *world) {
			for _, handle := range w.stop(time.Duration(w.rng.Int64N(3e9))) {
				handle()
			}
		}},
		{"slept", 50, 30, 0, true, func(w *world) { w.sleep(3e8 + time.Duration(w.rng.Int64N(10e9))) }},
		{"slept, and nobody notices", 10, 30, 5, true, func(w *world) {
			was := w.slept
			w.sleep(5 * time.Second)
			w.slept = was
		}},
		{"the speaker's clock ahead", 10, 130, 0, true, func(w *world) { w.speaker.clock.Start += far }},
		{"the speaker's clock back", 10, 130, 0, true, func(w *world) { w.speaker.clock.Start -= far }},
		{"the listener's clock ahead, untold", 10, 130, 0, true, func(w *world) {
			w.listener().clock.Start += far
		}},
		{"the listener's clock ahead", 10, 130, 0, true, func(w *world) { w.set(far) }},
		{"the listener's clock back", 10, 130, 0, true, func(w *world) { w.set(-far) }},
		{"the speaker starts anew", 10, 30, 0, true, (*world).speakerBirth},
		{"the listener starts anew", 200, 8, 0, false, (*world).birth},
	} {
		most, over := 0, int64(0)
		for seed := range testkit.Sized(c.worlds/10, c.worlds, c.worlds) {
			w := newWorld(seed, 80*time.Millisecond)
			w.Run(20*time.Second + time.Duration(w.rng.Int64N(100_000))*time.Microsecond)
			from := w.now()
			c.what(w)
			mayBeLost := c.lost + int((w.now()-from)/frameTime.Microseconds())
			w.Run(w.Now() + 10*time.Second)
			lost := 0
			for _, at := range w.speaker.captured {
				played := false
				for _, l := range w.lives {
					f := l.arrived[at]
					played, over = played || f.played, max(over, f.over)
				}
				if at >= from-200_000 && at < w.now()-200_000 && !played {
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
	c := programtest.Config(t, (*config).flags, (*config).check, "-for 12s")
	r := demo(t.Context(), c)
	testkit.Must(t, r.print(t.Output(), c))
	if r.InFlight < 90 || r.Captured < 500 || r.Played > r.Captured-90 {
		t.Errorf("%+v", r)
	}
}

func TestFlags(t *testing.T) {
	programtest.Flags(t, "voice", run, map[string]string{
		"-for 1s": "at least", "-skew NaN": "-skew", "-loss 200": "-loss", "-latency 1h": "times must be",
		"-latency -1s": "times must be", "x": "after the flags",
	})
}
