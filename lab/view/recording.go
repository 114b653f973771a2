// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"timesync/internal/testkit"
	"timesync/lab/results"
	"timesync/record"
)

// reel is a recording that is being replayed: a note for each 0.2 s at end 0.
type reel struct {
	notes   []note
	both    bool   // there is a recording of the other end
	start   uint64 // local time of the first note, us
	days    []day
	differ  float64   // us: by which answers differ from those recorded, at most
	asked   int       // answers
	arrived []float64 // s: datagrams
	last    float64   // s: the last event of end 0
	back    uint64    // us: by how much end 0's clock was set back, which times here omit
	missing bool      // blocks, of either
	reports []float64 // s
	cut     error     // why the recording ends
	told    []happening
}

// day says which time of day it is, from one time on.
type day struct {
	from float64 // s
	less int64   // us: the time of day minus the local clock
}

// span is a span of time.
type span struct{ from, to float64 } // s

// note is what was known at one time, a row of the table. NaN is what was not known, or did not
// come.
type note struct {
	UTC         string  `csv:"utc"` // once all is replayed
	At          float64 `csv:"s"`
	ToUs        float64 `csv:"fastest_to_us_ms"`
	ToPeer      float64 `csv:"fastest_to_peer_ms"`
	FloorToUs   float64 `csv:"floor_to_us_ms"` // how long what does not queue is under way
	FloorToPeer float64 `csv:"floor_to_peer_ms"`
	Offset      float64 `csv:"offset_us"`
	Bound       float64 `csv:"bound_us"`
	RoundTrip   float64 `csv:"round_trip_us"`
	Skew        float64 `csv:"skew_ppm"`
	SkewError   float64 `csv:"skew_error_ppm"`
	Steps       uint32  `csv:"steps"` // so far
	Late        uint32  `csv:"late_buckets"`
	Disagree    float64 `csv:"disagree_us"` // the sum of both ends' offsets
	jitter      float64 // ms
	lifted      bool    // it was late because of a path or a clock
}

// known reports whether the offset was, and so what follows.
func (n *note) known() bool { return !math.IsNaN(n.Offset) }

// noteEvery is as long as a bucket of the estimator.
const noteEvery = 0.2 // s

// unwind replays the recording of one end, or those of both.
func unwind(recordings ...io.Reader) *reel {
	r := &reel{both: len(recordings) > 1}
	for m, err := range record.Replay(recordings...) {
		if err != nil {
			r.cut = err
			break
		}
		r.see(&m)
	}
	r.words()
	for i := range r.notes {
		r.notes[i].UTC = r.clock(r.notes[i].At)
	}
	return r
}

// see takes an event.
func (r *reel) see(m *record.Moment) {
	if m.Kind == record.Missing {
		r.missing = true
		r.say(r.last, other, "%d blocks are missing in the %srecording",
			m.Count, [2]string{"", "second "}[m.End])
	}
	if len(r.notes) == 0 {
		if m.End != 0 || m.Kind == record.Missing || m.Kind == record.Reset {
			return // it has no time here
		}
		r.start = m.AtUsec[0]
	}
	at := float64(int64(m.AtUsec[0]+r.back-r.start)) / 1e6
	if by := r.last - at; m.End == 0 && by > setBack {
		r.back += uint64(by * 1e6)
		at = r.last
		r.days = append(r.days, day{at, r.ahead(m)})
		r.say(at, clockSet, "the local clock was set back by %s", results.Micros(by*1e6))
	}
	if len(r.notes) == 0 || at >= r.notes[len(r.notes)-1].At+noteEvery {
		r.note(m, at)
	}
	if m.Kind == record.Datagram && m.Known {
		n := &r.notes[len(r.notes)-1]
		f := [2]*float64{&n.ToUs, &n.ToPeer}[m.End]
		if ms := results.Millis(m.OWD); !(*f <= ms) {
			*f = ms
		}
	}
	if m.End != 0 {
		return
	}
	switch m.Kind {
	case record.Datagram:
		r.arrived = append(r.arrived, at)
		r.timeOfDay(r.ahead(m))
	case record.Report:
		r.reports = append(r.reports, at)
	case record.Answered:
		r.compare(m)
	case record.Reset:
		r.say(at, other, "everything was forgotten: a new connection")
	}
	r.last = max(r.last, at)
}

// asleep is by how much more than the local clock the time of day has to go on at once, us. That
// is the one at which a block was ended: 2 s after its first datagram at most.
const asleep = 4_000_000

// setBack is more than times of receipt go back by where threads swap datagrams, s.
const setBack = 1.0

// ahead returns the time of day at which the block of an event at end 0 was ended, minus the local
// clock then: us.
func (r *reel) ahead(m *record.Moment) int64 {
	return m.Wall.UnixMicro() - int64(m.AtUsec[0]+r.back)
}

