// This test proves that no bytes make a reader fail without an error.
package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"
)

// resum makes the checksums of blocks right, so that hostile ones come further.
func resum(b []byte) []byte {
	b = bytes.Clone(b)
	copy(b, magic)
	for rest := b[min(len(b), len(magic)):]; len(rest) > headLen; {
		n := headLen + int(binary.LittleEndian.Uint16(rest[headLength:]))
		if n > len(rest) {
			n = len(rest)
			binary.LittleEndian.PutUint16(rest[headLength:], uint16(n-headLen))
		}
		binary.LittleEndian.PutUint32(rest[headSum:], crc32.Checksum(rest[headNumber:n], crcTable))
		rest = rest[n:]
	}
	return b
}

// damaged reports whether an error says that a recording is none, or not whole.
func damaged(err error) bool {
	return errors.Is(err, ErrFormat) || errors.Is(err, ErrTruncated) || errors.Is(err, ErrCorrupt)
}

// FuzzRead reads and replays any bytes, as they are and with right checksums.
func FuzzRead(f *testing.F) {
	whole := recording(f, 1, 150, unseen)
	f.Add(whole)
	f.Add(whole[:len(whole)-7])
	f.Add([]byte(magic))
	f.Add([]byte{})
	for first := range 1 << 6 { // a block of one event that is cut short
		b := append([]byte(magic), make([]byte, headLen)...)
		b = append(b, byte(first), 0xff, 0xff)
		b[len(magic)+headLength] = 3
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, resum(b)} {
			n := 0
			var last error
			for m, err := range Replay(bytes.NewReader(b)) {
				last = err
				if err == nil {
					n++
					everything(m.Ends[0], m.LocalUsec)
				}
			}
			if last != nil && !damaged(last) {
				t.Error(last)
			}
			if n > len(b) {
				t.Errorf("%d events in %d bytes", n, len(b))
			}
			both, _ := all(Replay(bytes.NewReader(b), bytes.NewReader(b)))
			check(t, len(both), 2*n, "events in two recordings")
		}
	})
}
