// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"timesync/internal/testkit"
	"timesync/lab/results"
)

// This file says in words what a recording shows.

// The rows of the panel of events, from top to bottom.
const (
	clockSet = iota
	pathToUs
	pathToPeer
	queued
	silent
	other
	rows
)

var rowNames = [rows]string{"clock set", "path to us", "path to peer", "queue", "silence", "other"}

// happening is something that happened.
type happening struct {
	at  float64 // s
	row int
	say string
	// by is by how much a way became longer while no clock step was noticed, ms; 0 is something
	// else.
	by float64
	// believed is when that was, s. Datagrams may show it since at.
	believed float64
}

// say notes what happened, and returns the note.
func (r *reel) say(at float64, row int, format string, args ...any) *happening {
	h := happening{at: at, row: row, say: fmt.Sprintf(format, args...), believed: at}
	r.told = append(r.told, h)
	return &r.told[len(r.told)-1]
}

const (
	settles      = 6.0  // s after the offset is first known: the first datagrams may all have queued
	leastChange  = 0.5  // ms: smaller changes of a path are not told
	leastSilence = 2.0  // s: nor are shorter silences
	leastQueue   = 1.0  // s: or queues,
	leastLate    = 4    // buckets: or a few datagrams of a slow stream
	untold       = 15.0 // s: for so long may what a clock did pass for the path
)

// words says what the estimator took for what.
func (r *reel) words() {
	r.known()
	if len(r.notes) > 0 && !slices.ContainsFunc(r.notes, func(n note) bool { return n.known() }) {
		r.say(0, other, "the offset is never known: %d datagrams and %d reports arrived",
			len(r.arrived), len(r.reports))
	}
	r.queues()
	r.silences()
	slices.SortStableFunc(r.told, func(a, b happening) int { return cmp.Compare(a.at, b.at) })
}

// known tells of changes from one note to the next: steps, and floors that moved.
func (r *reel) known() {
	begun := math.Inf(1)
	for i := 1; i < len(r.notes); i++ {
		was, is := &r.notes[i-1], &r.notes[i]
		switch {
		case !is.known():
			begun = math.Inf(1)
		case !was.known():
			begun = is.At
			r.say(is.At, other, "the offset is known, to %s", results.Micros(is.Bound))
		case is.Steps > was.Steps:
			r.lift(i)
			r.step(is.At, is.Offset-was.Offset)
		case is.At >= begun+settles:
			r.moved(i)
		}
	}
}

// step tells of a step by so many us. What the floors did just before for the same reason was not
// the path.
func (r *reel) step(at, by float64) {
	turns := ""
	if math.Abs(by) > 1e6 {
		turns = ", or that and a multiple of 67.1 s"
	}
	r.say(at, clockSet, "the remote time stepped by %s%s: a clock was set, or the peer changed",
		signed(by), turns)
	r.told = slices.DeleteFunc(r.told, func(h happening) bool {
		looks := -by / 1e3 // a clock that is ahead makes the way from it look shorter
		if h.row == pathToPeer {
			looks = -looks
		}
		alike := math.Abs(h.by-looks) < max(2*leastChange, math.Abs(looks)/8)
		return h.by != 0 && at-h.believed < untold && alike
	})
}

// moved tells of floors that moved up to note i, while no clock was noticed to have been set.
func (r *reel) moved(i int) {
	was, is := &r.notes[i-1], &r.notes[i]
	const scatter = 8 // times the jitter: further above the floor is hardly by chance
	room := max(leastChange, scatter*is.jitter)
	toUs, toPeer := is.FloorToUs-was.FloorToUs, is.FloorToPeer-was.FloorToPeer
	offset := (is.Offset - was.Offset) / 1e3
	if still := room / 2; math.Abs(toUs-offset) < still && math.Abs(toPeer+offset) < still {
		if math.Abs(toUs) > room { // the datagrams show no change
			r.say(is.At, other, "the offset was corrected by %s", signed(toUs*1e3))
		}
		return
	}
	if toUs > room {
		from := r.lift(i)
		h := r.say(from, pathToUs, "path to us longer by %s; believed after %.1f s",
			results.Micros(toUs*1e3), is.At-from)
		h.by, h.believed = toUs, is.At
	} else if -toUs > room {
		h := r.say(is.At, pathToUs, "path to us shorter by %s; believed at once",
			results.Micros(-toUs*1e3))
		h.by = toUs
	}
	if math.Abs(toPeer) > room {
		r.toPeer(is.At, toPeer)
	}
}

