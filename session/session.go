// SPDX-License-Identifier: BSD-3-Clause

// Package session is one clock for all peers of a session, which goes on when its host leaves.
//
// Session time is the clock of the peer that founded the session. While the founder is the host,
// the others follow it. When another member becomes host, session time goes on from what that
// member knew, without a step, at the rate that it knew. All others then follow the new host.
// Every reading has a bound of its error, also after many handovers.
//
// # Use
//
// A peer makes a Member with New. Its identity is a number that no other peer has.
//
//   - The first peer calls Create, if it hears of nobody who is in a session.
//   - The host calls Announce, and sends the 37 bytes to all others: at once when it has become
//     host, then once a second.
//   - Everybody passes each announcement that arrives to Accept, with the identity of the peer that
//     sent it and that peer's clock: a *link.Link, *timesync.TimeSynchronizer or *ping.Clock.
//   - When the host has left or is silent, some member calls BecomeHost. Who that is, and after how long,
//     is the application's choice. In examples/hostmigration it is the one with the lowest identity of the
//     members that were heard in the last 2.5 s. A peer that has just started is no member yet.
//   - Everybody calls Read at any time.
//
// Each member needs to know the clock of each peer that may become host: by a connection to it, or by
// a relay that passes announcements on with its own view of the host's clock. That is a RemoteClock,
// too: the member's Snapshot of the relay, and Then the relay's of the host. Keep connections in use: a
// clock that is known already is followed at once.
//
// # Which host counts
//
// Create begins with generation 1, and BecomeHost with the generation after the one that the member
// knows. Of two hosts the one with the later generation counts. Of two with the same generation
// the one with the higher identity counts. All members decide so, and a host that hears of a host
// that counts more follows it. So two halves that were cut off from each other, each with a host,
// become one again, and so do two sessions that were founded at the same time.
//
// Of two sessions neither age nor size counts. A peer that starts anew out of reach of the others and
// founds a session may therefore take all of them along when it comes back. Let only one peer found,
// or a person decide.
//
// # The bounds
//
// Reading.Bound is how far session time can be from the founder's clock, however unequal the ways
// are. A member that becomes host takes what it knew as the time, and so carries its own bound
// along: each handover adds the ErrorBound between the new host and the old one, in practice half
// a round trip. From the first handover on, nobody measures the founder's clock any more, and the
// bound grows: for each handover by the SkewError at that time and 20 ppm for the temperature,
// which is 1.2 ms a minute. So it also holds for a founder that lives on, as host of another half
// or as a member, and for what the founder's clock would show if it has gone.
//
// Reading.HostBound is how far session time can be from that of the present host. It does not grow
// from handover to handover. Two members of a session with the same Host and Generation are
// apart by at most the sum of theirs.
//
// Both hold as far as the ErrorBound of the peer's clock holds: while no clock is set, and in
// nearly all cases from 15 s after that. If the clock of a host is set, or stands still because
// its machine sleeps, session time steps by as much, and Bound counts from the clock as it was set. If
// the clock of a member is set, its session time is wrong by as much for up to 5 s, with four datagrams
// a second up to 8 s. Reading.Alone says so from when its link has noticed that, mostly within 2 s.
//
// A member that becomes host makes its own error everybody's. So it must not call BecomeHost because its own
// clock has jumped forward, which looks like a silence of the host. See BecomeHost.
//
// # Corrections
//
// A member that changes to another host finds session time a little off, since every clock is
// known with an error only. Up to 50 ms are slewed away, at a quarter of the speed of time; a
// larger difference is a step, which Reading.Steps counts. Session time goes back only at a step.
//
// If the clock of the host jumps (Snapshot.Steps), or is not known any more, session time goes on
// from what was known at the last announcement, until an announcement of the host agrees with its
// clock: the second or third one. So a host that starts anew, with another clock and no session, takes
// nobody along. If it founds a session of its own instead, Accept returns ErrChanged.
//
// # Wire format
//
// An announcement is 37 bytes, with little-endian integers. Authenticate it, as datagrams.
//
//	version      1 byte: 1
//	generation   8 bytes: from 1 to 2^63-1
//	host time    8 bytes: the host's clock when it announced, us
//	session time 8 bytes: at that moment, us
//	rate         4 bytes, signed: rate of session time minus that of the host's clock, parts in 10^9
//	bound        4 bytes: Reading.Bound of the host at that moment, us
//	growth       4 bytes: of the bound, parts in 10^9 of the time since
package session

