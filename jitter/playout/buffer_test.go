// These tests prove the order, the counts and the limits of a buffer, how its latency follows the
// arrivals, and what it says to listeners.
package playout

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestConfig(t *testing.T) {
	for _, c := range []Config{
		{Latency: -1},
		{Latency: time.Minute},
		{Least: -1},
		{Most: time.Minute},
		{Most: -1},
		{Share: math.NaN()},
		{Share: 1},
		{Share: -1},
		{Overdue: -1},
		{Interval: -1},
		{Interval: 1},
		{Interval: 2 * second},
		{Output: -1},
		{Output: 500 * ms, DropLate: true},
		{Latency: 80 * ms, Output: 80 * ms, DropLate: true},
		{Least: 30 * ms, Most: 20 * ms},
		{Link: []int{1}},
	} {
		if b, err := New(c); err == nil || b != nil {
			t.Errorf("%+v is accepted", c)
		}
	}
	for _, c := range []Config{
		{Most: 5 * ms},
		{Latency: 10 * second},
		{Least: second},
		{Least: second, Most: 2 * second},
	} {
		mustNew(t, c)
	}
	b := mustNew(t, Config{DropLate: true})
	for _, c := range []CardConfig{
		{},
		{Rate: 48_000, Frame: -1},
		{Rate: 48_000, Queue: -1},
		{Rate: 48_000, Queue: 2 * second},
		{Rate: 48_000, Queue: second},
	} {
		if card, err := NewCard(b, c); err == nil || card != nil {
			t.Errorf("%+v is accepted", c)
		}
	}
	if err := b.SetOutput(second); err == nil {
		t.Error("an output of a second is accepted, and the latency may be half a second")
	}
}

