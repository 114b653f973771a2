package playout

import (
	"cmp"
	"testing"
	"time"

	"timesync/internal/sim/soundcard"
)

const (
	ms     = time.Millisecond
	second = time.Second
	start  = uint64(1) << 40 // the reading at true time 0
)

func mustNew(t testing.TB, c Config) *Buffer {
	t.Helper()
	b, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// stream is frames, each of which is pushed as it arrives, and then what is due is played.
type stream struct {
	*Buffer
	now uint64
}

func newStream(t testing.TB, c Config) *stream { return &stream{mustNew(t, c), start} }

// frames lets so many of 20 ms arrive, each after its delay.
func (s *stream) frames(n int, delay func() time.Duration) {
	for range n {
		s.now += 20_000
		s.Push(s.now-uint64(delay().Microseconds()), s.now, nil)
		s.Pop(nil, s.now)
	}
}

// after is always the same delay.
func after(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

// The usual frame of a call has this length, and a program asks the card so often.
const frameTime, askEach = 20 * ms, 4 * ms

// call is a buffer, a card, and the frames that arrive.
type call struct {
	t      testing.TB
	frame  time.Duration
	buffer *Buffer
	card   *Card
	device *soundcard.Device
	now    time.Duration
	next   time.Duration // when the next frame is captured
	delay  func(captured time.Duration) time.Duration
	lost   func(captured time.Duration) bool
	coming []time.Duration // when frames on their way were captured, in the order of arrival
	set    time.Duration   // by how much the clock was set
	untold time.Duration   // by how much of that the link does not know yet
	// heard is called for each frame that is played.
	heard func(captured, heard time.Duration, samples int)
}

// newCall returns one with frames of 20 ms, and a card of 48,000 samples a second that is so many
// parts in a million too fast.
func newCall(t testing.TB, c Config, ppm float64) *call {
	return newCallOf(t, c, CardConfig{Rate: 48_000}, ppm)
}

func newCallOf(t testing.TB, c Config, conf CardConfig, ppm float64) *call {
	w := &call{t: t, frame: cmp.Or(conf.Frame, frameTime), device: soundcard.New(0, conf.Rate, ppm)}
	c.Output += soundcard.Output
	w.buffer = mustNew(t, c)
	conf.Queue = 40 * ms
	card, err := NewCard(w.buffer, conf)
	if err != nil {
		t.Fatal(err)
	}
	w.card = card
	w.delay = func(time.Duration) time.Duration { return 45 * ms }
	w.heard = func(time.Duration, time.Duration, int) {}
	return w
}

// reading is what the clock shows.
func (w *call) reading(now time.Duration) uint64 {
	return start + uint64((now + w.set).Microseconds())
}

// run lets time pass.
func (w *call) run(lasting time.Duration) {
	for end := w.now + lasting; w.now < end; w.now += askEach {
		for ; w.next+w.frame <= w.now; w.next += w.frame {
			if w.lost == nil || !w.lost(w.next) {
				w.coming = append(w.coming, w.next)
			}
		}
		w.arrive()
		w.play()
	}
}

// drawnOnce returns a delay that is drawn for each frame, when it is asked for first.
func drawnOnce(draw func() time.Duration) func(captured time.Duration) time.Duration {
	drawn := map[time.Duration]time.Duration{}
	return func(captured time.Duration) time.Duration {
		if _, known := drawn[captured]; !known {
			drawn[captured] = draw()
			delete(drawn, captured-10*second) // it has arrived
		}
		return drawn[captured]
	}
}

func (w *call) arrive() {
	kept := w.coming[:0]
	for _, captured := range w.coming {
		if captured+w.delay(captured) > w.now {
			kept = append(kept, captured)
			continue
		}
		w.buffer.Push(w.reading(captured-w.untold), w.reading(w.now), []byte{1})
	}
	w.coming = kept
}

func (w *call) play() {
	for {
		sound := w.card.Next(nil, w.reading(w.now), w.device.Queued(w.now))
		if sound.Samples == 0 {
			return
		}
		heard := w.device.Write(w.now, sound.Samples)
		if sound.Payload != nil {
			captured := time.Duration(sound.CapturedUsec-start)*time.Microsecond - w.set
			w.heard(captured, heard, sound.Samples)
		}
	}
}