// timeOfDay takes that of a datagram. The least is nearest to the truth; in a simulation it falls.
func (r *reel) timeOfDay(less int64) {
	if len(r.days) == 0 {
		r.days = []day{{0, less}}
	}
	now := &r.days[len(r.days)-1]
	if less-asleep > now.less {
		by := (time.Duration(less-now.less) * time.Microsecond).Round(time.Second)
		r.say(r.last, clockSet, "the time of day went on by %s more than the local clock: "+
			"this machine slept, or one of its clocks was set", by)
		r.days = append(r.days, day{r.last, less})
		return
	}
	now.less = min(now.less, less)
}

// note notes what end 0 knows.
func (r *reel) note(m *record.Moment, at float64) {
	s, known := m.Ends[0].Snapshot(m.AtUsec[0])
	told := func(v float64) float64 {
		if !known {
			return math.NaN()
		}
		return v
	}
	ms := func(d time.Duration) float64 { return told(results.Millis(d)) }
	n := note{
		At:          at,
		ToUs:        math.NaN(),
		ToPeer:      math.NaN(),
		FloorToUs:   ms(s.MinimumOneWayDelay),
		FloorToPeer: ms(s.MinimumDelayToPeer),
		Offset:      told(float64(s.OffsetUsec)),
		Bound:       1e3 * ms(s.ErrorBound),
		Skew:        told(s.Skew),
		SkewError:   told(s.SkewError),
		Steps:       s.Steps,
		Late:        m.Ends[0].Stats().QueuedSpans,
		Disagree:    math.NaN(),
		jitter:      ms(s.FloorScatter),
	}
	n.RoundTrip = 1e3 * (n.FloorToUs + n.FloorToPeer)
	if known && r.both {
		if o, ok := m.Ends[1].Snapshot(m.AtUsec[1]); ok {
			n.Disagree = circle26(float64(s.OffsetUsec + o.OffsetUsec)) // 0 if they agree
		}
	}
	r.notes = append(r.notes, n)
}

// compare compares an answer with the recorded one.
func (r *reel) compare(m *record.Moment) {
	r.asked++
	if now := record.Ask(m.Ends[0], m.LocalUsec); now != m.Answer {
		by := circle26(float64(now.Snapshot.OffsetUsec - m.Answer.Snapshot.OffsetUsec))
		r.differ = max(r.differ, math.Abs(by), 1)
	}
}

// drawRecording replays the recording of one end, or those of both.
func drawRecording(out string, words io.Writer, paths ...string) error {
	var recordings []io.Reader
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		recordings = append(recordings, f)
	}
	r := unwind(recordings...)
	if len(r.notes) == 0 {
		why := cmp.Or(r.cut, errors.New("nothing is in it"))
		return fmt.Errorf("%s: %w", strings.Join(paths, ", "), why)
	}
	name := strings.TrimSuffix(filepath.Base(paths[0]), filepath.Ext(paths[0]))
	r.tell(words, name)
	if len(r.notes) < 2 {
		return nil // there is nothing to draw
	}
	path := filepath.Join(out, "recording-"+name)
	if r.both {
		path += "-both"
	}
	err := errors.Join(os.MkdirAll(out, 0o755), results.WriteCSV(path+".csv", r.notes),
		results.Draw(path+".png", results.Screen(), r.charts(name)...))
	if err == nil {
		fmt.Fprintf(words, "%s.png, %s.csv\n", path, path)
	}
	return err
}

// tell prints what happened.
func (r *reel) tell(out io.Writer, name string) {
	last := r.notes[len(r.notes)-1]
	fmt.Fprintf(out, "%s: from %s UTC, %.1f s, %d congested buckets, %d steps\n",
		name, r.clock(0), last.At, last.Late, last.Steps)
	for _, h := range r.told {
		fmt.Fprintf(out, "%s (%.1f s) %s\n", r.clock(h.at), h.at, h.say)
	}
	var sums []float64
	for _, n := range r.notes {
		if !math.IsNaN(n.Disagree) {
			sums = append(sums, math.Abs(n.Disagree))
		}
	}
	if len(sums) > 0 {
		fmt.Fprintf(out, "the two ends disagree by %s (median), %s (99th percentile), %s at most\n",
			results.Micros(testkit.OrNaN(sums, 0.5)),
			results.Micros(testkit.OrNaN(sums, 0.99)),
			results.Micros(testkit.OrNaN(sums, 1)))
	}
	why := "another version recorded, and shown is what this one makes of it"
	if r.missing {
		why = "blocks are missing"
	}
	if r.differ > 0 {
		fmt.Fprintf(out, "answers differ from those recorded, offsets by up to %s: %s\n",
			results.Micros(r.differ), why)
	} else if r.asked > 0 {
		fmt.Fprintf(out, "all %d recorded answers are those of this version\n", r.asked)
	}
	if r.cut != nil {
		fmt.Fprintf(out, "the recording ends there: %v\n", r.cut)
	}
}

// circle26 returns v the shorter way round the ring of 2^26 us on which datagrams show offsets.
func circle26(v float64) float64 { return math.Remainder(v, 1<<26) }
