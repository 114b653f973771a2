// SPDX-License-Identifier: BSD-3-Clause

// The test in this file proves that the session of a page can be recorded and replayed. With
// -record.to it makes a recording to keep.
package main

import (
	"cmp"
	"flag"
	"path/filepath"
	"testing"
	"time"

	"timesync/examples/internal/exampletest"
)

var (
	recordTo  = flag.String("record.to", "", "folder for the recording of TestRecord")
	recordFor = flag.Duration("record.for", 2*time.Second, "how long it is")
)

func TestRecord(t *testing.T) {
	folder := cmp.Or(*recordTo, t.TempDir())
	s := startServer(t, folder)
	ready(t, s, perfect, stampsKnown)
	time.Sleep(*recordFor)
	s.close()
	names, err := filepath.Glob(filepath.Join(folder, "*.tsr"))
	if err != nil || len(names) != 1 {
		t.Fatalf("%q, %v", names, err)
	}
	if datagrams := exampletest.Recording(t, names[0]); datagrams < 30 {
		t.Errorf("%d datagrams", datagrams)
	}
}
