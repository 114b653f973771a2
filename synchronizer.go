package timesync

import (
	"sync/atomic"
	"time"
)

const (
	deltaBits  = ts24Bits + ts24Shift // ring of a delta in microseconds: 134.2 s
	offsetBits = deltaBits - 1        // ring of the offset: halving a delta loses a bit, 67.1 s

	// windowUsec is how long a minimum counts: the original's choice. Drift makes an
	// old minimum wrong, by 1 ms at 100 ppm; a shorter window sees fewer datagrams.
	windowUsec = 10_000_000
	// strayRun datagrams in a row that arrive before they could have been sent are
	// believed: a clock was set. Fewer are strays, such as one held up for 67.1 s,
	// whose stamp has wrapped.
	strayRun = 3
	// reportCut is what a report, rounded down to 8 us, cuts off in the middle.
	reportCut = 3
	// slackUsec is by how much a round trip may come out below zero before it is
	// impossible: clocks 200 ppm apart drift by 2 ms while a minimum counts.
	slackUsec = 4_000
)

// sample is a datagram that may still become the minimum of the window.
type sample struct {
	delta int64  // receive time minus send stamp, microseconds
	at    uint64 // receive time
}

// TimeSynchronizer estimates the offset between the local clock and the clock of
// one peer from datagrams that carry a 3-byte stamp. The zero value is ready to
// use; it must not be copied after first use.
//
// One goroutine at a time may call OnAuthenticatedDatagramTimestamp,
// OnPeerMinDeltaTS24, MinDeltaTS24 and Reset. All other methods may be called from
// any goroutine at any time; they never block and see one consistent pair of offset
// and delay.
//
// Times are readings of the local clock in microseconds. Its value is free and it
// may wrap; it should be monotonic and must not be slewed or set on purpose.
type TimeSynchronizer struct {
	// 80 bytes, a multiple of 16: in a slice, each lies in at most two cache lines.
	best   [3]sample     // best[0] is the minimum of the window, the others its successors
	idle   uint32        // no sample grows old for so long after best[2].at
	peer   int32         // the peer's last report, microseconds on the ring of deltas
	next   int32         // a report that contradicts best
	seen   bool          // best is valid
	peered bool          // peer is valid
	doubt  bool          // next is valid
	strays uint8         // datagrams in a row that contradict peer
	agree  uint8         // datagrams in a row that agree with next
	pair   atomic.Uint64 // what readers see, see publish
}

// OnAuthenticatedDatagramTimestamp takes the stamp of a datagram that arrived at
// localRecvUsec and returns the datagram's one-way delay; ok is false while the
// offset is not known. Call it only for datagrams that are proven to come from the
// peer: whoever can forge a stamp can move the clock.
//
// Datagrams may be lost, repeated and reordered, and receive times may go back, as
// when two threads swap datagrams. A single datagram that seems to arrive before it
// was sent changes nothing, and its delay counts as the shortest.
func (s *TimeSynchronizer) OnAuthenticatedDatagramTimestamp(remoteSendTS24 Counter24, localRecvUsec uint64) (owd time.Duration, ok bool) {
	// As good as all datagrams are above every sample while none grows old. They
	// change nothing, and store nothing.
	raw := localRecvUsec - uint64(remoteSendTS24)<<ts24Shift
	queued := wrap(raw-uint64(s.best[0].delta), deltaBits)
	if queued > s.best[2].delta-s.best[0].delta && localRecvUsec-s.best[2].at < uint64(s.idle) {
		return time.Duration(pairDelay(s.pair.Load())+queued) * time.Microsecond, true
	}
	return s.onDatagram(wrap(raw, deltaBits), localRecvUsec)
}

// onDatagram takes a datagram that may change something.
func (s *TimeSynchronizer) onDatagram(delta int64, localRecvUsec uint64) (owd time.Duration, ok bool) {
	if !s.seen {
		s.restart(sample{delta, localRecvUsec})
	} else {
		delta = s.best[0].delta + wrap(uint64(delta-s.best[0].delta), deltaBits)
		s.update(sample{delta, localRecvUsec})
	}
	s.publish()
	s.rest()
	minimum, ok := s.MinimumOneWayDelay()
	if !ok {
		return 0, false
	}
	return minimum + time.Duration(max(delta-s.best[0].delta, 0))*time.Microsecond, true
}

// rest works out idle.
func (s *TimeSynchronizer) rest() {
	s.idle = 0
	if !s.seen || !s.peered || s.doubt || s.strays != 0 {
		return
	}
	b := &s.best
	old := func(y sample, age uint64) int64 { return int64(y.at + age + 1 - b[2].at) }
	next := old(b[0], windowUsec)
	if b[1].delta == b[0].delta {
		next = min(next, old(b[1], windowUsec/4))
	}
	if b[2].delta == b[1].delta {
		next = min(next, old(b[2], windowUsec/2))
	}
	s.idle = uint32(max(next, 0))
}

