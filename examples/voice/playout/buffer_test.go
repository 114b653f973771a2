// These tests prove what each part does by itself: the order, the counts and the limits of a
// buffer, how a latency follows the arrivals, and how fast a sound card is said to run.
package playout

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func mustNew(t *testing.T, c Config) *Buffer {
	t.Helper()
	b, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestConfig(t *testing.T) {
	for _, c := range []Config{
		{Latency: -1}, {Latency: time.Minute}, {Least: time.Second}, {Least: -1}, {Most: time.Minute},
		{InTime: math.NaN()}, {InTime: 1}, {InTime: -1}, {Overdue: -1}, {Frames: -1}, {Frames: 1 << 20},
	} {
		if b, err := New(c); err == nil || b != nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

// stream is frames of 20 ms, each of which is pushed as it arrives, and then what is due is played.
type stream struct {
	*Buffer
	now uint64
}

func newStream(t *testing.T, c Config) *stream { return &stream{mustNew(t, c), 1 << 40} }

// frames lets so many arrive, each after its delay, us.
func (s *stream) frames(n int, delay func() int64) {
	for range n {
		s.now += 20_000
		s.Push(s.now-uint64(delay()), s.now, nil)
		s.Pop(nil, s.now)
	}
}

// after is always the same delay.
func after(us int64) func() int64 { return func() int64 { return us } }

// TestBuffer: frames come out in order and when they are due; what cannot be played is counted.
func TestBuffer(t *testing.T) {
	for _, start := range []uint64{0, 1 << 40, 1<<64 - 60_000} {
		b := mustNew(t, Config{Latency: 80 * time.Millisecond, Overdue: 10 * time.Millisecond, Frames: 3})
		push := func(captured, now uint64, want error) {
			t.Helper()
			if err := b.Push(start+captured, start+now, []byte{byte(captured / 1000)}); !errors.Is(err, want) || want == nil && err != nil {
				t.Errorf("captured at %d, arrived at %d: %v, want %v", captured, now, err, want)
			}
		}
		pop := func(now uint64, want int) {
			t.Helper()
			payload, captured, ok := b.Pop([]byte{7}, start+now)
			if got := int(int64(captured-start)) / 1000; ok != (want >= 0) || ok && (got != want || len(payload) != 2 || want < 256 && payload[1] != byte(want)) {
				t.Errorf("at %d: %v, captured at %d, %v; want %d", now, payload, got, ok, want)
			}
		}
		pop(0, -1)
		push(40_000, 60_000, nil)
		push(20_000, 60_000, nil)
		push(20_000, 61_000, ErrTwice)
		push(60_000, 62_000, nil)
		push(61_000, 62_000, ErrFull)
		if due, ok := b.Due(); due != start+100_000 || !ok {
			t.Errorf("due at %d, %v", due-start, ok)
		}
		pop(99_999, -1)
		pop(100_000, 20)
		pop(100_000, -1)
		push(20_000, 100_000, ErrTwice)
		push(10_000, 100_000, ErrLate)   // a newer one was played
		push(181_000, 100_000, ErrEarly) // a microsecond more than the latency ahead
		push(100_000, 190_001, ErrLate)
		pop(130_001, -1) // more than 10 ms late
		pop(140_000, 60)
		if s, want := b.Stats(), (Stats{Played: 2, Late: 2, Missed: 1, Early: 1, Twice: 2, Full: 1}); s != want || len(b.frames) != 0 {
			t.Errorf("%+v, want %+v; %d wait", s, want, len(b.frames))
		}
		if _, ok := b.Due(); ok {
			t.Error("nothing is due")
		}
		push(160_000, 170_000, nil)
		b.Shift(5_000_000)
		pop(5_239_999, -1)
		pop(5_240_000, 5160)
		push(5_200_000, 5_245_000, nil)
		pop(3_245_000, -1) // the clock is 2 s back: due 40 ms after the last look, less 5 ms
		pop(3_274_999, -1)
		pop(3_285_000, 3205)
		push(3_300_000, 3_320_000, nil)
		push(3_320_000, 3_340_000, nil)
		b.Drop()
		if s, want := b.Stats(), (Stats{Played: 4, Late: 2, Missed: 3, Early: 1, Twice: 2, Full: 1}); s != want || len(b.frames) != 0 {
			t.Errorf("dropped: %+v, want %+v; %d wait", s, want, len(b.frames))
		}
		push(3_320_000, 3_360_000, nil) // a third one
		pop(3_400_000, 3320)
		// The clock is 2 s back, and Pop, which would say so, is called only when Due says.
		push(3_380_000, 3_400_000, nil)
		push(1_420_000, 1_430_000, nil)
		if due, ok := b.Due(); due != start+1_490_000 || !ok {
			t.Errorf("due at %d, %v", due-start, ok)
		}
		pop(1_490_000, 1410)
		pop(1_500_000, 1420)
	}
}

// TestLatency: the quantile of what arrives, a longer path after three frames, a shorter one slowly, and anew where a
// clock was set.
func TestLatency(t *testing.T) {
	const seed = 20261123
	rng := rand.New(rand.NewPCG(seed, 'q'))
	b := newStream(t, Config{})
	arrive := b.frames
	between := func(what string, lo, hi time.Duration) {
		t.Helper()
		if l := b.Latency(); l < lo || l > hi {
			t.Errorf("seed %d: %s: %v, want %v to %v", seed, what, l, lo, hi)
		}
	}
	spread := func(lo, hi int64) func() int64 { return func() int64 { return lo + rng.Int64N(hi-lo) } }
	between("before", 10*time.Millisecond, 10*time.Millisecond)
	arrive(500, spread(15_000, 25_000))
	between("15 to 25 ms", 24*time.Millisecond, 26*time.Millisecond)
	arrive(3, spread(55_000, 65_000))
	between("three of 55 to 65 ms", 55*time.Millisecond, 67*time.Millisecond)
	arrive(500, spread(55_000, 65_000))
	between("55 to 65 ms", 64*time.Millisecond, 67*time.Millisecond)
	was := b.Latency()
	arrive(500, spread(15_000, 25_000)) // 10 s: 5 ms/s as soon as the past is forgotten
	between("10 s later", was-51*time.Millisecond, was)
	arrive(5000, spread(15_000, 25_000))
	between("110 s later", 24*time.Millisecond, 28*time.Millisecond)
	// The program was stopped: all comes at once, and that is no reason.
	b.now += 2_000_000
	for ago := int64(900_000); ago > 0; ago -= 20_000 {
		b.Push(b.now-uint64(ago), b.now, nil)
	}
	between("after a stop", 24*time.Millisecond, 28*time.Millisecond)
	arrive(100, spread(900_000, 1_000_000))
	between("a second", 500*time.Millisecond, 500*time.Millisecond)
	arrive(10_000, spread(0, 1000))
	between("at once", 10*time.Millisecond, 13*time.Millisecond)
	for range 500 { // sound that is sent twice against losses is played no later
		arrive(1, after(30_000))
		b.Push(b.now-50_000, b.now, nil)
	}
	between("copies", 30*time.Millisecond, 35*time.Millisecond)
	// The other end's clock is set back by an hour, and frames seem late until this end knows.
	b.Steps(1)
	arrive(100, after(3_600_000_000))
	b.Steps(1)
	between("as many steps as before", 500*time.Millisecond, 500*time.Millisecond)
	b.Steps(2)
	arrive(50, after(30_000))
	between("a step", 30*time.Millisecond, 31*time.Millisecond)
	late := b.Stats().Late
	for range 7500 { // of two ways: each second frame arrives 2.5 ms after the one that follows it
		b.now += 17_500
		arrive(1, spread(30_000, 31_000))
		b.now -= 17_500
		arrive(1, spread(52_500, 53_500))
	}
	if late = b.Stats().Late - late; late > 150 {
		t.Errorf("seed %d: overtaken: with a latency of %v %d of 15000 frames were late", seed, b.Latency(), late)
	}
}

// TestStall: after one stall of the network, whose queue then drains at twice the speed, the latency is
// as long as it may be, and falls by 5 ms a second once 99 of 100 frames that count came without it.
func TestStall(t *testing.T) {
	const stall, usual = 700_000, 40_000 // us
	for _, most := range []time.Duration{500 * time.Millisecond, 200 * time.Millisecond} {
		b := newStream(t, Config{Most: most})
		b.frames(3000, after(usual))
		before := b.Latency()
		longest := before
		b.now += stall + 10_000
		for queue := int64(stall); queue > 0; queue -= 10_000 {
			b.now -= 10_000 // of two frames
			b.frames(1, after(usual+queue))
			longest = max(longest, b.Latency())
		}
		from := b.now
		for b.Latency() > before+10*time.Millisecond && b.now-from < 600e6 {
			b.frames(1, after(usual))
		}
		took := time.Duration(b.now-from) * time.Microsecond
		t.Logf("Most %v: %v before a stall of %d us, %v after it, and within 10 ms again %.0f s later", most, before, stall, longest, took.Seconds())
		if longest != most || took > 3*time.Minute || took < (most-before)*195 {
			t.Errorf("Most %v: %v before, %v after, %v until it is as before", most, before, longest, took)
		}
	}
}

// TestCard: a rate is known after 10 s, and right, also where a busy machine asks late now and then. A clock that is
// set, a sleep, and sound that was held up make it unknown for 10 s at a time, but not wrong.
func TestCard(t *testing.T) {
	const seed, from = 20261123, 60e6
	rng := rand.New(rand.NewPCG(seed, 'c'))
	for _, c := range []struct {
		what              string
		ppm, jitter, most float64 // by which what is said from 30 s on may be off
		unknown           int     // frames
		late              func(i int64, at float64) float64
	}{
		{"the clock", 0, 1000, 8, 501, nil},
		{"a slower card", -200, 1000, 8, 501, nil},
		{"the fastest card", 1000, 1000, 8, 501, nil},
		{"late each 25 calls", 0, 0, 1, 501, func(i int64, _ float64) float64 { return float64(i % 25 / 24 * 16_000) }},
		{"late each 250 calls", 0, 0, 1, 501, func(i int64, _ float64) float64 { return float64(i % 250 / 249 * 16_000) }},
		{"the clock is set back", 120, 1000, 60, 3000, func(int64, float64) float64 { return -0.25e6 }},
		{"the clock is set forward", 120, 1000, 60, 3000, func(int64, float64) float64 { return 3e6 }},
		{"sound is held up for 2 s", 120, 1000, 60, 3000, func(_ int64, at float64) float64 { return max(62e6-at, 0) }},
		{"the clock stands for 20 s", 120, 1000, 60, 3000, func(_ int64, at float64) float64 { return -min(at-from, 20e6) }},
	} {
		var card Card
		unknown := 0
		for i := range int64(9000) {
			at := float64(i*20_000)/(1+c.ppm/1e6) + c.jitter*(2*rng.Float64()-1)
			if c.late != nil && (c.jitter == 0 || at > from) {
				at += c.late(i, at)
			}
			card.Add(uint64(int64(at))-20e6, i*960, 48000) // it wraps
			got, ok := card.PPM()
			if !ok {
				unknown++
			} else if i < 498 || i > 1500 && math.Abs(got-c.ppm) > c.most {
				t.Fatalf("seed %d, %s: %v ppm after %d frames, truly %v", seed, c.what, got, i, c.ppm)
			}
		}
		if unknown > c.unknown {
			t.Errorf("%s: not known at %d of 9000 frames", c.what, unknown)
		}
	}
}

// FuzzBuffer: no sequence of calls makes it hold more than it may, play what is not due or late,
// or play out of order.
func FuzzBuffer(f *testing.F) {
	f.Add(uint16(0), []byte("0123456789abcdefghijklmnopqrstuvwxyz"))
	f.Add(uint16(80), []byte{0, 1, 2, 3, 4, 5, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, latency uint16, b []byte) {
		c := Config{Latency: time.Duration(latency%10_000) * time.Millisecond, Frames: 8}
		buffer := mustNew(t, c)
		now, last, played := uint64(0), uint64(0), false
		for ; len(b) >= 9; b = b[9:] {
			v := binary.LittleEndian.Uint64(b[1:])
			switch b[0] % 5 {
			case 0:
				now += v % 100_000
				buffer.Push(now-v>>32%200_000, now, b[:9])
			case 1:
				buffer.Push(v, now, nil)
			case 2:
				now += v % 100_000
				_, captured, ok := buffer.Pop(nil, now)
				over := int64(now-captured) - buffer.Latency().Microseconds()
				if ok && (over < 0 || over > 20_000 || played && int64(captured-last) <= 0) {
					t.Fatalf("captured at %d, after %d, played %d us over at %d", captured, last, over, now)
				}
				if ok {
					last, played = captured, true
				}
			case 4:
				buffer.Drop()
			case 3:
				now += uint64(int64(v) % 1e9)
				buffer.Shift(int64(v) % 1e9)
				last += uint64(int64(v) % 1e9)
			}
			if len(buffer.frames) > 8 {
				t.Fatalf("%d wait", len(buffer.frames))
			}
		}
	})
}
