// SPDX-License-Identifier: BSD-3-Clause

// The test in this file proves that a QUIC session can be recorded and replayed. With
// -record.to it makes a recording to keep.
package main

import (
	"cmp"
	"flag"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"timesync/examples/internal/channelbench"
	"timesync/examples/internal/exampletest"
	"timesync/examples/internal/program"
	"timesync/record"
)

var (
	recordTo  = flag.String("record.to", "", "folder for the recordings of TestRecord, quic-a.tsr and quic-b.tsr")
	recordFor = flag.Duration("record.for", time.Second, "how long they are")
)

func TestRecord(t *testing.T) {
	ctx := timeout(t)
	a, b := pair(t, ctx)
	clocks := [2]program.Clock{channelbench.ClientClocks[0], channelbench.ServerClock}
	a.ReceivedUsec, b.ReceivedUsec = clocks[0].Received, clocks[1].Received
	folder := cmp.Or(*recordTo, t.TempDir())
	peers, names := [2]*Peer{a, b}, [2]string{"quic-a.tsr", "quic-b.tsr"}
	var recorders [2]*record.Recorder
	var receiving sync.WaitGroup
	for i, p := range peers {
		file, err := os.Create(filepath.Join(folder, names[i]))
		exampletest.Must(t, err)
		defer file.Close()
		recorders[i] = record.New(file)
		p.Record(recorders[i])
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
	for i := range peers {
		exampletest.Must(t, recorders[i].Close())
		if datagrams := exampletest.Recording(t, filepath.Join(folder, names[i])); datagrams < 30 {
			t.Errorf("end %d: %d datagrams", i, datagrams)
		}
	}
	if !a.IsSynchronized() || !b.IsSynchronized() {
		t.Error("an end does not know the other clock")
	}
}
