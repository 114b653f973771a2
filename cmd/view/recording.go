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
	"slices"
	"strconv"
	"strings"
	"time"

	"timesync"
	"timesync/compare/graph"
	"timesync/internal/stat"
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
	wall    time.Time // of the block of the last one
	less    int64     // us: the time of day minus the local clock, by the last one
	ended   float64   // s: the last datagram of the block before
	last    float64   // s: the last event of end 0
	back    uint64    // us: by how much end 0's clock was set back, which times here omit
	wasSet  bool      // it was, in the block under way
	missing bool      // blocks, of either
	reports []float64 // s
	cut     error     // why the recording ends
	told    []happening
	moves   []move
}

// day says which time of day it is, from one time on.
type day struct {
	from float64 // s
	less int64   // us: the time of day minus the local clock
}

// span is a span of time.
type span struct{ from, to float64 } // s

// note is what was known at one time.
type note struct {
	at       float64    // s since the start
	fastest  [2]float64 // ms: of the datagrams to us and to the peer; NaN if none came
	late     uint32     // buckets so far
	lifted   bool       // it was late because of a path or a clock
	disagree float64    // us: the sum of both ends' offsets; NaN if one does not know
	known    bool       // the offset, and so what follows
	timesync.Snapshot
}

// floorToUs and floorToPeer are how long datagrams are under way that do not queue, ms.
func (n note) floorToUs() float64   { return graph.Millis(n.MinimumOneWayDelay) }
func (n note) floorToPeer() float64 { return graph.Millis(n.MinimumDelayToPeer) }
func (n note) roundTrip() float64   { return n.floorToUs() + n.floorToPeer() }
func (n note) bound() float64       { return graph.Millis(n.ErrorBound) }

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
	r.endBlock()
	r.words()
	return r
}

// see takes an event.
func (r *reel) see(m *record.Moment) {
	if m.Kind == record.Missing {
		r.missing = true
		r.say(r.last, other, "%d blocks are missing in the %srecording", m.Count, [2]string{"", "second "}[m.End])
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
		r.wasSet, at = true, r.last
		r.say(at, clockSet, "the local clock was set back by %s", graph.Micros(by*1e6))
	}
	if len(r.notes) == 0 || at >= r.notes[len(r.notes)-1].at+noteEvery {
		r.note(m, at)
	}
	if m.Kind == record.Datagram && m.Known {
		f := &r.notes[len(r.notes)-1].fastest[m.End]
		if ms := graph.Millis(m.OWD); !(*f <= ms) {
			*f = ms
		}
	}
	if m.End != 0 {
		return
	}
	r.last = max(r.last, at)
	switch m.Kind {
	case record.Datagram:
		r.datagram(m, at)
	case record.Report:
		r.reports = append(r.reports, at)
	case record.Answered:
		r.compare(m)
	case record.Reset:
		r.say(at, other, "everything was forgotten: a new connection")
	}
}

// datagram takes one at end 0.
func (r *reel) datagram(m *record.Moment, at float64) {
	if m.Wall != r.wall {
		r.endBlock()
	}
	r.arrived = append(r.arrived, at)
	r.wall, r.less = m.Wall, m.Wall.UnixMicro()-int64(m.LocalUsec+r.back)
}

// asleep is by how much more than the local clock the time of day has to go on at once, us.
// Blocks are ended a second after their last datagram at most.
const asleep = 3_000_000

// setBack is more than times of receipt go back by where threads swap datagrams, s.
const setBack = 1.0

// endBlock compares the time of day at which a block was ended with its last datagram.
func (r *reel) endBlock() {
	n := len(r.days)
	switch {
	case len(r.arrived) == 0:
		return
	case n == 0 || r.wasSet:
		r.wasSet = false
		r.days = append(r.days, day{r.ended, r.less})
	case r.less > r.days[n-1].less+asleep:
		by := (time.Duration(r.less-r.days[n-1].less) * time.Microsecond).Round(time.Second)
		r.say(r.ended, clockSet, "the time of day went on by %s more than the local clock: this machine slept, or one of its clocks was set", by)
		r.days = append(r.days, day{r.ended, r.less})
	default: // in a simulation much less
		r.days[n-1].less = min(r.days[n-1].less, r.less)
	}
	r.ended = r.arrived[len(r.arrived)-1]
}

