// These tests prove that frames are played when they should be, by true time, over a network
// that jitters and loses, between clocks that differ, are set, stand still and start anew; that
// nothing is played late; and that memory is bounded whatever is pushed.
package playout_test

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"timesync/examples/internal/program"
	"timesync/examples/voice/playout"
	"timesync/internal/stat"
	"timesync/link"
)

// end is one end, whose clock is known.
type end struct {
	link  link.Link
	clock program.Clock
}

func newEnd(rng *rand.Rand, ppm float64) *end {
	return &end{clock: program.Clock{Start: rng.Uint64() >> 1, PPM: ppm}}
}

type datagram struct {
	at   int64 // us, true time of arrival
	data []byte
}

// world is one end that captures, one that plays, and a network between them, of 20 +- 5 ms. Times are
// true, us.
type world struct {
	rng     *rand.Rand
	speaker *end
	player  *end
	buffer  *playout.Buffer
	ways    [2][]datagram
	now     int64
	asleep  bool // the player's process is stopped
	frozen  bool // and its clock stands still, and its network is away

	errs     []int64         // play - capture - latency, of each that was played
	playedAt map[int64]int64 // by time of capture
	captures []int64
}

const (
	frameUsec = 20_000
	stepUsec  = 100
)

func newWorld(seed uint64, c playout.Config) *world {
	rng := rand.New(rand.NewPCG(seed, 'v'))
	w := &world{rng: rng, speaker: newEnd(rng, 25), player: newEnd(rng, -25), playedAt: map[int64]int64{}}
	w.buffer, _ = playout.New(c)
	return w
}

func (w *world) send(way int, data []byte) {
	if w.rng.IntN(100) > 0 {
		w.ways[way] = append(w.ways[way], datagram{w.now + 15_000 + w.rng.Int64N(10_000), data})
	}
}

// arrived takes the datagrams off a way that have arrived.
func (w *world) arrived(way int) (got []datagram) {
	w.ways[way] = slices.DeleteFunc(w.ways[way], func(d datagram) bool {
		if d.at <= w.now {
			got = append(got, d)
		}
		return d.at <= w.now
	})
	return got
}

func (w *world) run(lasting time.Duration) {
	for until := w.now + lasting.Microseconds(); w.now < until; w.now += stepUsec {
		if w.now%frameUsec == 0 {
			w.capture()
		}
		for _, d := range w.arrived(1) {
			w.speaker.link.Open(d.data, w.speaker.clock.At(d.at))
		}
		if w.asleep {
			if w.frozen {
				w.arrived(0)
				w.player.clock.Start -= stepUsec
			}
			continue
		}
		if w.now%100_000 == 0 {
			w.send(1, w.player.link.AppendHeader(nil, w.player.clock.At(w.now)))
		}
		w.play()
	}
}

// capture sends a frame, whose payload is for the judge.
func (w *world) capture() {
	at := w.now - 5000 // it takes some time to get here
	local := w.speaker.clock.At(w.now)
	b := w.speaker.link.AppendHeader(nil, local)
	b = link.AppendEvent(b, local-5000)
	w.send(0, binary.LittleEndian.AppendUint64(b, uint64(at)))
	w.captures = append(w.captures, at)
}

func (w *world) play() {
	for _, d := range w.arrived(0) {
		now := w.player.clock.At(d.at) // the kernel's time
		payload, _, _, err := w.player.link.Open(d.data, now)
		if err != nil || len(payload) < 11 {
			continue
		}
		at, err := w.player.link.ReadEvent(now, payload, time.Second)
		if err == nil || errors.Is(err, link.ErrBefore) {
			w.buffer.Push(at, w.player.clock.At(w.now), payload[3:])
		}
	}
	for {
		payload, _, ok := w.buffer.Pop(nil, w.player.clock.At(w.now))
		if !ok {
			return
		}
		at := int64(binary.LittleEndian.Uint64(payload))
		w.playedAt[at] = w.now
		w.errs = append(w.errs, w.now-at-w.buffer.Latency().Microseconds())
	}
}

// lost returns how many frames captured in the span were not played.
func (w *world) lost(from, to int64) (n int) {
	for _, at := range w.captures {
		if _, played := w.playedAt[at]; at >= from && at < to && !played {
			n++
		}
	}
	return n
}

