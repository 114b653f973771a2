// These tests prove that an event that AppendEvent tells is read right, that none is told whose
// time may not be relied on, and that ReadEvent keeps its limits of age.

package simtest

import (
	"testing"
	"time"

	"timesync"
)

// eventEnds are two ends, 20 ms apart, and the local time of the first one. The clock of the second
// is ahead.
type eventEnds struct {
	own, peer  timesync.TimeSynchronizer
	now, ahead uint64
}

// run lets both send 20 datagrams a second for so long.
func (e *eventEnds) run(lasting time.Duration) {
	const delay = 20_000
	for n := range lasting / (50 * ms) {
		toPeer := timesync.LocalTimeToDatagramTS24(e.now)
		toOwn := timesync.LocalTimeToDatagramTS24(e.now + e.ahead)
		e.peer.OnAuthenticatedDatagramTimestamp(toPeer, e.now+e.ahead+delay)
		e.own.OnAuthenticatedDatagramTimestamp(toOwn, e.now+delay)
		if n%10 == 1 {
			if report, ok := e.peer.MinDeltaTS24(e.now + e.ahead + delay); ok {
				e.own.OnPeerMinDeltaTS24(report, e.now+2*delay)
			}
			if report, ok := e.own.MinDeltaTS24(e.now + delay); ok {
				e.peer.OnPeerMinDeltaTS24(report, e.now+e.ahead+2*delay)
			}
		}
		e.now += 50_000
	}
}

// tell lets the first end send the time of an event, which happened ago, and the other one read it
// 20 ms later. off is how wrong the time is that is read.
func (e *eventEnds) tell(ago, tolerable, oldest time.Duration) (off time.Duration, ok bool) {
	happened := e.now - uint64(ago.Microseconds())
	b := e.own.AppendEvent([]byte("x"), e.now, happened, tolerable)
	at, ok := timesync.ReadEvent(b[1:], e.now+e.ahead+20_000, oldest, tolerable)
	return time.Duration(int64(at-happened-e.ahead)) * us, ok
}

func TestEvent(t *testing.T) {
	for _, ahead := range []uint64{0, 5_000_000_000, 1 << 63, 1<<64 - 7} {
		e := eventEnds{now: 1 << 40, ahead: ahead}
		if _, ok := e.tell(0, time.Hour, time.Hour); ok {
			t.Error("told before anything is known")
		}
		e.run(10 * sec)
		for _, ago := range []time.Duration{0, sec, 49 * sec, -15 * sec, 40 * ms} {
			if off, ok := e.tell(ago, 50*ms, time.Minute); ok != (ago >= 0) || off.Abs() > 20*us {
				t.Errorf("%v ago: off by %v, ok %v", ago, off, ok)
			}
		}
		for _, ago := range []time.Duration{50 * sec, -17 * sec, time.Hour, -time.Hour} {
			if _, ok := e.tell(ago, 50*ms, 2*time.Hour); ok {
				t.Errorf("told %v ago, which is not to be told", ago)
			}
		}
		if _, ok := e.tell(0, 10*ms, time.Hour); ok {
			t.Error("told with a bound of 20 ms, tolerable 10 ms")
		}
		if _, ok := e.tell(sec, 50*ms, sec); ok {
			t.Error("an event of 1.02 s ago is read, oldest 1 s")
		}
		before := e.now
		e.ahead += 3_000_000 // the peer's clock is set
		e.run(5 * sec)
		if _, ok := e.tell(0, time.Hour, time.Hour); ok {
			t.Error("told 5 s after a clock was set")
		}
		e.run(20 * sec)
		if off, ok := e.tell(sec, 50*ms, 2*sec); !ok || off.Abs() > 2*ms {
			t.Errorf("25 s after a clock was set: off by %v, ok %v", off, ok)
		}
		since := time.Duration(e.now-before) * us
		if _, ok := e.tell(since+sec, 50*ms, time.Minute); ok {
			t.Error("an event of before a clock was set is told")
		}
	}
	for _, b := range [][]byte{nil, {1, 2}, {1, 2, 3}} {
		if _, ok := timesync.ReadEvent(b, 5, time.Hour, time.Hour); ok {
			t.Errorf("% x is an event", b)
		}
	}
}
