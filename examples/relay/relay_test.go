// These tests run the three ends over real sockets: figures come, and their bounds
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
	if err == nil {
		err = r.check()
	}
	if err != nil {
		t.Fatal(err)
	}
	if t.Logf("%+v", r); r.Certain > r.Frames || r.BoundMs > 200 {
		t.Errorf("%+v", r)
	}
}

func TestFlags(t *testing.T) {
	for _, args := range []string{"-for 1s", "-skew 1", "-loss NaN", "-listen :1", "x"} {
		if code := run(t.Context(), strings.Fields(args), io.Discard, io.Discard); code == 0 {
			t.Errorf("%s is accepted", args)
		}
	}
}
