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
	// End is the recording that the event is from: 0 or 1.
	End int
	// AtUsec is when it happened, by the clock of each end, in microseconds. The second is 0 if
	// there is one recording.
	AtUsec [2]uint64
	OWD    time.Duration // one-way delay of a datagram, as the replaying synchronizer answered
	Known  bool          // OWD is
	// Ends are the replaying synchronizers, after the event. They are to be asked, and not to
	// be given anything. The second is nil if there is one recording.
	Ends [2]*timesync.TimeSynchronizer
}

var errRecordings = errors.New("record: a replay takes one recording or two")

// Replay gives a recording to a fresh synchronizer, and returns an iterator over its events, an
// iter.Seq2[Moment, error] as in Read, with the synchronizer as it is after each. Of two recordings, one from each end of a path,
// the events come in the order of time, as far as the first one's synchronizer knows the
// other clock. After the last event there may be an error, as from Read; if there are two
// recordings, both are replayed to their ends before. Range over it once. Two recordings are held in memory.
//
// Which of the times that differ by a multiple of 67.1 s is meant, the anchor in a recording
// tells. If there is none, the times of day of the two machines do.
func Replay(recordings ...io.Reader) func(yield func(Moment, error) bool) {
	return func(yield func(Moment, error) bool) {
		ends, c, err := begin(recordings)
		for ends[0].more() || ends[1].more() {
			i, at := 0, [2]uint64{ends[0].ahead.LocalUsec, ends[1].ahead.LocalUsec}
			if !ends[0].more() || ends[1].more() && at[0] != 0 && (at[1] == 0 || c.secondIsNext(at[0], at[1])) {
				i = 1 // a Reset at the begin has no time: it comes first
			}
			m := ends[i].play()
			m.End, m.AtUsec = i, c.at(i, m.LocalUsec)
			m.Ends = [2]*timesync.TimeSynchronizer{ends[0].sync, ends[1].sync}
			if !yield(m, nil) {
				return
			}
		}
		second := ends[1].failure()
		if second != nil {
			second = fmt.Errorf("the second recording: %w", second)
		}
		if err = errors.Join(err, ends[0].failure(), second); err != nil {
			yield(Moment{}, err)
		}
	}
}

// begin returns both ends, and how their clocks compare. If there is one recording, the second end is the zero value.
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
			ends[i], says[i] = newReplay(bytes.NewReader(b)), survey(b)
		}
		c = compare(says[0], says[1])
		c.sync = ends[0].sync
	default:
		err = errRecordings
	}
	return ends, c, err
}

// replay is one end that is being replayed. The zero value has no recording.
type replay struct {
	reader *reader
	sync   *timesync.TimeSynchronizer
	ahead  Event // the next one, if there are more
	err    error // why there are no more
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

// play gives the next event to the synchronizer.
func (p *replay) play() Moment {
	m := Moment{Event: p.ahead}
	m.OWD, m.Known = m.give(p.sync)
	p.look()
	return m
}

// surveyed is what a recording says of the two clocks.
type surveyed struct {
	offset   uint64 // the other minus the local one, us: the first that was known, after the anchor if there is one
	known    bool   // there is one
	anchored bool   // it is not modulo 67.1 s
	wall     uint64 // the time of day minus the local clock, us, to a second
}

func survey(recording []byte) (s surveyed) {
	anchor, dated := false, false
	for p := newReplay(bytes.NewReader(recording)); p.more() && !s.anchored; {
		m := p.play()
		anchor = anchor || m.Kind == Anchor
		if m.Kind == Datagram && !dated {
			s.wall, dated = uint64(m.Wall.UnixMicro())-m.LocalUsec, true
		}
		if now, ok := p.sync.Snapshot(m.LocalUsec); ok && m.Kind == Answered && (anchor || !s.known) {
			s.offset, s.known, s.anchored = uint64(now.OffsetUsec), true, anchor
		}
	}
	return s
}

// clocks converts between the clocks of two recordings.
type clocks struct {
	sync   *timesync.TimeSynchronizer // the first end's, nil if there is one recording
	offset uint64                     // us: the second clock minus the first while sync does not know
	turns  uint64                     // us: multiples of 67.1 s that sync does not know
}

// ringBits is how many bits of the offset datagrams show: 2^26 us are 67.1 s.
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

// secondIsNext reports whether a reading of the second clock is before one of the first.
func (c *clocks) secondIsNext(first, second uint64) bool { return int64(second-c.second(first)) < 0 }

// second returns what the second clock reads when the first one reads first.
func (c *clocks) second(first uint64) uint64 {
	if at, ok := c.sync.RemoteTime(first); ok {
		return at + c.turns
	}
	return first + c.offset
}

// at returns what both clocks read when that of an end reads local; of one recording, 0 for the other.
func (c *clocks) at(end int, local uint64) (at [2]uint64) {
	switch at[end] = local; {
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
