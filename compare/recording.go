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
	"timesync/record"
)

// recordedSubject is a subject that is recorded.
type recordedSubject struct {
	*subject
	record *record.Recorder
	file   *os.File
}

func recordSubject(path string) (r recordedSubject, err error) {
	r.subject = new(subject)
	if r.file, err = os.Create(path); err != nil {
		return r, err
	}
	r.record = record.New(r.file)
	r.record.Wrap(&r.Sync)
	return r, nil
}

// OnDatagram implements sim.Estimator.
func (r recordedSubject) OnDatagram(ts24 uint32, recvUsec uint64) (time.Duration, bool) {
	return r.record.OnAuthenticatedDatagramTimestamp(timesync.Counter24(ts24), recvUsec)
}

// OnPeerMinDelta implements sim.Estimator.
func (r recordedSubject) OnPeerMinDelta(delta uint32, recvUsec uint64) {
	r.record.OnPeerMinDeltaTS24(timesync.Counter24(delta), recvUsec)
}

func (r recordedSubject) close() error { return errors.Join(r.record.Close(), r.file.Close()) }

// reel is a recording that is being replayed: a note for each 0.2 s at end 0.
type reel struct {
	notes   []note
	both    bool // there is a recording of the other end
	start   uint64
	started bool
	wall    int64 // us: the time of day minus the local clock
	told    happened
	differ  float64   // us: by which answers differ from those recorded, at most
	asked   int       // answers
	heard   float64   // s: the last datagram
	reports []float64 // s
	cut     error     // why the recording ends
}

// note is what was known at one time.
type note struct {
	at       float64    // s since the start
	fastest  [2]float64 // ms: of the datagrams to us and to the peer; NaN if there was none
	known    bool       // the offset; without it the rest is zero
	offset   int64      // us: the peer's clock minus ours
	bound    float64    // us
	in       inside
	late     uint32  // buckets so far
	disagree float64 // us: the sum of the offsets that the ends know; NaN if that is not known
}

// noteEvery is as long as a bucket of the estimator.
const noteEvery = 200_000 // us

// floors returns how long a datagram that does not queue is under way, to us and to the
// peer, ms.
func (n *note) floors() [2]float64 {
	r := float64(n.offset & (1<<26 - 1)) // a whole one has more digits than a float64
	return [2]float64{circle(n.in.own+r, 26) / 1e3, circle(n.in.peer-r, 26) / 1e3}
}

