// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"timesync/internal/testkit"
)

const (
	settling = 3 * time.Second // the start, which does not count

	// heard is how long after its start an end that plays is heard by the speaker: a frame,
	// whose answer comes after two ways. A busy machine may need longer.
	heard = 70 * time.Millisecond
)

// result is what the judge says. Times are true.
type result struct {
	Captured int // frames
	Played   int
	Late     int // and must not have been
	// Not played: on the way to, or due at, an end that was stopped or restarted.
	InFlight int
	Lost     int // not played otherwise: on the network
	Unplayed int // not played otherwise, although they arrived

	// From 3 s after each start on, but for what came due while the end was stopped.
	Error  testkit.Spread // play - capture - latency, which is the sum of:
	Clocks testkit.Spread // how far off the time of capture was
	Woke   testkit.Spread // how late the program woke up to play

	Latency float64 // in the end
}

// judge compares what was played with what was captured.
func judge(s *speaker, lives []*listener) *result {
	r := &result{Captured: len(s.captured)}
	frames := map[int64]fate{}
	for _, l := range lives {
		maps.Copy(frames, l.arrived)
		r.Late, r.Latency = r.Late+l.late, l.buffer.Latency().Seconds()*1e3
	}
	var over, clocks, woke []int64
	for _, at := range s.captured {
		absent := slices.ContainsFunc(lives, func(l *listener) bool { return l.absent(at) })
		starts := slices.ContainsFunc(lives, func(l *listener) bool { return l.starts(at) })
		f, arrived := frames[at]
		switch {
		case f.played:
			r.Played++
			if !absent && !starts {
				over, clocks, woke = append(over, f.over), append(clocks, f.over-f.woke), append(woke, f.woke)
			}
		case absent:
			r.InFlight++
		case arrived:
			r.Unplayed++
		default:
			r.Lost++
		}
	}
	r.Error = testkit.SpreadOf(over)
	r.Clocks = testkit.SpreadOf(clocks)
	r.Woke = testkit.SpreadOf(woke)
	return r
}

// starts says whether a true time is too soon after the start to count.
func (l *listener) starts(at int64) bool {
	return at >= l.begun && at <= l.begun+settling.Microseconds()
}

// absent says whether nobody could play what was captured at a true time: it came due while the
// end that plays was stopped; or around its start it was on its way to, or waited in, the one
// before, or was captured before the speaker heard of the new one, which could not know that
// what came was no recording.
func (l *listener) absent(at int64) bool {
	due := at + l.buffer.Latency().Microseconds()
	last := due + late.Microseconds()
	return last >= l.stopped.from && due <= l.stopped.to ||
		last >= l.begun && at <= l.begun+heard.Microseconds()
}

// print prints what became of the frames, and says what must not be.
func (r *result) print(w io.Writer, c config) error {
	fmt.Fprintf(w, "frames of %v; each datagram takes 15 to 25 ms, %g %% are lost; ", frameTime,
		c.Network.Loss)
	fmt.Fprintf(w, "clocks %g ppm apart; -seed %d\n", c.Skew, c.Network.Seed)
	fmt.Fprintf(w, "captured %d, played %d, of which late %d; ", r.Captured, r.Played, r.Late)
	fmt.Fprintf(w, "not played: in flight to an end that was stopped or restarted %d, ", r.InFlight)
	fmt.Fprintf(w, "lost on the network %d, arrived %d\n", r.Lost, r.Unplayed)
	fmt.Fprintf(w, "from 3 s after each start, in us, median/p99/most:\n")
	fmt.Fprintf(w, "  time from capture to play, minus the latency of %.0f ms: %v\n", r.Latency,
		r.Error)
	fmt.Fprintf(w, "  of that, errors of the clocks %v, waking up late %v\n", r.Clocks, r.Woke)
	if r.Played == 0 || r.Late > 0 {
		return fmt.Errorf("%d frames were played, %d of them late", r.Played, r.Late)
	}
	return nil
}
