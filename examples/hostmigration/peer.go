// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"timesync/clock"
	"timesync/examples/seal"
	"timesync/internal/program"
	"timesync/session"
)

const (
	every    = 50 * time.Millisecond // from one datagram to the next, to each peer
	announce = time.Second           // from one announcement to the next

	// A host or peer that says nothing for so long is gone. One announcement may be lost.
	silent = 2500 * time.Millisecond
	// A peer that hears of no session for so long after it has started founds one.
	alone = 3 * time.Second
	// If elect is called so late, the program hung, or the clock was set. A sleep of so long counts as that.
	late = time.Second
)

// peer is one end of the mesh: a socket, a clock, and what is known of the others.
type peer struct {
	*program.Socket
	id     uint64
	clock  program.Clock
	member *session.Member
	others []*other
	cut    func(a, b uint64) bool // whether two are cut off from each other

	started uint64        // local time, us
	heard   atomic.Uint64 // when the last announcement was accepted
	changed atomic.Uint64 // which host announced another session time than before; 0: none
	old     atomic.Uint64 // when another host was refused since the own one counts more

	// What follows belongs to the goroutine that sends.
	announced uint64 // when the last announcement was sent
	asked     uint64 // when elect was called last
	awake     uint64 // since when elect was called in time
	sleep     clock.SleepWatch
	known     bool // elect has seen that this peer is in a session
}

// other is another peer, as one knows it.
type other struct {
	id    uint64
	end   *seal.End
	to    netip.AddrPort // where to call it; not valid: it calls
	knows atomic.Bool    // it is in a session, as it said last
}

// pairKey is the key of two peers, so that nobody can pass for a third: who has come tells the
// key, not what the datagram says. All peers know the key of the group, and so trust each other
// not to calculate those of other pairs; where they do not, give each pair a key of its own.
func pairKey(group [32]byte, a, b uint64) (key [32]byte) {
	return program.SubKey(group, fmt.Sprint(min(a, b), max(a, b)))
}

// newPeer makes one that calls the others at these addresses: 1 at the first, and so on. Of two,
// the one with the higher identity calls.
func newPeer(id uint64, key [32]byte, clock program.Clock, at []netip.AddrPort) *peer {
	now := clock.Now() // which may be any time, so none of those below may stay 0
	p := &peer{
		id:        id,
		clock:     clock,
		member:    session.New(id),
		cut:       func(uint64, uint64) bool { return false },
		started:   now,
		announced: now,
		asked:     now,
		awake:     now,
	}
	p.old.Store(now - uint64(silent.Microseconds()))
	for i, to := range at {
		whose := uint64(i) + 1
		shared := pairKey(key, id, whose)
		switch {
		case whose < id:
			p.others = append(p.others, &other{id: whose, end: seal.New(shared, 0), to: to})
		case whose > id:
			p.others = append(p.others, &other{id: whose, end: seal.New(shared, 1)})
		}
	}
	return p
}

// start sends and receives on a socket until Close.
func (p *peer) start(udp *net.UDPConn) {
	p.Socket = program.NewSocket(udp, p.clock.Reads)
	p.Go(func() { seal.Receive(p, p.receive) })
	p.Every(every, func() {
		p.elect(p.clock.Now())
		p.send()
	})
}

// elect lets this peer become host when the host is gone, if it has the lowest identity of all in
// the session that are there. And it lets the peer with the lowest identity found a session if
// nobody is in one. This is one way to choose. Others will do, also those that let two become
// host.
func (p *peer) elect(now uint64) {
	// A clock that was set, a sleep and a hang look like silence of all others, which comes at
	// once.
	if passed(now, p.asked) > late || p.sleep.Slept() > late {
		p.awake = now
	}
	p.asked = now
	r, known := p.member.Read(now)
	if known && !p.known { // heard may not say yet that the first announcement was accepted
		p.awake = now
		p.known = true
	}
	if p.leftToAnother(now, known) {
		return
	}
	hostSilent := p.silence(now, p.heard.Load()) > silent
	switch {
	case !known && passed(now, p.started) > alone:
		_ = p.member.Create(now, 0) // which has no error: p is in no session
	case known && r.Host != p.id && hostSilent:
		_ = p.member.BecomeHost(now) // which has no error: p is in a session
	default:
		return
	}
	p.announced = now - uint64(announce.Microseconds()) // at once
}

// silence is for how long somebody has been silent who was heard last at a time. While this peer
// could not listen, nobody was silent.
func (p *peer) silence(now, heard uint64) time.Duration {
	return min(passed(now, heard), passed(now, p.awake))
}

// leftToAnother reports whether another peer is there that has to found the session, or to become
// its host, before this one. known says whether this peer is in a session.
func (p *peer) leftToAnother(now uint64, known bool) bool {
	// Those that follow a host that counts less than ours do not take over from ours.
	behind := passed(now, p.old.Load()) < silent
	for _, o := range p.others {
		from := o.end.Peer()
		if !from.Addr.IsValid() || p.silence(now, from.HeardUsec) >= silent {
			continue // it is not there
		}
		inSession := o.knows.Load()
		if inSession && !known {
			return true // this peer will hear of that session
		}
		// A peer that has started anew knows nothing that it could go on from, and a host that
		// founded a session after that is none of this one.
		goesOn := inSession && o.id != p.changed.Load()
		if o.id < p.id && goesOn == known && !behind {
			return true
		}
	}
	return false
}

// send sends each other peer a datagram, and what the host announces if it is time.
func (p *peer) send() {
	now := p.clock.Now()
	announces := passed(now, p.announced) >= announce
	if announces {
		p.announced = now
	}
	for _, o := range p.others {
		to := cmp.Or(o.to, o.end.Peer().Addr)
		if !to.IsValid() || p.cut(p.id, o.id) {
			continue
		}
		now := p.clock.Now()
		// The first byte says whether this peer is in a session.
		payload := []byte{0}
		if _, known := p.member.Read(now); known {
			payload[0] = 1
		}
		if announces {
			// Nothing if this is not the host.
			payload, _ = p.member.Announce(payload, now)
		}
		p.Write(o.end.Seal(nil, payload, now), to)
	}
}

// receive takes a datagram. Whose it is, the key tells that opens it.
func (p *peer) receive(b []byte, from netip.AddrPort, recvUsec uint64) {
	for _, o := range p.others {
		d, answer, err := o.end.Take(slices.Clone(b), from, recvUsec, 0)
		if err == seal.ErrForged || p.cut(p.id, o.id) {
			continue
		}
		if answer != nil {
			p.Write(answer, from)
		}
		if err != nil || len(d.Payload) == 0 {
			return
		}
		o.knows.Store(d.Payload[0] == 1)
		if a := d.Payload[1:]; len(a) > 0 {
			// Other errors say why the announcement is not followed: usually another host counts
			// more.
			switch p.member.Accept(o.id, &o.end.Link, a, recvUsec) {
			case nil:
				p.heard.Store(recvUsec)
				p.changed.CompareAndSwap(o.id, 0)
			case session.ErrOld:
				p.old.Store(recvUsec)
			case session.ErrChanged:
				p.changed.Store(o.id)
			}
		}
		return
	}
}

// passed returns the time from then to now on one clock.
func passed(now, then uint64) time.Duration {
	return time.Duration(int64(now-then)) * time.Microsecond
}