import (
	"errors"
	"sync"
	"time"

	"timesync"
)

const (
	// As in package timesync: a larger correction is a step. Others begin so long after their cause,
	// for readers that are a little ahead.
	maxSlew      = 50_000 // us
	readerMargin = 20_000 // us
	// A clock of a peer may be slewed at half the speed of time meanwhile. Together they leave a
	// quarter of it.
	slewPart = 4

	// A quartz changes its rate by so much with the temperature of a room and of a machine.
	wanderPPB = 20_000
	// Two bad quartzes differ by so much. A new host that finds more has an early estimate, or the
	// errors of many handovers.
	maxRatePPB = 200_000
	// So much the clocks differ at most that package timesync follows.
	maxSkewPPB = 1_000_000

	// A clock with a wider bound is hardly known: it was just set, or the peer has just started anew,
	// or was silent for an hour. No path takes two seconds there and back.
	widest = time.Second
	// An announcement that was longer on its way is too old to say what a clock shows.
	longest = 16_000_000 // us
	// No session has so many handovers while a member is away. And a peer that makes up the latest
	// generation that is believed, once a second, needs 68 years to use them all up.
	maxAhead = 1 << 32
	// Nobody is believed who leaves less room than that for the handovers to come.
	lastBelieved = maxGeneration - maxAhead
	// Each calculation with an announcement rounds by less than 1 us.
	rounding = 2 // us
)

// Accept, BecomeHost and Create return these errors. Nothing has changed then.
var (
	ErrMalformed  = errors.New("session: not an announcement")
	ErrIdentity   = errors.New("session: a peer has this member's identity")
	ErrOld        = errors.New("session: another host counts more")
	ErrGeneration = errors.New("session: the generation is impossibly late")
	ErrClock      = errors.New("session: the clock of the host is not known, or not as announced")
	ErrChanged    = errors.New("session: the host announces another session time than before")
	ErrNone       = errors.New("session: the member is in no session")
	ErrKnown      = errors.New("session: the member is in a session")
)

// RemoteClock is the clock of a peer, as a *link.Link, a *timesync.TimeSynchronizer or a
// *ping.Clock knows it. Of the Snapshot, RemoteUsec, ErrorBound, Skew, SkewError and Steps are
// used. A TimeSynchronizer needs an Anchor. Snapshot must not call the Member.
type RemoteClock interface {
	Snapshot(localUsec uint64) (s timesync.Snapshot, ok bool)
}

// Member is one peer's part in a session. New makes one. Any goroutine may call any method at any
// time.
//
// Times named localUsec are readings of the local clock in microseconds, the same clock that the
// clocks of the peers are given. It should be monotonic, as that of package clock. Its value is free, and
// it may wrap.
type Member struct {
	id uint64

	mu         sync.Mutex
	generation uint64 // 0: in no session
	host       uint64 // the own identity: this member is the host
	steps      uint32

	// line is the session time of a host. A member that follows uses it before from, and while the
	// clock of its host is not to be believed.
	line line

	// These are for a member that follows.
	clock      RemoteClock // of the host; nil if this member is the host
	clockSteps uint32      // Steps of clock when an announcement agreed with it
	said       announcement
	from       uint64 // local time from which on clock counts
	ahead      int64  // us: at from session time is so much ahead of the host's; slewed away

	last, lastAt uint64 // what Read returned last, us, and for which local time
	lastRead     bool   // it has been called since the last step
}

// Reading is the session time at one moment.
type Reading struct {
	Usec       uint64        // session time, microseconds; wraps at 2^64
	Bound      time.Duration // how far Usec can be from the clock of the session's founder
	HostBound  time.Duration // how far Usec can be from the session time of Host; 0 at the host
	Host       uint64        // the identity of the host that is followed, or the own one
	Generation uint64        // of that host; 1 for a founder
	Steps      uint32        // jumps of session time so far; its beginning does not count
	// Alone says that session time goes on by the local clock alone, as it was last known: the clock of
	// the host is not known now, or has jumped since it announced. If it is the local clock that was set,
	// Usec is wrong by as much, and the bounds do not say so. At the host it is false.
	Alone bool
}

// New returns a member that is in no session. Each peer has an identity of its own, which all
// peers know it by.
func New(id uint64) *Member { return &Member{id: id} }

