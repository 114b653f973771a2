// SPDX-License-Identifier: BSD-3-Clause

// The test in this file proves that a QUIC session can be recorded and replayed. With
// -record.to it makes a recording to keep.
package main

import (
	"cmp"
	"errors"
	"flag"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"timesync/examples/internal/channelbench"
	"timesync/examples/internal/exampletest"
	"timesync/examples/internal/program"
)

var (
	recordTo  = flag.String("record.to", "", "folder for the recordings of TestRecord, quic-a-*.tsr and quic-b-*.tsr")
	recordFor = flag.Duration("record.for", time.Second, "how long they are")
)

func TestRecord(t *testing.T) {
	ctx := timeout(t)
	a, b := pair(t, ctx)
	clocks := [2]program.Clock{channelbench.ClientClocks[0], channelbench.ServerClock}
	a.ReceivedUsec, b.ReceivedUsec = clocks[0].Received, clocks[1].Received
	folder := cmp.Or(*recordTo, t.TempDir())
	peers := [2]*Peer{a, b}
	var ends [2]func() error
	var receiving sync.WaitGroup
	for i, p := range peers {
		var err error
		ends[i], err = program.Record(&p.Link, folder, [...]string{"quic-a-*.tsr", "quic-b-*.tsr"}[i])
		exampletest.Must(t, err)
		receiving.Go(func() {
			for _, err := p.Receive(ctx); err == nil; _, err = p.Receive(ctx) {
			}
		})
	}
	every := time.NewTicker(time.Second / 60)
	defer every.Stop()
	for end := time.Now().Add(*recordFor); time.Now().Before(end); <-every.C {
		for i, p := range peers {
			exampletest.Must(t, p.Send(nil, clocks[i].Now()))
		}
	}
	a.conn.CloseWithError(0, "recorded")
	receiving.Wait()
	exampletest.Must(t, errors.Join(ends[0](), ends[1]()))
	files, _ := filepath.Glob(filepath.Join(folder, "quic-*.tsr"))
	for _, name := range files {
		if datagrams := exampletest.Recording(t, name); datagrams < 30 {
			t.Errorf("%s: %d datagrams", name, datagrams)
		}
	}
	if len(files) < 2 || !a.IsSynchronized() || !b.IsSynchronized() {
		t.Errorf("%d recordings, or an end does not know the other clock", len(files))
	}
}
