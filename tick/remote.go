// SPDX-License-Identifier: BSD-3-Clause

package tick

import (
	"errors"
	"math"
	"time"
)

// RemoteClock is the server's clock as a client knows it: a *link.Link, a *ping.Clock or a
// *timesync.TimeSynchronizer. Its methods are called from the goroutine that advances the client,
// possibly while another one feeds it; they must not call the client. ok is false while an answer
// is not known.
//
// A RemoteClock may have one more method, as those three do:
//
//	MinimumDelayToPeer() (delay time.Duration, ok bool)
//
// It says how long the fastest datagrams to the server took recently. RemoteTime plus this delay
// is when the fastest one that is sent now arrives at the server. Without the method a client
// takes both ways to be equally long, until the server tells it when its inputs arrive: see
// Server.AcceptInput. Either method shows a way that has become longer after seconds to minutes;
// the server tells that at once.
type RemoteClock interface {
	// RemoteTime returns what the server's clock shows when the local clock shows
	// localUsec, both in microseconds. It may be off by a multiple of 67,108,864 us, as that
	// of a TimeSynchronizer without an Anchor is.
	RemoteTime(localUsec uint64) (remoteUsec uint64, ok bool)
	// MinimumOneWayDelay returns the shortest recent one-way delay from the server, by
	// RemoteTime. RemoteTime minus this delay is the stamp of the fastest datagram that arrives
	// now. That was measured, and does not assume, as RemoteTime does, that both ways take
	// equally long.
	MinimumOneWayDelay() (delay time.Duration, ok bool)
	// Skew returns the rate of the server's clock minus that of the local clock, in
	// parts per million, if it is known to within about 25.
	Skew() (ppm float64, ok bool)
	// ErrorBound returns how far RemoteTime can be off at localUsec while no clock is set,
	// however unequal the two ways are. It is asked only if there is a SyncBound.
	ErrorBound(localUsec uint64) (bound time.Duration, ok bool)
}

// toPeer is what a RemoteClock may know besides.
type toPeer interface {
	MinimumDelayToPeer() (delay time.Duration, ok bool)
}

const (
	// ringUsec is what a TimeSynchronizer without an Anchor cannot tell from nothing:
	// 2^23 units of 8 us, 67.1 s.
	ringUsec = 1 << 26
	// maxSkewPPB bounds what a client believes of a skew. No quartz is a thousandth off.
	maxSkewPPB = 1_000_000
	// roundUsec is by how much two readings of a clock may differ that has not changed its mind,
	// since they are whole microseconds.
	roundUsec = 2
)

var errNoClock = errors.New("tick: the remote clock is nil")

// remote is the server's clock as a client reads it.
type remote struct {
	clock RemoteClock
	near  reading // the last time that was heard of it, by itself or by a Welcome
	said  reading // the last time that it said
	ppb   int64   // its skew then
	known bool    // it said any
}

// reading is what the server's clock shows when the local clock shows atUsec.
type reading struct{ usec, atUsec uint64 }

// at returns it at another local time.
func (r reading) at(nowUsec uint64) uint64 { return r.usec + (nowUsec - r.atUsec) }

// follow reads another clock from now on. The error says that it is nil, and nothing has changed.
func (r *remote) follow(clock RemoteClock) error {
	if clock == nil {
		return errNoClock
	}
	*r = remote{clock: clock, near: r.near}
	return nil
}

// read reads the clock at nowUsec: of the readings that are a multiple of ringUsec apart, the one
// that agrees best with near.
func (r *remote) read(near reading, nowUsec uint64) (now reading, ok bool) {
	usec, ok := r.clock.RemoteTime(nowUsec)
	least := near.at(nowUsec) - ringUsec/2
	return reading{least + (usec-least)%ringUsec, nowUsec}, ok
}

// note notes what the clock has said. updated is true if that does not follow from what it said
// before, and by is how much later it is than that.
func (r *remote) note(now reading) (by time.Duration, updated bool) {
	led := parts(int64(elapsed(r.said.atUsec, now.atUsec)), r.ppb) / 1000 // by the skew
	usec := int64(now.usec-r.said.at(now.atUsec)) - led
	updated = !r.known || max(usec, -usec) > roundUsec
	if updated && r.known {
		by = time.Duration(min(max(usec, -maxAhead), maxAhead)) * time.Microsecond
	}
	r.near = now
	r.said = now
	r.ppb = r.skewPPB()
	r.known = true
	return by, updated
}

// skewPPB returns the skew in parts in 10^9, 0 if it is not known.
func (r *remote) skewPPB() int64 {
	ppm, ok := r.clock.Skew()
	if !ok || math.IsNaN(ppm) {
		return 0
	}
	return int64(math.Round(min(max(ppm*1000, -maxSkewPPB), maxSkewPPB)))
}

// delays returns how long the fastest datagrams take from the server and to it.
func (r *remote) delays() (from, to time.Duration, ok bool) {
	from, ok = r.clock.MinimumOneWayDelay()
	to = from
	if c, knows := r.clock.(toPeer); ok && knows {
		to, ok = c.MinimumDelayToPeer()
	}
	return from, to, ok && min(from, to) >= 0 && max(from, to) <= time.Hour
}
