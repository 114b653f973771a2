// These tests run the peers over real sockets, so they ask for nothing that a busy machine could
// break. How exactly peers agree, the tests of package session say in simulated time.
package main

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"timesync/examples/internal/exampletest"
	"timesync/examples/internal/relay"
)

func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("28 s")
	}
	t.Parallel()
	var out, errs strings.Builder
	code := run(t.Context(), []string{"-json"}, &out, &errs)
	var r result
	if err := json.Unmarshal([]byte(out.String()), &r); err != nil {
		t.Fatalf("exit status %d, %v\n%s%s", code, err, errs.String(), out.String())
	}
	t.Logf("exit status %d, %s%+v", code, errs.String(), r)
	if err := r.honest(); err != nil || r.Readings < 1000 {
		t.Errorf("%v, %d readings", err, r.Readings)
	}
}

// TestProcesses: three peers as three processes would run them.
func TestProcesses(t *testing.T) {
	t.Parallel()
	var peers []string
	for range 3 {
		conn, err := relay.Loopback(netip.AddrPort{})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		peers = append(peers, relay.Addr(conn).String())
		conn.Close()
	}
	var wg sync.WaitGroup
	for id := range 3 {
		wg.Go(func() {
			var out, errs exampletest.Output
			args := fmt.Sprintf("-id %d -peers %s -key %s -for 8s -skew %d", id+1, strings.Join(peers, ","), strings.Repeat("49", 32), 20*id)
			if code := run(t.Context(), strings.Fields(args), &out, &errs); code != 0 {
				t.Errorf("peer %d: exit status %d\n%s%s", id+1, code, errs.String(), out.String())
			}
			t.Logf("peer %d:\n%s", id+1, out.String())
		})
	}
	wg.Wait()
}

func TestFlags(t *testing.T) {
	exampletest.Flags(t, "party", run, map[string]string{
		"-skew NaN":                            "-skew",
		"-loss 200":                            "-loss",
		"-peers a:1":                           "-id",
		"-for 1s":                              "-id",
		"-id 1":                                "-peers",
		"-id 3 -peers 127.0.0.1:1,127.0.0.1:2": "-id",
		"-id 1 -peers 127.0.0.1:1 -key 12":     "-key",
		"-id 1 -peers 127.0.0.1:1 -for -1s":    "-for",
		"x":                                    "x",
	})
	exampletest.Help(t, ".")
}
