// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"timesync/internal/stat"
)

const (
	settling = 3 * time.Second // the start, which does not count
	longGap  = 5               // frames: shorter gaps are not listed
)

// result is what the judge says. Times are true.
type result struct {
	Captured int `json:"captured"` // frames
	Played   int `json:"played"`
	InFlight int `json:"in_flight"`   // not played: on the way to, or due at, an end that was stopped or started anew
	Lost     int `json:"lost"`        // not played otherwise: on the network
	Unplayed int `json:"unplayed"`    // not played otherwise, although they arrived
	Late     int `json:"played_late"` // and must not have been
	Refused  int `json:"refused"`     // capture times that cannot be
	Overdue  int `json:"overdue"`     // arrived, or were asked for, too late

	// From 3 s after each start on, but for what came due while the end was stopped.
	Error  stat.Spread `json:"error"`  // play - capture - latency, which is the sum of:
	Clocks stat.Spread `json:"clocks"` // how far off the time of capture was
	Woke   stat.Spread `json:"woke"`   // how late the program woke up to play

	Latency float64 `json:"latency_ms"` // in the end
	CardPPM float64 `json:"card_ppm"`   // the capturing card against the clock that plays; 0: not known

	Gaps []gap `json:"gaps"` // of 5 frames and more, the start included
}

// gap is sound that was not played.
type gap struct {
	From   float64 `json:"from_s"`
	Frames int     `json:"frames"`
}

// judge compares what was played with what was captured.
func judge(s *speaker, lives []*listener, begun int64) *result {
	r := &result{Captured: len(s.captured)}
	for _, l := range lives {
		r.Played += len(l.played)
		r.Refused += l.refused
		r.Late += l.late
		r.Overdue += int(l.buffer.Stats().Late + l.buffer.Stats().Missed)
		r.Latency = l.buffer.Latency().Seconds() * 1e3
		if ppm, ok := l.card.PPM(); ok {
			r.CardPPM = ppm
		}
	}
	away := absences(s, lives)
	r.errors(s, lives, away)
	r.losses(s, lives, away, begun)
	return r
}

// errors says when frames were played.
func (r *result) errors(s *speaker, lives []*listener, away []span) {
	var over, clocks, woke []int64
	for _, l := range lives {
		for n, p := range l.played {
			if at := s.captured[n]; at >= l.begun+settling.Microseconds() && !within(away, at) {
				over, clocks, woke = append(over, p.over), append(clocks, p.over-p.woke), append(woke, p.woke)
			}
		}
	}
	r.Error, r.Clocks, r.Woke = stat.SpreadOf(over), stat.SpreadOf(clocks), stat.SpreadOf(woke)
}

// losses says which frames were not played, and why.
func (r *result) losses(s *speaker, lives []*listener, away []span, begun int64) {
	row := 0 // frames in a row that were not played
	for n, captured := range s.captured {
		played, arrived := false, false
		for _, l := range lives {
			_, ok := l.played[uint32(n)]
			played, arrived = played || ok, arrived || l.arrived[uint32(n)]
		}
		switch {
		case played:
			row = 0
			continue
		case within(away, captured):
			r.InFlight++
		case arrived:
			r.Unplayed++
		default:
			r.Lost++
		}
		if row++; row == longGap {
			r.Gaps = append(r.Gaps, gap{float64(s.captured[n+1-row]-begun) / 1e6, row})
		} else if row > longGap {
			r.Gaps[len(r.Gaps)-1].Frames = row
		}
	}
}

// span is a time, true, us.
type span struct{ from, to int64 }

// within reports whether at lies in one of the spans.
func within(spans []span, at int64) bool {
	return slices.ContainsFunc(spans, func(s span) bool { return at >= s.from && at <= s.to })
}

// absences says when frames were captured that nobody could play: what came due while the end
// that plays was stopped; and around its start what was on its way to, or waited in, the one
// before, and what the speaker captured until it heard of the new one, whose time it could not
// know, and which could not know that what came was no recording.
func absences(s *speaker, lives []*listener) (away []span) {
	for i, l := range lives {
		latency := l.buffer.Latency().Microseconds()
		if l.stopped.to > 0 {
			away = append(away, span{l.stopped.from - latency - late.Microseconds(), l.stopped.to - latency})
		}
		heard := int64(math.MaxInt64)
		if i < len(s.heard) {
			heard = s.heard[i]
		}
		away = append(away, span{l.begun - latency - late.Microseconds(), heard})
	}
	return away
}

// check says what must not be.
func (r *result) check() error {
	switch {
	case r.Played == 0:
		return errors.New("nothing was played")
	case r.Late > 0:
		return fmt.Errorf("%d frames were played late", r.Late)
	}
	return nil
}

func (r *result) print(w io.Writer, c config) {
	fmt.Fprintf(w, "frames of %v; each datagram takes 15 to 25 ms, %g %% are lost; clocks %g ppm apart; -seed %d\n", frameTime, c.Network.Loss, c.Skew, c.Network.Seed)
	fmt.Fprintf(w, "captured %d, played %d; in flight to an end that was stopped or started anew %d, lost on the network %d, arrived and not played %d\n", r.Captured, r.Played, r.InFlight, r.Lost, r.Unplayed)
	fmt.Fprintf(w, "played late %d, overdue %d, of an impossible time %d\n", r.Late, r.Overdue, r.Refused)
	fmt.Fprintf(w, "play - capture - latency of %.0f ms, from 3 s after each start on, median/p99/most: %v us\n", r.Latency, r.Error)
	fmt.Fprintf(w, "  by the clocks:      %v us\n  by waking up late:  %v us\n", r.Clocks, r.Woke)
	if r.CardPPM != 0 {
		fmt.Fprintf(w, "the capturing card is %.0f ppm faster than the clock that plays\n", r.CardPPM)
	}
	for _, g := range r.Gaps {
		fmt.Fprintf(w, "silence from %.2f s on: %d frames, %v\n", g.From, g.Frames, time.Duration(g.Frames)*frameTime)
	}
	fmt.Fprintln(w)
}
