// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"math"
	"math/bits"
	"time"
)

// Bins are a microsecond wide up to 64 us, and 1/64 of an octave above that: a quantile is right to
// 1.6 %. The last one takes what is longer than 67 s.
const (
	binsOfOctave = 64
	octaves      = 21
	bins         = binsOfOctave * octaves
)

// histogram counts delays. The zero value is empty.
type histogram struct {
	counts [bins]uint32
	n      uint32
	sum    time.Duration
	min    time.Duration
	max    time.Duration
}

// bin returns the bin of a delay. What is negative, by the error of the clocks, is in the first
// one.
func bin(d time.Duration) int {
	us := uint64(max(d.Microseconds(), 0))
	octave := max(bits.Len64(us)-bits.Len64(binsOfOctave-1), 0)
	if octave == 0 {
		return int(us)
	}
	return min(octave*binsOfOctave+int(us>>(octave-1))-binsOfOctave, bins-1)
}

// edge returns the shortest delay of a bin.
func edge(bin int) time.Duration {
	octave := bin / binsOfOctave
	part := bin % binsOfOctave
	if octave == 0 {
		return time.Duration(part) * time.Microsecond
	}
	return time.Duration(binsOfOctave+part) << (octave - 1) * time.Microsecond
}

func (h *histogram) add(d time.Duration) {
	if h.n == 0 || d < h.min {
		h.min = d
	}
	if h.n == 0 || d > h.max {
		h.max = d
	}
	h.counts[bin(d)]++
	h.n++
	h.sum += d
}

// mean returns the mean delay; 0 of none.
func (h *histogram) mean() time.Duration {
	if h.n == 0 {
		return 0
	}
	return h.sum / time.Duration(h.n)
}

// quantile returns the delay that the share q of all does not exceed; 0 of none.
func (h *histogram) quantile(q float64) time.Duration {
	if h.n == 0 {
		return 0
	}
	rank := max(uint32(math.Ceil(q*float64(h.n))), 1)
	seen := uint32(0)
	for i, count := range h.counts {
		seen += count
		if seen >= rank {
			return min(max(edge(i+1), h.min), h.max)
		}
	}
	return h.max
}

// shape is a histogram that travels and is drawn: bars of equal width from the shortest delay to
// the 99th percentile, the highest of which is 255. The last bar also counts what is longer.
type shape [32]uint8

func (h *histogram) shape() (s shape) {
	if h.n == 0 {
		return s
	}
	var sums [len(s)]uint32
	width := max((h.quantile(0.99)-h.min)/time.Duration(len(s)), time.Microsecond)
	for i, count := range h.counts {
		if count > 0 {
			bar := max(edge(i)-h.min, 0) / width
			sums[min(int(bar), len(s)-1)] += count
		}
	}
	most := uint32(0)
	for _, sum := range sums {
		most = max(most, sum)
	}
	for i, sum := range sums {
		s[i] = uint8(uint64(sum) * math.MaxUint8 / uint64(most))
	}
	return s
}

// String draws it in one line.
func (s shape) String() string {
	levels := []rune(" ▁▂▃▄▅▆▇█")
	line := make([]rune, len(s))
	for i, height := range s {
		level := (int(height)*(len(levels)-1) + math.MaxUint8 - 1) / math.MaxUint8
		line[i] = levels[level]
	}
	return string(line)
}
