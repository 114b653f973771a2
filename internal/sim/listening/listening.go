// Package listening judges how sound is played that arrives over a drawn path, on a sound card
// that runs at a rate of its own, as a listener would: how much of it is heard in time, how late
// all of it is, and what was done to it.
//
// Beside it is the best fixed latency, which somebody chose who knew in advance what would
// arrive.
package listening

import (
	"fmt"
	"math"
	"slices"
	"time"

	"timesync/internal/sim/soundcard"
	"timesync/internal/sim/waiting"
	"timesync/internal/testkit"
	"timesync/jitter/playout"
)

// Kinds are the kinds of paths: those of package waiting.
var Kinds = []string{"Wi-Fi power save", "bufferbloat", "handover", "loss and reordering"}

const (
	rate  = 48_000
	frame = 20 * time.Millisecond
	asks  = 2 * time.Millisecond // how often the program asks the card
	queue = 40 * time.Millisecond

	// inTime is by how much a frame may be off and still be in time.
	inTime = 5 * time.Millisecond

	// settles is how long the start is, which does not count.
	settles = 10 * time.Second
)

// Config says what is judged.
type Config struct {
	Kind    string
	Seed    uint64
	Lasting time.Duration
	// CapturePPM and PlayPPM are by how much both cards are faster than the clock.
	CapturePPM, PlayPPM float64
}

// Result is what a listener heard. Rates are a minute.
type Result struct {
	Arrived int     // frames
	Played  float64 // the share of them that was heard
	InTime  float64 // and that was heard within 5 ms of the latency

	Latency time.Duration // from capture to ear, mean
	// FixedLatency is the shortest fixed one by which as many frames as InTime would have been
	// in time, and FixedInTime the share that would have been with one of Latency.
	FixedLatency time.Duration
	FixedInTime  float64

	Gaps       float64       // how often there was nothing to play, and the network lost nothing
	Corrected  time.Duration // that sound was made longer or shorter by
	Above05    float64       // seconds in which the pitch was off by more than 0.5 %
	LongestAt2 time.Duration // the longest time that it was off by more than 2 %, in all
	LargestOff float64       // the largest such share of a second

	Course []Moment // each tenth of a second
}

// Moment is what a listener has at a true time.
type Moment struct {
	At, Latency time.Duration
	Delay       time.Duration // the longest of the arrivals since the moment before
}

// world is a path, a buffer, a card and a listener.
type world struct {
	Config
	items  []waiting.Item
	buffer *playout.Buffer
	card   *playout.Card
	device *soundcard.Device
	now    time.Duration
	next   int // of items

	result   Result
	sent     map[int64]bool // frames that arrive at some time, by their number
	last     int64          // the number of the last frame that was played
	gap      bool
	inTime   int
	played   int
	latency  time.Duration
	samples  int // of this second
	frames   int
	second   time.Duration
	above2   time.Duration
	arriving time.Duration
}

// start is what the clock shows at true time 0.
const start = uint64(1) << 50

func reading(now time.Duration) uint64 { return start + uint64(now.Microseconds()) }

// Judge plays an hour, or how long it lasts.
func Judge(c Config) (Result, error) {
	w := &world{Config: c, sent: map[int64]bool{}}
	length := float64(c.Lasting / time.Millisecond)
	w.items = waiting.Lasting(c.Kind, float64(time.Second/frame), c.Seed, length).Items
	for i := range w.items {
		// A card that is faster captures frames that are shorter.
		late := w.items[i].Sent * -c.CapturePPM / (1e6 + c.CapturePPM)
		w.items[i].Sent += late
		w.items[i].Arrived += late
		w.sent[w.number(w.items[i].Sent)] = true
	}
	var err error
	if w.buffer, err = playout.New(playout.Config{Output: soundcard.Output}); err != nil {
		return w.result, err
	}
	card := playout.CardConfig{Rate: rate, Queue: queue}
	if w.card, err = playout.NewCard(w.buffer, card); err != nil {
		return w.result, err
	}
	w.device = soundcard.New(0, rate, c.PlayPPM)
	for ; w.now < c.Lasting; w.now += asks {
		w.arrive()
		w.play()
		if w.now%(100*time.Millisecond) == 0 {
			moment := Moment{At: w.now, Delay: w.arriving, Latency: w.buffer.Latency()}
			w.result.Course = append(w.result.Course, moment)
			w.arriving = 0
		}
	}
	w.sum()
	return w.result, nil
}

