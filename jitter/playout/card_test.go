// These tests prove that what a card plays is in step with the clock, whatever the card's rate
// and whatever happens to it.
package playout

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"timesync/internal/sim/soundcard"
	"timesync/internal/testkit"
)

// TestCardHours: cards that are up to 300 ppm off are heard within the latency and 5 ms, for
// hours. The path takes 40 to 50 ms. Sound is early only while it follows a latency that has
// become longer.
func TestCardHours(t *testing.T) {
	const seed = 75_000_000
	rng := rand.New(rand.NewPCG(seed, 'h'))
	lasting := testkit.Sized(10*time.Minute, time.Hour, 3*time.Hour)
	for _, ppm := range []float64{0, 30, -30, 100, -100, 300, -300} {
		w := newCall(t, Config{}, ppm)
		w.delay = drawnOnce(func() time.Duration {
			return 40*ms + time.Duration(rng.Int64N(int64(10*ms)))
		})
		var late, early time.Duration
		frames := 0
		w.heard = func(captured, heard time.Duration, samples int) {
			frames++
			off := heard - captured - w.buffer.Latency()
			if w.now > 10*second {
				late = max(late, off)
				early = max(early, -off)
			}
			if samples < 960-4 || samples > 960+4 {
				t.Fatalf("%v ppm: %d samples of 960 at %v", ppm, samples, w.now)
			}
		}
		w.run(lasting)
		s := w.card.Stats()
		t.Logf("%v ppm, %v: at most %v late and %v early; latency %v; %+v; %+v",
			ppm, lasting, late, early, w.buffer.Latency(), s, w.buffer.Stats())
		want := int(lasting/frameTime) - 5
		if late > 5*ms || early > 10*ms || frames < want {
			t.Errorf("seed %d, %v ppm: %v late, %v early, %d frames, want %d",
				seed, ppm, late, early, frames, want)
		}
	}
}

// pitches is by how much the frames of each second were too long or too short.
type pitches struct {
	second  int
	samples int
	frames  int
	all     []float64
}

func (p *pitches) add(now time.Duration, samples int) {
	if s := int(now / second); s != p.second {
		if p.frames > 0 {
			nominal := float64(960 * p.frames)
			p.all = append(p.all, math.Abs(float64(p.samples)/nominal-1))
		}
		*p = pitches{second: s, all: p.all}
	}
	p.samples += samples
	p.frames++
}

// TestCorrections: while nothing changes the pitch stays within 0.5 %, also with jitter; after
// the path has become longer, or shorter, above 2 % never.
func TestCorrections(t *testing.T) {
	const seed = 75_000_001
	rng := rand.New(rand.NewPCG(seed, 'c'))
	for _, c := range []struct {
		jitter, change time.Duration
	}{
		{0, 0},
		{10 * ms, 0},
		{10 * ms, 60 * ms},
		{10 * ms, -60 * ms},
		{5 * ms, 250 * ms},
		{5 * ms, -400 * ms},
	} {
		w := newCall(t, Config{}, 100)
		const changes, ends = 2 * time.Minute, 6 * time.Minute
		w.delay = drawnOnce(func() time.Duration {
			delay := 20*ms + max(-c.change, 0)
			if w.now > changes {
				delay += c.change
			}
			return delay + time.Duration(rng.ExpFloat64()*float64(c.jitter)/3)
		})
		var p pitches
		steady, changed := 0.0, 0.0
		frames, late := 0, 0
		w.heard = func(captured, heard time.Duration, samples int) {
			p.add(w.now, samples)
			frames++
			if heard-captured-w.buffer.Latency() > 5*ms {
				late++
			}
		}
		w.run(ends)
		for i, pitch := range p.all {
			if i < 120 || i > 240 {
				steady = max(steady, pitch)
			} else {
				changed = max(changed, pitch)
			}
		}
		const format = "jitter %v, path %v: pitch off by %.2f %%, then %.2f; latency %v, %+v"
		args := []any{
			c.jitter, c.change, 100 * steady, 100 * changed, w.buffer.Latency(), w.card.Stats(),
		}
		t.Logf(format, args...)
		if steady > 0.005 || changed > 0.02 || late > frames/50 {
			t.Errorf(format, args...)
			t.Errorf("%d of %d frames more than 5 ms late", late, frames)
		}
		if c.change < 0 && w.buffer.Latency() > 35*ms+soundcard.Output+60*ms {
			t.Errorf("seed %d, path %v: latency %v", seed, c.change, w.buffer.Latency())
		}
	}
}