// Create begins a session, with this member as host: session time is sessionUsec at localUsec, any
// value, and goes on as the local clock. It returns ErrKnown if the member is in a session.
func (m *Member) Create(localUsec, sessionUsec uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.generation != 0 {
		return ErrKnown
	}
	m.generation, m.host = 1, m.id
	m.line = line{at: localUsec, usec: sessionUsec}
	return nil
}

// BecomeHost makes this member the host from localUsec on: now. Session time goes on from what it is
// here. If the member is the host, nothing changes. It returns ErrNone if the member is in no
// session.
//
// Call it only if the host is silent for certain. Read what waits in the socket first, but drop
// what waits for longer than 16 s. A jump of the local clock, a sleep or a hang of the program looks
// like silence, too, but comes all at once: if the local clock went on by over a second since the
// question was asked last, take everybody as heard now. Do not call it while Reading.Alone, or within 15 s of ErrStepped of the links, if another
// member can.
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
	l.hostBound, l.hostGrowth = 0, 0
	rate := min(max(l.rate, -maxRatePPB), maxRatePPB)
	l.growth += magnitude(l.rate - rate)
	l.rate = rate
	m.line, m.clock = l, nil
	m.generation, m.host = m.generation+1, m.id
	return nil
}

// Announce appends what the host announces to dst. Send it to all other members: at once when this
// member has become host, and once a second. ok is false if this member is not the host.
func (m *Member) Announce(dst []byte, localUsec uint64) (announcement []byte, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.generation == 0 || m.host != m.id {
		return dst, false
	}
	now := m.line.from(localUsec)
	return now.append(dst, m.generation), true
}

// Accept takes an announcement that arrived at localUsec. It came from the peer with the identity
// from, whose clock is clock. Take from out of the authenticated connection, or from a relay that you
// trust with that, never from what the peer sends. If that host counts most, the member follows it
// from now on. Errors:
//
//	ErrMalformed   other bytes, or impossible values: the sender is faulty
//	ErrIdentity    the peer has this member's identity: a misconfiguration
//	ErrOld         another host counts more: usual for late announcements, and after a split
//	ErrGeneration  over 2^32 generations later than the present one, or within 2^32 of the last
//	               one that there is: the sender is faulty
//	ErrClock       clock is not known to 1 s, or does not show what the host says its clock showed,
//	               at most 16 s ago: try the next announcement
//	ErrChanged     the host announces another time than before in the same generation: it has
//	               started anew and founded a session of its own, or is faulty; choose another host
//
// Announcements may be lost, repeated and reordered. A member that is in no session believes any
// generation: if a faulty peer told it one that no other host reaches, make a new Member.
func (m *Member) Accept(from uint64, clock RemoteClock, announcement []byte, localUsec uint64) error {
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
	case m.generation == 0: // who is in no session believes any other generation
	case a.generation < m.generation || a.generation == m.generation && from < m.host:
		return ErrOld
	case a.generation-m.generation > maxAhead:
		return ErrGeneration
	}
	if clock == nil {
		return ErrClock
	}
	now, then, known := glance(clock, localUsec)
	if age := int64(now.RemoteUsec - a.at); !known || age < -micros(now.ErrorBound)-rounding || age > longest {
		return ErrClock
	}
	if a.generation == m.generation && from == m.host {
		if a.rate != m.said.rate || magnitude(int64(m.said.read(a.at).Usec-a.usec)) > rounding {
			return ErrChanged
		}
		if int64(a.at-m.said.at) < 0 {
			a = m.said // a was overtaken
		}
		if wait := int64(m.from - localUsec); 0 < wait && wait <= readerMargin {
			return nil // the last change has not begun
		}
	}
	m.follow(from, a, localUsec, now, then)
	m.clock = clock
	return nil
}

// glance asks the clock of a host once, so that no change of it meanwhile is seen: for localUsec, and for the reader
// margin after it. ok is false if it is hardly known, or changes in between.
func glance(clock RemoteClock, localUsec uint64) (now, then timesync.Snapshot, ok bool) {
	now, ok = clock.Snapshot(localUsec)
	then, still := clock.Snapshot(localUsec + readerMargin)
	return now, then, ok && still && now.ErrorBound <= widest && then.Steps == now.Steps
}