// toPeer tells that the way to the peer changed, as its reports show.
func (r *reel) toPeer(at, by float64) {
	change := map[bool]string{true: "longer", false: "shorter"}[by > 0]
	h := r.say(at, pathToPeer, "path to the peer %s by %s, as the peer reported",
		change, results.Micros(math.Abs(by)*1e3))
	h.by = by
}

// lift notes since when datagrams had been late that are not any more at note i, and returns it.
func (r *reel) lift(i int) (from float64) {
	// A bucket is a bit longer than the time from note to note.
	for ; i > 1 && r.notes[i].Late > r.notes[i-2].Late; i-- {
		r.notes[i].lifted = true
	}
	r.notes[i].lifted, r.notes[i-1].lifted = true, true
	return r.notes[i].At
}

// queues tells of times in which all datagrams to us queued, and that was not taken for the path
// or a clock.
func (r *reel) queues() {
	for i := 1; i < len(r.notes); i++ {
		first, last, most := i-1, i-1, 0.0
		for ; i < len(r.notes) && r.notes[i].known(); i++ {
			if r.notes[i].Late == r.notes[i-1].Late || r.notes[i].lifted {
				if last == first || i > last+1 { // see lift
					break
				}
				continue
			}
			last = i
			if by := r.notes[i-1].ToUs - r.notes[i-1].FloorToUs; by > most { // none of NaN
				most = by
			}
		}
		a, b := &r.notes[first], &r.notes[last]
		if lasted := b.At - a.At; lasted >= leastQueue && b.Late-a.Late >= leastLate {
			r.say(a.At, queued,
				"all datagrams to us queued for %.1f s, the fastest of 0.2 s by up to %s",
				lasted, results.Micros(1e3*most))
		}
	}
}

// silence returns for how long nothing has to arrive to be told: for five times as long as usual.
func (r *reel) silence() float64 {
	n := len(r.arrived)
	if n < 2 {
		return leastSilence
	}
	return max(leastSilence, 5*r.arrived[n-1]/float64(n-1))
}

// gaps returns the spans from each time to the next.
func gaps(times []float64) (spans []span) {
	for i := 1; i < len(times); i++ {
		spans = append(spans, span{times[i-1], times[i]})
	}
	return spans
}

// silences tells of times in which nothing arrived, and of reports that did not come while
// something did: nobody tells how often they should.
func (r *reel) silences() {
	long := r.silence()
	usual := func(s span) bool { return s.to-s.from <= long }
	silences := slices.DeleteFunc(gaps(append(r.arrived, r.last)), usual)
	for _, s := range silences {
		r.say(s.from, silent, "nothing arrived for %.1f s", s.to-s.from)
	}
	var lengths []float64
	reports := gaps(r.reports)
	for _, g := range reports {
		lengths = append(lengths, g.to-g.from)
	}
	every := max(testkit.OrNaN(lengths, 0.5), 2)
	for _, g := range reports {
		most := 2.5 * every
		for _, s := range silences {
			if s.from < g.to && s.to > g.from {
				most += s.to - s.from
			}
		}
		if g.to-g.from > most {
			r.say(g.from, silent, "no report for %.1f s; usual are %.1f s", g.to-g.from, every)
		}
	}
}

// signed returns a difference with its sign.
func signed(us float64) string {
	return map[bool]string{true: "+", false: "-"}[us >= 0] + results.Micros(math.Abs(us))
}

// clock returns the time of day after so many seconds.
func (r *reel) clock(at float64) string {
	if len(r.days) == 0 {
		return fmt.Sprintf("%.1f s", at)
	}
	begins := func(d day, at float64) int { return cmp.Compare(d.from, at) }
	later, _ := slices.BinarySearchFunc(r.days, at, begins)
	less := r.days[max(later-1, 0)].less
	return time.UnixMicro(less + int64(r.start) + int64(at*1e6)).UTC().Format("15:04:05")
}
