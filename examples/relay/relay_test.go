// These tests run the three ends over real sockets, as processes do: figures come, and their bounds
// hold. How exact they are, world_test.go says in simulated time.
package main

import (
	"io"
	"strings"
	"testing"
	"timesync/examples/internal/exampletest"
)

func TestDemo(t *testing.T) {
	t.Parallel()
	r, err := demo(t.Context(), exampletest.Config(t, (*config).flags, (*config).check, "-for 16s"))
	exampletest.Must(t, err)
	exampletest.Must(t, r.check())
	if t.Logf("%+v", r); r.Certain > r.Frames || r.BoundMs > 200 {
		t.Errorf("%+v", r)
	}
}

// TestAlone: the three, as on three machines, of which one has a clock 50 ppm faster.
func TestAlone(t *testing.T) {
	t.Parallel()
	printed := exampletest.Together(t, run, func(at []string) []string {
		common := " -for 8s -key " + strings.Repeat("47", 32)
		return []string{
			"-listen " + at[0] + " -viewers " + at[1] + common,
			"-dial " + at[0] + " -as camera -skew 50" + common,
			"-dial " + at[1] + common,
		}
	})
	if !strings.Contains(printed[2].String(), "capture to arrival") {
		t.Error("no figure")
	}
}

func TestFlags(t *testing.T) {
	for _, args := range []string{"-for 1s", "-skew NaN", "-as server", "-as camera", "-viewers :1", "-within -1s", "-listen :1 -dial :1", "x"} {
		if code := run(t.Context(), strings.Fields(args), io.Discard, io.Discard); code == 0 {
			t.Errorf("%s is accepted", args)
		}
	}
}
