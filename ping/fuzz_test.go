package ping

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"
	"time"
)

// What holds for any bytes and for any order of calls.

// FuzzMessage: whatever can be read, writes the same bytes; the rest is refused
// without effect.
func FuzzMessage(f *testing.F) {
	f.Add([]byte{})
	f.Add(appendHead(nil, kindRequest, message{session: 1, nonce: 2}))
	f.Add(appendReply(nil, message{1, 2, 3, 4}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, ok := readMessage(b, kindRequest); ok {
			if got := appendHead(nil, kindRequest, m); !bytes.Equal(got, b) {
				t.Errorf("%x became %x", b, got)
			}
			reply, ok := AppendReply(nil, b, m.session, 5, 6)
			n, okReply := readMessage(reply, kindReply)
			if !ok || !okReply || n != (message{m.session, m.nonce, 5, 6}) {
				t.Errorf("the reply to %x is %x", b, reply)
			}
		} else if got, ok := AppendReply(nil, b, m.session, 5, 6); ok || got != nil {
			t.Errorf("%x was answered by %x", b, got)
		}
		if m, ok := readMessage(b, kindReply); ok {
			if got := appendReply(nil, m); !bytes.Equal(got, b) {
				t.Errorf("%x became %x", b, got)
			}
		}
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
	f.Add([]byte{1, 0, 0, 1, 30, 0, 2, 0, 30, 2, 0, 30, 4, 200, 200, 0, 0, 0, 2, 1, 200, 5, 1, 0, 3, 9, 9})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		c := &Clock{Rule: rules[b[0]&3].rule, AdjustSteps: int(b[0] >> 2 & 7), Samples: int(b[0] >> 5)}
		now, read := uint64(0), uint64(0)
		var requests, replies [][]byte
		last := Snapshot{Steps: math.MaxUint32} // none
		handled := uint64(0)
		for b = b[1:]; len(b) >= 3; b = b[3:] {
			x, y := b[1], b[2]
			switch b[0] % 7 {
			case 0:
				if c.Next(now) < 0 {
					t.Fatal("Next is negative")
				}
				requests = append(requests, c.AppendRequest(nil, now))
			case 1: // time goes on, from microseconds to hours
				now += uint64(x) << (y % 24)
			case 2: // a reply to any request, with any clock
				if len(requests) > 0 {
					recv := now + 1000 + uint64(int64(int8(y)))<<(x%64)
					reply, ok := AppendReply(nil, requests[int(x)%len(requests)], c.session, recv, recv+uint64(int64(int8(y)>>1)))
					if ok {
						replies = append(replies, reply)
						c.HandleReply(reply, now)
						handled++
					}
				}
			case 3: // a reply again, perhaps with one byte changed
				if len(replies) > 0 {
					reply := bytes.Clone(replies[int(x)%len(replies)])
					if y > 0 {
						reply[int(y)%len(reply)] ^= x
					}
					c.HandleReply(reply, now)
					handled++
				}
			case 4: // a receive time that goes back
				if len(replies) > 0 {
					ago := binary.LittleEndian.Uint64([]byte{x, y, 0, x & 1, 0, 0, 0, y & 0x80})
					c.HandleReply(replies[len(replies)-1], now-ago)
					handled++
					if ago > settleUsec { // so late a call may change what was read already
						last = Snapshot{Steps: math.MaxUint32}
					}
				}
			case 5:
				c.Reset(uint32(x & 3))
				last, handled = Snapshot{Steps: math.MaxUint32}, 0
				if _, ok := c.RemoteTime(now); ok {
					t.Fatal("synchronized after Reset")
				}
			case 6: // garbage
				c.HandleReply(b[:3], now)
				handled++
			}
			if len(c.window) > DefaultSamples || len(c.window) > max(c.Samples, 64*(1-min(c.Samples, 1))) {
				t.Fatalf("%d samples", len(c.window))
			}
			sum := uint64(0)
			for v := range verdicts {
				sum += c.Count(v)
			}
			if sum != handled {
				t.Fatalf("%d replies, %d counted", handled, sum)
			}
			s, ok := c.Snapshot(now)
			if !ok {
				continue
			}
			if s.ErrorBound < 0 || s.MinOneWayDelay < 0 || s.Jitter < 0 || s.MinOneWayDelay > 5*time.Second || s.Skew > maxSkewPPM || s.Skew < -maxSkewPPM {
				t.Fatalf("%+v", s)
			}
			if remote, ok := c.RemoteTime(now); !ok || remote != s.RemoteUsec || int64(remote-now) != s.OffsetUsec {
				t.Fatalf("%d, %+v", remote, s)
			}
			if last.Steps == s.Steps && int64(now-read) >= 0 && int64(s.RemoteUsec-last.RemoteUsec) < 0 {
				t.Fatalf("went back from %+v to %+v", last, s)
			}
			last, read = s, now
		}
	})
}
