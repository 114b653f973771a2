// SPDX-License-Identifier: BSD-3-Clause

// This test proves that a link can be recorded: a replay answers as the link did.
package link_test

import (
	"bytes"
	"maps"
	"testing"
	"time"

	"timesync"
	"timesync/record"
)

func TestRecord(t *testing.T) {
	var file bytes.Buffer
	recorder := record.New(&file)
	w := newWire(34, [2]float64{60, 60}, 3*time.Millisecond, 0, 0, 0)
	w.links[0].Record(recorder)
	want, got := map[uint64]timesync.Snapshot{}, map[uint64]timesync.Snapshot{} // by the time of receipt
	w.opened = func(side int, local uint64, _, _ []byte, _ time.Duration, _ bool) {
		if side == 0 {
			want[local], _ = w.links[0].Snapshot(local)
		}
	}
	for until := time.Second; until <= time.Minute; until += time.Second {
		if w.run(until); until == time.Minute/2 {
			w.links[0].Reset()
			w.links[1].Reset()
		}
		recorder.Flush()
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
