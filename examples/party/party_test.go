// These tests run the peers over real sockets, so they ask for nothing that a busy machine could
// break. How exactly peers agree, the tests of package session say in simulated time.
package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"timesync/examples/internal/exampletest"
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
	exampletest.Together(t, run, func(at []string) (processes []string) {
		for id := range 3 {
			processes = append(processes, fmt.Sprintf("-id %d -peers %s -key %s -for 8s -skew %d",
				id+1, strings.Join(at[:3], ","), strings.Repeat("49", 32), 20*id))
		}
		return processes
	})
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
}
