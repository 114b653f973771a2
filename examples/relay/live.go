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
	"sync"
	"sync/atomic"
	"time"

	machine "timesync/clock"
	"timesync/examples/internal/program"
	"timesync/examples/seal"
	"timesync/rxtime"
)

const (
	frameEvery = time.Second / 60
	// tellEvery is how often those who have nothing to send say what time it is, as in the reports
	// that a sender of media needs anyway.
	tellEvery = 50 * time.Millisecond
)

// clock is one that may be set.
type clock struct {
	program.Clock
	set atomic.Int64 // us
}

// at returns what it reads at a reading of package clock.
func (c *clock) at(usec uint64) uint64 {
	return c.At(program.Elapsed(usec).Microseconds()) + uint64(c.set.Load())
}

func (c *clock) now() uint64 { return c.at(machine.Now()) }

// leg is one end of a connection. Each leg has a key of its own, so that no datagram of the other one
// passes there.
type leg struct {
	end   *seal.End
	clock *clock
	udp   *net.UDPConn
	rx    *rxtime.Conn
	to    netip.AddrPort // not valid at the end that is called
	tasks sync.WaitGroup
	stop  chan struct{}
}

// newLeg makes an end that calls to, or is called where that is not valid.
func newLeg(key [32]byte, udp *net.UDPConn, to netip.AddrPort, c *clock) *leg {
	direction := uint64(0)
	if !to.IsValid() {
		direction = 1
	}
	return &leg{end: seal.New(key, direction), clock: c, udp: udp, rx: rxtime.NewConn(udp), to: to, stop: make(chan struct{})}
}

// listen gives take what comes, until the leg is closed.
func (l *leg) listen(take func(seal.Datagram)) {
	l.tasks.Go(func() {
		l.end.Serve(l, l.udp, 0, func(d seal.Datagram, err error) {
			if err == nil {
				take(d)
			}
		})
	})
}

// ReadFrom reads a datagram with the time at which it was received on the end's clock.
func (l *leg) ReadFrom(b []byte) (n int, from netip.AddrPort, recvUsec uint64, err error) {
	n, from, recvUsec, err = l.rx.ReadFrom(b)
	return n, from, l.clock.at(recvUsec), err
}

// send sends a payload. An error is a loss.
func (l *leg) send(payload []byte) {
	if to := cmp.Or(l.to, l.end.Peer().Addr); to.IsValid() {
		_, _ = l.udp.WriteToUDPAddrPort(l.end.Seal(nil, payload, l.clock.now()), to)
	}
}

// each does something again and again until the leg is closed.
func (l *leg) each(period time.Duration, do func()) {
	l.tasks.Go(func() { program.Every(l.stop, period, do) })
}

func (l *leg) tell() { l.send(nil) }

func (l *leg) close() {
	close(l.stop)
	l.udp.Close()
	l.tasks.Wait()
}

// startCamera captures frames until it is closed. captured is told of each, at true time in us.
func startCamera(c config, udp *net.UDPConn, to netip.AddrPort, own *clock, captured func(number uint32, trueUsec uint64)) *leg {
	l := newLeg(program.SubKey(c.Key, "camera"), udp, to, own)
	l.listen(func(seal.Datagram) {})
	number := uint32(0)
	l.each(frameEvery, func() {
		now := machine.Now()
		captured(number, uint64(program.Elapsed(now).Microseconds()))
		l.send(appendFrame(nil, number, own.at(now)))
		number++
	})
	return l
}

// startForwarder forwards frames from the leg that it returns first to the second.
func startForwarder(c config, cameras, viewers *net.UDPConn, own *clock) (toCamera, toViewer *leg) {
	toCamera = newLeg(program.SubKey(c.Key, "camera"), cameras, netip.AddrPort{}, own)
	toViewer = newLeg(program.SubKey(c.Key, "viewer"), viewers, netip.AddrPort{}, own)
	toViewer.listen(func(seal.Datagram) {})
	toCamera.listen(func(d seal.Datagram) {
		if len(d.Payload) == frameLen {
			toViewer.send(forward(toCamera.end, d.Payload, own.now()))
		}
	})
	toCamera.each(tellEvery, toCamera.tell)
	return toCamera, toViewer
}

// startViewer gives show, at each datagram, the figures that have become certain.
func startViewer(c config, udp *net.UDPConn, to netip.AddrPort, own *clock, show func(v *viewer, certain []figure)) *leg {
	l := newLeg(program.SubKey(c.Key, "viewer"), udp, to, own)
	v := &viewer{relay: l.end, tolerable: c.tolerable}
	l.listen(func(d seal.Datagram) { show(v, v.take(d)) })
	l.each(tellEvery, l.tell)
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
		toCamera, toViewer := startForwarder(c, udp, viewers, own)
		legs = []*leg{toCamera, toViewer}
	case c.as == "camera":
		legs = []*leg{startCamera(c, udp, to, own, func(uint32, uint64) {})}
	default:
		legs = []*leg{startViewer(c, udp, to, own, show(stdout))}
	}
	fmt.Fprintln(stderr, program.ReceiveTimes(legs[0].rx))
	<-ctx.Done()
	for _, l := range legs {
		l.close()
	}
	return nil
}

// show prints once a second what has become certain.
func show(stdout io.Writer) func(v *viewer, certain []figure) {
	var figures []figure
	printed := time.Now()
	return func(v *viewer, certain []figure) {
		figures = append(figures, certain...)
		if time.Since(printed) < time.Second {
			return
		}
		printed = time.Now()
		if len(figures) > 0 {
			f := figures[len(figures)-1]
			fmt.Fprintf(stdout, "%d frames, capture to arrival %v within %v, %d void\n", len(figures), f.delay, f.bound.Round(time.Microsecond), v.void)
		} else if v.why != nil {
			fmt.Fprintf(stdout, "no frame whose time is certain: %v\n", v.why)
		} else {
			fmt.Fprintln(stdout, "no frame whose time is certain yet")
		}
		figures = figures[:0]
	}
}
