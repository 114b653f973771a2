// SPDX-License-Identifier: BSD-3-Clause

package rivals

import (
	"sync/atomic"
	"time"
)

// WindowMin is TimeSync's windowed minimum of 24-bit deltas (Kathleen Nichols'
// algorithm), with the original's defects: the value 0 counts as empty, and a
// timestamp that goes back counts as very old. The zero value is empty.
type WindowMin struct {
	value [3]uint32 // best, second, third
	at    [3]uint64
}

// Best returns the minimum, or 0.
func (w *WindowMin) Best() uint32 { return w.value[0] }

// Valid reports whether there is a minimum other than 0.
func (w *WindowMin) Valid() bool { return w.value[0] != 0 }

// Update takes a value. The timestamp and the window are in the same unit.
func (w *WindowMin) Update(value uint32, timestamp, window uint64) {
	set := func(from int) { // and those after it
		for i := from; i < len(w.value); i++ {
			w.value[i], w.at[i] = value, timestamp
		}
	}
	old := func(i int, age uint64) bool { return timestamp-w.at[i] > age }
	switch {
	case !w.Valid() || ringLE(value, w.value[0]) || old(2, window):
		set(0)
		return
	case ringLE(value, w.value[1]):
		set(1)
	case ringLE(value, w.value[2]):
		set(2)
	}
	switch {
	case old(0, window) && old(1, window):
		w.value[0], w.at[0] = w.value[2], w.at[2]
		set(1)
	case old(0, window):
		w.value[0], w.at[0] = w.value[1], w.at[1]
		w.value[1], w.at[1] = w.value[2], w.at[2]
		set(2)
	case w.value[1] == w.value[0] && old(1, window/4):
		set(1)
	case w.value[2] == w.value[1] && old(2, window/2):
		set(2)
	}
}

// ringLE is the original's a <= b on the ring of 24 bits: false exactly half way.
func ringLE(a, b uint32) bool { return (b-a)&ringMask < 1<<23 }

// Original is catid's TimeSync, equal in every bit, as its applications would use
// it. What readers share is stored atomically for each datagram and each report, as
// there: that makes it the baseline of costs, too. The zero value is ready to use.
type Original struct {
	window WindowMin
	peer   uint32 // last report
	seen   bool   // a datagram has arrived
	peered bool

	delta  atomic.Uint32 // remote minus local clock, microseconds, modulo 2^26
	minOWD atomic.Uint32 // microseconds
	synced atomic.Uint32 // 1 if both are known
}

// originalWindow is the original's window in microseconds.
const originalWindow = 10_000_000

// OnDatagram implements sim.Estimator.
func (o *Original) OnDatagram(ts24 uint32, recvUsec uint64) (time.Duration, bool) {
	return time.Duration(o.Datagram(ts24, recvUsec)) * time.Microsecond, o.synchronized()
}

// Datagram returns what the original does: the delay in microseconds or 0.
func (o *Original) Datagram(ts24 uint32, recvUsec uint64) uint32 {
	delta := (stamp(recvUsec) - ts24) & ringMask
	o.seen = true
	o.window.Update(delta, recvUsec, originalWindow)
	o.recalculate()
	if !o.synchronized() {
		return 0
	}
	owd := o.MinOWD()
	if least := o.window.Best(); !ringLE(delta, least) {
		owd += (delta - least) & ringMask << stampShift
	}
	return owd
}

// MinOWD is the original's, microseconds; it means nothing before it is synchronized.
func (o *Original) MinOWD() uint32 { return o.minOWD.Load() }

// MinDelta implements sim.Estimator. Like a careful application it reports nothing
// before the first datagram, where the original would say 0.
func (o *Original) MinDelta(uint64) (uint32, bool) { return o.window.Best(), o.seen }

// OnPeerMinDelta implements sim.Estimator.
func (o *Original) OnPeerMinDelta(delta uint32, _ uint64) {
	o.peer, o.peered = delta, true
	o.recalculate()
}

func (o *Original) recalculate() {
	if !o.window.Valid() || !o.peered {
		return
	}
	own := o.window.Best()
	delay := (o.peer + own) & ringMask >> 1 << stampShift
	if delay >= 1<<25 { // a negative sum
		delay = 0
	}
	o.minOWD.Store(delay)
	o.delta.Store((o.peer - own) & ringMask >> 1 << stampShift)
	o.synced.Store(1)
}

func (o *Original) synchronized() bool { return o.synced.Load() == 1 }

// RemoteTime implements sim.Estimator with the precision of ToRemoteTime23, 8 us.
func (o *Original) RemoteTime(localUsec, nearUsec uint64) (uint64, bool) {
	remote := uint64(o.Remote23(localUsec)) << stampShift
	return nearest(remote, nearUsec), o.synchronized()
}

// Remote23 is ToRemoteTime23: 8 us units, 23 bits, 0 if not synchronized.
// Like the original it truncates time and offset before it adds them.
func (o *Original) Remote23(localUsec uint64) uint32 {
	if !o.synchronized() {
		return 0
	}
	return (uint32(localUsec>>stampShift) + o.delta.Load()>>stampShift) & (1<<23 - 1)
}
