// SPDX-License-Identifier: BSD-3-Clause

package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"timesync"
)

// Moment is an event in a replay.
type Moment struct {
	Event
	// End says which recording the event is from: 0 or 1.
	End int
	// AtUsec is when it happened by each end's clock, in microseconds. With one
	// recording the second is 0.
	AtUsec [2]uint64
	OWD    time.Duration // one-way delay of a datagram, as the replaying synchronizer answered
	Known  bool          // whether OWD is known
	// Ends are the replaying synchronizers after the event. Ask them, but pass them nothing. With
	// one recording the second is nil.
	Ends [2]*timesync.TimeSynchronizer
}

var errRecordings = errors.New("record: a replay takes one recording or two")

// Replay feeds a recording to a fresh synchronizer. It returns an iterator over the events, each
// with the synchronizer as it is after that: an iter.Seq2[Moment, error], as in Read. The events
// of two recordings, one from each end of a connection, come in the order of time, as far as the
// first end's synchronizer knows the other clock. After the last event of both there may be an
// error, as from Read. Range over it once. Two recordings are held in memory.
//
// The offset between two recordings is known modulo 67.1 s from their datagrams. An anchor
// supplies the rest, or else the times of day of the two machines.
func Replay(recordings ...io.Reader) func(yield func(Moment, error) bool) {
	return func(yield func(Moment, error) bool) {
		ends, c, err := begin(recordings)
		for ends[0].more() || ends[1].more() {
			i := 0
			at := [2]uint64{ends[0].ahead.LocalUsec, ends[1].ahead.LocalUsec}
			if !ends[0].more() ||
				ends[1].more() && at[0] != 0 && (at[1] == 0 || c.secondIsNext(at[0], at[1])) {
				i = 1 // a Reset at the beginning has no time and comes first
			}
			m := ends[i].play()
			m.End = i
			m.AtUsec = c.at(i, m.LocalUsec)
			m.Ends = [2]*timesync.TimeSynchronizer{ends[0].sync, ends[1].sync}
			if !yield(m, nil) {
				return
			}
		}
		second := ends[1].failure()
		if second != nil {
			second = fmt.Errorf("the second recording: %w", second)
		}
		err = errors.Join(err, ends[0].failure(), second)
		if err != nil {
			yield(Moment{}, err)
		}
	}
}

// begin returns both ends, and how their clocks compare. With one recording the second end is the
// zero value.
func begin(recordings []io.Reader) (ends [2]replay, c clocks, err error) {
	switch len(recordings) {
	case 1:
		ends[0] = newReplay(recordings[0])
	case 2:
		var says [2]surveyed
		for i, r := range recordings {
			b, err := io.ReadAll(r)
			if err != nil {
				return [2]replay{}, c, err
			}
			ends[i] = newReplay(bytes.NewReader(b))
			says[i] = survey(b)
		}
		c = compare(says[0], says[1])
		c.sync = ends[0].sync
	default:
		err = errRecordings
	}
	return ends, c, err
}

// replay is one end of a replay. The zero value has no recording.
type replay struct {
	reader *reader
	sync   *timesync.TimeSynchronizer
	ahead  Event // the next event, if there is one
	err    error // why there is none
}

func newReplay(r io.Reader) replay {
	p := replay{reader: &reader{src: r}, sync: new(timesync.TimeSynchronizer)}
	p.look()
	return p
}

// look reads the next event.
func (p *replay) look() { p.ahead, p.err = p.reader.next() }

func (p *replay) more() bool { return p.reader != nil && p.err == nil }

// failure returns what went wrong, after the last event.
func (p *replay) failure() error {
	if p.err == io.EOF {
		return nil
	}
	return p.err
}

// play passes the next event to the synchronizer.
func (p *replay) play() Moment {
	m := Moment{Event: p.ahead}
	m.OWD, m.Known = m.give(p.sync)
	p.look()
	return m
}

// surveyed is what a recording says of the two clocks.
type surveyed struct {
	// us: the other clock minus the local one, as first known, after an anchor if there is one
	offset   uint64
	known    bool   // whether there is an offset
	anchored bool   // whether it is more than modulo 67.1 s
	wall     uint64 // us: the time of day minus the local clock, to a second
}

func survey(recording []byte) (s surveyed) {
	anchor := false // there was an anchor
	dated := false  // wall is known
	for p := newReplay(bytes.NewReader(recording)); p.more() && !s.anchored; {
		m := p.play()
		anchor = anchor || m.Kind == Anchor
		if m.Kind == Datagram && !dated {
			s.wall = uint64(m.Wall.UnixMicro()) - m.LocalUsec
			dated = true
		}
		now, ok := p.sync.Snapshot(m.LocalUsec)
		isNews := anchor || !s.known
		if ok && m.Kind == Answered && isNews {
			s.offset = uint64(now.OffsetUsec)
			s.known = true
			s.anchored = anchor
		}
	}
	return s
}

// clocks converts between the clocks of two recordings.
type clocks struct {
	// sync is the first end's, or nil with one recording.
	sync *timesync.TimeSynchronizer
	// offset is the second clock minus the first, in us, while sync does not know.
	offset uint64
	// turns are multiples of 67.1 s that sync does not know, in us.
	turns uint64
}

// ringBits is how many bits of the offset datagrams show. 2^26 us are 67.1 s.
const ringBits = 26

// compare says how the clocks of two recordings compare.
func compare(a, b surveyed) (c clocks) {
	c.offset = a.wall - b.wall
	if b.anchored {
		c.offset = -b.offset
	}
	if !a.known {
		return c
	}
	if d := c.offset - a.offset; !a.anchored {
		c.turns = d - uint64(int64(d<<(64-ringBits))>>(64-ringBits))
	}
	c.offset = a.offset + c.turns
	return c
}

// secondIsNext reports whether a reading of the second clock comes before one of the first.
func (c *clocks) secondIsNext(first, second uint64) bool {
	return int64(second-c.second(first)) < 0
}

// second returns the second clock's reading when the first one reads first.
func (c *clocks) second(first uint64) uint64 {
	if at, ok := c.sync.RemoteTime(first); ok {
		return at + c.turns
	}
	return first + c.offset
}

// at returns both clocks' readings when that of one end reads local. With one recording the other
// is 0.
func (c *clocks) at(end int, local uint64) (at [2]uint64) {
	at[end] = local
	switch {
	case c.sync == nil:
	case end == 0:
		at[1] = c.second(local)
		c.offset = at[1] - local // while sync does not know again
	default:
		guess := local - c.offset
		at[0] = local - (c.second(guess) - guess) // the offset hardly changes from guess to there
	}
	return at
}
