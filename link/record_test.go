// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that a link can be recorded: a replay answers as the link did, and
// nothing of the payload is in the recording.
package link_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"timesync"
	"timesync/link"
	"timesync/record"
)

func TestRecord(t *testing.T) {
	secret := []byte("a secret payload")
	rng := rand.New(rand.NewPCG(34, 1))
	var files [2]bytes.Buffer
	var recorders [2]*record.Recorder
	var links [2]link.Link
	for i := range links {
		recorders[i] = record.New(&files[i])
		links[i].Record(recorders[i])
	}
	clock := [2]uint64{rng.Uint64(), rng.Uint64()}
	var want [2][]timesync.Snapshot
	for now := uint64(0); now < 60_000_000; now += 16_667 {
		if now/16_667 == 1800 {
			links[0].Reset()
			links[1].Reset()
		}
		for i := range links {
			if now/16_667%100 == 0 {
				recorders[i].Flush()
			}
			datagram := append(links[1-i].AppendHeader(nil, now+clock[1-i]), secret...)
			recv := now + 20_000 + uint64(3000*rng.ExpFloat64()) + clock[i]
			if payload, _, _, err := links[i].Open(datagram, recv); err != nil || !bytes.Equal(payload, secret) {
				t.Fatalf("%q, %v", payload, err)
			}
			s, _ := links[i].Snapshot(recv)
			want[i] = append(want[i], s)
		}
	}
	for i := range links {
		if err := recorders[i].Close(); err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(files[i].Bytes(), secret[:6]) {
			t.Error("the payload is in the recording")
		}
		checkReplay(t, &files[i], want[i])
	}
}

// checkReplay compares what is known after each datagram and what came with it.
func checkReplay(t *testing.T, file *bytes.Buffer, want []timesync.Snapshot) {
	t.Helper()
	var got []timesync.Snapshot
	anchors := 0
	for m, err := range record.Replay(file) {
		if err != nil {
			t.Fatal(err)
		}
		switch m.Kind {
		case record.Datagram:
			got = append(got, timesync.Snapshot{})
		case record.Anchor:
			anchors++
		case record.Reset:
			continue // the snapshot before was asked for before
		}
		got[len(got)-1], _ = m.Ends[0].Snapshot(m.LocalUsec)
	}
	if len(got) != len(want) || anchors < 2 {
		t.Fatalf("%d datagrams, %d live; %d anchors", len(got), len(want), anchors)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("datagram %d: %v, live %v", i, got[i], want[i])
		}
	}
}
