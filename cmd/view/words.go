// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"timesync/compare/graph"
	"timesync/internal/stat"
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
}

// move is a floor that moved while no clock was noticed to have been set.
type move struct {
	from   float64 // s: since when datagrams show it
	at     float64 // s: when it was believed
	toPeer bool    // the floor of the way to the peer
	by     float64 // ms: the delay became longer
}

func (r *reel) say(at float64, row int, format string, args ...any) {
	r.told = append(r.told, happening{at, row, fmt.Sprintf(format, args...)})
}

const (
	settles      = 6.0  // s after the offset is first known: the first datagrams may all have queued
	leastChange  = 0.5  // ms: smaller changes of a path are not told
	leastSilence = 2.0  // s: nor are shorter silences
	leastQueue   = 1.0  // s: or queues,
	leastLate    = 4    // buckets: or a few datagrams of a slow stream
	longestQueue = 12.0 // s: what lasts longer is believed to be the path
	untold       = 15.0 // s: for so long may what a clock did pass for the path
)

// words says what the estimator took for what.
func (r *reel) words() {
	r.known()
	if len(r.notes) > 0 && !slices.ContainsFunc(r.notes, func(n note) bool { return n.known }) {
		r.say(0, other, "the offset is never known: %d datagrams and %d reports arrived", r.count, len(r.reports))
	}
	r.paths()
	r.queues()
	r.silences = slices.DeleteFunc(r.silences, func(s span) bool { return s.to-s.from <= 5*r.pace() })
	for _, s := range r.silences {
		r.say(s.from, silent, "nothing arrived for %.1f s", s.to-s.from)
	}
	r.missed()
	slices.SortStableFunc(r.told, func(a, b happening) int { return cmp.Compare(a.at, b.at) })
}

