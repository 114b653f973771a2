// These tests run both ends as they are, but over a network and by a time that are simulated, so
// they say exactly what is played when, however busy the machine is.
package main

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

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
	ways    [2][]parcel
	stopped bool    // the listener is, as a process is: what arrives waits
	slept   int64   // us, the listener's machine has
	loss    float64 // share of datagrams

	frames  uint32
	capture int64 // when the next frame is captured
	say     int64 // when the listener speaks next
}

type parcel struct {
	at       int64 // when it arrives
	datagram []byte
}

func newWorld(seed uint64) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 'w'))}
	w.latency, w.Skew = 80*time.Millisecond, 50
	w.speakerBirth()
	w.birth()
	return w
}

// speakerBirth starts the speaker, perhaps anew: what was captured before is remembered for the judge.
func (w *world) speakerBirth() {
	s := newSpeaker(w.config, w.clock(w.Skew/2), listenerAt)
	s.now, s.send = func() int64 { return w.now }, w.way(0)
	if w.speaker != nil {
		s.captured, s.heard = w.speaker.captured, w.speaker.heard
	}
	w.speaker = s
}

func (w *world) clock(ppm float64) program.Clock {
	return program.Clock{Start: w.rng.Uint64(), PPM: ppm}
}

// birth starts the listener anew.
func (w *world) birth() {
	l, err := newListener(w.config, w.clock(-w.Skew/2))
	if err != nil {
		panic(err)
	}
	l.now, l.begun = w.speaker.now, w.now
	l.ahead, l.was = func() int64 { return w.slept }, w.slept
	l.send = w.way(1)
	w.lives = append(w.lives, l)
	w.say = w.now
}

// way sends datagrams one way.
func (w *world) way(way int) func([]byte, netip.AddrPort) {
	return func(datagram []byte, _ netip.AddrPort) {
		if w.rng.Float64() >= w.loss {
			w.ways[way] = append(w.ways[way], parcel{w.now + 15_000 + w.rng.Int64N(10_000), bytes.Clone(datagram)})
		}
	}
}

// first takes the parcel off a way that arrives first.
func (w *world) first(way int) (p parcel) {
	first := 0
	for i, p := range w.ways[way] {
		if p.at < w.ways[way][first].at {
			first = i
		}
	}
	p = w.ways[way][first]
	w.ways[way] = append(w.ways[way][:first], w.ways[way][first+1:]...)
	return p
}

// next says when the next parcel of a way arrives; ok is false if there is none.
func (w *world) next(way int) (at int64, ok bool) {
	for _, p := range w.ways[way] {
		if !ok || p.at < at {
			at, ok = p.at, true
		}
	}
	return at, ok
}

// run lets both ends do what they do until a true time.
func (w *world) run(until int64) {
	for {
		l := w.lives[len(w.lives)-1]
		at, do := until, func() {}
		earlier := func(when int64, ok bool, what func()) {
			if ok && when < at {
				at, do = max(when, w.now), what
			}
		}
		earlier(w.capture, true, func() {
			w.speaker.capture(w.frames, w.now)
			w.frames++
			w.capture += frameTime.Microseconds()
		})
		answered, ok := w.next(1)
		earlier(answered, ok, func() { take(w.speaker.side, w.first(1), listenerAt, w.speaker.take) })
		if !w.stopped {
			arrived, ok := w.next(0)
			earlier(arrived, ok, func() { take(l.side, w.first(0), speakerAt, l.take) })
			earlier(w.say, true, func() { l.say(l.end.Peer().Addr); w.say += sayEvery.Microseconds() })
			due, ok := l.buffer.Due()
			earlier(l.clock.True(due)+1, ok, l.pop) // True is right to 1 us
		}
		if at >= until {
			w.now = until
			return
		}
		w.now = at
		do()
	}
}

// take does as seal.Serve.
func take(s *side, p parcel, from netip.AddrPort, take func(seal.Datagram, error)) {
	d, answer, err := s.end.Take(p.datagram, from, s.clock.At(p.at), hold)
	if answer != nil {
		s.send(answer, from)
	}
	take(d, err)
}

