// SPDX-License-Identifier: BSD-3-Clause

// The helpers in this file prove that the recordings of a game can be read and replayed, of
// processes that were killed, too.

package main

import (
	"path/filepath"
	"testing"

	"timesync/examples/internal/exampletest"
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
		if n, _ := exampletest.Recording(t, name); n > 10 { // of 180 on a machine with time
			long++
		}
	}
	// Three lives of players, and two of the server, each with two players.
	if long < 7 {
		t.Errorf("%d recordings of more than a few datagrams", long)
	}
}
