// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"encoding/csv"
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
	notes    []note
	both     bool // there is a recording of the other end
	start    uint64
	started  bool
	days     []day
	told     happened
	differ   float64   // us: by which answers differ from those recorded, at most
	asked    int       // answers
	count    int       // datagrams
	block    block     // of the last one
	ended    float64   // s: the last datagram of the block before
	silences []span    // in which no datagram arrived
	reports  []float64 // s
	cut      error     // why the recording ends
}

// day says which time of day it is, from one time on.
type day struct {
	from float64 // s
	less int64   // us: the time of day minus the local clock
}

// block is a block of the recording.
type block struct {
	wall  time.Time // when it was ended
	local uint64    // us: its last datagram
	at    float64   // s: that
}

// span is a span of time.
type span struct{ from, to float64 } // s

// note is what was known at one time.
type note struct {
	at       float64    // s since the start
	fastest  [2]float64 // ms: of the datagrams to us and to the peer; NaN if there was none
	known    bool       // the offset; without it snapshot is zero
	snapshot timesync.Snapshot
	late     uint32  // buckets so far
	disagree float64 // us: the sum of the offsets that the ends know; NaN if that is not known
}

// noteEvery is as long as a bucket of the estimator.
const noteEvery = 200_000 // us

// floors returns how long a datagram that does not queue is under way, to us and to the
// peer, ms.
func (n *note) floors() [2]float64 {
	return [2]float64{graph.Millis(n.snapshot.MinimumOneWayDelay), graph.Millis(n.snapshot.MinimumDelayToPeer)}
}

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
	if r.count > 0 {
		r.endBlock()
	}
	r.told.words(r)
	return r
}

// see takes an event.
func (r *reel) see(m *record.Moment) {
	if timed := m.Kind != record.Missing && m.Kind != record.Reset; !r.started && m.End == 0 && timed {
		r.start, r.started = m.AtUsec[0], true
	}
	if !r.started {
		return
	}
	at := r.since(m.AtUsec[0])
	if len(r.notes) == 0 || at >= r.notes[len(r.notes)-1].at+noteEvery/1e6 {
		r.note(m)
	}
	if m.Kind == record.Datagram && m.Known {
		f := &r.notes[len(r.notes)-1].fastest[m.End]
		if ms := float64(m.OWD) / float64(time.Millisecond); !(*f <= ms) {
			*f = ms
		}
	}
	if m.End != 0 {
		return
	}
	switch m.Kind {
	case record.Datagram:
		r.datagram(m, at)
	case record.Report:
		r.reports = append(r.reports, at)
	case record.Answered:
		r.compare(m)
	case record.Reset:
		r.told.say(at, other, "everything was forgotten: a new connection")
	case record.Missing:
		r.told.say(at, other, "%d blocks are missing in the recording", m.Count)
	}
}

// datagram takes one at end 0.
func (r *reel) datagram(m *record.Moment, at float64) {
	if r.count > 0 && m.Wall != r.block.wall {
		r.endBlock()
	}
	if gap := at - r.block.at; r.count > 0 && gap > leastSilence {
		r.silences = append(r.silences, span{r.block.at, at})
	}
	r.count++
	r.block = block{m.Wall, m.LocalUsec, at}
}

// asleep is by how much more than the local clock the time of day has to go on at once, us.
// Blocks are ended a second after their last datagram at most.
const asleep = 3_000_000

// endBlock compares the time of day at which a block was ended with its last datagram.
func (r *reel) endBlock() {
	b := &r.block
	less, n := b.wall.UnixMicro()-int64(b.local), len(r.days)
	switch {
	case n == 0:
		r.days = append(r.days, day{math.Inf(-1), less})
	case less > r.days[n-1].less+asleep:
		by := (time.Duration(less-r.days[n-1].less) * time.Microsecond).Round(time.Second)
		r.told.say(r.ended, clockSet, "the time of day went on by %s more than the local clock: this machine slept, or one of its clocks was set", by)
		r.days = append(r.days, day{r.ended, less})
	default: // in a simulation much less
		r.days[n-1].less = min(r.days[n-1].less, less)
	}
	r.ended = b.at
}

// since returns the seconds from the start to a local time.
func (r *reel) since(usec uint64) float64 { return float64(int64(usec-r.start)) / 1e6 }

// note notes what end 0 knows.
func (r *reel) note(m *record.Moment) {
	n := note{at: r.since(m.AtUsec[0]), fastest: [2]float64{math.NaN(), math.NaN()}, disagree: math.NaN()}
	n.snapshot, n.known = m.Ends[0].Snapshot(m.AtUsec[0])
	n.late = m.Ends[0].Stats().LateBuckets
	if n.known && r.both {
		if o, ok := m.Ends[1].Snapshot(m.AtUsec[1]); ok {
			n.disagree = circle26(float64(n.snapshot.OffsetUsec + o.OffsetUsec)) // 0 if the ends agree
		}
	}
	r.notes = append(r.notes, n)
}

