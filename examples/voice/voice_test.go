// This test runs both ends over real sockets: sound is played, never late, before and after the
// end that plays was stopped and has started anew. How exactly, world_test.go says in simulated
// time.
package main

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
)

func TestDemo(t *testing.T) {
	var out, errs strings.Builder
	code := run(t.Context(), []string{"-for", "12s", "-json"}, &out, &errs)
	var r result
	if err := json.Unmarshal([]byte(out.String()), &r); code != 0 || err != nil {
		t.Fatalf("exit status %d, %v\n%s%s", code, err, errs.String(), out.String())
	}
	t.Logf("%+v", r)
	stopped := false
	for _, g := range r.Gaps {
		stopped = stopped || g.Frames >= 90
	}
	if !stopped || r.Captured < 500 || r.Played > r.Captured-90 {
		t.Errorf("%+v", r)
	}
}

func TestFlags(t *testing.T) {
	for _, args := range []string{"-for 1s", "-skew NaN", "-loss 200", "-latency 1h", "-latency -1s", "x"} {
		if code := run(t.Context(), strings.Fields(args), io.Discard, io.Discard); code == 0 {
			t.Errorf("%s is accepted", args)
		}
	}
}
