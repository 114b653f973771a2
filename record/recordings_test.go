// These tests replay the recordings in testdata/recordings. They hold the format to what it
// was when these were made, and what the estimator makes of them today to figures with room.
// testdata/README.md says how they were made and why the truth about their clocks is known.
package record

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"timesync"
	"timesync/internal/testkit"
)

const recordings = "../testdata/recordings"

// session is a recording of a path whose true offset is known: of both ends, or of one.
type session struct {
	files []string
	start uint64  // the clock of end b minus that of end a when a reads 0, us
	ppm   float64 // by how much b's runs faster
	// most is the 99th percentile of the error of both ends, and of the sum of their
	// offsets, in us.
	most  float64
	least int // datagrams to each end
}

// warmup is the time after which figures count: the first datagrams may all have queued.
const warmup = 10_000_000 // us

var sessions = []session{
	// TCP fills a queue of 300 ms one way, the other way and both ways.
	{
		files: []string{"realqueue-a", "realqueue-b"},
		start: 1_234_567_890,
		ppm:   40,
		most:  300,
		least: 5000,
	},
	{files: []string{"loopback-a", "loopback-b"}, most: 100, least: 1500},
	{
		files: []string{"quic-a", "quic-b"},
		start: 1 << 50,
		ppm:   -40 / (1 + 40e-6),
		most:  500,
		least: 1500,
	},
	// The server's end of a page, whose clock is that of the same machine, from another start:
	// modulo 67.1 s, as measured.
	{files: []string{"browser"}, start: 4266754, most: 1000, least: 1000},
}

func openRecording(t *testing.T, name string) io.Reader {
	t.Helper()
	file, err := os.Open(filepath.Join(recordings, name))
	must(t, err)
	t.Cleanup(func() { file.Close() })
	return file
}

// modulo returns a difference of offsets, which datagrams show modulo 67.1 s, the shorter way
// round.
func modulo(usec float64) float64 {
	const full = 1 << ringBits
	return usec - full*math.Round(usec/full)
}

// offsetAt returns the true offset for an end that reads local.
func (s *session) offsetAt(end int, local uint64) float64 {
	a := float64(local)
	sign := 1.0
	if end == 1 {
		a = float64(local-s.start) / (1 + s.ppm/1e6)
		sign = -1
	}
	return sign * (float64(s.start) + a*s.ppm/1e6)
}

// readings returns the recordings of a session. They were made with version 2 of package link, in
// which a report was the level of a line. Where both ends recorded, the reports are made anew as
// version 3 has them.
func (s *session) readings(t *testing.T) (files []io.Reader) {
	var events [2][]Event
	for end, name := range s.files {
		for e, err := range Read(openRecording(t, name+".tsr")) {
			must(t, err)
			events[end] = append(events[end], e)
		}
	}
	if len(s.files) == 1 { // what the page heard was not recorded
		return []io.Reader{openRecording(t, s.files[0]+".tsr")}
	}
	for end := range events {
		files = append(files, s.converted(t, end, events[end], events[1-end]))
	}
	return files
}

// converted returns a recording of an end in which each report is the least delta that came to the
// other one since the report before.
func (s *session) converted(t *testing.T, end int, here, there []Event) io.Reader {
	slope := s.ppm / 1e6 // of the deltas there
	if end == 1 {
		slope = -slope
	}
	var file bytes.Buffer
	w := New(&file)
	w.Wrap(new(timesync.TimeSynchronizer))
	var stamp timesync.Counter24 // of the last datagram
	told := 0                    // events there before the last report
	for i, e := range here {
		if i%256 == 0 {
			w.Flush() // else blocks are dropped: it is written faster than disks are expected to be
		}
		switch e.Kind {
		case Datagram:
			stamp = e.Counter
			w.OnAuthenticatedDatagramTimestamp(e.Counter, e.LocalUsec)
		case Anchor:
			w.Anchor(e.LocalUsec, e.RemoteUsec)
		case Report: // it came with that datagram
			arrived := e.LocalUsec + uint64(int64(s.offsetAt(end, e.LocalUsec)))
			sent := arrived - (arrived-uint64(stamp)<<3)&(1<<27-1)
			var report timesync.Counter24
			report, told = leastDelta(there, told, sent, slope)
			w.OnPeerMinDeltaTS24(report, e.LocalUsec)
		}
	}
	must(t, w.Close())
	return &file
}

