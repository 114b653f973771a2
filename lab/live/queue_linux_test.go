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

	"timesync/internal/sim"
	"timesync/internal/sim/simnet"
	"timesync/internal/testkit"
	"timesync/lab/play"
)

// The program runs in the folder of the module.
func init() { os.Chdir("..") }

// TestJudge: over a path of 5 ms each way every method is right, whether the clocks are apart or
// not. One that is read late at one end only is wrong by half of that, but the kernel's times do
// not know of it.
func TestJudge(t *testing.T) {
	const late = 2 * ms // of what A reads
	var s linkStream
	for at := time.Duration(0); at < 20*time.Second; at += 20 * ms {
		s.trace[sim.A] = append(s.trace[sim.A],
			linkSample{at, [...]time.Duration{kernel: 5 * ms, 5*ms + late}})
		s.trace[sim.B] = append(s.trace[sim.B],
			linkSample{at, [...]time.Duration{kernel: 5 * ms, 5 * ms}})
	}
	s.judge(play.Answers{}, 20*time.Second)
	for _, c := range []struct {
		column string
		skew   float64
		limit  float64 // us
	}{
		{play.Ours, 0, 60},
		{play.Ours, linkSkew, 60},
		{play.Original, 0, 60},
		{play.OracleName, 0, 8},
		{play.OracleName, linkSkew, 8},
		{play.Original, linkSkew, 600}, // its minima are up to 10 s old
	} {
		for times, want := range map[string]float64{"": 0, afterRead: float64(late/us) / 2} {
			errs := s.absolute(c.column+times, c.skew, 10*time.Second, 20*time.Second)
			if least, most := testkit.OrNaN(errs, 0), testkit.OrNaN(errs, 1); len(errs) != 200 ||
				math.Abs(least-want) > c.limit || math.Abs(most-want) > c.limit {
				t.Errorf("%+v%s: %d answers, %.0f to %.0f us off, want %.0f",
					c, times, len(errs), least, most, want)
			}
		}
	}
}

// TestRealLink measures a real queue for some seconds, where the machine lets it.
func TestRealLink(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 6 s")
	}
	out := t.TempDir()
	script := exec.Command("live/queue.sh", out, "-lasting", "6s", "-only", "tcp", "-record", out)
	log, err := script.CombinedOutput()
	if strings.Contains(string(log), "does not run here") {
		t.Skip(strings.TrimSpace(string(log)))
	}
	text, bad := os.ReadFile(filepath.Join(out, "QUEUE.md"))
	if err != nil || bad != nil || !strings.Contains(string(text), "| all of it |") {
		t.Fatalf("%v, %v\n%s", err, bad, log)
	}
	if delays, err := simnet.ReadTrace(filepath.Join(out, "tcp-60singles.csv.gz")); err != nil ||
		len(delays["up"]) < 100 || len(delays["down"]) < 100 {
		t.Errorf("%d and %d delays, %v", len(delays["up"]), len(delays["down"]), err)
	}
}
