// These fuzz targets prove that no message and no order of replies panics or poisons the
// clock.

package ping

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"testing"
	"time"

	"timesync"
)

// FuzzMessage: a request is answered with its session, its nonce and the times; the rest
// is refused without effect.
func FuzzMessage(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{kindRequest, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0})
	f.Add(append([]byte{kindReply, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0}, make([]byte, 16)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		session := binary.LittleEndian.Uint32(append(bytes.Clone(b), 0, 0, 0, 0, 0)[1:])
		reply, answered := AppendReply([]byte("dst"), b, session, 5, 6)
		want := "dst"
		if len(b) == RequestSize && b[0] == kindRequest {
			want = fmt.Sprintf("dst\x71%s\x05%s\x06%[2]s", b[1:], "\x00\x00\x00\x00\x00\x00\x00")
		}
		check(t, answered, want != "dst", "%x is answered", b)
		check(t, string(reply), want, "the answer to %x", b)
		reply, answered = AppendReply([]byte("dst"), b, session+1, 5, 6)
		check(t, string(reply) != "dst" || answered, false, "%x is answered in another session", b)
		var c Clock
		c.AppendRequest(nil, 0)
		if v := c.HandleReply(b, 1); v != Malformed && v != OldSession && v != UnknownRequest {
			t.Errorf("%x: %v", b, v)
		}
	})
}

// FuzzReplies decodes any sequence of requests, replies good and bad, silences,
// resets and readings, and checks what must hold whatever happens.
func FuzzReplies(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 30, 0, 2, 0, 30, 3, 0, 0})
	f.Add([]byte{
		1, 0, 0, 1, 30, 0, 2, 0, 30, 2, 0, 30, 4, 200, 200,
		0, 0, 0, 2, 1, 200, 5, 1, 0, 3, 9, 9,
	})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		interval := time.Duration(b[0]) * sec / 4
		p := player{
			t: t,
			c: &Clock{conf: Config{SyncInterval: interval}},
			plain: PlainClock{
				Rule:        rules[b[0]&3],
				AdjustSteps: int(b[0] >> 2 & 7),
				Samples:     int(b[0] >> 5),
			},
			last: noSnapshot,
		}
		for b = b[1:]; len(b) >= 3; b = b[3:] {
			p.play(b[0]%7, b[1], b[2])
			p.check()
		}
	})
}

// rules are all rules of the package.
var rules = []Rule{Latest, SlotPercentile, Percentile, MinDelay, Netfox}

// player does with a Clock what the fuzzer says.
type player struct {
	t                 *testing.T
	c                 *Clock
	plain             PlainClock
	now               uint64
	requests, replies [][]byte
	handled           uint64 // replies since Reset
	last              timesync.Snapshot
	lastAt            uint64
}

// play does one thing; x and y say how.
func (p *player) play(what, x, y byte) {
	switch what {
	case 0:
		if p.c.Next(p.now) < 0 {
			p.t.Fatal("Next is negative")
		}
		p.requests = append(p.requests, p.c.AppendRequest(nil, p.now))
	case 1: // time goes on, from microseconds to hours
		p.now += uint64(x) << (y % 24)
	case 2: // a reply to any request, with any clock
		p.answer(x, y)
	case 3: // a reply again, perhaps with one byte changed
		if len(p.replies) > 0 {
			reply := bytes.Clone(p.replies[int(x)%len(p.replies)])
			if y > 0 {
				reply[int(y)%len(reply)] ^= x
			}
			p.handle(reply, p.now)
		}
	case 4: // a receive time that goes back
		if len(p.replies) > 0 {
			ago := binary.LittleEndian.Uint64([]byte{x, y, 0, x & 1, 0, 0, 0, y & 0x80})
			p.handle(p.replies[len(p.replies)-1], p.now-ago)
			p.last = noSnapshot // it may change what was read already
		}
	case 5:
		p.c.Reset(uint32(x & 3))
		p.last, p.handled = noSnapshot, 0
		if _, ok := p.c.RemoteTime(p.now); ok {
			p.t.Fatal("synchronized after Reset")
		}
	case 6: // garbage
		p.handle([]byte{what, x, y}, p.now)
	}
}

// answer replies to a request, if there is one of this session.
func (p *player) answer(x, y byte) {
	if len(p.requests) == 0 {
		return
	}
	request := p.requests[int(x)%len(p.requests)]
	recv := p.now + 1000 + uint64(int64(int8(y)))<<(x%64)
	send := recv + uint64(int64(int8(y)>>1))
	reply, ok := AppendReply(nil, request, p.c.session, recv, send)
	if ok {
		p.replies = append(p.replies, reply)
		p.handle(reply, p.now)
	}
}

func (p *player) handle(reply []byte, now uint64) {
	if p.c.HandleReply(reply, now) <= ManyServers {
		x, ok := p.c.Exchange()
		check(p.t, ok, true, "the exchange is known")
		p.plain.OnExchange(x)
	}
	p.handled++
}

// check looks at what must hold at any time.
func (p *player) check() {
	c := p.c
	sum := uint64(0)
	for v := range verdicts {
		sum += c.Count(v)
	}
	check(p.t, sum, p.handled, "counted replies")
	s, ok := c.Snapshot(p.now)
	if !ok {
		return
	}
	least := min(s.ErrorBound, s.MinimumOneWayDelay, s.MinimumDelayToPeer, s.FloorScatter, s.Age)
	if least < 0 || math.Abs(s.Skew) > 1000.1 {
		p.t.Fatalf("%+v", s)
	}
	remote, _ := c.RemoteTime(p.now)
	check(p.t, s.RemoteUsec, remote, "remote time")
	check(p.t, s.OffsetUsec, int64(remote-p.now), "offset")
	isLater := int64(p.now-p.lastAt) >= 0
	wentBack := int64(s.RemoteUsec-p.last.RemoteUsec) < 0
	if p.last.Steps == s.Steps && isLater && wentBack {
		p.t.Fatalf("went back from %+v to %+v", p.last, s)
	}
	p.last = s
	p.lastAt = p.now
}