// number returns the number of the frame that was captured at a time, ms.
func (w *world) number(sent float64) int64 {
	return int64(math.Round(sent * (1 + w.CapturePPM/1e6) / float64(frame/time.Millisecond)))
}

func (w *world) arrive() {
	for ; w.next < len(w.items); w.next++ {
		item := w.items[w.next]
		if duration(item.Arrived) > w.now {
			return
		}
		w.arriving = max(w.arriving, duration(item.Arrived-item.Sent))
		_ = w.buffer.Push(reading(duration(item.Sent)), reading(w.now), []byte{1})
	}
}

func (w *world) play() {
	for {
		sound := w.card.Next(nil, reading(w.now), w.device.Queued(w.now))
		if sound.Samples == 0 {
			return
		}
		heard := w.device.Write(w.now, sound.Samples)
		if sound.Payload == nil {
			lost := !w.sent[w.last+1]
			if !w.gap && !lost && w.now > settles {
				w.result.Gaps++
			}
			w.gap = true
			continue
		}
		w.gap = false
		w.hear(time.Duration(sound.CapturedUsec-start)*time.Microsecond, heard, sound.Samples)
	}
}

// hear takes a frame that is heard.
func (w *world) hear(captured, heard time.Duration, samples int) {
	w.last = w.number(milliseconds(captured))
	if w.now/time.Second != w.second {
		w.endSecond()
	}
	w.samples += samples
	w.frames++
	if captured < settles {
		return
	}
	w.played++
	w.latency += heard - captured
	if off := heard - captured - w.buffer.Latency(); off.Abs() <= inTime {
		w.inTime++
	}
}

// endSecond judges the pitch of a second.
func (w *world) endSecond() {
	if w.frames > 0 {
		nominal := float64(w.frames) * frame.Seconds() * rate
		off := math.Abs(float64(w.samples)/nominal - 1)
		w.result.LargestOff = max(w.result.LargestOff, off)
		if off > 0.005 {
			w.result.Above05++
		}
		if off > 0.02 {
			w.above2 += time.Second
			w.result.LongestAt2 = max(w.result.LongestAt2, w.above2)
		} else {
			w.above2 = 0
		}
	}
	w.second = w.now / time.Second
	w.samples, w.frames = 0, 0
}

// sum makes shares, means and rates of what was counted.
func (w *world) sum() {
	r := &w.result
	// A frame counts if it was due before the end.
	end := w.Lasting - time.Second
	var delays []time.Duration
	seen := map[int64]bool{}
	for _, item := range w.items {
		sent := duration(item.Sent)
		if sent < settles || sent > end || seen[w.number(item.Sent)] {
			continue
		}
		seen[w.number(item.Sent)] = true
		delays = append(delays, duration(item.Arrived)-sent)
	}
	r.Arrived = len(delays)
	minutes := (end - settles).Minutes()
	r.Latency = w.latency / time.Duration(max(w.played, 1))
	// What was heard in the last second is as good as the rest.
	share := float64(end-settles) / float64(w.Lasting-settles)
	r.Played = min(float64(w.played)*share/float64(r.Arrived), 1)
	r.InTime = min(float64(w.inTime)*share/float64(r.Arrived), 1)
	slices.Sort(delays)
	output := soundcard.Output + queue/2 // what a fixed latency needs for the card, too
	r.FixedLatency = testkit.Quantile(delays, r.InTime) + output
	within, _ := slices.BinarySearch(delays, r.Latency-output)
	r.FixedInTime = float64(within) / float64(r.Arrived)
	stats := w.card.Stats()
	corrected := float64(stats.Inserted+stats.Dropped) / rate / minutes
	r.Corrected = time.Duration(corrected * float64(time.Second))
	r.Gaps /= minutes
	r.Above05 /= minutes
}

func duration(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// String returns all in a line.
func (r Result) String() string {
	return fmt.Sprintf("%d frames, %.2f %% heard, %.2f %% in time, latency %.1f ms; "+
		"fixed %.1f ms for as many, %.2f %% by as long a one; "+
		"a minute: %.2f gaps, corrected by %.1f ms, %.2f s above 0.5 %%; "+
		"above 2 %% for %v; largest %.2f %%",
		r.Arrived, 100*r.Played, 100*r.InTime, milliseconds(r.Latency),
		milliseconds(r.FixedLatency), 100*r.FixedInTime,
		r.Gaps, milliseconds(r.Corrected), r.Above05, r.LongestAt2, 100*r.LargestOff)
}
