// These tests prove that the game runs, ends, and says what is wrong.

package main

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"timesync/internal/program"
	"timesync/internal/program/programtest"
	"timesync/internal/testkit"
)

// The whole game, over 34 to 40 ms, 1 % loss and 2 % held back: the server is killed and started
// again, and then a player. Clocks and ticks have to be right however busy the machine is; how
// many inputs are late TestLate says. An interrupted run is judged as well. A network that lets
// nothing through is found out.
func TestGame(t *testing.T) {
	folder := t.TempDir()
	for _, tt := range []struct {
		args string
		most time.Duration
		code int
		want string
		n    int // times: of 2 players after each start
	}{
		{"-for 9s -record " + folder, time.Minute, 0, " then within ", 6},
		{"", 2500 * time.Millisecond, 0, " then within ", 2},
		// 10 s more than they may take: a busy machine stalls them
		{"-loss 100 -for 30s", 12 * time.Second, 1, "\ngame: player 1 was out of step for ", 1},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), tt.most)
		defer cancel()
		var out testkit.Output
		code := run(ctx, strings.Fields(tt.args), &out, &out)
		if t.Log(out.String()); code != tt.code || strings.Count(out.String(), tt.want) != tt.n {
			t.Errorf("%s: exit status %d; want %q %d times", tt.args, code, tt.want, tt.n)
		}
	}
	// The recordings can be read and replayed, those of ends that were killed, too.
	names, _ := filepath.Glob(filepath.Join(folder, "*.tsr")) // its error is of the pattern
	names = slices.DeleteFunc(names, func(name string) bool {
		datagrams := programtest.Recording(t, name)
		return datagrams <= 10 // of 180 on a machine with time
	})
	// Three lives of players, and two of the server, each with two players.
	if len(names) < 7 {
		t.Errorf("recordings of more than a few datagrams: %q", names)
	}
}

func TestFlags(t *testing.T) {
	t.Setenv(program.KeyVariable, "")
	key := strings.Repeat("5", 64)
	programtest.Flags(t, "game", run, map[string]string{
		"-listen :1 -player 1 -key " + key: "-player: needs -dial",
		"-dial :1 -player 9 -key " + key:   "from 1 to 8",
		"-up 50ms":                         "as in 50ms@5s",
		"-down 11s@5s":                     "up to 10s",
		"-player 2":                        "-player: only with -listen or -dial",
		"-for 5s":                          "9s or more",
	})
}
