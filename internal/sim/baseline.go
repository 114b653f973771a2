package sim

import (
	"math"
	"slices"
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

// OnDatagram implements Estimator.
func (o *Original) OnDatagram(ts24 uint32, recvUsec uint64) (time.Duration, bool) {
	return time.Duration(o.onDatagram(ts24, recvUsec)) * time.Microsecond, o.synced
}

// onDatagram returns what the original does: the delay in microseconds or 0.
func (o *Original) onDatagram(ts24 uint32, recvUsec uint64) uint32 {
	delta := (Stamp(recvUsec) - ts24) & ringMask
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

// MinDelta implements Estimator. Like a careful application it reports nothing
// before the first datagram, where the original would say 0.
func (o *Original) MinDelta(uint64) (uint32, bool) { return o.window.Best(), o.seen }

// OnPeerMinDelta implements Estimator.
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

// RemoteTime implements Estimator with the precision of ToRemoteTime23, 8 us.
func (o *Original) RemoteTime(localUsec, nearUsec uint64) (uint64, bool) {
	remote := uint64(o.remote23(localUsec)) << stampShift
	return nearUsec + uint64(fold(remote-nearUsec)), o.synced
}

// remote23 is ToRemoteTime23 and remote16 is ToRemoteTime16: 0 if not synchronized.
func (o *Original) remote23(localUsec uint64) uint32 {
	return o.remote(localUsec) >> stampShift & (1<<23 - 1)
}

func (o *Original) remote16(localUsec uint64) uint32 {
	return o.remote(localUsec) >> 9 & (1<<16 - 1) // 512 us units
}

func (o *Original) remote(localUsec uint64) uint32 {
	if !o.synced {
		return 0
	}
	return uint32(localUsec) + o.delta
}

// MinOWD implements Estimator.
func (o *Original) MinOWD() (time.Duration, bool) {
	return time.Duration(o.minOWD) * time.Microsecond, o.synced
}

// pinged is what the estimators from request and response have in common: an offset,
// remote minus local clock.
type pinged struct {
	offset uint64 // microseconds, modulo 2^64
	rtt    uint64 // of the exchange it rests on, microseconds
	synced bool
	last   uint64 // t1 of the last exchange that was used
}

// OnDatagram implements Estimator: the stamp's age at the estimated offset.
func (p *pinged) OnDatagram(ts24 uint32, recvUsec uint64) (time.Duration, bool) {
	if !p.synced {
		return 0, false
	}
	age := recvUsec + p.offset - uint64(ts24)<<stampShift
	return time.Duration(int64(age<<37)>>37) * time.Microsecond, true // 27 bits, signed
}

// MinDelta implements Estimator: there is no report.
func (p *pinged) MinDelta(uint64) (uint32, bool) { return 0, false }

// OnPeerMinDelta implements Estimator.
func (p *pinged) OnPeerMinDelta(uint32, uint64) {}

// RemoteTime implements Estimator.
func (p *pinged) RemoteTime(localUsec, _ uint64) (uint64, bool) {
	return localUsec + p.offset, p.synced
}

// MinOWD implements Estimator: half the round trip.
func (p *pinged) MinOWD() (time.Duration, bool) {
	return time.Duration(p.rtt/2) * time.Microsecond, p.synced
}

// due reports whether every has passed since the last exchange that was used, and
// uses this one if so. Half a ping is allowed for the phase.
func (p *pinged) due(t1 uint64, every time.Duration) bool {
	if p.last != 0 && t1-p.last < uint64((every-pingEvery/2)/time.Microsecond) {
		return false
	}
	p.last = t1
	return true
}

func (p *pinged) set(e echo) { p.offset, p.rtt, p.synced = e.offset, e.rtt, true }

// echo is an exchange: offset and round trip in microseconds.
type echo struct{ offset, rtt uint64 }

func newEcho(t1, t2, t3, t4 uint64) echo {
	there, back := t2-t1, t3-t4 // offset + delay, offset - delay
	return echo{there + uint64(int64(back-there)>>1), (t4 - t1) - (t3 - t2)}
}

// NTPFilter is the common filter of NTP clients: of the last 8 exchanges, one every
// 2 s, the one with the shortest round trip counts, and the newest of equals. The
// zero value is ready to use.
type NTPFilter struct {
	pinged
	ring [8]echo
	n    int
}

// OnExchange implements Exchanger.
func (f *NTPFilter) OnExchange(t1, t2, t3, t4 uint64) {
	if !f.due(t1, 2*time.Second) {
		return
	}
	f.ring[f.n%len(f.ring)] = newEcho(t1, t2, t3, t4)
	f.n++
	best := f.ring[(f.n-1)%len(f.ring)]
	for i := 2; i <= min(f.n, len(f.ring)); i++ { // from the newest
		if e := f.ring[(f.n-i)%len(f.ring)]; e.rtt < best.rtt {
			best = e
		}
	}
	f.set(best)
}

// OneShot is a handshake: half the round trip of the first exchange, once for all.
// The zero value is ready to use.
type OneShot struct{ pinged }

// OnExchange implements Exchanger.
func (o *OneShot) OnExchange(t1, t2, t3, t4 uint64) {
	if !o.synced {
		o.set(newEcho(t1, t2, t3, t4))
	}
}

// Slot is Matt Slot's game clock: every 5 s a ping; if its round trip is among the
// best 20 % of the last 32 and the clock is over 3 ms off, the clock is set. The
// zero value is ready to use.
type Slot struct {
	pinged
	ring [32]uint64 // round trips, microseconds
	n    int
}

// OnExchange implements Exchanger.
func (s *Slot) OnExchange(t1, t2, t3, t4 uint64) {
	const tooLate, wrong = 10_000_000, 3_000 // microseconds
	e := newEcho(t1, t2, t3, t4)
	if !s.due(t1, 5*time.Second) || e.rtt > tooLate {
		return
	}
	s.ring[s.n%len(s.ring)] = e.rtt
	s.n++
	sorted := s.ring
	known := sorted[:min(s.n, len(sorted))]
	slices.Sort(known)
	off := int64(e.offset - s.offset)
	if !s.synced || e.rtt <= known[(len(known)-1)/5] && max(off, -off) > wrong {
		s.set(e)
	}
}

// Netfox is netfox's NetworkTimeSynchronizer: four pings a second in its own
// reference time; the average of 8, weighted by the logarithm of the round trip,
// nudges that time by an eighth; beyond 8 s it jumps. As in netfox the ring is sorted
// in place, so that the rank of a round trip, not its age, decides what is replaced.
// The zero value is ready to use.
type Netfox struct {
	pinged
	ring []foxEcho
	next int
}

// foxEcho is an exchange in netfox's reference time, seconds.
type foxEcho struct{ offset, rtt float64 }

// OnExchange implements Exchanger.
func (n *Netfox) OnExchange(t1, t2, t3, t4 uint64) {
	const size, panicAt = 8, 8 // samples, seconds
	e := newEcho(t1, t2, t3, t4)
	if !n.synced { // set from the first answer, without its round trip
		n.set(echo{t3 - t4, e.rtt})
	}
	f := foxEcho{float64(int64(e.offset-n.offset)) * 1e-6, float64(e.rtt) * 1e-6}
	if len(n.ring) < size {
		n.ring = append(n.ring, f)
	} else {
		n.ring[n.next] = f
		n.next = (n.next + 1) % size
	}
	slices.SortStableFunc(n.ring, func(a, b foxEcho) int {
		switch {
		case a.rtt < b.rtt:
			return -1
		case a.rtt > b.rtt:
			return 1
		}
		return 0
	})
	var sum, weights, plain float64
	for _, s := range n.ring {
		w := math.Log(1 + s.rtt)
		sum, weights, plain = sum+w*s.offset, weights+w, plain+s.offset
	}
	offset := plain / float64(len(n.ring))
	if weights > 0 {
		offset = sum / weights
	}
	n.rtt = e.rtt
	if math.Abs(offset) > panicAt {
		n.ring, n.next = n.ring[:0], 0
	} else {
		offset /= 8
	}
	n.offset += uint64(int64(offset * 1e6))
}
