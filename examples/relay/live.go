// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	machine "timesync/clock"
	"timesync/examples/internal/program"
	"timesync/examples/seal"
)

const (
	frameEvery = time.Second / 60
	// tellEvery is how often those who have nothing to send say what time it is, as in the reports
	// that a sender of media needs anyway.
	tellEvery = 50 * time.Millisecond
	// gone is when a peer that says nothing is sent nothing more: it has left, or its address was forged on the path.
	gone = 5 * time.Second
)

// clock is one that may be set.
type clock struct {
	program.Clock
	set atomic.Int64 // us
}

// at returns what it reads at a reading of package clock.
func (c *clock) at(usec uint64) uint64 {
	return c.Reads(usec) + uint64(c.set.Load())
}

func (c *clock) now() uint64 { return c.at(machine.Now()) }

// leg is one end of a connection. Each leg has a key of its own, so that no datagram of the other one
// passes there.
type leg struct {
	*program.Socket
	end   *seal.End
	clock *clock
	to    netip.AddrPort // not valid at the end that is called
}

// newLeg makes an end, of a leg to cameras or viewers, that calls to, or is called where that is not valid.
func newLeg(c config, of string, udp *net.UDPConn, to netip.AddrPort, own *clock) *leg {
	direction := uint64(0)
	if !to.IsValid() {
		direction = 1
	}
	end := seal.New(program.SubKey(c.Key, of), direction)
	return &leg{program.NewSocket(udp, own.at), end, own, to}
}

// listen gives take what comes, until the leg is closed.
func (l *leg) listen(take func(seal.Datagram)) {
	l.Go(func() {
		l.end.Serve(l.Rx, l.UDP, 0, func(d seal.Datagram, err error) {
			if err == nil {
				take(d)
			}
		})
	})
}

// send sends a payload, but to nobody who has gone.
func (l *leg) send(payload []byte) {
	to := l.to
	if peer := l.end.Peer(); !to.IsValid() && int64(l.clock.now()-peer.HeardUsec) < gone.Microseconds() {
		to = peer.Addr
	}
	l.Write(l.end.Seal(nil, payload, l.clock.now()), to)
}

// closeAll closes legs, of which some may be nil.
func closeAll(legs []*leg) {
	for _, l := range legs {
		if l != nil {
			l.Close()
		}
	}
}

// tell says what time it is, again and again.
func (l *leg) tell() { l.Every(tellEvery, func() { l.send(nil) }) }

// startCamera captures frames until it is closed. captured is told of each, at true time in us.
func startCamera(c config, udp *net.UDPConn, to netip.AddrPort, own *clock, captured func(trueUsec uint64)) *leg {
	l := newLeg(c, "camera", udp, to, own)
	l.listen(func(seal.Datagram) {})
	number := uint32(0)
	l.Every(frameEvery, func() {
		now := machine.Now()
		captured(uint64(program.Elapsed(now).Microseconds()))
		l.send(appendFrame(nil, number, own.at(now)))
		number++
	})
	return l
}

// startForwarder forwards frames from the leg that it returns first to the second.
func startForwarder(c config, udp [2]*net.UDPConn, own *clock) (legs [2]*leg) {
	toCamera := newLeg(c, "camera", udp[0], netip.AddrPort{}, own)
	toViewer := newLeg(c, "viewer", udp[1], netip.AddrPort{}, own)
	toViewer.listen(func(seal.Datagram) {})
	toCamera.listen(func(d seal.Datagram) {
		if len(d.Payload) == frameLen {
			toViewer.send(forward(toCamera.end, d.Payload, own.now()))
		}
	})
	toCamera.tell()
	return [2]*leg{toCamera, toViewer}
}

// startViewer gives show, at each datagram, the figures that have become certain.
func startViewer(c config, udp *net.UDPConn, to netip.AddrPort, own *clock, show func(v *viewer, certain []figure)) *leg {
	l := newLeg(c, "viewer", udp, to, own)
	v := &viewer{relay: l.end, tolerable: c.tolerable}
	l.listen(func(d seal.Datagram) { show(v, v.take(d)) })
	l.tell()
	return l
}

// alone is one of the three; the others are elsewhere.
func alone(ctx context.Context, c config, stdout, stderr io.Writer) error {
	ctx, cancel := c.Limit(ctx)
	defer cancel()
	udp, to, err := program.Open(c.Listen, c.Dial)
	if err != nil {
		return err
	}
	own := &clock{Clock: program.Clock{PPM: c.Skew}}
	var legs []*leg
	switch {
	case c.Listen != "":
		viewers, _, err := program.Open(c.viewers, "")
		if err != nil {
			return errors.Join(err, udp.Close())
		}
		both := startForwarder(c, [2]*net.UDPConn{udp, viewers}, own)
		legs = both[:]
	case c.as == "camera":
		legs = []*leg{startCamera(c, udp, to, own, func(uint64) {})}
	default:
		legs = []*leg{startViewer(c, udp, to, own, show(stdout))}
	}
	fmt.Fprintln(stderr, program.ReceiveTimes(legs[0].Rx.Conn))
	<-ctx.Done()
	closeAll(legs)
	return nil
}

// show prints once a second what has become certain.
func show(stdout io.Writer) func(v *viewer, certain []figure) {
	frames, last, printed := 0, figure{}, time.Now()
	return func(v *viewer, certain []figure) {
		for _, last = range certain {
			frames++
		}
		if time.Since(printed) < time.Second {
			return
		}
		if frames > 0 {
			fmt.Fprintf(stdout, "%d frames, capture to arrival %v within %v, %d void\n",
				frames, last.delay, last.bound.Round(time.Microsecond), v.void)
		} else {
			fmt.Fprintln(stdout, "no frame whose time is certain:", cmp.Or(v.why, errors.New("not yet")))
		}
		frames, printed = 0, time.Now()
	}
}
