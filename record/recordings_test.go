// SPDX-License-Identifier: BSD-3-Clause

// These tests replay the recordings in testdata/recordings. They hold the format to what it
// was when these were made, and what the estimator makes of them today to figures with room.
// testdata/README.md says how they were made and why the truth about their clocks is known.
package record

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"timesync"
	"timesync/internal/stat"
)

const recordings = "../testdata/recordings"

// session is a recording of both ends of a path whose true offset is known.
type session struct {
	name  string
	start uint64  // the clock of end b minus that of end a when a reads 0, us
	ppm   float64 // by how much b's runs faster
	most  float64 // us: the 99th percentile of the error of both ends, and of the sum of their offsets
	least int     // datagrams to each end
}

// warmup is the time after which figures count: the first datagrams may all have queued.
const warmup = 10_000_000 // us

var sessions = []session{
	// TCP fills a queue of 300 ms one way, the other way and both ways.
	{name: "realqueue", start: 1_234_567_890, ppm: 40, most: 300, least: 5000},
	{name: "loopback", most: 100, least: 1500},
	{name: "quic", start: 1 << 50, ppm: -40 / (1 + 40e-6), most: 500, least: 1500},
}

func openRecording(t *testing.T, name string) io.Reader {
	t.Helper()
	file, err := os.Open(filepath.Join(recordings, name))
	must(t, err)
	t.Cleanup(func() { file.Close() })
	return file
}

// modulo returns a difference of offsets, which datagrams show modulo 67.1 s, the shorter way round.
func modulo(usec float64) float64 {
	const full = 1 << ringBits
	return usec - full*math.Round(usec/full)
}

// offsetAt returns the true offset for an end that reads local.
func (s *session) offsetAt(end int, local uint64) float64 {
	a, sign := float64(local), 1.0
	if end == 1 {
		a, sign = float64(local-s.start)/(1+s.ppm/1e6), -1
	}
	return sign * (float64(s.start) + a*s.ppm/1e6)
}

// afterWarmup replays one recording or two, and calls see with each datagram that counts.
func afterWarmup(t *testing.T, see func(Moment), recordings ...io.Reader) (datagrams [2]int) {
	t.Helper()
	var begin [2]uint64
	for m, err := range Replay(recordings...) {
		must(t, err)
		if m.Kind != Datagram {
			continue
		}
		if datagrams[m.End]++; datagrams[m.End] == 1 {
			begin[m.End] = m.LocalUsec
		}
		if m.LocalUsec-begin[m.End] >= warmup {
			see(m)
		}
	}
	return datagrams
}

// TestRecordings replays both ends of each session.
func TestRecordings(t *testing.T) {
	for _, s := range sessions {
		var errs, sums []float64
		outside := 0
		datagrams := afterWarmup(t, func(m Moment) {
			now, ok := m.Ends[m.End].Snapshot(m.LocalUsec)
			there, known := m.Ends[1-m.End].Snapshot(m.AtUsec[1-m.End])
			if !ok || !known {
				t.Fatalf("%s: an end does not know the offset at %d us", s.name, m.LocalUsec)
			}
			off := math.Abs(modulo(float64(now.OffsetUsec) - s.offsetAt(m.End, m.LocalUsec)))
			errs = append(errs, off)
			sums = append(sums, math.Abs(modulo(float64(now.OffsetUsec+there.OffsetUsec))))
			if off > float64(now.ErrorBound.Microseconds())+1 {
				outside++
			}
		}, openRecording(t, s.name+"-a.tsr"), openRecording(t, s.name+"-b.tsr"))
		gotErr, gotSum := stat.Quantile(errs, 0.99), stat.Quantile(sums, 0.99)
		t.Logf("%s: %v datagrams; p99 of the error %.0f us, of the disagreement %.0f us; %d beyond their bound",
			s.name, datagrams, gotErr, gotSum, outside)
		if max(gotErr, gotSum) > s.most || min(datagrams[0], datagrams[1]) < s.least || outside > 0 {
			t.Errorf("want at most %.0f us, and %d datagrams", s.most, s.least)
		}
	}
}

// TestBrowserRecording replays the server's end of a page. The page's clock is that of the
// same machine, from another start: the true offset is not known, but it does not change.
func TestBrowserRecording(t *testing.T) {
	var offsets []float64
	var first timesync.Snapshot
	afterWarmup(t, func(m Moment) {
		s, ok := m.Ends[0].Snapshot(m.LocalUsec)
		if len(offsets) == 0 {
			first = s
		}
		offsets = append(offsets, float64(s.OffsetUsec-first.OffsetUsec))
		if !ok || s.ErrorBound.Milliseconds() > 50 || s.Steps != first.Steps {
			t.Fatalf("at %d us: %v, %v", m.LocalUsec, ok, s)
		}
	}, openRecording(t, "browser.tsr"))
	n, spread := len(offsets), stat.Quantile(offsets, 0.99)-stat.Quantile(offsets, 0.01)
	t.Logf("%d datagrams; 98 %% of the offsets within %.0f us", n, spread)
	if spread > 2000 || n < 1000 {
		t.Error("too few datagrams, or too far apart")
	}
}

// formats are the SHA-256 of two recordings in words. A program in another language, written
// from docs/RECORDING.md, says the same: version 1 of the format is what it was.
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
				fmt.Fprint(sum, "answer ", e.LocalUsec, " ", e.Answer.Stats.Datagrams, " ", e.Answer.Stats.LateBuckets)
				if s := &e.Answer.Snapshot; e.Answer.OK {
					if s.Disturbed || !math.IsInf(s.SkewError, 1) { // these files are older than both
						t.Errorf("%s: not in the file: %+v", name, s)
					}
					jitter := s.Jitter
					if !s.JitterKnown {
						jitter = time.Second // as the file says it
					}
					fmt.Fprint(sum, " ", s.OffsetUsec, " ", int64(s.ErrorBound), " ", int64(s.MinimumOneWayDelay), " ", int64(jitter), " ",
						int64(s.Age), " ", int64(s.Undisturbed), " ", math.Float64bits(s.Skew), " ", s.Steps)
				}
				fmt.Fprintln(sum)
			}
		}
		check(t, hex.EncodeToString(sum.Sum(nil)), want, "%s", name)
	}
}
