// SPDX-License-Identifier: BSD-3-Clause

// Package session keeps one clock for all peers of a session. The clock goes on when
// its host leaves.
//
// Session time is at first the clock of the peer that created the session. While that peer is the
// host, the others follow it. When another member becomes the host, session time goes on from what
// that member knew, without a step and at the rate that it knew, and all others follow the new
// host. Each reading has an error bound, even after many handovers.
//
// # Use
//
// Each peer makes a Member with New. Its identity is a number that no other peer has.
//
//   - The first peer calls Create, once it is sure that nobody is in a session.
//   - The host calls Announce and sends the 37 bytes to all others: at once when it becomes the
//     host, then once a second.
//   - Everybody passes each announcement to Accept, with the sender's identity and the sender's
//     clock: a *link.Link, *timesync.TimeSynchronizer or *ping.Clock.
//   - When the host has left or is silent, one member calls BecomeHost. Which one, and how soon, is
//     up to the application. examples/hostmigration chooses the lowest identity among the members
//     that were heard in the last 2.5 s. A peer that has just started is no member yet.
//   - Everybody calls Read at any time.
//
// Each member needs to know the clock of each peer that may become the host, through a connection
// or through a relay. A relay passes on the announcements and its own Snapshot of the host; the
// member's Snapshot of the relay, followed by that one with Then, is a RemoteClock. Keep
// connections in use: a known clock is followed at once.
//
// # Which host counts
//
// Create begins with generation 1. BecomeHost takes the generation after the one that the member
// knows. Of two hosts the one with the later generation counts, and in the same generation the one
// with the higher identity. All members decide alike, and a host that hears of a host that counts
// more follows it. So two halves of a split network, each with its host, become one session again.
// So do two sessions that were created at the same time.
//
// Neither the age nor the size of a session counts. A peer that restarts out of reach and creates a
// session may therefore take all others along when it comes back. Let only one peer create
// sessions, or let a person decide.
//
// # The bounds
//
// Reading.Bound is how far session time can be from the founder's clock, however unequal the paths
// are. A member that becomes the host passes on its own bound, so each handover adds the ErrorBound
// between the new host and the old one, about half a round trip. After the first handover nobody
// measures the founder's clock any more. The bound then grows, for each handover, by the SkewError
// of that moment and 20 ppm for temperature, which is 1.2 ms a minute. It holds for a founder that
// is still running, and for what the clock of one that has gone would show.
//
// Reading.HostBound is how far session time can be from that of the present host. It
// does not grow with handovers. Two members with the same Host and Generation are apart
// by at most the sum of theirs.
//
// Both hold as far as the ErrorBound of the peer's clock does: while no clock is set, and in nearly
// all cases from 15 s after a clock step. If the host's clock is set, or its machine sleeps,
// session time steps along, and Bound counts from the new value. If a member's clock is set, its
// session time is wrong for up to 5 s, or 8 s with four datagrams a second. Reading.Alone says so
// once its link has noticed, mostly within 2 s.
//
// A new host's error becomes everybody's. See BecomeHost for when not to call it.
//
// # Corrections
//
// After a change of the host a member finds session time a little off, since each clock is known
// with an error. Up to 50 ms are slewed away at a quarter of the speed of time. A larger difference
// is a step, which Reading.Steps counts. Session time goes back only at a step.
//
// If the host's clock jumps (Snapshot.Steps) or is no longer known, session time goes on from the
// last announcement until the host's announcements and its clock agree again, at the second or
// third one. So a host that restarts with another clock and no session takes nobody along. If it
// creates a session of its own instead, Accept returns ErrChanged.
//
// # Wire format
//
// An announcement is 37 bytes. Integers are little-endian. Authenticate it as you do datagrams.
//
//	version      1 byte: 1
//	generation   8 bytes: from 1 to 2^63-1
//	host time    8 bytes: the host's clock at the announcement, us
//	session time 8 bytes: at that moment, us
//	rate         4 bytes, signed: rate of session time minus that of the host's clock,
//	             parts in 10^9
//	bound        4 bytes: Reading.Bound of the host at that moment, us
//	growth       4 bytes: growth of the bound, parts in 10^9 of the time since
package session

import (
	"errors"
	"sync"
	"time"

	"timesync"
)

