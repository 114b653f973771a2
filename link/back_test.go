// These tests prove that times of receipt that go back reset no link.

package link_test

import (
	"encoding/binary"
	"testing"

	"timesync/link"
)

const (
	backAhead = 5_000_000_000 // us: the peer's clock
	backDelay = 20_000        // us: each way
)

// backPair returns a link that knows its peer, and the local time.
func backPair() (l *link.Link, now uint64) {
	var own, far link.Link
	for now = 1e9; now < 1e9+10e6; now += 100_000 {
		there := own.AppendHeader(nil, now)
		back := far.AppendHeader(nil, now+backAhead)
		far.ReadHeader(there, now+backAhead+backDelay)
		own.ReadHeader(back, now+backDelay)
	}
	return &own, now
}

// TestAskedBackInTime: three datagrams that ask, as those of a peer that has started anew do, came
// within 2 us, the last one with an earlier time of receipt. It takes 50 ms to believe them.
func TestAskedBackInTime(t *testing.T) {
	l, now := backPair()
	var fresh link.Link
	for i, after := range []uint64{1000, 1001, 999} {
		asks := fresh.AppendHeader(nil, now+backAhead-1e6+uint64(i)*1000)
		l.ReadHeader(asks, now+after)
	}
	if _, ok := l.Snapshot(now); !ok {
		t.Error("the link has forgotten its peer")
	}
}

// TestAnchorsBackInTime: the same for three anchors that were held up for as long as stamps take to
// turn once. It takes 2 s to believe them.
func TestAnchorsBackInTime(t *testing.T) {
	const turn = 1 << 27 // us
	l, now := backPair()
	for i, after := range []uint64{1000, 1001, 999} {
		sent := now + backAhead + uint64(i)*8 - backDelay - turn
		header := []byte{2 | 4, byte(sent >> 3), byte(sent >> 11), byte(sent >> 19)}
		l.ReadHeader(binary.LittleEndian.AppendUint64(header, sent), now+after)
	}
	remote, _ := l.RemoteTime(now + 2000)
	if off := int64(remote - now - 2000 - backAhead); off < -1e6 || off > 1e6 {
		t.Errorf("the remote time has moved by %d us", off)
	}
}