// stop stops the listener for some time.
func (w *world) stop(lasting time.Duration) {
	l := w.lives[len(w.lives)-1]
	w.stopped, l.stopped.from = true, w.now
	w.run(w.now + lasting.Microseconds())
	w.stopped, l.stopped.to = false, w.now
}

// sleep lets the listener's machine sleep for some time: its clock stands still, and what arrives
// is lost.
func (w *world) sleep(lasting time.Duration) {
	l := w.lives[len(w.lives)-1]
	w.stop(lasting)
	w.ways[0] = nil
	l.clock.Start -= uint64(lasting.Microseconds())
	w.slept += lasting.Microseconds()
}

// end lets what is under way be played, and judges.
func (w *world) end() *result {
	w.capture = 1 << 62
	w.run(w.now + 200_000)
	return judge(w.speaker, w.lives, 0)
}

// worlds is how many to try; the race detector needs fewer.
func worlds(n uint64) uint64 {
	if testing.Short() {
		return n / 10
	}
	return n
}

// TestExact: at 20 +- 5 ms, 1 % of loss and 50 ppm, frames are played when they should be.
func TestExact(t *testing.T) {
	var worst stat.Spread
	for seed := range worlds(20) {
		w := newWorld(seed)
		w.loss = 0.01
		w.run(60e6)
		r := w.end()
		if r.Unplayed > 0 || r.Late > 0 || r.Woke.Max > 2 || r.Played < 2900 {
			t.Errorf("seed %d: %+v", seed, r)
		}
		if r.Error.P99 > 1000 {
			t.Errorf("seed %d: play - capture - latency from 3 s on: %v; want p99 of 1000 us at most", seed, r.Error)
		}
		worst = stat.Spread{
			Samples: worst.Samples + r.Error.Samples, Median: max(worst.Median, r.Error.Median),
			P99: max(worst.P99, r.Error.P99), Max: max(worst.Max, r.Error.Max),
		}
	}
	t.Logf("%d worlds of a minute: play - capture - latency, the worst each: %v", worlds(20), worst)
}

// TestStopped: of an end that was stopped, what came due meanwhile is lost, and nothing else.
// When it runs again it plays nothing late.
func TestStopped(t *testing.T) {
	for seed := range worlds(50) {
		w := newWorld(seed)
		w.run(1e6)
		w.loss = 0.01
		w.run(10e6 + w.rng.Int64N(100_000))
		lasting := time.Duration(w.rng.Int64N(3e9))
		w.stop(lasting)
		w.run(w.now + 5e6)
		r := w.end()
		most := int(lasting/frameTime) + 1 + 5 // 5: until the speaker heard of the listener
		if r.Unplayed > 0 || r.Late > 0 || r.InFlight > most || r.Error.P99 > 1000 {
			t.Errorf("seed %d: stopped for %v: %+v", seed, lasting, r)
		}
	}
}

// TestSlept: a machine that slept plays nothing of before. What the speaker stamps until it knows
// is refused; sound is back in 5 s.
func TestSlept(t *testing.T) {
	for seed := range worlds(50) {
		w := newWorld(seed)
		w.run(20e6 + w.rng.Int64N(100_000))
		lasting := 300*time.Millisecond + time.Duration(w.rng.Int64N(10e9))
		from := w.now
		w.sleep(lasting)
		to := w.now
		w.run(w.now + 10e6)
		r := w.end()
		if r.Late > 0 {
			t.Errorf("seed %d: slept for %v: %+v", seed, lasting, r)
		}
		for n, at := range w.speaker.captured {
			p, played := w.lives[0].played[uint32(n)]
			if at > from-80_000 && at < to-80_000 && played || at > to+5e6 && !played || played && p.over > late.Microseconds() {
				t.Fatalf("seed %d: slept from %d for %v: frame of %d: played %v, %+v", seed, from, lasting, at, played, p)
			}
		}
	}
}