// worlds is how many to try; the race detector needs one.
func worlds(n uint64) uint64 {
	if testing.Short() {
		return 1
	}
	return n
}

// TestPlay: at 20 ms +- 5 ms of jitter, 1 % loss and 50 ppm, what is played is played when it should be,
// a latency by itself after its capture. With a fixed one, TestExact of examples/voice proves it.
func TestPlay(t *testing.T) {
	var all []int64
	for seed := range worlds(10) {
		w := newWorld(seed, playout.Config{})
		w.run(3 * time.Second)
		w.errs = nil
		from := w.now
		w.run(60 * time.Second)
		all = append(all, w.errs...)
		if lost := w.lost(from, w.now-200_000); lost > 110 || len(w.errs) < 2800 {
			t.Errorf("seed %d: %d of 3000 lost; %+v", seed, lost, w.buffer.Stats())
		}
		if l := w.buffer.Latency(); l < 29*time.Millisecond || l > 33*time.Millisecond {
			t.Errorf("seed %d: the latency is %v; frames take 20 to 30 ms, and 1 ms of clocks", seed, l)
		}
	}
	errs := stat.SpreadOf(all)
	t.Logf("play - capture - latency, p50/p99/most: %v us", errs)
	if errs.P99 > 1000 {
		t.Errorf("p99 %d us, want at most 1000", errs.P99)
	}
}

// TestSet: whatever happens to a clock or a process, nothing is played late, and sound is
// back soon.
func TestSet(t *testing.T) {
	fixed := playout.Config{Latency: 80 * time.Millisecond}
	sleep := func(w *world) {
		w.asleep, w.frozen = true, true
		w.run(5 * time.Second)
		w.asleep, w.frozen = false, false
	}
	const far = 5_000_000 // us
	for _, e := range []struct {
		name  string
		lost  int // frames, at most
		stale int // frames that are played late since nobody can know better
		what  func(w *world)
	}{
		{"the speaker's clock 5 s ahead", 130, 0, func(w *world) { w.speaker.clock.Start += far }},
		{"the speaker's clock 5 s back", 130, 0, func(w *world) { w.speaker.clock.Start -= far }},
		{"the player's clock 5 s ahead", 130, 0, func(w *world) {
			w.player.clock.Start += far
			w.buffer.Shift(far)
		}},
		{"the same, untold", 130, 0, func(w *world) { w.player.clock.Start += far }},
		{"the player's clock 5 s back", 130, 0, func(w *world) { w.player.clock.Start -= far }},
		{"the player's process stopped for 5 s", 260, 0, func(w *world) {
			w.asleep = true
			w.run(5 * time.Second)
			w.asleep = false
		}},
		{"the player's machine asleep for 5 s", 450, 5, sleep},
		{"the same, noticed", 450, 0, func(w *world) { sleep(w); w.buffer.Drop() }},
		{"the player starts anew", 30, 0, func(w *world) {
			w.player = newEnd(w.rng, 40)
			w.buffer, _ = playout.New(fixed)
		}},
		{"the speaker starts anew", 30, 0, func(w *world) { w.speaker = newEnd(w.rng, 40) }},
	} {
		worst, most := 0, int64(0)
		for seed := range worlds(5) {
			w := newWorld(seed, fixed)
			w.run(25 * time.Second)
			if w.errs = nil; w.lost(0, w.now) == len(w.captures) {
				t.Fatal("nothing is played")
			}
			from := w.now
			e.what(w)
			w.run(20 * time.Second)
			late := 0
			for _, err := range w.errs {
				if err > 25_000 { // Config.Overdue, and what the clocks may be off
					late++
				}
				most = max(most, err)
			}
			lost := w.lost(from-200_000, w.now-200_000)
			worst = max(worst, lost)
			// 1 % is lost anyway: 10 of 1000, and up to 30.
			if lost > e.lost+30 || late > e.stale {
				t.Errorf("seed %d: %s: %d frames lost, %d late; want %d and %d at most", seed, e.name, lost, late, e.lost+30, e.stale)
				t.Logf("%+v", w.buffer.Stats())
			}
			if n := w.lost(w.now-5_000_000, w.now-200_000); n > 15 {
				t.Errorf("seed %d: %s: %d frames lost in the end", seed, e.name, n)
			}
		}
		t.Logf("%s: %d of 1000 frames lost at most, none later than %d us", e.name, worst, most)
	}
}
