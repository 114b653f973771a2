// These tests prove that the game runs, ends, and says what is wrong.

package main

import (
	"context"
	"log"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"timesync/examples/internal/exampletest"
	"timesync/examples/internal/program"
)

// The whole game, over 34 to 40 ms, 1 % loss and 2 % held back;
// the server is killed and started again, and then a player. Clocks and ticks have to be
// right however busy the machine is; how many inputs are late TestLate says. The recordings can be read and replayed, those
// of ends that were killed, too.
func TestGame(t *testing.T) {
	length := 10 * time.Second
	if testing.Short() {
		length = leastDemo
	}
	folder := t.TempDir()
	c := exampletest.Config(t, (*config).flags, (*config).check, "-for "+length.String()+" -record "+folder)
	var out exampletest.Output
	r := playAll(t.Context(), c, log.New(&out, "", 0))
	r.print(&out, c.Network.Seed)
	t.Log(out.String())
	exampletest.Must(t, r.check())
	// 2 players, each with 2 servers; and the one that started again.
	if len(r.Meetings) != 5 {
		t.Fatalf("%d meetings of a server and a player", len(r.Meetings))
	}
	for _, m := range r.Meetings {
		if m.Length < length/3-time.Second-r.Stalled || m.Apart == 0 && m.Out < m.Length {
			t.Errorf("%+v", m)
		}
	}
	// Of 120 a second, less the time that they are not in step.
	if inputs := r.InTime + r.Late; float64(inputs) < 60*(length-r.Stalled).Seconds() {
		t.Errorf("%d inputs in %v", inputs, length)
	}
	names, _ := filepath.Glob(filepath.Join(folder, "*.tsr")) // its error is of the pattern
	names = slices.DeleteFunc(names, func(name string) bool {
		datagrams := exampletest.Recording(t, name)
		return datagrams <= 10 // of 180 on a machine with time
	})
	// Three lives of players, and two of the server, each with two players.
	if len(names) < 7 {
		t.Errorf("recordings of more than a few datagrams: %q", names)
	}
}

// An interrupted run is judged as well. A network that lets nothing
// through is found out.
func TestOutcome(t *testing.T) {
	for _, tt := range []struct {
		args string
		most time.Duration
		code int
		want []string
	}{
		{"", 2500 * time.Millisecond, 0, []string{"ticks, 0 skipped, 0 repeated", "\ninputs "}},
		// 10 s more than they may take: a busy machine stalls them
		{"-loss 100 -for 30s", 12 * time.Second, 1, []string{" was out of step"}},
	} {
		t.Run(tt.args, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), tt.most)
			defer cancel()
			var out exampletest.Output
			code := run(ctx, strings.Fields(tt.args), &out, &out)
			for _, want := range tt.want {
				if code != tt.code || !strings.Contains(out.String(), want) {
					t.Errorf("exit status %d, and no %q\n%s", code, want, out.String())
				}
			}
		})
	}
}

func TestFlags(t *testing.T) {
	t.Setenv(program.KeyVariable, "")
	key := strings.Repeat("5", 64)
	exampletest.Flags(t, "game", run, map[string]string{
		"-listen :1 -player 1 -key " + key:  "-player: needs -dial",
		"-dial :1 -player 9 -key " + key:    "from 1 to 8",
		"-up 50ms":                          "as in 50ms@5s",
		"-down 11s@5s":                      "up to 10s",
		"-listen :1 -up 5ms@5s -key " + key: "-up: only without",
		"-player 2":                         "-player: needs -listen or -dial",
		"-for 5s":                           "9s or more",
	})
}
