package rivals

import "time"

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
	expired := func(i int, after uint64) bool { return timestamp-w.at[i] > after }
	set := func(i int) { w.value[i], w.at[i] = value, timestamp }
	move := func(to, from int) { w.value[to], w.at[to] = w.value[from], w.at[from] }
	switch {
	case !w.Valid(), ringLE(value, w.value[0]), expired(2, window):
		set(0)
		set(1)
		set(2)
		return
	case ringLE(value, w.value[1]):
		set(1)
		set(2)
	case ringLE(value, w.value[2]):
		set(2)
	}
	switch {
	case expired(0, window):
		if expired(1, window) {
			move(0, 2)
			set(1)
		} else {
			move(0, 1)
			move(1, 2)
		}
		set(2)
	case w.value[1] == w.value[0] && expired(1, window/4):
		set(1)
		set(2)
	case w.value[2] == w.value[1] && expired(2, window/2):
		set(2)
	}
}

// ringLE is the original's a <= b on the ring of 24 bits: false exactly half way.
func ringLE(a, b uint32) bool { return (b-a)&ringMask < 1<<23 }

// Original is catid's TimeSync, equal in every bit, as its applications would use
// it. The zero value is ready to use.
type Original struct {
	window WindowMin
	seen   bool   // a datagram has arrived
	peer   uint32 // last report
	peered bool
	synced bool
	delta  uint32 // remote minus local clock, microseconds, modulo 2^26
	minOWD uint32 // microseconds
}

// originalWindow is the original's window in microseconds.
const originalWindow = 10_000_000

// OnDatagram implements sim.Estimator.
func (o *Original) OnDatagram(ts24 uint32, recvUsec uint64) (time.Duration, bool) {
	return time.Duration(o.onDatagram(ts24, recvUsec)) * time.Microsecond, o.synced
}

// onDatagram returns what the original does: the delay in microseconds or 0.
func (o *Original) onDatagram(ts24 uint32, recvUsec uint64) uint32 {
	delta := (stamp(recvUsec) - ts24) & ringMask
	o.seen = true
	o.window.Update(delta, recvUsec, originalWindow)
	o.recalculate()
	if !o.synced {
		return 0
	}
	owd := o.minOWD
	if least := o.window.Best(); !ringLE(delta, least) {
		owd += (delta - least) & ringMask << stampShift
	}
	return owd
}

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
	o.minOWD = (o.peer + own) & ringMask >> 1 << stampShift
	o.delta = (o.peer - own) & ringMask >> 1 << stampShift
	if o.minOWD >= 1<<25 { // a negative sum
		o.minOWD = 0
	}
	o.synced = true
}

// RemoteTime implements sim.Estimator with the precision of ToRemoteTime23, 8 us.
func (o *Original) RemoteTime(localUsec, nearUsec uint64) (uint64, bool) {
	remote := uint64(o.remote23(localUsec)) << stampShift
	return nearest(remote, nearUsec), o.synced
}

// remote23 is ToRemoteTime23: 8 us units, 23 bits, 0 if not synchronized.
func (o *Original) remote23(localUsec uint64) uint32 { return o.remote(localUsec, 3) & (1<<23 - 1) }

// remote16 is ToRemoteTime16: 512 us units, 16 bits, 0 if not synchronized.
func (o *Original) remote16(localUsec uint64) uint32 { return o.remote(localUsec, 9) & (1<<16 - 1) }

// remote truncates time and offset before it adds them, like the original.
func (o *Original) remote(localUsec uint64, shift uint) uint32 {
	if !o.synced {
		return 0
	}
	return uint32(localUsec>>shift) + o.delta>>shift
}

// MinOWD implements sim.Estimator.
func (o *Original) MinOWD() (time.Duration, bool) {
	return time.Duration(o.minOWD) * time.Microsecond, o.synced
}