// TestCardFaults: a card that stands still, is unplugged and comes back, at another rate, and a
// machine that slept: the state says so, and what is played soon after is in step again, at the
// old latency.
func TestCardFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		state State
		fault func(w *call)
	}{
		{"stands still", Stalled, func(w *call) {
			w.device.Still = true
			w.run(5 * second)
		}},
		{"nobody asks", Stalled, func(w *call) { w.now += 3 * second }},
		{"unplugged", Unplugged, func(w *call) {
			w.card.Stop()
			w.run(5 * second)
		}},
		{"another rate", Unplugged, func(w *call) {
			w.card.Stop()
			w.run(second)
		}},
		{"the network is dead", Silent, func(w *call) {
			w.lost = func(captured time.Duration) bool {
				return captured > 60*second && captured < 65*second
			}
			w.run(5 * second)
		}},
	} {
		w := newCall(t, Config{}, -100)
		var worst time.Duration
		frames, counts := 0, false
		w.heard = func(captured, heard time.Duration, samples int) {
			if counts {
				frames++
				worst = max(worst, (heard - captured - w.buffer.Latency()).Abs())
			}
		}
		w.run(60 * second)
		before := w.buffer.Latency()
		if s := w.card.State(w.reading(w.now)); s != Playing {
			t.Errorf("%s: before: %v", c.name, s)
		}
		samples := w.card.Stats().Samples
		c.fault(w)
		if s := w.card.State(w.reading(w.now)); s != c.state {
			t.Errorf("%s: %v, want %v", c.name, s, c.state)
		}
		switch c.name {
		case "stands still":
			w.device.Still = false
		case "unplugged":
			w.device = soundcard.New(w.now, 48_000, -100)
			if err := w.card.Start(48_000); err != nil {
				t.Fatal(err)
			}
		case "another rate":
			w.device = soundcard.New(w.now, 44_100, 50)
			if err := w.card.Start(0); err == nil {
				t.Error("a rate of 0 is accepted")
			}
			if err := w.card.Start(44_100); err != nil {
				t.Fatal(err)
			}
		}
		w.run(second)
		counts = true
		w.run(60 * second)
		after := w.buffer.Latency()
		s := w.card.State(w.reading(w.now))
		const format = "%s: latency %v, %v after; %v, off by %v at most, %d of 3000 frames"
		t.Logf(format, c.name, before, after, s, worst, frames)
		if s != Playing || worst > 5*ms || frames < 2990 || after > before+10*ms {
			t.Errorf(format, c.name, before, after, s, worst, frames)
		}
		if got := w.card.Stats().Samples; got < samples+44_100*60 {
			t.Errorf("%s: %d samples in all, %d before it", c.name, got, samples)
		}
	}
}

// TestOutput: other headphones are heard after the same latency, if it is long enough, and else
// the latency becomes longer.
func TestOutput(t *testing.T) {
	w := newCall(t, Config{Most: second}, 0)
	w.run(30 * second)
	before := w.buffer.Latency()
	const bluetooth = 200 * ms
	if err := w.buffer.SetOutput(soundcard.Output + bluetooth); err != nil {
		t.Fatal(err)
	}
	var worst time.Duration
	w.run(2 * second)
	w.heard = func(captured, heard time.Duration, _ int) {
		worst = max(worst, (heard + bluetooth - captured - w.buffer.Latency()).Abs())
	}
	w.run(30 * second)
	longer := w.buffer.Latency() - before
	if (longer-bluetooth).Abs() > 5*ms || worst > 5*ms {
		t.Errorf("%v longer with another %v of output, off by %v", longer, bluetooth, worst)
	}
}

// TestCallback: a card that asks by itself for a frame each 20 ms, and says how long its buffer
// is.
func TestCallback(t *testing.T) {
	b := mustNew(t, Config{})
	card, err := NewCard(b, CardConfig{Rate: 48_000})
	if err != nil {
		t.Fatal(err)
	}
	const buffered = 480 // samples
	now, captured, given, worst := 0.0, 0.0, 0, 0.0
	for now < 3600e6 {
		for ; captured+60_000 <= now; captured += 20_000 {
			b.Push(start+uint64(captured), start+uint64(now), []byte{1})
		}
		for given < 960 {
			sound := card.Next(nil, start+uint64(now), given+buffered)
			if sound.Samples == 0 {
				t.Fatal("a card that asks by itself got nothing")
			}
			if sound.Payload != nil && now > 10e6 {
				heard := now + float64(given+buffered)/48_000*1e6*(1+200e-6)
				late := heard - float64(sound.CapturedUsec-start)
				worst = max(worst, math.Abs(late-float64(b.Latency().Microseconds())))
			}
			given += sound.Samples
		}
		given -= 960
		now += 20_000 * (1 + 200e-6) // a card that is 200 ppm slow
	}
	state := card.State(start + uint64(now))
	later := card.State(start + uint64(now) + 2e6)
	if worst > 5000 || state != Playing || later != Stalled {
		t.Errorf("off by %v us; %v, and 2 s later %v; %+v", worst, state, later, b.Stats())
	}
}