// leastDelta returns the report for the datagrams of all[from:] that came until sent, and the rest
// of all.
func leastDelta(
	all []Event, from int, sent uint64, slope float64,
) (report timesync.Counter24, rest int) {
	least := math.Inf(1)
	first := uint64(0)
	for rest = from; rest < len(all) && int64(all[rest].LocalUsec-sent) <= 0; rest++ {
		e := all[rest]
		if e.Kind != Datagram {
			continue
		}
		delta := e.LocalUsec - uint64(e.Counter)<<3
		if math.IsInf(least, 1) {
			first = delta
		}
		above := float64(int64((delta-first)<<37) >> 37) // modulo 2^27
		least = min(least, above+slope*float64(sent-e.LocalUsec))
	}
	if math.IsInf(least, 1) {
		return 0, rest // nothing came
	}
	report = timesync.NewCounter24((first + uint64(int64(math.Round(least))) + 4) >> 3)
	if report%3 == 2 { // only an original sends those
		report = report.Inc()
	}
	return max(report, 1), rest
}

// TestRecordings replays each session.
func TestRecordings(t *testing.T) {
	for _, s := range sessions {
		files := s.readings(t)
		var errs, sums []float64
		begin := [2]uint64{}
		datagrams := [2]int{}
		wrong := 0
		for m, err := range Replay(files...) {
			must(t, err)
			if m.Kind != Datagram {
				continue
			}
			datagrams[m.End]++
			begin[m.End] = cmp.Or(begin[m.End], m.LocalUsec)
			if m.LocalUsec-begin[m.End] < warmup {
				continue
			}
			now, ok := m.Ends[m.End].Snapshot(m.LocalUsec)
			off := math.Abs(modulo(float64(now.OffsetUsec) - s.offsetAt(m.End, m.LocalUsec)))
			errs = append(errs, off)
			if there := m.Ends[1-m.End]; there != nil {
				other, known := there.Snapshot(m.AtUsec[1-m.End])
				ok = ok && known
				sums = append(sums, math.Abs(modulo(float64(now.OffsetUsec+other.OffsetUsec))))
			}
			bound := now.ErrorBound
			isBeyond := off > float64(bound.Microseconds())+1
			if !ok || isBeyond || bound > 50*time.Millisecond || now.Steps > 0 {
				wrong++
			}
		}
		// the page stood still, and reports of version 2 come each 2 s: till the next one the
		// bound is a second
		old := 0
		if s.files[0] == "browser" {
			old = 20
		}
		gotErr := testkit.OrNaN(errs, 0.99)
		gotSum := testkit.OrNaN(sums, 0.99)
		t.Logf("%s: %v datagrams; p99 of the error %.0f us, of the disagreement %.0f us; "+
			"%d unknown, beyond their bound, with one of over 50 ms, or after a step",
			s.files, datagrams, gotErr, gotSum, wrong)
		fewest := slices.Min(datagrams[:len(files)])
		if gotErr > s.most || gotSum > s.most || fewest < s.least || wrong > old {
			t.Errorf("want at most %.0f us, and %d datagrams", s.most, s.least)
		}
	}
}

// formats are the SHA-256 of two recordings in words. A program in another language, written
// from the head of format.go, says the same: version 1 of the format is what it was.
var formats = map[string]string{
	"loopback-a.tsr": "b8b318d0871e5f5bb8763996d9315de81dfcf032b1b5a8ef14175ad063af1376",
	"browser.tsr":    "11225f6155abdd50213aa813385295ee6d179faf3138b8eb241f7ca45c495b0a",
}

func TestFormat(t *testing.T) {
	for name, want := range formats {
		sum := sha256.New()
		for e, err := range Read(openRecording(t, name)) {
			must(t, err)
			switch e.Kind {
			case Datagram:
				fmt.Fprintln(sum, "datagram", e.LocalUsec, uint32(e.Counter))
			case Report:
				fmt.Fprintln(sum, "report", e.LocalUsec, uint32(e.Counter))
			case Anchor:
				fmt.Fprintln(sum, "anchor", e.LocalUsec, e.RemoteUsec)
			case Reset:
				fmt.Fprintln(sum, "reset")
			case Answered:
				fmt.Fprint(sum, "answer ", e.LocalUsec, " ", e.Answer.Stats.Datagrams, " ",
					e.Answer.Stats.QueuedSpans)
				if e.Answer.OK {
					s := &e.Answer.Snapshot
					// These files are older than both.
					if s.StepSeen || !math.IsInf(s.SkewError, 1) {
						t.Errorf("%s: not in the file: %+v", name, s)
					}
					scatter := s.FloorScatter
					if scatter == 0 {
						scatter = time.Second // as the file says it
					}
					fmt.Fprint(sum,
						" ", s.OffsetUsec,
						" ", int64(s.ErrorBound),
						" ", int64(s.MinimumOneWayDelay),
						" ", int64(scatter),
						" ", int64(s.Age),
						" ", int64(s.SinceStep),
						" ", math.Float64bits(s.Skew),
						" ", s.Steps)
				}
				fmt.Fprintln(sum)
			}
		}
		check(t, hex.EncodeToString(sum.Sum(nil)), want, "%s", name)
	}
}
