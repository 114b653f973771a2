// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"errors"
	"net/netip"
	"sync"
	"time"

	"timesync"
	"timesync/examples/seal"
	"timesync/internal/program"
)

// conversation is one end of a caller and its listener. Any goroutine may use it.
type conversation struct {
	id    id
	end   *seal.End
	clock program.Clock
	// What a caller wants both to do; the listener does what it is told.
	isCaller bool

	mu       sync.Mutex
	interval time.Duration
	size     int
	number   uint64 // of the last datagram that was sent
	session  uint32 // of the peer; another one: it has restarted
	in       meter
	last     way     // of the second before
	told     message // the newest of the peer
	shown    uint32  // the peer's second that was reported last
	begun    time.Duration
	heard    time.Duration // true time of the last datagram that was taken
	hasHeard bool
	forged   time.Duration // true time of the last one made with another key; 0: none
}

// newConversation makes an end. The caller's direction is 0.
func newConversation(secret [32]byte, i id, clock program.Clock, isCaller bool) *conversation {
	direction := uint64(1)
	if isCaller {
		direction = 0
	}
	return &conversation{
		id:       i,
		end:      seal.New(i.key(secret), direction),
		clock:    clock,
		isCaller: isCaller,
		interval: defaultInterval,
		size:     shortestPayload,
		begun:    program.True(),
	}
}

// datagram makes the next one to send.
func (c *conversation) datagram() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number++
	bound := c.bound()
	m := message{
		Number: c.number,
		Second: c.in.finished,
		Last:   c.last,
		Total:  c.in.all(bound),
		Shape:  c.in.total.delays.shape(),
	}
	if c.isCaller {
		m.Interval = uint32(c.interval.Microseconds())
		m.Size = uint32(c.size)
	}
	payload := m.append(nil, c.size)
	return c.end.Seal(append([]byte(nil), c.id[:]...), payload, c.clock.Now())
}

// bound returns how far off delays may be; 0 while nothing is known.
func (c *conversation) bound() time.Duration {
	bound, _ := c.end.Link.ErrorBound(c.clock.Now())
	return bound
}

// take takes a datagram of this conversation, and returns what to answer at once, if not nil. The
// error is that of seal, or says that the payload is none of ours.
func (c *conversation) take(
	b []byte, from netip.AddrPort, recvUsec uint64,
) (answer []byte, err error) {
	d, answer, err := c.end.Take(b[idLen:], from, recvUsec, 0)
	if answer != nil {
		answer = append(append([]byte(nil), c.id[:]...), answer...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := program.True()
	switch {
	case errors.Is(err, seal.ErrForged):
		c.forged = now
	case errors.Is(err, seal.ErrReplayed):
		c.in.duplicate()
	}
	if err != nil {
		return answer, err
	}
	if d.Session != c.session {
		c.session = d.Session
		c.in.begin()
		c.told = message{}
		c.shown = 0
	}
	var m message
	if err := m.read(d.Payload); err != nil {
		return answer, err
	}
	c.heard, c.hasHeard = now, true
	c.in.add(m.Number, d.OWD, d.Known)
	if m.Number > c.told.Number {
		c.told = m
	}
	if !c.isCaller && m.Interval > 0 {
		c.interval = time.Duration(m.Interval) * time.Microsecond
		c.size = int(m.Size)
	}
	return answer, nil
}

// wanted returns how often to send.
func (c *conversation) wanted() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.interval
}

// silence returns for how long nothing came, and whether anything ever did.
func (c *conversation) silence() (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.hasHeard {
		return program.True() - c.begun, false
	}
	return program.True() - c.heard, true
}

// hasForged reports whether something came in the last seconds that was made with another key.
func (c *conversation) hasForged() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.forged > 0 && program.True()-c.forged < patience
}

// report is what an end knows of a second, or in the end of all.
type report struct {
	peer     netip.AddrPort
	elapsed  time.Duration
	sent     uint64
	to       way  // measured by the peer
	hasTo    bool // since the last report
	from     way
	toShape  shape
	byShape  shape
	snapshot timesync.Snapshot
	known    bool
	trouble  string // why nothing comes, if so
}

// second ends a second.
func (c *conversation) second() report {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = c.in.finish(c.bound())
	r := c.report()
	r.from = c.last
	r.to = c.told.Last
	r.hasTo = c.told.Second != c.shown
	c.shown = c.told.Second
	return r
}

// summary is of all that was.
func (c *conversation) summary() report {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.report()
	r.from = c.in.all(c.bound())
	r.to = c.told.Total
	r.hasTo = c.told.Number > 0
	return r
}

func (c *conversation) report() report {
	s, known := c.end.Link.Snapshot(c.clock.Now())
	peer := c.end.Peer().Addr
	return report{
		// A socket for IPv4 and IPv6 has IPv4 addresses as ::ffff:192.0.2.1.
		peer:     netip.AddrPortFrom(peer.Addr().Unmap(), peer.Port()),
		elapsed:  program.True() - c.begun,
		sent:     c.number,
		toShape:  c.told.Shape,
		byShape:  c.in.total.delays.shape(),
		snapshot: s,
		known:    known,
	}
}
