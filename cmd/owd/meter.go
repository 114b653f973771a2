// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"math"
	"time"
)

// way is what an end has measured of the datagrams that came to it. It travels, so that the other
// end can show it as its way to the peer. Times are microseconds.
type way struct {
	Received   uint32
	Lost       uint32
	Reordered  uint32 // later than one that was sent after it
	Duplicates uint32
	Known      uint32 // those whose delay was known: the clocks take a moment at the start
	Min        int32
	Mean       int32
	P99        int32
	Max        int32
	Jitter     uint32 // that of RFC 3550, 6.4.1
	Bound      uint32 // each delay may be wrong by this much
}

// lossPercent returns how many of those that were sent did not come.
func (w way) lossPercent() float64 {
	sent := w.Received + w.Lost
	if sent == 0 {
		return 0
	}
	return 100 * float64(w.Lost) / float64(sent)
}

// tally counts the datagrams of a second, or of all.
type tally struct {
	received   uint32
	reordered  uint32
	duplicates uint32
	before     uint64 // the newest number before it began
	delays     histogram
}

// meter measures the way to here.
type meter struct {
	second   tally
	total    tally
	newest   uint64        // number of a datagram
	jitter   time.Duration // RFC 3550
	last     time.Duration // delay of the datagram before, if hasLast
	hasLast  bool
	finished uint32 // seconds
}

// begin starts counting anew, because the peer restarted.
func (m *meter) begin() { *m = meter{finished: m.finished} }

// duplicate takes a datagram that came before.
func (m *meter) duplicate() {
	m.second.duplicates++
	m.total.duplicates++
}

// add takes a datagram that came: its number and, if known, its delay. What was sent before the
// first one that came is not lost: the ends were still proving to each other that they are no
// recordings.
func (m *meter) add(number uint64, delay time.Duration, known bool) {
	if m.total.received == 0 {
		m.newest = number - 1
		m.second.before = m.newest
		m.total.before = m.newest
	}
	overtaken := number < m.newest
	m.newest = max(m.newest, number)
	for _, t := range []*tally{&m.second, &m.total} {
		t.received++
		if overtaken {
			t.reordered++
		}
		if known {
			t.delays.add(delay)
		}
	}
	if !known {
		return
	}
	if m.hasLast {
		m.jitter += ((delay - m.last).Abs() - m.jitter) / 16
	}
	m.last = delay
	m.hasLast = true
}

// finish ends a second and returns what it measured.
func (m *meter) finish(bound time.Duration) way {
	w := m.way(&m.second, bound)
	m.second = tally{before: m.newest}
	m.finished++
	return w
}

// all returns what was measured since the peer started.
func (m *meter) all(bound time.Duration) way { return m.way(&m.total, bound) }

func (m *meter) way(t *tally, bound time.Duration) way {
	sent := m.newest - t.before
	return way{
		Received:   t.received,
		Lost:       uint32(min(max(int64(sent)-int64(t.received), 0), math.MaxUint32)),
		Reordered:  t.reordered,
		Duplicates: t.duplicates,
		Known:      t.delays.n,
		Min:        signed(t.delays.min),
		Mean:       signed(t.delays.mean()),
		P99:        signed(t.delays.quantile(0.99)),
		Max:        signed(t.delays.max),
		Jitter:     uint32(max(signed(m.jitter), 0)),
		Bound:      uint32(max(signed(bound), 0)),
	}
}

// signed returns a duration in microseconds, as large as it may be.
func signed(d time.Duration) int32 {
	return int32(min(max(d.Microseconds(), math.MinInt32), math.MaxInt32))
}