const (
	// As in package timesync, a larger correction is a step.
	maxSlew = 50_000 // us
	// As in package timesync, a correction begins this long after its cause: a reader may already
	// have asked for a time a little ahead.
	readerMargin = 20_000 // us
	// Session time is slewed at 1/slewPart of the speed of time. The peer's clock may be slewed at
	// half of it at the same time, which leaves a quarter.
	slewPart = 4

	// A crystal's rate changes by this much with the temperature of a room and of a machine.
	wanderPPB = 20_000
	// Two bad crystals differ by this much. A new host that finds more has an early estimate, or
	// the errors of many handovers.
	maxRatePPB = 200_000
	// Package timesync follows clocks whose rates differ by at most this much.
	maxSkewPPB = 1_000_000

	// A clock with a wider bound is hardly known: it was just set, its peer has just started, or it
	// was silent for an hour. No path takes two seconds there and back.
	widest = time.Second
	// An announcement that took longer is too old to say what a clock shows.
	longest = 16_000_000 // us
	// No session has this many handovers while a member is away. A faulty peer that claims the
	// latest generation that is still believed, once a second, needs 68 years to use them up.
	maxAhead = 1 << 32
	// A later generation would leave too little room for the handovers to come.
	lastBelieved = maxGeneration - maxAhead
	// Each calculation with an announcement rounds by less than 1 us.
	rounding = 2 // us
)

// Accept, BecomeHost and Create return these errors. The member is then unchanged.
var (
	ErrMalformed  = errors.New("session: not an announcement")
	ErrIdentity   = errors.New("session: the peer has this member's identity")
	ErrOld        = errors.New("session: the present host takes precedence")
	ErrGeneration = errors.New("session: the generation is implausibly high")
	ErrClock      = errors.New("session: the host's clock is unknown, " +
		"or does not match the announcement")
	ErrChanged = errors.New("session: the host has changed the session time it announced")
	ErrNone    = errors.New("session: the member is in no session")
	ErrKnown   = errors.New("session: the member is already in a session")
)

// RemoteClock tells what a peer's clock shows, as a *link.Link, a *timesync.TimeSynchronizer or a
// *ping.Clock does. A Member reads the fields RemoteUsec, ErrorBound, Skew, SkewError and Steps of
// the Snapshot. A TimeSynchronizer needs an Anchor. Snapshot must not call the Member.
type RemoteClock interface {
	Snapshot(localUsec uint64) (s timesync.Snapshot, ok bool)
}

// Member is one peer's part in a session. New makes one. All methods may be called from
// any goroutine at any time.
//
// Times named localUsec are readings of the local clock in microseconds, the clock that is also
// passed to the peers' links. It should be monotonic, such as that of package clock. It may
// start anywhere and may wrap.
type Member struct {
	id uint64

	mu         sync.Mutex
	generation uint64 // 0 while in no session
	host       uint64 // this member's identity while it is the host
	steps      uint32

	// line is session time over the local clock. The host uses it always. A member that follows
	// uses it before followsFrom, and while the host's clock cannot be believed.
	line line

	// The following fields are for a member that follows.
	clock       RemoteClock  // the host's; nil if this member is the host
	clockSteps  uint32       // clock's Steps when an announcement last agreed with it
	said        announcement // the last one that counts
	followsFrom uint64       // local time from which clock counts
	// us: how far session time was ahead of the host's at followsFrom; it is slewed away
	ahead int64

	last     uint64 // us: what Read returned last
	lastAt   uint64 // and for which local time
	lastRead bool   // whether Read was called since the last step
}

// Reading is the session time at one moment.
type Reading struct {
	Usec       uint64        // session time, microseconds; wraps at 2^64
	Bound      time.Duration // how far Usec can be from the founder's clock
	HostBound  time.Duration // how far Usec can be from Host's session time; 0 at the host
	Host       uint64        // the identity of the host, which may be this member
	Generation uint64        // of that host; 1 for a founder
	Steps      uint32        // jumps of session time so far, not counting its beginning
	// Alone says that session time goes on by the local clock alone, because the host's clock is
	// not known now, or has jumped since its last announcement. If the local clock was set, Usec is
	// wrong by as much, and the bounds do not say so. Alone is false at the host.
	Alone bool
}

// New returns a member that is in no session. Its identity must differ from those of
// all other peers.
func New(id uint64) *Member { return &Member{id: id} }

// Create begins a session with this member as its host. Session time is sessionUsec,
// any value, at localUsec, and runs as the local clock does. Create returns ErrKnown if
// the member is in a session.
func (m *Member) Create(localUsec, sessionUsec uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.generation != 0 {
		return ErrKnown
	}
	m.generation = 1
	m.host = m.id
	m.line = line{at: localUsec, usec: sessionUsec}
	return nil
}

