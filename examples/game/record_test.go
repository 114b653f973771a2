// SPDX-License-Identifier: BSD-3-Clause

// The helpers in this file prove that the recordings of a game can be read and replayed, of
// processes that were killed, too.

package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"timesync/record"
)

// checkRecordings reads those of a game, in which the server and a player were killed, and at
// last everybody.
func checkRecordings(t *testing.T, folder string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "*.tsr"))
	if err != nil {
		t.Fatal(err)
	}
	long := 0
	for _, name := range names {
		if readRecording(t, name) > 10 { // of 180 on a machine with time
			long++
		}
	}
	// Three lives of players, and two of the server, each with two players.
	if long < 7 {
		t.Errorf("%d recordings of more than a few datagrams", long)
	}
}

// readRecording replays a recording that may be cut off.
func readRecording(t *testing.T, name string) (datagrams int) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for m, err := range record.Replay(file) {
		switch {
		case errors.Is(err, record.ErrTruncated):
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case m.Kind == record.Datagram:
			datagrams++
		case m.Kind == record.Answered && m.Answer != record.Ask(m.Ends[0], m.LocalUsec):
			t.Errorf("%s: the replay answers otherwise at %d", name, m.LocalUsec)
		}
	}
	return datagrams
}