// wrap returns the low bits of v as a signed number in [-half, half).
func wrap(v uint64, bits uint) int64 { return int64(v<<(64-bits)) >> (64 - bits) }

// roundTrip returns the sum of minima of both directions, in which the offset
// cancels out, and whether any path can be that short.
func roundTrip(own int64, peer int32) (usec int64, possible bool) {
	usec = wrap(uint64(own+int64(peer)), deltaBits)
	return usec, usec >= -slackUsec
}

// restart makes x the only sample.
func (s *TimeSynchronizer) restart(x sample) {
	s.best = [3]sample{x, x, x}
	s.seen, s.doubt, s.strays, s.agree = true, false, 0, 0
}

// update takes a datagram into the window.
func (s *TimeSynchronizer) update(x sample) {
	if fall := s.best[0].delta - x.delta; fall > 0 && s.peered {
		if _, possible := roundTrip(x.delta, s.peer); !possible {
			// If a clock was set the round trip is what it was, and the peer is
			// about to see the opposite.
			if s.strays++; s.strays == strayRun {
				s.peer = int32(wrap(uint64(int64(s.peer)+fall), deltaBits))
				s.restart(x)
			}
			return
		}
	}
	s.strays = 0
	if s.doubt {
		if _, possible := roundTrip(x.delta, s.next); !possible {
			s.agree = 0
		} else if s.agree++; s.agree == strayRun {
			s.peer = s.next
			s.restart(x)
			return
		}
	}
	b := &s.best
	switch age := int64(x.at - b[2].at); {
	case age < -windowUsec: // the local clock was set back
		s.restart(x)
		return
	case age < 0:
		x.at = b[2].at
	}

	// Kathleen Nichols' windowed minimum as in the original: a minimum that has
	// grown old is replaced by the best of a later quarter or half of the window.
	old := func(y sample, age uint64) bool { return x.at-y.at > age }
	switch {
	case x.delta <= b[0].delta, old(b[2], windowUsec):
		*b = [3]sample{x, x, x}
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

// MinDeltaTS24 returns what to report to the peer at localUsec: the smallest receive
// time minus send stamp of late, in units of 8 us, rounded down. ok is false before the
// first datagram.
func (s *TimeSynchronizer) MinDeltaTS24(localUsec uint64) (minDelta Counter24, ok bool) {
	if !s.seen {
		return 0, false
	}
	return NewCounter24(uint64(s.best[0].delta) >> ts24Shift), true
}

// OnPeerMinDeltaTS24 takes what the peer's MinDeltaTS24 returned, which arrived at
// localRecvUsec. A report that comes before the first datagram counts from the
// first datagram on. A windowed minimum has no use for the time of a report; an
// estimator that follows the drift has.
func (s *TimeSynchronizer) OnPeerMinDeltaTS24(minDelta Counter24, localRecvUsec uint64) {
	peer := int32(NewCounter24(uint64(minDelta))) << ts24Shift
	if _, possible := roundTrip(s.best[0].delta, peer); s.seen && s.peered && !possible {
		// Either a clock was set and our minimum is of the time before, which the
		// next datagrams will tell, or the report is.
		if !s.doubt {
			s.agree = 0
		}
		s.next, s.doubt = peer, true
	} else {
		s.peer, s.peered, s.doubt = peer, true, false
		s.publish()
	}
	s.rest()
}

// The parts of pair, from the top: whether it holds a value, how often it was
// published (for a test: only what changed may be), the delay and the offset.
const (
	pairValid = 1 << 63
	pairCount = pairValid - pairOne
	pairOne   = 1 << (2 * offsetBits)
)

func pairDelay(pair uint64) int64 { return int64(pair >> offsetBits & (1<<offsetBits - 1)) }

// publish shows offset and delay to the readers. With r the remote clock minus the
// local clock, our minimum is the minimum one-way delay here minus r, the peer's
// the one there plus r: half the difference is r, and half the sum the one-way
// delay, if both ways take as long.
func (s *TimeSynchronizer) publish() {
	if !s.seen || !s.peered {
		return
	}
	trip, _ := roundTrip(s.best[0].delta, s.peer)
	offset := (trip+reportCut)/2 - s.best[0].delta
	pair := pairValid | uint64(max(trip, 0)/2)<<offsetBits | uint64(offset)&(1<<offsetBits-1)
	if old := s.pair.Load(); pair != old&^pairCount {
		s.pair.Store(pair | (old+pairOne)&pairCount)
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
	return time.Duration(pairDelay(pair)) * time.Microsecond, pair != 0
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
	s.best, s.idle, s.peer, s.next = [3]sample{}, 0, 0, 0
	s.seen, s.peered, s.doubt, s.strays, s.agree = false, false, false, 0, 0
	s.pair.Store(0)
}
