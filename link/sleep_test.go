// This test proves that a peer whose machine slept is not trusted before its time is right
// again, also after sleeps that stamps of 3 bytes cannot tell from none.
package link_test

import (
	"testing"
	"time"

	"timesync/link"
)

// TestPeerSlept: the peer's machine sleeps, and its clock stands still, for about a multiple of
// the 67.1 and 134.2 s after which stamps and reports repeat.
func TestPeerSlept(t *testing.T) {
	const ring = 1 << 27 // us
	for half := int64(1); half <= 6; half++ {
		for _, off := range []int64{-60_000, -30_000, -5000, -300, 0, 300, 5000, 30_000, 60_000} {
			if wrong, most := sleepOf(half*ring/2 + off); wrong > 0 {
				t.Errorf("slept for %v: trusted for %v, and up to %v off",
					time.Duration(half*ring/2+off)*time.Microsecond, wrong, most)
			}
		}
	}
}

// sleepOf returns for how long an end trusts a time that is beyond its bound, from 0.1 s after
// the peer's sleep on, and by how much it is off then. Both ends send 20 datagrams a second,
// which need 20 ms.
func sleepOf(asleep int64) (wrong, most time.Duration) {
	const from, each, delay = 60_000_000, 50_000, 20_000
	var own, peer link.Link
	awake := from + asleep
	peerClock := func(now int64) uint64 {
		stood := min(max(now-from, 0), asleep)
		return 5_000_000_000_000 + uint64(now-stood)
	}
	sleeps := func(now int64) bool { return now >= from && now < awake }
	for now := int64(1_000_000); now < awake+20_000_000; now += each {
		toPeer := own.AppendHeader(nil, uint64(now))
		if !sleeps(now + delay) {
			peer.ReadHeader(toPeer, peerClock(now+delay))
		}
		if !sleeps(now) {
			own.ReadHeader(peer.AppendHeader(nil, peerClock(now)), uint64(now+delay))
		}
		asked := now + delay
		if asked < awake+100_000 {
			continue
		}
		s, _ := own.Snapshot(uint64(asked))
		off := time.Duration(int64(s.RemoteUsec-peerClock(asked))) * time.Microsecond
		if s.Within(100*time.Millisecond) == nil && off.Abs() > s.ErrorBound {
			wrong += each * time.Microsecond
			most = max(most, off.Abs())
		}
	}
	return wrong, most
}
