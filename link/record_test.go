// This test proves that a link can be recorded: a replay answers as the link did.
package link_test

import (
	"bytes"
	"testing"
	"time"

	"timesync/link"
	"timesync/record"
)

func TestRecord(t *testing.T) {
	var file bytes.Buffer
	var a, b link.Link
	recorder := record.New(&file)
	a.Record(recorder)
	now := uint64(1 << 40)
	for second := range 30 {
		now = talk(&a, &b, now, 1e9, 20*time.Millisecond, time.Second)
		if second == 15 {
			a.Reset()
			b.Reset()
		}
		recorder.Flush()
	}
	now += 3_000_000
	a.AppendHeader(nil, now) // so that the silence is recorded
	if err := recorder.Close(); err != nil {
		t.Fatal(err)
	}
	var last record.Moment
	for m, err := range record.Replay(&file) {
		last = m
		if err != nil {
			t.Fatal(err)
		}
	}
	want, _ := a.Snapshot(now)
	got, ok := last.Ends[0].Snapshot(now)
	stats := last.Ends[0].Stats()
	if !ok || got != want || stats != a.Stats() || last.LocalUsec != now {
		t.Errorf("%v, live %v, the last at %d", got, want, last.LocalUsec)
	}
}