// known tells of changes from one note to the next: steps, and floors that moved.
func (r *reel) known() {
	begun := math.Inf(1)
	for i := 1; i < len(r.notes); i++ {
		was, is := &r.notes[i-1], &r.notes[i]
		switch {
		case !is.known:
			begun = math.Inf(1)
		case !was.known:
			begun = is.at
			r.say(is.at, other, "the offset is known, to %s", graph.Micros(is.bound))
		case is.steps > was.steps:
			r.lift(i)
			r.step(is.at, float64(is.snapshot.OffsetUsec-was.snapshot.OffsetUsec))
		case is.at >= begun+settles:
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
	r.say(at, clockSet, "the remote time stepped by %s%s: a clock was set, or the peer changed", signed(by), turns)
	r.moves = slices.DeleteFunc(r.moves, func(m move) bool {
		looks := -by / 1e3 // a clock that is ahead makes the way from it look shorter
		if m.toPeer {
			looks = -looks
		}
		return at-m.at < untold && math.Abs(m.by-looks) < max(2*leastChange, math.Abs(looks)/8)
	})
}

// moved notes floors that moved up to note i, while no clock was noticed to have been set.
func (r *reel) moved(i int) {
	was, is := &r.notes[i-1], &r.notes[i]
	const scatter = 8 // times the jitter: what is further above the floor is hardly by chance
	room := max(leastChange, scatter*graph.Millis(is.snapshot.Jitter))
	toUs, toPeer := is.floors[0]-was.floors[0], is.floors[1]-was.floors[1]
	offset := float64(is.snapshot.OffsetUsec-was.snapshot.OffsetUsec) / 1e3
	if still := room / 2; math.Abs(toUs-offset) < still && math.Abs(toPeer+offset) < still {
		if math.Abs(toUs) > room { // the datagrams show no change
			r.say(is.at, other, "the offset was corrected by %s", signed(toUs*1e3))
		}
		return
	}
	if math.Abs(toUs) > room {
		m := move{from: is.at, at: is.at, by: toUs}
		if toUs > 0 {
			m.from = r.lift(i)
		}
		r.moves = append(r.moves, m)
	}
	if math.Abs(toPeer) > room {
		r.moves = append(r.moves, move{from: is.at, at: is.at, toPeer: true, by: toPeer})
	}
}

// lift notes since when datagrams had been late that are not any more at note i, and returns it.
func (r *reel) lift(i int) (from float64) {
	to := r.notes[i].at
	for i > 1 && r.notes[i].late > r.notes[i-2].late { // a bucket is a bit longer than the time from note to note
		i--
	}
	from = r.notes[i].at
	r.lifts = append(r.lifts, span{from, to})
	return from
}

// paths tells of the floors that moved.
func (r *reel) paths() {
	for i, m := range r.moves {
		by, end := graph.Micros(math.Abs(m.by)*1e3), r.ends(i)
		switch {
		case m.toPeer && m.by == 0: // the end of a queue
		case end > 0:
			r.say(m.at, queued, "all datagrams to the peer queued for %.1f s, by %s, as the peer reported", end-m.at, by)
		case m.toPeer && m.by > 0:
			r.say(m.at, pathToPeer, "path to the peer longer by %s, as the peer reported", by)
		case m.toPeer:
			r.say(m.at, pathToPeer, "path to the peer shorter by %s, as the peer reported", by)
		case m.by > 0:
			r.say(m.from, pathToUs, "path to us longer by %s; believed after %.1f s", by, m.at-m.from)
		default:
			r.say(m.at, pathToUs, "path to us shorter by %s; believed at once", by)
		}
	}
}

// ends returns when the way to the peer became as short again as it was before move i, if that
// was soon: the peer tells of a queue before it knows what it is.
func (r *reel) ends(i int) (at float64) {
	from, later := r.moves[i], r.moves[i+1:]
	k := slices.IndexFunc(later, func(to move) bool { return to.toPeer && math.Abs(to.by+from.by) < from.by/8 })
	if !from.toPeer || k < 0 || later[k].at >= from.at+longestQueue {
		return 0
	}
	later[k].by = 0
	return later[k].at
}

// queues tells of times in which all datagrams to us queued, and that was not taken for the path or a clock.
func (r *reel) queues() {
	from, last, most := -1, 0, 0.0
	for i := 1; i < len(r.notes); i++ {
		if r.notes[i].known && r.notes[i].late > r.notes[i-1].late && !r.lifted(r.notes[i].at) {
			if from < 0 {
				from, most = i-1, 0
			}
			if by := r.notes[i-1].fastest[0] - r.notes[i-1].floors[0]; by > most { // none of NaN
				most = by
			}
			last = i
			if i < len(r.notes)-1 {
				continue
			}
		} else if from < 0 || i == last+1 && r.notes[i].known { // a bucket is a bit longer than the time from note to note
			continue
		}
		a, b := &r.notes[from], &r.notes[last]
		if lasted := b.at - a.at; lasted >= leastQueue && b.late-a.late >= leastLate {
			r.say(a.at, queued, "all datagrams to us queued for %.1f s, the fastest of 0.2 s by up to %s", lasted, graph.Micros(1e3*most))
		}
		from = -1
	}
}

// lifted reports whether what was late then was the path or a clock.
func (r *reel) lifted(at float64) bool {
	return slices.ContainsFunc(r.lifts, func(l span) bool { return at > l.from-2*noteEvery && at <= l.to })
}

// pace returns the seconds from one datagram to the next.
func (r *reel) pace() float64 { return r.block.at / float64(max(r.count-1, 1)) }

// missed tells of reports that did not come while something arrived: nobody tells how often they
// should.
func (r *reel) missed() {
	var gaps []float64
	for i := 1; i < len(r.reports); i++ {
		gaps = append(gaps, r.reports[i]-r.reports[i-1])
	}
	usual := max(stat.OrNaN(slices.Clone(gaps), 0.5), 2)
	for i, gap := range gaps {
		most := 2.5 * usual
		for _, s := range r.silences {
			if s.from < r.reports[i+1] && s.to > r.reports[i] {
				most += s.to - s.from
			}
		}
		if gap > most {
			r.say(r.reports[i], silent, "no report for %.1f s; usual are %.1f s", gap, usual)
		}
	}
}

// signed returns a difference with its sign.
func signed(us float64) string {
	if us < 0 {
		return "-" + graph.Micros(-us)
	}
	return "+" + graph.Micros(us)
}

// clock returns the time of day after so many seconds.
func (r *reel) clock(at float64) string {
	if len(r.days) == 0 {
		return fmt.Sprintf("%.1f s", at)
	}
	later, _ := slices.BinarySearchFunc(r.days, at, func(d day, at float64) int { return cmp.Compare(d.from, at) })
	less := r.days[max(later-1, 0)].less
	return time.UnixMicro(less + int64(r.start) + int64(at*1e6)).UTC().Format("15:04:05")
}