// BecomeHost makes this member the host from localUsec on, which is now. Session time goes on from
// what it is here. If the member is the host, nothing changes. BecomeHost returns ErrNone if the
// member is in no session.
//
// Call it only if the host is certainly silent. Read what waits in the socket first, but drop what
// has waited for more than 16 s. A jump of the local clock, a sleep or a hang of the program also
// looks like silence, of everybody at once: if the local clock advanced by over a second since you
// last looked, count everybody as heard now. While Reading.Alone is true, or less than 15 s after a
// link's ErrStepped, leave it to another member if there is one.
func (m *Member) BecomeHost(localUsec uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.generation == 0 {
		return ErrNone
	}
	if m.host == m.id {
		return nil
	}
	l := m.freeze(localUsec)
	l.hostBound = 0
	l.hostGrowth = 0
	rate := min(max(l.rate, -maxRatePPB), maxRatePPB)
	l.growth += magnitude(l.rate - rate)
	l.rate = rate
	m.line = l
	m.clock = nil
	m.generation++
	m.host = m.id
	return nil
}

// Announce appends the host's announcement to dst. Send it to all other members: at once when this
// member becomes the host, then once a second. ok is false if this member is not the host.
func (m *Member) Announce(dst []byte, localUsec uint64) (announcement []byte, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.generation == 0 || m.host != m.id {
		return dst, false
	}
	now := m.line.from(localUsec)
	return now.append(dst, m.generation), true
}

// Accept takes an announcement that arrived at localUsec from the peer with the identity from,
// whose clock is clock. The identity must come from the authenticated connection, or from a relay
// that you trust with it, never from what the peer sends. If that host counts most, the member
// follows it from now on. Errors:
//
//	ErrMalformed   not an announcement, or impossible values: the sender is faulty
//	ErrIdentity    the peer has this member's identity: a misconfiguration
//	ErrOld         another host counts more: usual for late announcements, and after a split
//	ErrGeneration  more than 2^32 generations after the present one, or less than 2^32 before the
//	               last possible one: the sender is faulty
//	ErrClock       clock is not known to 1 s, or did not show in the last 16 s what the host says
//	               its clock showed: try the next announcement
//	ErrChanged     the host announces another time than before in the same generation: it
//	               restarted and created a session of its own, or is faulty. Choose another host
//
// Announcements may be lost, repeated and reordered. A member that is in no session believes any
// generation. If a faulty peer told it one that no other host reaches, make a new Member.
func (m *Member) Accept(
	from uint64, clock RemoteClock, announcement []byte, localUsec uint64,
) error {
	a, ok := parse(announcement)
	if !ok {
		return ErrMalformed
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case from == m.id:
		return ErrIdentity
	case a.generation > lastBelieved:
		return ErrGeneration
	case m.generation == 0: // in no session, any other generation is believed
	case a.generation < m.generation,
		a.generation == m.generation && from < m.host:
		return ErrOld
	case a.generation-m.generation > maxAhead:
		return ErrGeneration
	}
	if clock == nil {
		return ErrClock
	}
	now, then, known := glance(clock, localUsec)
	if !known {
		return ErrClock
	}
	age := int64(now.RemoteUsec - a.at)
	if age < -micros(now.ErrorBound)-rounding || age > longest {
		return ErrClock
	}
	if a.generation == m.generation && from == m.host {
		change := int64(m.said.read(a.at).Usec - a.usec)
		if a.rate != m.said.rate || magnitude(change) > rounding {
			return ErrChanged
		}
		if int64(a.at-m.said.at) < 0 {
			a = m.said // a later announcement overtook a
		}
		if wait := int64(m.followsFrom - localUsec); 0 < wait && wait <= readerMargin {
			return nil // the last change has not begun yet
		}
	}
	m.follow(from, a, localUsec, now, then)
	m.clock = clock
	return nil
}

// glance asks a host's clock what it shows at localUsec, and what it will show the reader margin
// later. ok is false if the clock is hardly known, or steps between the two questions.
func glance(clock RemoteClock, localUsec uint64) (now, then timesync.Snapshot, ok bool) {
	now, ok = clock.Snapshot(localUsec)
	then, still := clock.Snapshot(localUsec + readerMargin)
	return now, then, ok && still && now.ErrorBound <= widest && then.Steps == now.Steps
}

// follow makes the member follow the host that has announced a. The host's clock is as now at
// localUsec, and will be as then the reader margin later.
func (m *Member) follow(
	host uint64, a announcement, localUsec uint64, now, then timesync.Snapshot,
) {
	before, _, follows := m.followed(localUsec)
	joins := m.generation == 0
	sameHost := a.generation == m.generation && host == m.host
	goesOn := follows && sameHost && now.Steps == m.clockSteps

	m.line = m.freeze(localUsec)
	m.generation = a.generation
	m.host = host
	m.clockSteps = now.Steps
	m.said = a
	change := int64(before.Usec - m.shown(localUsec, now).Usec)
	if goesOn && magnitude(change) <= rounding {
		return // followed already, by this clock or by one that shows the same
	}

	m.followsFrom = localUsec + readerMargin
	m.ahead = 0
	ahead := int64(m.line.read(m.followsFrom).Usec - a.read(then.RemoteUsec).Usec)
	if !joins && magnitude(ahead) <= maxSlew {
		// Until followsFrom, the line also counts as the new host's session time.
		m.ahead = ahead
		hostBound := micros(m.shown(m.followsFrom, then).HostBound)
		m.line.hostBound = hostBound + share(readerMargin, maxSkewPPB)
		m.line.hostGrowth = maxSkewPPB
		return
	}
	if !joins {
		m.steps++
		m.lastRead = false
	}
	m.followsFrom = localUsec
	m.line = m.frozen(localUsec, now)
}

