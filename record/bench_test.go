// SPDX-License-Identifier: BSD-3-Clause

// These benchmarks measure what recording costs the goroutine that receives.
package record

import (
	"io"
	"testing"
	"time"

	"timesync"
	"timesync/internal/stat"
)

// taker is a synchronizer or a Recorder.
type taker interface {
	OnAuthenticatedDatagramTimestamp(timesync.Counter24, uint64) (time.Duration, bool)
	OnPeerMinDeltaTS24(timesync.Counter24, uint64)
}

// feed gives n datagrams of a stream of 60 a second, with a report every 2 s, and returns
// the time that each takes.
func feed(s taker, local *uint64, n int) time.Duration {
	begin := time.Now()
	for range n {
		*local += 16_667
		recv := *local + 20_000 + *local>>7&1023
		s.OnAuthenticatedDatagramTimestamp(timesync.LocalTimeToDatagramTS24(*local), recv)
		if *local/16_667%120 == 0 {
			s.OnPeerMinDeltaTS24(timesync.NewCounter24(20_000>>3), recv)
		}
	}
	return time.Since(begin) / time.Duration(n)
}

// BenchmarkRecorder reports what a Recorder adds to a datagram, in turns with a synchronizer
// that is not recorded, because a shared machine changes its pace: the median of the turns.
func BenchmarkRecorder(b *testing.B) {
	const turn = 5000
	r := New(io.Discard)
	defer r.Close()
	var plain timesync.TimeSynchronizer
	var added []float64
	localA, localB := uint64(1), uint64(1)
	for b.Loop() {
		without, with := feed(&plain, &localA, turn), feed(r, &localB, turn)
		added = append(added, float64(with-without))
	}
	b.ReportMetric(stat.Quantile(added, 0.5), "ns-more/datagram")
}
