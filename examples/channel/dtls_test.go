// This test proves that nothing that anybody can forge and that ends a DTLS connection gets
// through.

package channel

import (
	"encoding/binary"
	"slices"
	"testing"
)

// record is one of a type and an epoch, with two bytes.
func record(kind byte, epoch uint16) []byte {
	b := make([]byte, recordHead+2)
	b[0] = kind
	binary.BigEndian.PutUint16(b[epochAt:], epoch)
	binary.BigEndian.PutUint16(b[lengthAt:], 2)
	return b
}

func TestAdmitsDTLS(t *testing.T) {
	const data, unknown, last = 23, 0, 25
	right := []byte{changeCipherRecord, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 1}
	handshakeThenAlert := slices.Concat(record(handshakeRecord, 0), record(alertRecord, 0))
	for _, c := range []struct {
		name     string
		datagram []byte
		want     bool
	}{
		{"nothing", nil, true},
		{"cut short", record(alertRecord, 0)[:5], true},
		{"a handshake", record(handshakeRecord, 0), true},
		{"an encrypted handshake", record(handshakeRecord, 1), true},
		{"an alert", record(alertRecord, 0), false},
		{"an encrypted alert", record(alertRecord, 1), true},
		{"an alert after a handshake", handshakeThenAlert, false},
		{"data", record(data, 0), false},
		{"encrypted data", record(data, 1), true},
		{"an unknown type", record(unknown, 0), false},
		{"another one", record(last, 0), false},
		{"an encrypted unknown type", record(unknown, 1), true},
		{"what follows is encrypted", right, true},
		{"the same, too long", record(changeCipherRecord, 0), false},
		{"the same, encrypted", record(changeCipherRecord, 1), false},
	} {
		if got := AdmitsDTLS(c.datagram); got != c.want {
			t.Errorf("%s, % x: admitted %v", c.name, c.datagram, got)
		}
	}
}

// FuzzAdmitsDTLS: no bytes break it, and a first record that is a plain alert never passes.
func FuzzAdmitsDTLS(f *testing.F) {
	f.Add(record(alertRecord, 0))
	f.Add(slices.Concat(record(handshakeRecord, 0), record(alertRecord, 0)))
	f.Fuzz(func(t *testing.T, b []byte) {
		admits := AdmitsDTLS(b)
		isPlainAlert := len(b) >= recordHead && b[0] == alertRecord && b[epochAt] == 0 &&
			b[epochAt+1] == 0
		if isPlainAlert && admits {
			t.Errorf("% x passes", b)
		}
	})
}