// follow follows a host that has announced a. Its clock is as now at localUsec, and as then at the reader margin after it.
func (m *Member) follow(host uint64, a announcement, localUsec uint64, now, then timesync.Snapshot) {
	before, _, follows := m.followed(localUsec)
	joins, goesOn := m.generation == 0, follows && a.generation == m.generation && host == m.host && now.Steps == m.clockSteps
	m.line = m.freeze(localUsec)
	m.generation, m.host, m.clockSteps, m.said = a.generation, host, now.Steps, a
	if goesOn && magnitude(int64(before.Usec-m.shown(localUsec, now).Usec)) <= rounding {
		return // it was followed already, by this clock or by one that shows the same
	}
	m.from, m.ahead = localUsec+readerMargin, 0
	switch ahead := int64(m.line.read(m.from).Usec - a.read(then.RemoteUsec).Usec); {
	case !joins && magnitude(ahead) <= maxSlew:
		// Until from, the line counts as the session time of the new host, too.
		m.ahead = ahead
		m.line.hostBound, m.line.hostGrowth = micros(m.shown(m.from, then).HostBound)+share(readerMargin, maxSkewPPB), maxSkewPPB
		return
	case !joins:
		m.steps++
		m.lastRead = false
	}
	m.from = localUsec
	m.line = m.frozen(localUsec, now)
}

// Read returns the session time at localUsec, now or at another time. For local times that do not
// go back it does not go back either, from call to call, while Steps is the same. ok is false if
// the member is in no session.
//
// Readings of the future change with later corrections. An earlier time than the last change of the
// host is answered by session time as it was then, until the next announcement; afterwards the present
// line is extrapolated back.
func (m *Member) Read(localUsec uint64) (r Reading, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.generation == 0 {
		return Reading{}, false
	}
	r = m.at(localUsec)
	if back := int64(m.last - r.Usec); m.lastRead && back > 0 && int64(localUsec-m.lastAt) >= 0 {
		r.Usec, r.Bound, r.HostBound = m.last, widen(r.Bound, back), widen(r.HostBound, back)
	}
	m.last, m.lastAt, m.lastRead = r.Usec, localUsec, true
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
		if localUsec += uint64(missing); missing >= -1 && missing <= 1 {
			break
		}
	}
	return localUsec, true
}

// at returns the session time at localUsec as clocks have it. The caller holds mu.
func (m *Member) at(localUsec uint64) Reading {
	r, _, ok := m.followed(localUsec)
	if !ok {
		r = m.line.read(localUsec)
		r.Alone = m.clock != nil && int64(localUsec-m.from) >= 0
	}
	r.Host, r.Generation, r.Steps = m.host, m.generation, m.steps
	return r
}

// followed returns the session time by the clock s of the host. ok is false if that does not count.
func (m *Member) followed(localUsec uint64) (r Reading, s timesync.Snapshot, ok bool) {
	if m.clock == nil || int64(localUsec-m.from) < 0 {
		return Reading{}, s, false
	}
	if s, ok = m.clock.Snapshot(localUsec); !ok || s.ErrorBound > widest || s.Steps != m.clockSteps {
		return Reading{}, s, false
	}
	return m.shown(localUsec, s), s, true
}

// shown returns the session time while the clock of the host is as s at localUsec.
func (m *Member) shown(localUsec uint64, s timesync.Snapshot) (r Reading) {
	slewed := min(int64(localUsec-m.from)/slewPart, maxSlew)
	ahead := m.ahead - max(min(m.ahead, slewed), -slewed)
	said := m.said.read(s.RemoteUsec)
	r.Usec = said.Usec + uint64(ahead)
	bound := micros(s.ErrorBound)
	r.HostBound = widen(0, bound+share(bound, maxRatePPB)+magnitude(ahead)+rounding)
	r.Bound = widen(r.HostBound, micros(said.Bound))
	return r
}

// freeze returns the session time from localUsec on as a line that needs no clock of the host.
func (m *Member) freeze(localUsec uint64) line {
	_, s, ok := m.followed(localUsec)
	if !ok {
		return m.line.from(localUsec)
	}
	return m.frozen(localUsec, s)
}

// frozen is freeze while the clock of the host is as s.
func (m *Member) frozen(localUsec uint64, s timesync.Snapshot) line {
	r := m.shown(localUsec, s)
	skew, doubt := ppb(s.Skew, 0), max(ppb(s.SkewError, maxSkewPPB), 0)+wanderPPB
	return line{
		at: localUsec, usec: r.Usec, rate: m.said.rate + skew + share(skew, m.said.rate),
		bound: micros(r.Bound), growth: m.said.growth + doubt,
		hostBound: micros(r.HostBound), hostGrowth: doubt,
	}
}