// unwind replays recordings; the second is nil if there is none.
func unwind(first, second io.Reader) *reel {
	r := &reel{both: second != nil, wall: math.MaxInt64}
	recordings := []io.Reader{first}
	if r.both {
		recordings = append(recordings, second)
	}
	for m, err := range record.Replay(recordings...) {
		if err != nil {
			r.cut = err
			break
		}
		r.see(&m)
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
	if r.due(m.AtUsec[0]) {
		r.note(m)
	}
	at := r.since(m.AtUsec[0])
	if m.Kind == record.Datagram && m.Known && len(r.notes) > 0 {
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
		r.wall = min(r.wall, m.Wall.UnixMicro()-int64(m.LocalUsec))
		if gap := at - r.heard; gap > silence {
			r.told.say(r.heard, silent, "nothing arrived for %.1f s", gap)
		}
		r.heard = at
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

// since returns the seconds from the start to a local time.
func (r *reel) since(usec uint64) float64 { return float64(int64(usec-r.start)) / 1e6 }

// due reports whether it is time for a note.
func (r *reel) due(at uint64) bool {
	return len(r.notes) == 0 || r.since(at) >= r.notes[len(r.notes)-1].at+noteEvery/1e6
}

// note notes what end 0 knows.
func (r *reel) note(m *record.Moment) {
	n := note{at: r.since(m.AtUsec[0]), fastest: [2]float64{math.NaN(), math.NaN()}, disagree: math.NaN()}
	s, ok := m.Ends[0].Snapshot(m.AtUsec[0])
	if in, seen := look(m.Ends[0], m.AtUsec[0]); ok && seen {
		n.known, n.offset, n.in = true, s.OffsetUsec, in
		n.bound = float64(s.ErrorBound) / float64(time.Microsecond)
	}
	n.late = m.Ends[0].Stats().LateBuckets
	if n.known && r.both {
		if o, ok := m.Ends[1].Snapshot(m.AtUsec[1]); ok {
			n.disagree = circle(float64(s.OffsetUsec+o.OffsetUsec), 26) // 0 if the ends agree
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
	by := circle(float64(now.Snapshot.OffsetUsec-m.Answer.Snapshot.OffsetUsec), 26)
	r.differ = max(r.differ, math.Abs(by), 1)
}

// ---- What happened, in words ----

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

type happened struct {
	all   []happening
	lifts [][2]float64 // s: from when all datagrams to us were late, until that was believed to be the path
}

func (h *happened) say(at float64, row int, format string, args ...any) {
	h.all = append(h.all, happening{at, row, fmt.Sprintf(format, args...)})
}

const (
	settles     = 6.0 // s after the offset is first known: the first datagrams may all have queued
	leastChange = 0.5 // ms: smaller changes of a path are not told
	silence     = 2.0 // s: nor are shorter ones
)

// words says what the estimator took for what.
func (h *happened) words(r *reel) {
	h.known(r.notes)
	h.queues(r.notes)
	h.missed(r.reports)
	slices.SortStableFunc(h.all, func(a, b happening) int { return cmp.Compare(a.at, b.at) })
}

// known tells of changes from one note to the next: steps, and floors that moved.
func (h *happened) known(notes []note) {
	begun := math.Inf(1)
	for i := 1; i < len(notes); i++ {
		was, is := &notes[i-1], &notes[i]
		switch {
		case !is.known:
			begun = math.Inf(1)
			continue
		case !was.known:
			begun = is.at
			h.say(is.at, other, "the offset is known, to %s", micros(is.bound))
			continue
		}
		if steps := is.in.steps - was.in.steps; steps > 0 {
			h.say(is.at, clockSet, "the remote time stepped by %s: a clock was set, or the peer changed", signed(float64(is.offset-was.offset)))
			continue
		}
		if is.at < begun+settles {
			continue
		}
		h.paths(was, is)
	}
}

// paths tells of floors that moved while no clock was set.
func (h *happened) paths(was, is *note) {
	before, after := was.floors(), is.floors()
	room := max(leastChange, is.in.gate/1e3)
	if d := after[0] - before[0]; d > room {
		late := was.in.late/1e6 + is.at - was.at
		h.lifts = append(h.lifts, [2]float64{is.at - late, is.at})
		h.say(is.at-late, pathToUs, "path to us longer by %s; believed after %.1f s", micros(d*1e3), late)
	} else if d < -room {
		h.say(is.at, pathToUs, "path to us shorter by %s; believed at once", micros(-d*1e3))
	}
	if d := after[1] - before[1]; d > room {
		h.say(is.at, pathToPeer, "path to the peer longer by %s, as the peer reported", micros(d*1e3))
	} else if d < -room {
		h.say(is.at, pathToPeer, "path to the peer shorter by %s, as the peer reported", micros(-d*1e3))
	}
}

// queues tells of times in which all datagrams to us queued for a second or more, and that
// was not taken for the path.
func (h *happened) queues(notes []note) {
	const least = 1.0 // s
	from, most := -1, 0.0
	for i := 1; i < len(notes); i++ {
		if notes[i].known && notes[i].late > notes[i-1].late {
			if from < 0 {
				from, most = i-1, 0
			}
			most = max(most, notes[i].in.low)
			continue
		}
		if from >= 0 && notes[i-1].at-notes[from].at >= least && !h.lifted(notes[from].at) {
			h.say(notes[from].at, queued, "all datagrams to us queued for %.1f s, the fastest of 0.2 s by up to %s", notes[i-1].at-notes[from].at, micros(most))
		}
		from = -1
	}
}

// lifted reports whether what was late then was the path.
func (h *happened) lifted(at float64) bool {
	const bucket = noteEvery / 1e6 // s
	return slices.ContainsFunc(h.lifts, func(l [2]float64) bool { return at > l[0]-2*bucket && at < l[1] })
}

// missed tells of reports that did not come: nobody tells how often they should.
func (h *happened) missed(at []float64) {
	var gaps []float64
	for i := 1; i < len(at); i++ {
		gaps = append(gaps, at[i]-at[i-1])
	}
	usual := max(medianOf(gaps), 2)
	for i, gap := range gaps {
		if gap > 2.5*usual {
			h.say(at[i], silent, "no report for %.1f s; usual are %.1f s", gap, usual)
		}
	}
}

// signed returns a difference with its sign.
func signed(us float64) string {
	if us < 0 {
		return "-" + micros(-us)
	}
	return "+" + micros(us)
}

// clock returns the time of day after so many seconds.
func (r *reel) clock(at float64) string {
	if !r.started || r.wall == math.MaxInt64 {
		return fmt.Sprintf("%.1f s", at)
	}
	return time.UnixMicro(r.wall + int64(r.start) + int64(at*1e6)).UTC().Format("15:04:05")
}

// tell prints what happened.
func (r *reel) tell(out io.Writer, name string) {
	if len(r.notes) == 0 {
		fmt.Fprintf(out, "%s: nothing is in it\n", name)
	} else {
		last := r.notes[len(r.notes)-1]
		fmt.Fprintf(out, "%s: from %s UTC, %.1f s, %d late buckets, %.0f steps\n", name, r.clock(0), last.at, last.late, last.in.steps)
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
	if len(sums) > 0 {
		fmt.Fprintf(out, "the two ends disagree by %s (median), %s (99th percentile), %s at most\n",
			micros(quantileOf(sums, 0.5)), micros(quantileOf(sums, 0.99)), micros(quantileOf(sums, 1)))
	}
	if r.differ > 0 {
		fmt.Fprintf(out, "this version answers otherwise than the one that recorded, offsets by up to %s; shown is what this one makes of it\n", micros(r.differ))
	} else {
		fmt.Fprintf(out, "all %d recorded answers are those of this version\n", r.asked)
	}
	if r.cut != nil {
		fmt.Fprintf(out, "the recording ends there: %v\n", r.cut)
	}
}

// drawRecording replays a recording, and that of the other end if it has a name.
func drawRecording(first, second, out string, words io.Writer) error {
	a, err := os.Open(first)
	if err != nil {
		return err
	}
	defer a.Close()
	var b io.Reader
	if second != "" {
		f, err := os.Open(second)
		if err != nil {
			return err
		}
		defer f.Close()
		b = f
	}
	r := unwind(a, b)
	if len(r.notes) == 0 && r.cut != nil {
		return r.cut
	}
	name := strings.TrimSuffix(filepath.Base(first), filepath.Ext(first))
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
	if err := r.draw(path+".png", name); err != nil {
		return err
	}
	fmt.Fprintf(words, "%s.png, %s.csv\n", path, path)
	return nil
}

// writeCSV writes the notes.
func (r *reel) writeCSV(path string) error {
	rows := [][]string{{"s", "utc", "fastest_to_us_ms", "fastest_to_peer_ms", "floor_to_us_ms", "floor_to_peer_ms",
		"offset_us", "bound_us", "round_trip_us", "skew_ppm", "skew_sigma_ppm", "steps", "late_buckets", "disagree_us"}}
	number := func(v float64) string {
		if math.IsNaN(v) {
			return ""
		}
		return strconv.FormatFloat(math.Round(v*1e3)/1e3, 'f', -1, 64)
	}
	for i := range r.notes {
		n := &r.notes[i]
		row := []string{number(n.at), r.clock(n.at), number(n.fastest[0]), number(n.fastest[1])}
		if n.known {
			f := n.floors()
			row = append(row, number(f[0]), number(f[1]), strconv.FormatInt(n.offset, 10), number(n.bound),
				number(circle(n.in.own+n.in.peer, 27)), number(n.in.skew), number(n.in.skewError), number(n.in.steps))
		} else {
			row = append(row, make([]string, 8)...)
		}
		rows = append(rows, append(row, strconv.FormatUint(uint64(n.late), 10), number(n.disagree)))
	}
	return writeCSV(path, rows)
}