// FuzzCard: whatever the card says waits before it, and whenever it asks, it gets at most a
// frame and a sample, and frames in order.
func FuzzCard(f *testing.F) {
	f.Add([]byte("0123456789abcdefghijklmnopqrstuvwxyz"))
	f.Fuzz(func(t *testing.T, tape []byte) {
		b := mustNew(t, Config{})
		card, err := NewCard(b, CardConfig{Rate: 48_000, Queue: 40 * ms})
		if err != nil {
			t.Fatal(err)
		}
		now, last, played, rate := start, uint64(0), false, 48_000
		for ; len(tape) >= 9; tape = tape[9:] {
			v := binary.LittleEndian.Uint64(tape[1:])
			switch tape[0] % 5 {
			case 0:
				now += v % 100_000
				b.Push(now-v>>32%200_000, now, tape[:9])
			case 1, 2:
				queued := int(v % 1920)
				if tape[0]%5 == 2 {
					queued = int(v)
				}
				sound := card.Next(nil, now+v>>32%1000, queued)
				if sound.Samples < 0 || sound.Samples > rate/50+rate/2500+1 {
					t.Fatalf("%d samples", sound.Samples)
				}
				if sound.Payload != nil {
					if played && int64(sound.CapturedUsec-last) <= 0 {
						t.Fatalf("captured at %d after %d", sound.CapturedUsec, last)
					}
					last = sound.CapturedUsec
					played = true
				}
			case 3:
				now, played = v, false // a clock that is set
			case 4:
				card.Stop()
				if card.Start(int(v%100_000)) == nil {
					rate = int(v % 100_000)
				}
			}
			card.State(now)
			if l := b.Latency(); l < 0 || l > longest {
				t.Fatalf("latency %v", l)
			}
		}
	})
}

// TestCardClockSet: our own clock is set, forward or back, and the link knows 2 s later. Sound
// is back at once then, and in step.
func TestCardClockSet(t *testing.T) {
	for _, set := range []time.Duration{300 * ms, -300 * ms, 5 * second, -5 * second} {
		w := newCall(t, Config{}, 100)
		w.run(30 * second)
		before := w.buffer.Latency()
		w.set = set
		w.untold = set // frames are stamped by what the link knew
		w.run(2 * second)
		w.untold = 0
		w.buffer.Steps(1)
		var worst time.Duration
		frames := 0
		w.run(second)
		w.heard = func(captured, heard time.Duration, _ int) {
			frames++
			worst = max(worst, (heard - captured - w.buffer.Latency()).Abs())
		}
		w.run(30 * second)
		const format = "set by %v: latency %v longer, off by %v at most, %d of 1500 frames"
		longer := w.buffer.Latency() - before
		t.Logf(format, set, longer, worst, frames)
		if worst > 5*ms || frames < 1480 || longer > 10*ms {
			t.Errorf(format, set, longer, worst, frames)
		}
	}
}

// TestCardTooLate: what comes later than a fixed latency is heard late, in step and without
// gaps; or it is dropped, and the state says so, although each frame arrives before it is due.
func TestCardTooLate(t *testing.T) {
	for _, c := range []struct {
		takes time.Duration
		drop  bool
		state State
	}{
		{20 * ms, false, Playing},
		{62 * ms, false, PlayingLate},
		{540 * ms, false, PlayingLate},
		{20 * ms, true, Playing},
		{62 * ms, true, TooLate},
		{540 * ms, true, TooLate},
	} {
		w := newCall(t, Config{Latency: 85 * ms, DropLate: c.drop}, 100)
		w.delay = func(time.Duration) time.Duration { return c.takes }
		w.run(10 * second)
		before := w.card.Stats().Gaps
		frames := 0
		var worst time.Duration
		w.heard = func(captured, heard time.Duration, _ int) {
			frames++
			worst = max(worst, (heard - captured - w.buffer.Latency()).Abs())
		}
		w.run(60 * second)
		gaps := w.card.Stats().Gaps - before
		state := w.card.State(w.reading(w.now))
		heard := c.state != TooLate
		const format = "%+v: %v, %d of 3000 frames, %d gaps, off by %v at most"
		t.Logf(format, c, state, frames, gaps, worst)
		late := w.buffer.Stats().Late
		wrong := heard && (frames < 2990 || gaps > 0 || worst > 5*ms) || !heard && frames > 0
		wrong = wrong || heard != (late < 20) || late > 3500
		if wrong || state != c.state {
			t.Errorf(format, c, state, frames, gaps, worst)
		}
	}
}