// TestBuffer: frames come out in order and when they are due; what cannot be played is counted.
func TestBuffer(t *testing.T) {
	for _, start := range []uint64{0, 1 << 40, 1<<64 - 60_000} {
		c := Config{Latency: 80 * ms, DropLate: true, Overdue: 10 * ms, Interval: second}
		b := mustNew(t, c) // of 9 frames
		push := func(captured, now uint64, want error) {
			t.Helper()
			err := b.Push(start+captured, start+now, []byte{byte(captured / 1000)})
			if !errors.Is(err, want) || want == nil && err != nil {
				t.Errorf("captured at %d, arrived at %d: %v, want %v", captured, now, err, want)
			}
		}
		pop := func(now uint64, want int) {
			t.Helper()
			payload, captured, ok := b.Pop([]byte{7}, start+now)
			got := int(int64(captured-start)) / 1000
			right := ok == (want >= 0)
			if ok && right {
				right = got == want && len(payload) == 2
				right = right && (want > 255 || payload[1] == byte(want))
			}
			if !right {
				t.Errorf("at %d: %v, captured at %d, %v; want %d", now, payload, got, ok, want)
			}
		}
		pop(0, -1)
		push(40_000, 60_000, nil)
		push(20_000, 60_000, nil)
		push(20_000, 61_000, ErrTwice)
		push(60_000, 62_000, nil)
		for more := range uint64(6) {
			push(61_000+more, 62_000, nil)
		}
		push(67_000, 62_000, ErrFull)
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
		for range 6 {
			pop(142_000, 61)
		}
		want := Stats{Played: 8, Late: 2, Missed: 1, Early: 1, Twice: 2, Full: 1}
		if s := b.Stats(); s != want || len(b.frames) != 0 {
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
		want.Played += 2
		want.Missed += 2
		if s := b.Stats(); s != want || len(b.frames) != 0 {
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
		b.Close()
		push(1_500_000, 1_510_000, ErrClosed)
	}
}

// TestLatency: nearly all of what arrives is in time, a longer path is followed within some
// frames, and a shorter one slowly.
func TestLatency(t *testing.T) {
	const seed = 20261128
	rng := rand.New(rand.NewPCG(seed, 'q'))
	b := newStream(t, Config{})
	between := func(what string, lo, hi time.Duration) {
		t.Helper()
		if l := b.Latency(); l < lo || l > hi {
			t.Errorf("seed %d: %s: %v, want %v to %v", seed, what, l, lo, hi)
		}
	}
	spread := func(lo, hi time.Duration) func() time.Duration {
		return func() time.Duration { return lo + time.Duration(rng.Int64N(int64(hi-lo))) }
	}
	between("before", 10*ms, 10*ms)
	b.frames(500, spread(15*ms, 25*ms))
	between("15 to 25 ms", 24*ms, 29*ms)
	b.frames(6, spread(55*ms, 65*ms))
	between("six of 55 to 65 ms", 55*ms, 70*ms)
	b.frames(500, spread(55*ms, 65*ms))
	between("55 to 65 ms", 63*ms, 80*ms)
	was := b.Latency()
	b.frames(100, spread(15*ms, 25*ms)) // 2 s, which it holds
	between("2 s later", was-3*ms, was)
	b.frames(1000, spread(15*ms, 25*ms))
	between("20 s later", 30*ms, was-25*ms)
	b.frames(5000, spread(15*ms, 25*ms))
	between("100 s later", 24*ms, 29*ms)
	before := b.Stats().Late
	for range 500 { // sound that is sent twice against losses is played no later
		b.frames(1, after(30*ms))
		b.Push(b.now-50_000, b.now, nil)
	}
	between("copies", 30*ms, 38*ms)
	if late := b.Stats().Late - before; late > 500 {
		t.Errorf("seed %d: of 500 frames with copies %d were late", seed, late)
	}
	before = b.Stats().Late
	for range 7500 { // of two ways: each second frame arrives 2.5 ms after the one that follows it
		b.now += 17_500
		b.frames(1, spread(30*ms, 31*ms))
		b.now -= 17_500
		b.frames(1, spread(52_500*time.Microsecond, 53_500*time.Microsecond))
	}
	if late := b.Stats().Late - before; late > 300 {
		t.Errorf("seed %d: overtaken: latency %v, %d of 15000 were late", seed, b.Latency(), late)
	}
}

// TestStops: one stop of the network, whose queue then drains at once or at twice the speed,
// leaves the latency as it was.
func TestStops(t *testing.T) {
	const usual = 40 * ms
	for _, stop := range []time.Duration{300 * ms, 700 * ms, 2 * second} {
		for _, drains := range []time.Duration{0, 10 * ms} { // a frame
			b := newStream(t, Config{})
			b.frames(3000, after(usual))
			before := b.Latency()
			longest := before
			b.now += uint64(stop.Microseconds())
			held := stop
			for ; held > 0; held -= 20*ms - drains {
				b.now += uint64(drains.Microseconds())
				b.Push(b.now-uint64((usual+held).Microseconds()), b.now, nil)
				b.Pop(nil, b.now)
				longest = max(longest, b.Latency())
			}
			for range 500 {
				b.frames(1, after(usual))
				longest = max(longest, b.Latency())
			}
			const format = "stop of %v, drains in %v: latency %v before, %v at most after"
			t.Logf(format, stop, drains, before, longest)
			if longest > before+10*ms {
				t.Errorf(format, stop, drains, before, longest)
			}
		}
	}
}

// TestInStep: sound that takes 25 ms and pictures that take 40 to 120 ms are played at the same
// time after capture, as streams come and go, and while the latency grows and falls.
func TestInStep(t *testing.T) {
	link := new(int)
	var together Group
	sound := mustNew(t, Config{Group: &together, Link: link})
	pictures := mustNew(t, Config{Group: &together, Link: link, Output: 30 * ms})
	other, err := New(Config{Group: &together, Link: new(int)})
	if !errors.Is(err, ErrTwoLinks) || other != nil {
		t.Errorf("two links of one speaker: %v", err)
	}
	shown := map[*Buffer]map[uint64]uint64{sound: {}, pictures: {}} // when, by capture
	type arrival struct {
		at, captured uint64
		b            *Buffer
	}
	var coming []arrival
	step := func(now uint64, delays map[*Buffer]uint64) {
		for b, delay := range delays {
			coming = append(coming, arrival{now + delay, now, b})
		}
		for at := now; at < now+20_000; at += 1000 {
			kept := coming[:0]
			for _, a := range coming {
				if a.at > at {
					kept = append(kept, a)
				} else {
					a.b.Push(a.captured, at, nil)
				}
			}
			coming = kept
			for b := range delays {
				for {
					_, captured, ok := b.Pop(nil, at)
					if !ok {
						break
					}
					shown[b][captured] = at + uint64(b.conf.Output.Microseconds())
				}
			}
		}
	}
	now, worst, both := start, uint64(0), 0
	for i := range uint64(9000) {
		delay := 40_000 + i*7919%80_000
		if i > 4000 {
			delay = 20_000
		}
		step(now, map[*Buffer]uint64{sound: 25_000, pictures: delay})
		now += 20_000
		if i == 5000 {
			together.mu.Lock()
			if together.falls == 0 {
				t.Error("the latency does not fall")
			}
			together.mu.Unlock()
		}
	}
	for captured, heard := range shown[sound] {
		if captured < start+5_000_000 {
			continue // the latency still grows
		}
		if seen, ok := shown[pictures][captured]; ok {
			both++
			worst = max(worst, max(seen, heard)-min(seen, heard))
		}
	}
	// ITU-R BT.1359: 45 ms are seen. Overdue frames may be 20 ms late each.
	if worst > 21_000 || both < 8500 || sound.Latency() != pictures.Latency() {
		t.Errorf("up to %d us apart, of %d frames; latencies %v, %v",
			worst, both, sound.Latency(), pictures.Latency())
	}
	// A third stream needs more, and goes again.
	before := sound.Latency()
	third := mustNew(t, Config{Group: &together, Least: 300 * ms})
	if got := sound.Latency(); got != 300*ms {
		t.Errorf("beside a stream of 300 ms: %v", got)
	}
	third.Close()
	fourth := mustNew(t, Config{Group: &together, Least: 300 * ms})
	fourth.Push(now, now, nil) // it falls silent, and is not closed
	for range 6000 {
		step(now, map[*Buffer]uint64{sound: 25_000, pictures: 20_000})
		now += 20_000
	}
	if got := sound.Latency(); got > before+2*ms {
		t.Errorf("after one has gone and one fell silent: %v, before %v", got, before)
	}
}

// TestTooLate: what comes later than Most is heard all the same, and the state says so; or it is
// dropped, and the state says so.
func TestTooLate(t *testing.T) {
	for _, c := range []struct {
		conf  Config
		takes time.Duration
		heard bool
		state State
	}{
		{Config{Most: 200 * ms}, 150 * ms, true, Playing},
		{Config{Most: 200 * ms}, 270 * ms, true, PlayingLate},
		{Config{}, 270 * ms, true, Playing},
		{Config{}, 540 * ms, true, PlayingLate},
		{Config{Latency: 80 * ms}, 270 * ms, true, PlayingLate},
		{Config{Latency: 80 * ms}, 9 * second, true, PlayingLate},
		{Config{Latency: 80 * ms}, 11 * second, false, TooLate},
		{Config{Most: 200 * ms, DropLate: true}, 150 * ms, true, Playing},
		{Config{Most: 200 * ms, DropLate: true}, 270 * ms, false, TooLate},
		{Config{Latency: 80 * ms, DropLate: true}, 270 * ms, false, TooLate},
		{Config{}, -600 * ms, false, TooEarly},
	} {
		b := newStream(t, c.conf)
		if s := b.State(b.now); s != Waiting {
			t.Errorf("%+v: at first: %v", c.conf, s)
		}
		b.frames(3000, after(c.takes))
		s := b.State(b.now)
		played := b.Stats().Played
		if c.heard != (played > 2900) || !c.heard && played > 0 || s != c.state {
			t.Errorf("%+v, %v: %d of 3000 frames were played, latency %v, %v",
				c.conf, c.takes, played, b.Latency(), s)
		}
		if s := b.State(b.now + 3_000_000); s != Silent {
			t.Errorf("%+v: 3 s after the last frame: %v", c.conf, s)
		}
	}
}

// TestOutputCounts: what takes time after a frame was given out is part of the latency, and Due
// comes earlier for it.
func TestOutputCounts(t *testing.T) {
	for _, drop := range []bool{false, true} {
		b := newStream(t, Config{DropLate: drop, Output: 100 * ms})
		b.frames(500, after(50*ms))
		if l := b.Latency(); l < 150*ms || l > 155*ms {
			t.Errorf("drop %v: latency %v, want 150 ms", drop, l)
		}
		captured := b.now - 10_000
		b.Push(captured, b.now, nil)
		for due, ok := b.Due(); ok; due, ok = b.Due() {
			if _, got, _ := b.Pop(nil, due-1); got != 0 {
				t.Errorf("drop %v: given out before %d", drop, due)
			}
			_, got, played := b.Pop(nil, due)
			latency := uint64(b.Latency().Microseconds())
			if !played || due != got+latency-100_000 {
				t.Errorf("drop %v: captured at %d, due at %d, latency %d us",
					drop, got, due, latency)
				break
			}
		}
	}
}

// TestJitterBeyondMost: Most limits what is spent on the last frames, as long as 19 of 20 come
// in time.
func TestJitterBeyondMost(t *testing.T) {
	i := 0
	delay := func() time.Duration {
		i++
		if i%33 == 0 {
			return 600 * ms
		}
		return 30 * ms
	}
	b := newStream(t, Config{Most: 200 * ms})
	b.frames(6000, delay)
	if l := b.Latency(); l > 200*ms || b.State(b.now) != Playing {
		t.Errorf("latency %v, %v", l, b.State(b.now))
	}
}

// TestLongLatency: a latency of 2 s, or of 10 s, has room for all frames, and for more often
// ones where Interval says so.
func TestLongLatency(t *testing.T) {
	for _, c := range []struct {
		latency, interval time.Duration
		full              bool
	}{
		{2 * second, 0, false},
		{10 * second, 0, false},
		{2 * second, 5 * ms, false},
		{10 * second, 5 * ms, false},
		{10 * second, 100 * ms, true},
	} {
		b := mustNew(t, Config{Latency: c.latency, Interval: c.interval, DropLate: true})
		every := uint64(max(c.interval%(50*ms), 5*ms).Microseconds())
		if c.interval == 0 {
			every = 20_000
		}
		now := start
		for range 5000 {
			b.Push(now, now+25_000, nil)
			b.Pop(nil, now+25_000)
			now += every
		}
		if s := b.Stats(); (s.Full > 0) != c.full || s.Late > 0 || s.Missed > 0 {
			t.Errorf("%+v: %+v", c, s)
		}
	}
}

// TestStep: frames that seem late until the ends know that a clock was set leave no trace, in
// whatever direction it was set.
func TestStep(t *testing.T) {
	for _, set := range []time.Duration{400 * ms, 2 * second, -400 * ms, -2 * second} {
		b := newStream(t, Config{})
		b.Steps(0)
		b.frames(1000, after(40*ms))
		before := b.Latency()
		b.frames(100, after(40*ms+set)) // 2 s
		b.Steps(1)
		b.Steps(1)
		b.frames(5, after(40*ms))
		b.Steps(2)
		was := b.Stats().Played
		b.frames(500, after(40*ms))
		if l := b.Latency(); l > before+3*ms || l < before-10*ms {
			t.Errorf("set by %v: latency %v before, %v after", set, before, l)
		}
		if played := b.Stats().Played - was; played < 490 {
			t.Errorf("set by %v: %d of 500 frames were played", set, played)
		}
	}
}

// TestSlept: what waited during a sleep is dropped, and playing goes on with the latency from
// before.
func TestSlept(t *testing.T) {
	b := newStream(t, Config{})
	b.frames(1000, after(60*ms))
	before := b.Latency()
	b.Push(b.now+1000, b.now+1000, nil) // it came in no time, and waits
	b.Drop()                            // the clock stood still for a minute
	missed := b.Stats().Missed
	b.frames(500, after(60*ms))
	l := b.Latency()
	s := b.Stats()
	if missed == 0 || (l-before).Abs() > 2*ms || s.Played < 1490 {
		t.Errorf("latency %v before, %v after, %d dropped; %+v", before, l, missed, s)
	}
}

// TestNotAsked: while nobody asks, the newest frames are kept and the state says so.
func TestNotAsked(t *testing.T) {
	b := mustNew(t, Config{})
	now := start
	for i := range 3000 {
		if err := b.Push(now, now+30_000, nil); err != nil {
			t.Fatalf("frame %d: %v", i, err)
		}
		now += 20_000
	}
	if s := b.State(now); s != NotAsked {
		t.Errorf("state: %v", s)
	}
	played, last := 0, uint64(0)
	for range 10 {
		_, captured, ok := b.Pop(nil, now+20_000)
		if !ok {
			continue
		}
		played++
		if captured <= last || captured < now-60_000 {
			t.Errorf("captured at %d after %d, now %d", captured, last, now)
		}
		last = captured
	}
	s := b.Stats()
	if played == 0 || len(b.frames) > 3 || s.Missed+s.Played+uint64(len(b.frames)) != 3000 {
		t.Errorf("%d are played, %d wait; %+v", played, len(b.frames), s)
	}
}

func TestStates(t *testing.T) {
	for s := Waiting; s <= Stalled; s++ {
		if s.String() == "" {
			t.Errorf("state %d has no name", int(s))
		}
	}
	if got := State(99).String(); got != "State(99)" {
		t.Error(got)
	}
}

// FuzzBuffer: no sequence of calls makes it hold more than it may, play what is not due or late,
// or play out of order.
func FuzzBuffer(f *testing.F) {
	f.Add(uint16(0), []byte("0123456789abcdefghijklmnopqrstuvwxyz"))
	f.Add(uint16(80), append([]byte{0, 1, 2, 3, 4, 5}, bytes.Repeat([]byte{255, 0}, 20)...))
	f.Fuzz(func(t *testing.T, latency uint16, b []byte) {
		c := Config{
			Latency:  time.Duration(latency%10_000) * ms,
			DropLate: latency%2 == 0,
			Interval: second,
		}
		var together Group
		c.Group = &together
		buffer := mustNew(t, c)
		c.Latency = 0
		beside := mustNew(t, c)
		now, last, played := uint64(0), uint64(0), false
		for ; len(b) >= 9; b = b[9:] {
			v := binary.LittleEndian.Uint64(b[1:])
			switch b[0] % 7 {
			case 0:
				now += v % 100_000
				buffer.Push(now-v>>32%200_000, now, b[:9])
			case 1:
				buffer.Push(v, now, nil)
			case 2:
				now += v % 100_000
				_, captured, ok := buffer.Pop(nil, now)
				over := int64(now-captured) - buffer.Latency().Microseconds()
				if ok && (over < -1 || over > 20_000 || played && int64(captured-last) <= 0) {
					t.Fatalf("captured at %d after %d, played at %d, %d us late",
						captured, last, now, over)
				}
				if ok {
					last, played = captured, true
				}
			case 3:
				now += uint64(int64(v) % 1e9)
				buffer.Shift(int64(v) % 1e9)
				last += uint64(int64(v) % 1e9)
			case 4:
				buffer.Drop()
			case 5:
				buffer.Steps(uint32(v))
			case 6:
				beside.Push(now-v%300_000, now, nil)
			}
			if len(buffer.frames) > 28 {
				t.Fatalf("%d wait", len(buffer.frames))
			}
			if l := buffer.Latency(); l < 0 || l > longest || l != beside.Latency() {
				t.Fatalf("latencies %v, %v", l, beside.Latency())
			}
			buffer.State(now)
		}
	})
}
