// These tests prove that quantiles are right to a bin, that what is lost, overtaken or repeated is
// counted as such, and that messages of any bytes are read or refused.

package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unicode/utf8"
)

// TestBins: each microsecond is in the bin whose edges are around it, and no bin is wider than
// 1/64.
func TestBins(t *testing.T) {
	for us := range 3_000_000 {
		d := time.Duration(us) * time.Microsecond
		i := bin(d)
		from := edge(i)
		to := edge(i + 1)
		widest := max(d/binsOfOctave, time.Microsecond)
		if d < from || d >= to || to-from > widest {
			t.Fatalf("%v is in bin %d, from %v to %v", d, i, from, to)
		}
	}
	for _, d := range []time.Duration{math.MinInt64, -1, time.Hour, math.MaxInt64} {
		if i := bin(d); i < 0 || i >= bins {
			t.Errorf("%v is in bin %d of %d", d, i, bins)
		}
	}
}

// TestQuantile: beside sorted delays.
func TestQuantile(t *testing.T) {
	const seed = 7801
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		var h histogram
		all := make([]time.Duration, 1+r.IntN(2000))
		sum := time.Duration(0)
		mean := math.Exp(r.Float64()*12) * float64(time.Microsecond)
		for i := range all {
			all[i] = time.Duration(r.ExpFloat64() * mean)
			h.add(all[i])
			sum += all[i]
		}
		slices.Sort(all)
		for _, q := range []float64{0, 0.5, 0.99, 1} {
			want := all[max(int(math.Ceil(q*float64(len(all))))-1, 0)]
			got := h.quantile(q)
			if got < want || got > want+max(want/binsOfOctave, time.Microsecond) {
				t.Fatalf("quantile %g of %d is %v, want %v", q, len(all), got, want)
			}
		}
		if h.min != all[0] || h.max != all[len(all)-1] || h.mean() != sum/time.Duration(len(all)) {
			t.Fatalf("min %v, max %v, mean %v", h.min, h.max, h.mean())
		}
	}
	var none histogram
	if none.quantile(0.99) != 0 || none.mean() != 0 || none.shape() != (shape{}) {
		t.Error("an empty histogram has figures")
	}
}

// TestShape: it has a bar of full height, and is drawn in one line.
func TestShape(t *testing.T) {
	var h histogram
	for i := range 1000 {
		h.add(time.Duration(20_000+i%10*i%700) * time.Microsecond)
	}
	s := h.shape()
	if slices.Max(s[:]) != math.MaxUint8 || s[0] == 0 {
		t.Errorf("%v", s)
	}
	if n := utf8.RuneCountInString(s.String()); n != len(s) {
		t.Errorf("%q has %d characters", s, n)
	}
	var one histogram
	one.add(time.Millisecond)
	if s := one.shape(); s[0] != math.MaxUint8 || slices.Max(s[1:]) != 0 {
		t.Errorf("one delay: %v", s)
	}
}

// TestLoss: what is lost, overtaken or repeated is counted once, in its second and in all.
func TestLoss(t *testing.T) {
	var m meter
	for _, number := range []uint64{1, 2, 4, 3, 6} {
		m.add(number, 0, false)
	}
	m.duplicate()
	if w := m.finish(0); w != (way{Received: 5, Lost: 1, Reordered: 1, Duplicates: 1}) {
		t.Errorf("the first second: %+v", w)
	}
	m.add(5, 0, false) // of the second before: that one said that it was lost
	m.add(9, 0, false)
	if w := m.finish(0); w != (way{Received: 2, Lost: 1, Reordered: 1}) {
		t.Errorf("the next second: %+v", w)
	}
	if w := m.all(0); w != (way{Received: 7, Lost: 2, Reordered: 2, Duplicates: 1}) {
		t.Errorf("all: %+v", w)
	}
	m.begin()
	m.add(3, 0, false)
	m.add(5, 0, false)
	if w := m.all(0); w != (way{Received: 2, Lost: 1}) {
		t.Errorf("the peer started anew: %+v", w)
	}
}

// TestJitter: beside RFC 3550's formula, from send and arrival times.
func TestJitter(t *testing.T) {
	const seed = 7802
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var m meter
	jitter, lastSent, lastCame := 0.0, 0.0, 0.0
	for i := range 500 {
		sent := float64(i) * 20_000
		delay := 10_000 + float64(r.IntN(5000))
		came := sent + delay
		if i > 0 {
			jitter += (math.Abs((came-lastCame)-(sent-lastSent)) - jitter) / 16
		}
		lastSent, lastCame = sent, came
		m.add(uint64(i+1), time.Duration(delay)*time.Microsecond, true)
	}
	if got := float64(m.all(0).Jitter); math.Abs(got-jitter) > 2 {
		t.Errorf("jitter %g us, want %g", got, jitter)
	}
}

func TestMessage(t *testing.T) {
	m := message{
		Number:   5,
		Interval: 10_000,
		Size:     200,
		Second:   3,
		Last:     way{Received: 1, Min: -7},
		Total:    way{Lost: 2, Max: 9},
		Shape:    shape{1, 2},
	}
	b := m.append(nil, 200)
	if len(b) != 200 {
		t.Fatalf("%d bytes", len(b))
	}
	var got message
	if err := got.read(b); err != nil || got != m {
		t.Errorf("%+v, %v, want %+v", got, err, m)
	}
	if short := m.append(nil, 0); len(short) != shortestPayload {
		t.Errorf("without padding %d bytes, not %d", len(short), shortestPayload)
	}
	if err := got.read(b[:shortestPayload-1]); err == nil {
		t.Error("a message that is cut short is read")
	}
}

// FuzzMessage: whatever is read keeps within the limits, and nothing breaks the meter.
func FuzzMessage(f *testing.F) {
	m := message{Number: math.MaxUint64, Interval: math.MaxUint32, Size: math.MaxUint32}
	f.Add(m.append(nil, 0))
	f.Add(make([]byte, shortestPayload))
	f.Fuzz(func(t *testing.T, b []byte) {
		var m message
		if m.read(b) != nil {
			return
		}
		if m.Size > longestPayload {
			t.Errorf("size %d", m.Size)
		}
		interval := time.Duration(m.Interval) * time.Microsecond
		within := shortestInterval <= interval && interval <= longestInterval
		if m.Interval != 0 && !within {
			t.Errorf("interval %v", interval)
		}
		var meter meter
		meter.add(m.Number, time.Duration(m.Number), true)
		meter.finish(time.Duration(m.Number))
		meter.add(1, time.Duration(m.Last.Min), true)
		meter.all(0)
		_ = m.Shape.String()
		_ = object("second", report{from: m.Last, to: m.Total, hasTo: true})
	})
}
