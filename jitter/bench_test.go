package jitter_test

import (
	"testing"
	"time"

	"timesync/internal/sim/waiting"
	"timesync/jitter"
)

// BenchmarkAdd measures an arrival of a world with jitter of 5 ms at 60 a second.
func BenchmarkAdd(b *testing.B) {
	var estimator jitter.Estimator
	items := waiting.New("exponential", 60, 1).Items
	sent := make([]time.Duration, len(items))
	arrived := make([]time.Duration, len(items))
	for i, item := range items {
		sent[i] = time.Duration(item.Sent * float64(time.Millisecond))
		arrived[i] = time.Duration(item.Arrived * float64(time.Millisecond))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		at := i % len(items)
		lap := time.Duration(i/len(items)) * 301 * time.Second
		estimator.Add(sent[at]+lap, arrived[at]+lap)
	}
}
