// This test proves that requests are hard to guess.

package ping

import "testing"

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
