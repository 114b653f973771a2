// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that what is measured on the real link is what happens there.

package main

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"timesync/compare/play"
	"timesync/internal/sim"
	"timesync/internal/stat"
)

// The program runs in the folder of the module.
func init() { os.Chdir("..") }

// TestSetups: over a path of 5 ms each way every setup is right. A program that reads late one way only
// is wrong by half of that, but the kernel's times do not know of it.
func TestSetups(t *testing.T) {
	for _, late := range []uint64{0, 2000} { // us, of what A reads
		s := newLinkStream()
		for at := uint64(0); at < 20_000_000; at += 20_000 {
			for _, e := range s.ends {
				d := linkDatagram{Reports: e.reports(at)}
				s.stamp(e, at, &d)
				read := at + 5000
				if e.side == sim.B {
					read += late
				}
				s.take(s.ends[1-e.side], &d, at+5000, read)
				s.ask(e, at+10_000)
			}
		}
		for _, setup := range linkSetups {
			errs := s.absolute(setup, 10*time.Second, 20*time.Second)
			want, limit := 0.0, 60.0
			if !setup.kernel {
				want = float64(late) / 2
			}
			if setup.method == play.Original && setup.skew != 0 { // its minima are up to 10 s old
				limit = 600
			}
			if len(errs) != 1000 || math.Abs(stat.OrNaN(errs, 0)-want) > limit || math.Abs(stat.OrNaN(errs, 1)-want) > limit {
				t.Errorf("%s, %g: %d answers, %.0f to %.0f us off, want %.0f", setup.name, setup.skew, len(errs), stat.OrNaN(errs, 0), stat.OrNaN(errs, 1), want)
			}
		}
		s.askOracle()
		if errs := s.absolute(oracleSees, 0, 20*time.Second); len(errs) != 1500 || stat.OrNaN(errs, 1) > 8 {
			t.Errorf("the oracle: %d answers, %.0f us off", len(errs), stat.OrNaN(errs, 1))
		}
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
	for _, direction := range []string{"up", "down"} {
		if delays, err := sim.ReadTrace(filepath.Join(out, "tcp-60singles.csv.gz"), direction); err != nil || len(delays) < 100 {
			t.Errorf("%s: %d delays, %v", direction, len(delays), err)
		}
	}
}
