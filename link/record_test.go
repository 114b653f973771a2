// SPDX-License-Identifier: BSD-3-Clause

// This test proves that a link can be recorded: a replay answers as the link did.
package link_test

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"testing"

	"timesync"
	"timesync/link"
	"timesync/record"
)

func TestRecord(t *testing.T) {
	const every = 16_667 // us
	rng := rand.New(rand.NewPCG(34, 1))
	var file bytes.Buffer
	var links [2]link.Link
	recorder := record.New(&file)
	links[0].Record(recorder)
	clock := [2]uint64{rng.Uint64(), rng.Uint64()}
	want, got := map[uint64]timesync.Snapshot{}, map[uint64]timesync.Snapshot{} // by the time of receipt
	for n := range uint64(3600) {
		if n == 1800 {
			links[0].Reset()
			links[1].Reset()
		}
		if n%100 == 0 {
			recorder.Flush()
		}
		for i := range links {
			recv := n*every + 20_000 + uint64(3000*rng.ExpFloat64()) + clock[i]
			links[i].Open(links[1-i].AppendHeader(nil, n*every+clock[1-i]), recv)
			if i == 0 {
				want[recv], _ = links[i].Snapshot(recv)
			}
		}
	}
	if err := recorder.Close(); err != nil {
		t.Fatal(err)
	}
	anchors := 0
	for m, err := range record.Replay(&file) {
		if err != nil {
			t.Fatal(err)
		}
		if m.Kind == record.Anchor {
			anchors++
		}
		if _, ok := want[m.LocalUsec]; ok && m.Kind != record.Reset { // before that it was asked
			got[m.LocalUsec], _ = m.Ends[0].Snapshot(m.LocalUsec)
		}
	}
	if !maps.Equal(got, want) || anchors < 2 {
		t.Errorf("%d datagrams, %d live, not the same snapshots; or %d anchors", len(got), len(want), anchors)
	}
}
