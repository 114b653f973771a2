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
	every    = 50 * time.Millisecond // between two datagrams to a peer
	announce = time.Second           // between two announcements

	// silent is when a silent host or peer is gone. One announcement may be lost.
	silent = 2500 * time.Millisecond
	// alone is when a peer that has heard of no session since its start founds one.
	alone = 3 * time.Second
	// late is how late a call of elect shows that the program hung or the clock was set. A sleep
	// that long counts, too.
	late = time.Second
)

// peer is one end of the mesh: a socket, a clock, and what it knows of the others.
type peer struct {
	*program.Socket
	id     uint64
	clock  program.Clock
	member *session.Member
	others []*other
	cut    func(a, b uint64) bool // reports whether the network between two is cut

	started uint64        // local time, us
	heard   atomic.Uint64 // when the last announcement was accepted
	changed atomic.Uint64 // the host that changed the session time it announces; 0: none
	old     atomic.Uint64 // when a host that counts less than ours was last refused

	// Only the goroutine that sends uses these.
	announced uint64 // when the last announcement was sent
	asked     uint64 // when elect was last called
	awake     uint64 // since when elect has been called in time
	sleep     clock.SleepWatch
	known     bool // elect has seen this peer in a session
}

// other is what a peer knows of another one.
type other struct {
	id    uint64
	end   *seal.End
	to    netip.AddrPort // where to call it; not valid if it calls
	knows atomic.Bool    // its last datagram said that it is in a session
}

// pairKey returns the key of two peers. The key that opens a datagram shows who sent it, so
// outsiders cannot pose as a peer. All peers know the key of the group, and can compute the keys
// of other pairs. If they do not trust each other, give each pair an independent key.
func pairKey(group [32]byte, a, b uint64) (key [32]byte) {
	return program.SubKey(group, fmt.Sprint(min(a, b), max(a, b)))
}

// newPeer makes a peer. at has the addresses of all peers: that of peer 1 first, and so on. Of two
// peers, the one with the higher identity calls.
func newPeer(id uint64, key [32]byte, clock program.Clock, at []netip.AddrPort) *peer {
	now := clock.Now() // it may be any time, so none of the times below may stay 0
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

// elect makes this peer the host if the host is gone and no peer of the session with a lower
// identity is there. If nobody is in a session, the peer with the lowest identity founds one.
//
// This is one rule among many. A rule that sometimes makes two peers host works, too.
func (p *peer) elect(now uint64) {
	// A clock step, a sleep or a hang makes all others look silent at once.
	if passed(now, p.asked) > late || p.sleep.Slept() > late {
		p.awake = now
	}
	p.asked = now
	r, known := p.member.Read(now)
	if known && !p.known { // heard may not yet count the first announcement
		p.awake = now
		p.known = true
	}
	if p.leftToAnother(now, known) {
		return
	}
	hostSilent := p.silence(now, p.heard.Load()) > silent
	switch {
	case !known && passed(now, p.started) > alone:
		_ = p.member.Create(now, 0) // no error: p is in no session
	case known && r.Host != p.id && hostSilent:
		_ = p.member.BecomeHost(now) // no error: p is in a session
	default:
		return
	}
	p.announced = now - uint64(announce.Microseconds()) // announce at once
}

// silence returns how long a peer that was last heard at heard has been silent. Time in which this
// peer could not listen does not count.
func (p *peer) silence(now, heard uint64) time.Duration {
	return min(passed(now, heard), passed(now, p.awake))
}

// leftToAnother reports whether a peer is there that must found the session or become its host
// before this one. known says whether this peer is in a session.
func (p *peer) leftToAnother(now uint64, known bool) bool {
	// Peers that follow a host that counts less than ours do not take over from ours.
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
		// A peer that has restarted cannot continue this session. If it then founded one, it is
		// not a host of this session.
		goesOn := inSession && o.id != p.changed.Load()
		if o.id < p.id && goesOn == known && !behind {
			return true
		}
	}
	return false
}

// send sends each other peer a datagram, with the host's announcement when it is due.
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
			// It appends nothing if this peer is not the host.
			payload, _ = p.member.Announce(payload, now)
		}
		p.Write(o.end.Seal(nil, payload, now), to)
	}
}

// receive takes a datagram. The key that opens it shows who sent it.
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
			// Other errors say why the announcement is not followed. Usually another host counts
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