// note notes what end 0 knows.
func (r *reel) note(m *record.Moment, at float64) {
	n := note{at: at, fastest: [2]float64{math.NaN(), math.NaN()}, disagree: math.NaN()}
	n.Snapshot, n.known = m.Ends[0].Snapshot(m.AtUsec[0])
	n.late = m.Ends[0].Stats().LateBuckets
	if n.known && r.both {
		if o, ok := m.Ends[1].Snapshot(m.AtUsec[1]); ok {
			n.disagree = circle26(float64(n.OffsetUsec + o.OffsetUsec)) // 0 if they agree
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
		return fmt.Errorf("%s: %w", strings.Join(paths, ", "), cmp.Or(r.cut, errors.New("nothing is in it")))
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
	err := errors.Join(os.MkdirAll(out, 0o755), r.writeCSV(path+".csv"), graph.Charts(path+".png", graph.Screen(), r.charts(name)...))
	if err == nil {
		fmt.Fprintf(words, "%s.png, %s.csv\n", path, path)
	}
	return err
}

// tell prints what happened.
func (r *reel) tell(out io.Writer, name string) {
	last := r.notes[len(r.notes)-1]
	fmt.Fprintf(out, "%s: from %s UTC, %.1f s, %d congested buckets, %d steps\n", name, r.clock(0), last.at, last.late, last.Steps)
	for _, h := range r.told {
		fmt.Fprintf(out, "%s (%.1f s) %s\n", r.clock(h.at), h.at, h.say)
	}
	var sums []float64
	for _, n := range r.notes {
		if !math.IsNaN(n.disagree) {
			sums = append(sums, math.Abs(n.disagree))
		}
	}
	if len(sums) > 0 {
		fmt.Fprintf(out, "the two ends disagree by %s (median), %s (99th percentile), %s at most\n",
			graph.Micros(stat.OrNaN(sums, 0.5)), graph.Micros(stat.OrNaN(sums, 0.99)), graph.Micros(stat.OrNaN(sums, 1)))
	}
	why := "another version recorded, and shown is what this one makes of it"
	if r.missing {
		why = "blocks are missing"
	}
	if r.differ > 0 {
		fmt.Fprintf(out, "answers differ from those recorded, offsets by up to %s: %s\n", graph.Micros(r.differ), why)
	} else if r.asked > 0 {
		fmt.Fprintf(out, "all %d recorded answers are those of this version\n", r.asked)
	}
	if r.cut != nil {
		fmt.Fprintf(out, "the recording ends there: %v\n", r.cut)
	}
}

// writeCSV writes the notes, each with its time of day. What is NaN is empty.
func (r *reel) writeCSV(path string) error {
	var b strings.Builder
	fmt.Fprintln(&b, "utc,s,fastest_to_us_ms,fastest_to_peer_ms,floor_to_us_ms,floor_to_peer_ms,offset_us,"+
		"bound_us,round_trip_us,skew_ppm,skew_error_ppm,steps,late_buckets,disagree_us")
	for _, n := range r.notes {
		known := []float64{n.floorToUs(), n.floorToPeer(), float64(n.OffsetUsec), 1e3 * n.bound(),
			1e3 * n.roundTrip(), n.Skew, n.SkewError, float64(n.Steps)}
		if !n.known {
			known = slices.Repeat([]float64{math.NaN()}, len(known))
		}
		b.WriteString(r.clock(n.at))
		first, last := []float64{n.at, n.fastest[0], n.fastest[1]}, []float64{float64(n.late), n.disagree}
		for _, v := range slices.Concat(first, known, last) {
			b.WriteByte(',')
			if !math.IsNaN(v) {
				b.WriteString(strconv.FormatFloat(math.Round(v*1e3)/1e3, 'f', -1, 64))
			}
		}
		b.WriteByte('\n')
	}
	return os.WriteFile(path, []byte(b.String()), 0o666)
}

// circle26 returns v the shorter way round the ring of 2^26 us on which datagrams show offsets.
func circle26(v float64) float64 { return math.Remainder(v, 1<<26) }