// Read returns the session time at localUsec, which may be now or another time. While Steps is the
// same and local times do not go back from call to call, session time does not go back either. ok
// is false if the member is in no session.
//
// Readings of the future change with later corrections. For a time before the last change of the
// host, Read answers as it did then, until the next announcement; after that it extrapolates back.
func (m *Member) Read(localUsec uint64) (r Reading, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.generation == 0 {
		return Reading{}, false
	}
	r = m.at(localUsec)
	back := int64(m.last - r.Usec)
	if m.lastRead && back > 0 && int64(localUsec-m.lastAt) >= 0 {
		r.Usec = m.last
		r.Bound = widen(r.Bound, back)
		r.HostBound = widen(r.HostBound, back)
	}
	m.last = r.Usec
	m.lastAt = localUsec
	m.lastRead = true
	return r, true
}

// LocalTime returns the local time at which session time reaches sessionUsec, as far as is known
// now. It is the inverse of Read, to 1 us. ok is false if the member is in no session.
func (m *Member) LocalTime(sessionUsec uint64) (localUsec uint64, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.generation == 0 {
		return 0, false
	}
	localUsec = m.line.at + (sessionUsec - m.line.usec)
	// Session time runs at a quarter to seven quarters of the local speed, so each round leaves at
	// most three quarters of what is missing.
	for range 100 {
		missing := int64(sessionUsec - m.at(localUsec).Usec)
		localUsec += uint64(missing)
		if missing >= -1 && missing <= 1 {
			break
		}
	}
	return localUsec, true
}

// at returns the session time at localUsec, whatever Read has returned before. The caller holds mu.
func (m *Member) at(localUsec uint64) Reading {
	r, _, ok := m.followed(localUsec)
	if !ok {
		r = m.line.read(localUsec)
		r.Alone = m.clock != nil && int64(localUsec-m.followsFrom) >= 0
	}
	r.Host = m.host
	r.Generation = m.generation
	r.Steps = m.steps
	return r
}

// followed returns the session time by the host's clock, and what that showed. ok is false if the
// clock does not count now.
func (m *Member) followed(localUsec uint64) (r Reading, s timesync.Snapshot, ok bool) {
	if m.clock == nil || int64(localUsec-m.followsFrom) < 0 {
		return Reading{}, s, false
	}
	s, ok = m.clock.Snapshot(localUsec)
	if !ok || s.ErrorBound > widest || s.Steps != m.clockSteps {
		return Reading{}, s, false
	}
	return m.shown(localUsec, s), s, true
}

// shown returns the session time while the host's clock is as s at localUsec.
func (m *Member) shown(localUsec uint64, s timesync.Snapshot) (r Reading) {
	slewed := min(int64(localUsec-m.followsFrom)/slewPart, maxSlew)
	ahead := m.ahead - max(min(m.ahead, slewed), -slewed)
	said := m.said.read(s.RemoteUsec)
	r.Usec = said.Usec + uint64(ahead)
	bound := micros(s.ErrorBound)
	r.HostBound = widen(0, bound+share(bound, maxRatePPB)+magnitude(ahead)+rounding)
	r.Bound = widen(r.HostBound, micros(said.Bound))
	return r
}

// freeze returns the session time from localUsec on as a line over the local clock,
// which needs no host.
func (m *Member) freeze(localUsec uint64) line {
	_, s, ok := m.followed(localUsec)
	if !ok {
		return m.line.from(localUsec)
	}
	return m.frozen(localUsec, s)
}

// frozen is freeze while the host's clock is as s.
func (m *Member) frozen(localUsec uint64, s timesync.Snapshot) line {
	r := m.shown(localUsec, s)
	skew := ppb(s.Skew, 0)
	doubt := max(ppb(s.SkewError, maxSkewPPB), 0) + wanderPPB
	return line{
		at:         localUsec,
		usec:       r.Usec,
		rate:       m.said.rate + skew + share(skew, m.said.rate),
		bound:      micros(r.Bound),
		growth:     m.said.growth + doubt,
		hostBound:  micros(r.HostBound),
		hostGrowth: doubt,
	}
}
