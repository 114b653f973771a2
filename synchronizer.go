package timesync

import (
	"sync/atomic"
	"time"
)

const (
	// deltaBits is the ring of a delta in microseconds: 24 bits of 8 us, 134.2 s.
	deltaBits = ts24Bits + ts24Shift
	// offsetBits is the ring of the offset, 67.1 s: halving a sum of two deltas
	// loses its top bit.
	offsetBits = deltaBits - 1
	// windowUsec is how long a minimum counts: the original's choice, in which
	// clocks 100 ppm apart drift by 1 ms.
	windowUsec = 10_000_000
)

// TimeSynchronizer estimates the offset between the local clock and the clock of
// one peer from datagrams that carry a 3-byte stamp. The zero value is ready to
// use; it must not be copied after first use.
//
// One goroutine at a time may call OnAuthenticatedDatagramTimestamp,
// OnPeerMinDeltaTS24, MinDeltaTS24 and Reset. All other methods may be called from
// any goroutine at any time; they never block and see one consistent pair of
// offset and delay.
//
// Times are readings of the local clock in microseconds. Its value is free and may
// wrap; it should be monotonic and must not be slewed or set on purpose.
type TimeSynchronizer struct {
	best   [3]sample // best[0] is the minimum of the window, the others its successors
	seen   bool      // best is valid
	latest uint64    // latest receive time; earlier ones count as this one

	peer   int64 // the peer's last report in microseconds on the ring of deltas
	peered bool  // peer is valid

	pair atomic.Uint64 // what readers see, see publish
}

// sample is a datagram that may still become the minimum of the window.
type sample struct {
	delta int64  // receive time minus send stamp, microseconds, around best[0]
	at    uint64 // receive time
}

// OnAuthenticatedDatagramTimestamp takes the stamp of a datagram that arrived at
// localRecvUsec and returns the datagram's one-way delay; ok is false while the
// offset is not known. Call it only for datagrams that are proven to come from the
// peer: whoever can forge a stamp can move the clock.
//
// Receive times that go back, as when two threads swap datagrams, are allowed.
func (s *TimeSynchronizer) OnAuthenticatedDatagramTimestamp(remoteSendTS24 Counter24, localRecvUsec uint64) (owd time.Duration, ok bool) {
	delta := wrap(localRecvUsec-uint64(remoteSendTS24)<<ts24Shift, deltaBits)
	if s.seen {
		delta = s.best[0].delta + wrap(uint64(delta-s.best[0].delta), deltaBits)
	}
	if !s.seen || int64(localRecvUsec-s.latest) > 0 {
		s.latest = localRecvUsec
	}
	s.update(sample{delta, s.latest})
	s.publish()
	minimum, ok := s.MinimumOneWayDelay()
	if !ok {
		return 0, false
	}
	return minimum + time.Duration(delta-s.best[0].delta)*time.Microsecond, true
}

// wrap returns the low bits of v as a signed number in [-half, half).
func wrap(v uint64, bits uint) int64 { return int64(v<<(64-bits)) >> (64 - bits) }

// update is Kathleen Nichols' windowed minimum as in the original: a minimum that
// has grown old is replaced by the best of a later quarter or half of the window.
func (s *TimeSynchronizer) update(x sample) {
	b := &s.best
	old := func(y sample, age uint64) bool { return x.at-y.at > age }
	switch {
	case !s.seen, x.delta <= b[0].delta, old(b[2], windowUsec):
		*b = [3]sample{x, x, x}
		s.seen = true
		return
	case x.delta <= b[1].delta:
		b[1], b[2] = x, x
	case x.delta <= b[2].delta:
		b[2] = x
	}
	switch {
	case old(b[0], windowUsec):
		b[0], b[1], b[2] = b[1], b[2], x
		if old(b[0], windowUsec) {
			b[0], b[1] = b[1], x
		}
	case b[1].delta == b[0].delta && old(b[1], windowUsec/4):
		b[1], b[2] = x, x
	case b[2].delta == b[1].delta && old(b[2], windowUsec/2):
		b[2] = x
	}
}

// MinDeltaTS24 returns what to report to the peer now: the smallest receive time
// minus send stamp of late, in units of 8 us, rounded to the nearest. ok is false
// before the first datagram.
func (s *TimeSynchronizer) MinDeltaTS24(localUsec uint64) (minDelta Counter24, ok bool) {
	if !s.seen {
		return 0, false
	}
	return NewCounter24(uint64(s.best[0].delta+1<<(ts24Shift-1)) >> ts24Shift), true
}

// OnPeerMinDeltaTS24 takes what the peer's MinDeltaTS24 returned, which arrived at
// localRecvUsec. A report that comes before the first datagram counts from the
// first datagram on.
func (s *TimeSynchronizer) OnPeerMinDeltaTS24(minDelta Counter24, localRecvUsec uint64) {
	s.peer, s.peered = int64(minDelta)<<ts24Shift, true
	s.publish()
}

const pairValid = 1 << 63 // pair holds a value; below it the delay, then the offset

// publish shows offset and delay to the readers. With r the remote clock minus the
// local clock, our minimum is the minimum one-way delay here minus r, the peer's
// the one there plus r: half the difference is r, and half the sum the one-way
// delay, if both ways take as long.
func (s *TimeSynchronizer) publish() {
	if !s.seen || !s.peered {
		return
	}
	offset := wrap(uint64(s.peer-s.best[0].delta), deltaBits) / 2
	delay := max(wrap(uint64(s.peer+s.best[0].delta), deltaBits), 0) / 2
	pair := pairValid | uint64(delay)<<offsetBits | uint64(offset)&(1<<offsetBits-1)
	if pair != s.pair.Load() {
		s.pair.Store(pair)
	}
}

// IsSynchronized reports whether the offset is known: since the first datagram and
// the first report.
func (s *TimeSynchronizer) IsSynchronized() bool { return s.pair.Load() != 0 }

// MinimumOneWayDelay returns the shortest time that a datagram of late was under
// way, never negative; half the round trip, since nobody can tell how unequal the
// two ways are. ok is false while the offset is not known.
func (s *TimeSynchronizer) MinimumOneWayDelay() (delay time.Duration, ok bool) {
	pair := s.pair.Load()
	return time.Duration(pair&^pairValid>>offsetBits) * time.Microsecond, pair != 0
}

// RemoteTime returns the remote clock, in microseconds, at the local time
// localUsec. The offset is known modulo 67.1 s, so the result is the reading
// nearest to nearRemoteUsec. ok is false while the offset is not known.
func (s *TimeSynchronizer) RemoteTime(localUsec, nearRemoteUsec uint64) (remoteUsec uint64, ok bool) {
	remote, ok := s.remote(localUsec)
	if !ok {
		return 0, false
	}
	return nearRemoteUsec + uint64(wrap(remote-nearRemoteUsec, offsetBits)), true
}

// remote returns the remote clock modulo 67.1 s.
func (s *TimeSynchronizer) remote(localUsec uint64) (uint64, bool) {
	pair := s.pair.Load()
	if pair == 0 {
		return 0, false
	}
	return localUsec + pair, true
}

// Reset forgets everything, as when the peer is replaced by another.
func (s *TimeSynchronizer) Reset() {
	s.best, s.seen, s.latest = [3]sample{}, false, 0
	s.peer, s.peered = 0, false
	s.pair.Store(0)
}
