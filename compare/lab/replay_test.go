// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that a recorded run of the real link plays again as it was.

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"timesync/compare/play"
	"timesync/internal/sim"
	"timesync/internal/stat"
)

// The program runs in the folder of the module.
func init() { os.Chdir("..") }

// quietTrace is a run of 20 s over a path of 5 ms each way, with a report every second. The
// program reads each datagram late.
func quietTrace(late time.Duration) (trace [2][]linkRow) {
	const us = time.Microsecond
	for at := time.Duration(0); at < 20*time.Second; at += time.Second / 64 {
		for to := range trace {
			owd := 5 * time.Millisecond
			trace[to] = append(trace[to], linkRow{
				sent: uint64(at / us), asked: uint64(at / us), owd: int64(owd / us), read: int64((owd + late) / us),
				reported: at%time.Second == 0 && at > 0,
			})
		}
	}
	return trace
}

// TestReplay replays a run of which the right answers are known, before and after it was
// saved.
func TestReplay(t *testing.T) {
	const late = 2 * time.Millisecond
	trace := quietTrace(late)
	trace[0][7].owd, trace[0][7].read = -1, -1
	path := filepath.Join(t.TempDir(), "trace.csv.gz")
	if err := writeTrace(path, trace); err != nil {
		t.Fatal(err)
	}
	got, err := readTrace(path)
	if err != nil {
		t.Fatal(err)
	}
	for to := range trace {
		if !slices.Equal(got[to], trace[to]) {
			t.Errorf("what was sent to end %d is not what was saved", to)
		}
	}
	for _, s := range linkSetups {
		errs := s.replayed(got)
		settled := sizes(slices.DeleteFunc(slices.Clone(errs), func(e linkError) bool { return e.at < 10*time.Second }))
		limit := 60.0
		if s.Method == play.Original && s.skew != 0 { // its minima are up to 10 s old
			limit = 60e-6 * 10e6
		}
		if len(settled) < 150 || stat.OrNaN(settled, 1) > limit {
			t.Errorf("%s: %d answers after 10 s, the worst %.0f us off, limit %.0f", s.name(), len(settled), stat.OrNaN(settled, 1), limit)
		}
	}
	for to := range trace {
		for i := range trace[to] {
			trace[to][i].reported = false
		}
	}
	if errs := oursKernel.replayed(trace); len(errs) > 0 {
		t.Errorf("%d answers without a report", len(errs))
	}
}

// TestReplayReadsLate: a program that reads late one way only is wrong by half of that; the
// kernel's times do not know of it.
func TestReplayReadsLate(t *testing.T) {
	trace := quietTrace(0)
	for i := range trace[0] {
		trace[0][i].read += 2000
	}
	for _, c := range []struct {
		setup linkSetup
		want  float64
	}{{linkSetup{play.Ours, true, 0}, 0}, {linkSetup{play.Ours, false, 0}, 1000}} {
		abs := sizes(c.setup.replayed(trace))
		if got := stat.OrNaN(abs, 0.5); !(got >= c.want-20 && got <= c.want+20) {
			t.Errorf("%s: median error %.0f us, want %.0f", c.setup.name(), got, c.want)
		}
	}
}

// TestReadTraceRefuses: what is no trace is an error that says where.
func TestReadTraceRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	if _, err := readTrace(path); err == nil {
		t.Error("no file, no error")
	}
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readTrace(path); err == nil {
		t.Error("no gzip, no error")
	}
	if _, err := readTrace("../internal/sim/testdata/kernel-tcp-10m-60pps.csv.gz"); err == nil {
		t.Error("a series without times of reading, no error")
	}
}

// TestRealLink measures a real queue for some seconds, where the machine lets it.
func TestRealLink(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 6 s")
	}
	out := t.TempDir()
	log, err := exec.Command("lab/queue.sh", out, "-lasting", "6s", "-only", "tcp", "-record", out).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	if strings.Contains(string(log), "does not run here") {
		t.Skip(strings.TrimSpace(string(log)))
	}
	text, err := os.ReadFile(filepath.Join(out, "QUEUE.md"))
	if err != nil || !strings.Contains(string(text), "| all of it |") {
		t.Errorf("%v\n%s", err, log)
	}
	trace, err := readTrace(filepath.Join(out, "tcp-60singles.csv.gz"))
	if err != nil || len(trace[sim.A]) < 100 || len(trace[sim.B]) < 100 {
		t.Errorf("the trace has %d and %d datagrams, %v", len(trace[sim.A]), len(trace[sim.B]), err)
	}
}
