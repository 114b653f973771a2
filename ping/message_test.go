// These tests prove the layout of the messages, and what is refused.

package ping

import (
	"bytes"
	"testing"
)

// The two messages, byte for byte, and what is refused.

func TestAppendReplyRefuses(t *testing.T) {
	request := appendHead(nil, kindRequest, message{session: 5})
	for _, x := range []struct {
		name    string
		request []byte
		session uint32
	}{
		{"nothing", nil, 5},
		{"truncated", request[:RequestSize-1], 5},
		{"too long", append(bytes.Clone(request), 0), 5},
		{"another session", request, 6},
		{"a reply", appendReply(nil, message{session: 5}), 5},
	} {
		if b, ok := AppendReply([]byte("dst"), x.request, x.session, 1, 2); ok || string(b) != "dst" {
			t.Errorf("%s: %x, %v", x.name, b, ok)
		}
	}
	dst := make([]byte, 0, ReplySize)
	if n := testing.AllocsPerRun(100, func() { AppendReply(dst, request, 5, 1, 2) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestNonces: no nonce twice, and every bit of it varies.
func TestNonces(t *testing.T) {
	var c Clock
	seen := map[uint64]bool{}
	var ones, zeros uint64
	for range 1000 {
		m, ok := readMessage(c.AppendRequest(nil, 0), kindRequest)
		if !ok || seen[m.nonce] {
			t.Fatalf("nonce %#x again, or no request", m.nonce)
		}
		seen[m.nonce] = true
		ones |= m.nonce
		zeros |= ^m.nonce
	}
	if ones != ^uint64(0) || zeros != ^uint64(0) {
		t.Errorf("bits that never were 1: %#x, 0: %#x", ^ones, ^zeros)
	}
}
