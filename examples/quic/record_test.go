// SPDX-License-Identifier: BSD-3-Clause

// The test in this file proves that a QUIC session can be recorded and replayed. With
// -record.to it makes a recording to keep.
package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"timesync/examples/internal/channelbench"
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
	peers, names := [2]*Peer{a, b}, [2]string{"quic-a.tsr", "quic-b.tsr"}
	var files [2]bytes.Buffer
	var recorders [2]*record.Recorder
	done := make(chan error, len(peers))
	for i, p := range peers {
		recorders[i] = record.New(&files[i])
		p.Record(recorders[i])
		go func() {
			for {
				if _, err := p.Receive(ctx); err != nil {
					done <- err
					return
				}
			}
		}()
	}
	every := time.NewTicker(time.Second / 60)
	defer every.Stop()
	for end := time.Now().Add(*recordFor); time.Now().Before(end); <-every.C {
		for i, p := range peers {
			if err := p.Send(nil, clocks[i].Now()); err != nil {
				t.Fatal(err)
			}
		}
	}
	a.conn.CloseWithError(0, "recorded")
	for i := range peers {
		<-done
		if err := recorders[i].Close(); err != nil {
			t.Fatal(err)
		}
		if *recordTo != "" {
			if err := os.WriteFile(filepath.Join(*recordTo, names[i]), files[i].Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	checkReplay(t, &files)
	if !a.IsSynchronized() || !b.IsSynchronized() {
		t.Error("an end does not know the other clock")
	}
}

// checkReplay replays both ends, which answer as they did.
func checkReplay(t *testing.T, files *[2]bytes.Buffer) {
	t.Helper()
	datagrams, asked := [2]int{}, [2]int{}
	for m, err := range record.Replay(&files[0], &files[1]) {
		switch {
		case err != nil:
			t.Fatal(err)
		case m.Kind == record.Datagram:
			datagrams[m.End]++
		case m.Kind == record.Answered:
			if asked[m.End]++; m.Answer != record.Ask(m.Ends[m.End], m.LocalUsec) {
				t.Errorf("end %d: the replay answers otherwise", m.End)
			}
		}
	}
	for i := range datagrams {
		if datagrams[i] < 30 || asked[i] < 1 {
			t.Errorf("end %d: %d datagrams, %d answers", i, datagrams[i], asked[i])
		}
	}
}