// TestSet: whatever clock is set, and if the speaker starts anew, nothing is played late, and sound is
// back soon.
func TestSet(t *testing.T) {
	const ahead = 5_000_000
	back := int64(-ahead)
	for _, c := range []struct {
		name   string
		what   func(w *world, l *listener)
		silent time.Duration // at most so much sound is lost
	}{
		{"the speaker's clock 5 s ahead", func(w *world, _ *listener) { w.speaker.clock.Start += ahead }, 2600 * time.Millisecond},
		{"the speaker's clock 5 s back", func(w *world, _ *listener) { w.speaker.clock.Start += uint64(back) }, 2600 * time.Millisecond},
		{"the listener's clock 5 s ahead", func(_ *world, l *listener) { l.clock.Start += ahead; l.buffer.Shift(ahead) }, 2600 * time.Millisecond},
		{"the same, untold", func(_ *world, l *listener) { l.clock.Start += ahead }, 2600 * time.Millisecond},
		{"the listener's clock 5 s back", func(_ *world, l *listener) { l.clock.Start += uint64(back); l.buffer.Shift(back) }, 2600 * time.Millisecond},
		{"the speaker starts anew", func(w *world, _ *listener) { w.speakerBirth() }, 600 * time.Millisecond},
	} {
		most := 0
		for seed := range worlds(10) {
			w := newWorld(seed)
			w.run(20e6 + w.rng.Int64N(100_000))
			from, l := w.now, w.lives[0]
			c.what(w, l)
			w.run(w.now + 10e6)
			r := w.end()
			lost := 0
			for n, at := range w.speaker.captured {
				if _, played := l.played[uint32(n)]; at >= from-200_000 && !played {
					lost++
				}
			}
			most = max(most, lost)
			if r.Late > 0 || lost > int(c.silent/frameTime) {
				t.Errorf("seed %d: %s: %d frames lost, want %d at most; %+v", seed, c.name, lost, c.silent/frameTime, r)
			}
		}
		t.Logf("%s: at most %d frames of %v were lost", c.name, most, frameTime)
	}
}

// TestByItself: the latency that the buffer chooses is what frames take, and a millisecond for the
// clocks.
func TestByItself(t *testing.T) {
	for seed := range worlds(10) {
		w := newWorld(seed)
		w.latency = 0
		w.lives = nil
		w.birth()
		w.run(60e6)
		if r := w.end(); r.Latency < 24 || r.Latency > 28 || r.Late > 0 || r.Played < 2890 || r.Error.P99 > 1000 {
			t.Errorf("seed %d: %+v; frames take 15 to 25 ms", seed, r)
		}
	}
}

// TestRestarted: an end that starts anew loses what was on its way to the one before, or waited
// in it, and what the speaker said before it heard of the new one. That is an answer to its
// next datagram: frame, way, way back, so 70 ms at most. With the latency of 80 ms it is 8 frames.
func TestRestarted(t *testing.T) {
	most := 0
	for seed := range worlds(200) {
		w := newWorld(seed)
		w.run(5e6 + w.rng.Int64N(100_000))
		before := w.lives[0]
		w.birth()
		from := w.now
		w.run(w.now + 3e6)
		r := w.end()
		if r.Unplayed > 0 || r.Late > 0 {
			t.Errorf("seed %d: %+v", seed, r)
		}
		lost := 0
		for n, at := range w.speaker.captured {
			_, was := before.played[uint32(n)]
			_, is := w.lives[1].played[uint32(n)]
			if at >= from-200_000 && !was && !is {
				lost++
			}
		}
		if most = max(most, lost); lost > 8 {
			t.Errorf("seed %d: %d frames lost", seed, lost)
		}
		if heard := w.speaker.heard; len(heard) != 2 || heard[1]-from > 70_000 {
			t.Errorf("seed %d: started at %d, heard at %v", seed, from, heard)
		}
	}
	t.Logf("at most %d frames of %v were lost", most, frameTime)
}
