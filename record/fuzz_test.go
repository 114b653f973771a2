// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that no bytes make a reader fail without an error, and that whatever a
// Recorder is given is read again.
package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"slices"
	"testing"
	"time"

	"timesync"
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
	whole := recording(f, 1, 150)
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
			n, last := 0, error(nil)
			for m, err := range Replay(bytes.NewReader(b)) {
				if last = err; err == nil {
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

// FuzzRecord gives a Recorder any calls. They are read again, in order and exactly.
func FuzzRecord(f *testing.F) {
	f.Add([]byte("0123456789abcdef0123456789abcdef0123456789abcdef"))
	f.Add(bytes.Repeat([]byte{0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3}, 50))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 5000 {
			return // so that two buffers hold all
		}
		var file bytes.Buffer
		r := still(&file)
		var want []Event
		for local := uint64(0); len(b) >= 13; b = b[13:] {
			n := binary.LittleEndian.Uint64(b)
			counter := timesync.Counter24(binary.LittleEndian.Uint32(b[8:]))
			if n&1 == 0 {
				n &= 0xffff // most steps are small
			}
			local += n
			switch b[12] % 6 {
			case 0:
				r.Reset()
				want = append(want, Event{Kind: Reset})
			case 1:
				r.Anchor(local, n)
				want = append(want, Event{Kind: Anchor, LocalUsec: local, RemoteUsec: n})
			case 2:
				r.OnPeerMinDeltaTS24(counter, local)
				want = append(want, Event{Kind: Report, LocalUsec: local, Counter: counter & (1<<24 - 1)})
			default:
				r.OnAuthenticatedDatagramTimestamp(counter, local)
				want = append(want, Event{Kind: Datagram, LocalUsec: local, Counter: counter & (1<<24 - 1)})
			}
		}
		if r.Close() != nil {
			return // the writer was slow
		}
		checkEvents(t, &file, want)
	})
}

// checkEvents reads a recording, whose answers and times of day are not compared.
func checkEvents(t *testing.T, file io.Reader, want []Event) {
	t.Helper()
	events, err := all(Read(file))
	must(t, err)
	var got []Event
	for _, e := range events {
		if e.Wall = (time.Time{}); e.Kind == Reset {
			e.LocalUsec = 0
		}
		if e.Kind != Answered {
			got = append(got, e)
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%+v, want %+v", got, want)
	}
}
