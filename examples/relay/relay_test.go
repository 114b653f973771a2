// These tests run the three ends over real sockets, as processes do: figures come, and their bounds
// hold. How exact they are, world_test.go says in simulated time.
package main

import (
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"

	"timesync/examples/internal/relay"
)

func TestDemo(t *testing.T) {
	t.Parallel()
	var out, errs strings.Builder
	code := run(t.Context(), []string{"-for", "16s", "-json"}, &out, &errs)
	var r result
	if err := json.Unmarshal([]byte(out.String()), &r); code != 0 || err != nil {
		t.Fatalf("exit status %d, %v\n%s%s", code, err, errs.String(), out.String())
	}
	if t.Logf("%+v", r); r.Certain > r.Frames || r.BoundMs > 200 {
		t.Errorf("%+v", r)
	}
}

// TestAlone: the three, as on three machines, of which one has a clock 50 ppm faster.
func TestAlone(t *testing.T) {
	t.Parallel()
	var addresses [2]string // of the forwarder; nobody else takes them in so short a time
	for i := range addresses {
		udp, err := relay.Loopback(relay.Anywhere)
		if err != nil {
			t.Fatal(err)
		}
		addresses[i] = relay.Addr(udp).String()
		udp.Close()
	}
	var out strings.Builder // of the viewer
	var all sync.WaitGroup
	for _, args := range [][]string{
		{"-listen", addresses[0], "-viewers", addresses[1]},
		{"-dial", addresses[0], "-as", "camera", "-skew", "50"},
		{"-dial", addresses[1]},
	} {
		stdout := io.Discard
		if len(args) == 2 {
			stdout = &out
		}
		all.Go(func() {
			if code := run(t.Context(), append(args, "-for", "8s", "-key", strings.Repeat("47", 32)), stdout, io.Discard); code != 0 {
				t.Errorf("%v: exit status %d", args, code)
			}
		})
	}
	all.Wait()
	if t.Log(out.String()); !strings.Contains(out.String(), "capture to arrival") {
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