// compare compares an answer with the recorded one.
func (r *reel) compare(m *record.Moment) {
	r.asked++
	now := record.Ask(m.Ends[0], m.LocalUsec)
	if now == m.Answer {
		return
	}
	by := circle26(float64(now.Snapshot.OffsetUsec - m.Answer.Snapshot.OffsetUsec))
	r.differ = max(r.differ, math.Abs(by), 1)
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
	if len(r.notes) == 0 && r.cut != nil {
		return r.cut
	}
	name := strings.TrimSuffix(filepath.Base(paths[0]), filepath.Ext(paths[0]))
	r.tell(words, name)
	if len(r.notes) < 2 {
		return nil // there is nothing to draw
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	path := filepath.Join(out, "recording-"+name)
	if err := r.writeCSV(path + ".csv"); err != nil {
		return err
	}
	if err := graph.Charts(path+".png", graph.Screen(), r.charts(name)...); err != nil {
		return err
	}
	fmt.Fprintf(words, "%s.png, %s.csv\n", path, path)
	return nil
}

// tell prints what happened.
func (r *reel) tell(out io.Writer, name string) {
	if len(r.notes) == 0 {
		fmt.Fprintf(out, "%s: nothing is in it\n", name)
	} else {
		last := r.notes[len(r.notes)-1]
		fmt.Fprintf(out, "%s: from %s UTC, %.1f s, %d congested buckets, %d steps\n", name, r.clock(0), last.at, last.late, last.snapshot.Steps)
	}
	for _, h := range r.told.all {
		fmt.Fprintf(out, "%s (%.1f s) %s\n", r.clock(h.at), h.at, h.say)
	}
	var sums []float64
	for _, n := range r.notes {
		if !math.IsNaN(n.disagree) {
			sums = append(sums, math.Abs(n.disagree))
		}
	}
	if slices.Sort(sums); len(sums) > 0 {
		fmt.Fprintf(out, "the two ends disagree by %s (median), %s (99th percentile), %s at most\n",
			graph.Micros(stat.OrNaN(sums, 0.5)), graph.Micros(stat.OrNaN(sums, 0.99)), graph.Micros(stat.OrNaN(sums, 1)))
	}
	if r.differ > 0 {
		fmt.Fprintf(out, "this version answers otherwise than the one that recorded, offsets by up to %s; shown is what this one makes of it\n", graph.Micros(r.differ))
	} else if r.asked > 0 {
		fmt.Fprintf(out, "all %d recorded answers are those of this version\n", r.asked)
	}
	if r.cut != nil {
		fmt.Fprintf(out, "the recording ends there: %v\n", r.cut)
	}
}

// columns are those of the CSV. What is NaN is empty.
var columns = []struct {
	name  string
	value func(n *note) float64
}{
	{"s", func(n *note) float64 { return n.at }},
	{"fastest_to_us_ms", func(n *note) float64 { return n.fastest[0] }},
	{"fastest_to_peer_ms", func(n *note) float64 { return n.fastest[1] }},
	{"floor_to_us_ms", whenKnown(func(n *note) float64 { return n.floors()[0] })},
	{"floor_to_peer_ms", whenKnown(func(n *note) float64 { return n.floors()[1] })},
	{"offset_us", whenKnown(func(n *note) float64 { return float64(n.snapshot.OffsetUsec) })},
	{"bound_us", whenKnown(func(n *note) float64 { return 1e3 * graph.Millis(n.snapshot.ErrorBound) })},
	{"round_trip_us", whenKnown(func(n *note) float64 { return 1e3 * (n.floors()[0] + n.floors()[1]) })},
	{"skew_ppm", whenKnown(func(n *note) float64 { return n.snapshot.Skew })},
	{"skew_error_ppm", whenKnown(func(n *note) float64 { return n.snapshot.SkewError })},
	{"steps", whenKnown(func(n *note) float64 { return float64(n.snapshot.Steps) })},
	{"late_buckets", func(n *note) float64 { return float64(n.late) }},
	{"disagree_us", func(n *note) float64 { return n.disagree }},
}

// writeCSV writes the notes, each with its time of day.
func (r *reel) writeCSV(path string) error {
	rows := [][]string{{"utc"}}
	for _, c := range columns {
		rows[0] = append(rows[0], c.name)
	}
	for i := range r.notes {
		row := []string{r.clock(r.notes[i].at)}
		for _, c := range columns {
			cell := ""
			if v := c.value(&r.notes[i]); !math.IsNaN(v) {
				cell = strconv.FormatFloat(math.Round(v*1e3)/1e3, 'f', -1, 64)
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(csv.NewWriter(f).WriteAll(rows), f.Close())
}

// circle26 returns v the shorter way round the ring of 2^26 us on which datagrams show offsets.
func circle26(v float64) float64 { return math.Remainder(v, 1<<26) }