// TestLipSync: sound on a card that is off and pictures that need longer are heard and seen
// together, also while the latency falls. ITU-R BT.1359: people notice 45 ms. Only where the
// latency grows at once are some pictures later than their sound, which was heard already.
func TestLipSync(t *testing.T) {
	const seed, display, lasting = 75_000_002, 30 * ms, 6 * time.Minute
	rng := rand.New(rand.NewPCG(seed, 'l'))
	var together Group
	w := newCall(t, Config{Group: &together}, -100)
	w.delay = func(time.Duration) time.Duration { return 30 * ms }
	pictures := mustNew(t, Config{Group: &together, Output: display})
	heardAt := map[time.Duration]time.Duration{}
	seenAt := map[time.Duration]time.Duration{}
	w.heard = func(captured, heard time.Duration, _ int) {
		heardAt[captured] = heard
	}
	var coming []time.Duration // when a picture arrives
	var sent []time.Duration
	for next := time.Duration(0); w.now < lasting; {
		for ; next <= w.now; next += 2 * frameTime {
			takes := 60*ms + time.Duration(rng.Int64N(int64(60*ms)))
			if next > 2*time.Minute && next < 4*time.Minute {
				takes += 100 * ms // another path
			}
			sent = append(sent, next)
			coming = append(coming, next+takes)
		}
		for i := 0; i < len(coming); {
			if coming[i] > w.now {
				i++
				continue
			}
			pictures.Push(w.reading(sent[i]), w.reading(w.now), nil)
			sent = append(sent[:i], sent[i+1:]...)
			coming = append(coming[:i], coming[i+1:]...)
		}
		for {
			_, captured, ok := pictures.Pop(nil, w.reading(w.now))
			if !ok {
				break
			}
			seenAt[time.Duration(captured-start)*time.Microsecond] = w.now + display
		}
		w.run(askEach)
	}
	both := 0
	apart := []time.Duration{}
	for captured, seen := range seenAt {
		if heard, ok := heardAt[captured]; ok && captured > 10*second {
			both++
			apart = append(apart, (seen - heard).Abs())
		}
	}
	p99 := testkit.Quantile(apart, 0.99)
	noticed := 0
	for _, off := range apart {
		if off > 45*ms {
			noticed++
		}
	}
	const format = "seed %d: %d pictures, p99 %v apart, %d by more than 45 ms; latency %v"
	args := []any{seed, both, p99, noticed, w.buffer.Latency()}
	t.Logf(format, args...)
	if both < 8500 || p99 > 25*ms || noticed > 10 {
		t.Errorf(format, args...)
	}
}

// TestShortFrames: frames of so few samples that 0.5 % of one is less than a sample, and frames
// that are no whole number of samples, are in step, too, and their pitch is right over a tenth
// of a second.
func TestShortFrames(t *testing.T) {
	for _, conf := range []CardConfig{
		{Rate: 8000, Frame: 10 * ms},
		{Rate: 11_025, Frame: 10 * ms},
		{Rate: 44_100, Frame: 5 * ms},
	} {
		for _, ppm := range []float64{0, 300, -300, -8000} { // the last is more than is made up for
			w := newCallOf(t, Config{Interval: 5 * ms}, conf, ppm)
			tenth, frames, samples := time.Duration(0), 0, 0
			var worst time.Duration
			pitch := 0.0
			w.heard = func(captured, heard time.Duration, n int) {
				if w.now < 10*second {
					return
				}
				worst = max(worst, (heard - captured - w.buffer.Latency()).Abs())
				if now := w.now / (100 * ms); now != tenth {
					if frames > 5 {
						nominal := float64(frames) * conf.Frame.Seconds() * float64(conf.Rate)
						pitch = max(pitch, (math.Abs(float64(samples)-nominal)-1)/nominal)
					}
					tenth, frames, samples = now, 0, 0
				}
				frames++
				samples += n
			}
			w.run(10 * time.Minute)
			s := w.card.Stats()
			corrected := float64(s.Inserted+s.Dropped) / float64(s.Samples)
			const format = "%+v, %v ppm: off by %v at most, " +
				"pitch by %.4f in a tenth, corrected by %.5f"
			t.Logf(format, conf, ppm, worst, pitch, corrected)
			off := math.Abs(ppm) <= 300 && (worst > 5*ms || corrected > 0.0008)
			if off || pitch > 0.005 {
				t.Errorf(format, conf, ppm, worst, pitch, corrected)
			}
		}
	}
}
