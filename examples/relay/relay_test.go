// These tests run the three ends over real sockets, as processes do: figures come, and their
// bounds hold. How exact they are, world_test.go says in simulated time.
package main

import (
	"strings"
	"testing"

	"timesync/internal/program/programtest"
	"timesync/internal/testkit"
)

func TestDemo(t *testing.T) {
	t.Parallel()
	s := demo(t.Context(), programtest.Config(t, (*config).flags, (*config).check, "-for 16s"))
	testkit.Must(t, s.print(t.Output()))
	if bound := testkit.Quantile(s.bounds, 0.5); len(s.errs) > 16*60 || bound > 200*ms {
		t.Errorf("%d figures, to within %v", len(s.errs), bound)
	}
}

// TestAlone: the three, as on three machines, of which one has a clock 50 ppm faster.
func TestAlone(t *testing.T) {
	t.Parallel()
	printed := programtest.Together(t, run, func(at []string) []string {
		common := " -for 8s -key " + strings.Repeat("47", 32)
		return []string{
			"-listen " + at[0] + " -viewers " + at[1] + common,
			"-dial " + at[0] + " -as camera -skew 50" + common,
			"-dial " + at[1] + common,
		}
	})
	if !strings.Contains(printed[2].String(), "known to within") {
		t.Error("no figure")
	}
}

func TestFlags(t *testing.T) {
	programtest.Flags(t, "relay", run, map[string]string{
		"-for 1s":     "at least",
		"-as server":  "camera or viewer",
		"-as camera":  "only with",
		"-viewers :1": "only with",
		"-skew 40":    "only with",
	})
}
