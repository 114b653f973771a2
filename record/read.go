// SPDX-License-Identifier: BSD-3-Clause

package record

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"time"
)

// Read and Replay return these errors after all whole blocks that come before.
var (
	// ErrFormat says that this is not a recording, or one of an unknown version.
	ErrFormat = errors.New("record: not a recording, or one of an unknown version")
	// ErrTruncated says that the recording ends within a block, as when the process was killed.
	ErrTruncated = errors.New("record: the recording ends within a block")
	// ErrCorrupt says that a block has a wrong checksum or an impossible event.
	ErrCorrupt = errors.New("record: a block is damaged")
)

// Read returns an iterator over the events of a recording, an iter.Seq2[Event, error]. The type is
// spelled out because copied files must work with Go 1.22, which has no package iter. After the
// last event there may be an error: ErrFormat, ErrTruncated or ErrCorrupt with the place, or one
// of src. Range over it once, since it reads src.
//
//	for event, err := range record.Read(file) {
func Read(src io.Reader) func(yield func(Event, error) bool) {
	return func(yield func(Event, error) bool) {
		r := &reader{src: src}
		for {
			e, err := r.next()
			if err == io.EOF || !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// reader reads a recording.
type reader struct {
	src     io.Reader
	at      int64   // bytes read
	number  uint32  // of the next block
	buf     []byte  // what was read last
	waiting []Event // of the block, those still to come
	latest  uint64  // local time, us, of the last event that had one
	err     error   // what comes after the events
}

// next returns the next event, or io.EOF after the last one.
func (r *reader) next() (e Event, err error) {
	for len(r.waiting) == 0 {
		if r.err == nil {
			r.err = r.block()
		}
		if r.err != nil {
			return Event{}, r.err
		}
	}
	e = r.waiting[0]
	r.waiting = r.waiting[1:]
	if e.Kind == Reset || e.Kind == Missing {
		e.LocalUsec = r.latest
	}
	r.latest = e.LocalUsec
	return e, nil
}

// block reads the next block.
func (r *reader) block() error {
	if r.at == 0 {
		b, err := r.read(len(magic))
		isShort := err == io.EOF || errors.Is(err, ErrTruncated)
		if err != nil && !isShort {
			return err
		}
		if string(b) != magic {
			return ErrFormat
		}
	}
	begin := r.at
	head, err := r.read(headLen)
	if err != nil {
		return err
	}
	if string(head[:len(magic)]) == magic {
		return fmt.Errorf("%w: another recording begins at byte %d; "+
			"give each Recorder its own file", ErrCorrupt, begin)
	}
	in := coder{b: head, reads: true}
	length := in.number(0, 2)
	sum := uint32(in.number(0, 4))
	number := uint32(in.number(0, 4))
	ms := in.number(0, 6)
	got := crc32.Checksum(head[headNumber:], crcTable)
	b, err := r.read(int(length))
	switch {
	case err == io.EOF:
		return r.truncated()
	case err != nil:
		return err
	case crc32.Update(got, crcTable, b) != sum:
		return fmt.Errorf("%w: wrong checksum of the block at byte %d", ErrCorrupt, begin)
	}
	wall := time.UnixMilli(int64(ms))
	all, ok := decode(b, wall)
	if !ok {
		return fmt.Errorf("%w: malformed event in the block at byte %d", ErrCorrupt, begin)
	}
	if number != r.number {
		all = slices.Insert(all, 0, Event{Kind: Missing, Count: number - r.number, Wall: wall})
	}
	r.waiting = all
	r.number = number + 1
	return nil
}

// decode returns the events of a block that was sealed at wall, and whether all are whole.
func decode(b []byte, wall time.Time) (all []Event, ok bool) {
	in := coder{b: b, reads: true}
	for len(in.b) > 0 && !in.bad {
		e := in.next()
		e.Wall = wall
		all = append(all, e)
	}
	return all, !in.bad
}

// read returns the next n bytes, until the next read. At the end it is io.EOF.
func (r *reader) read(n int) ([]byte, error) {
	if cap(r.buf) < n {
		r.buf = make([]byte, n)
	}
	got, err := io.ReadFull(r.src, r.buf[:n])
	r.at += int64(got)
	if err == io.ErrUnexpectedEOF {
		err = r.truncated()
	}
	return r.buf[:got], err
}

func (r *reader) truncated() error { return fmt.Errorf("%w, at byte %d", ErrTruncated, r.at) }
