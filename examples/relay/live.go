// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"timesync/clock"
	"timesync/examples/seal"
	"timesync/internal/program"
)

const (
	frameEvery = time.Second / 60
	// tellEvery is how often an end with nothing to send sends its time, as in the reports that a
	// sender of media needs anyway.
	tellEvery = 50 * time.Millisecond
	// gone is when to stop sending to a silent peer: it has left, or its address was forged on the
	// path.
	gone = 5 * time.Second
)

// leg is one end of a connection. Each leg has its own key, so a datagram of one is not accepted
// on the other.
type leg struct {
	*program.Socket
	end *seal.End
	to  netip.AddrPort // not valid if the peer calls
}

// reads is the clock of an end, as program.Clock.Reads.
type reads func(usec uint64) uint64

// newLeg makes one end of a leg. of says whether it leads to cameras or viewers. The end calls to;
// if that is not valid, the peer calls. take gets each datagram that arrives.
func newLeg(
	c config, of string, udp *net.UDPConn, to netip.AddrPort, own reads,
	take func(*leg, seal.Datagram),
) *leg {
	direction := uint64(0)
	if !to.IsValid() {
		direction = 1
	}
	l := &leg{program.NewSocket(udp, own), seal.New(program.SubKey(c.Key, of), direction), to}
	l.Go(func() {
		l.end.Serve(l, l.UDP, 0, func(d seal.Datagram, err error) {
			if err == nil {
				take(l, d)
			}
		})
	})
	return l
}

// stampsOnly is the take of an end that needs only the stamps.
func stampsOnly(*leg, seal.Datagram) {}

func (l *leg) now() uint64 { return l.Reads(clock.Now()) }

// send sends a payload, unless the peer has gone.
func (l *leg) send(payload []byte) {
	to, now := l.to, l.now()
	if peer := l.end.Peer(); !to.IsValid() && int64(now-peer.HeardUsec) < gone.Microseconds() {
		to = peer.Addr
	}
	l.Write(l.end.Seal(nil, payload, now), to)
}

// tell sends the time once every tellEvery.
func (l *leg) tell() { l.Every(tellEvery, func() { l.send(nil) }) }

// startCamera captures frames until it is closed. In place of a picture, each contains the true
// capture time, in us, for the test.
func startCamera(c config, udp *net.UDPConn, to netip.AddrPort, own reads) *leg {
	l := newLeg(c, "camera", udp, to, own, stampsOnly)
	l.Every(frameEvery, func() {
		now := clock.Now()
		truly := binary.LittleEndian.AppendUint64(nil, uint64(program.Elapsed(now).Microseconds()))
		l.send(appendFrame(nil, own(now), truly))
	})
	return l
}

// startForwarder forwards frames from cameras to viewers. It returns the leg to the cameras first.
func startForwarder(c config, udp [2]*net.UDPConn, own reads) (legs []*leg) {
	toViewer := newLeg(c, "viewer", udp[1], netip.AddrPort{}, own, stampsOnly)
	toCamera := newLeg(c, "camera", udp[0], netip.AddrPort{}, own, func(l *leg, d seal.Datagram) {
		if len(d.Payload) >= captureLen {
			toViewer.send(forward(l.end, d.Payload, l.now()))
		}
	})
	toCamera.tell()
	return []*leg{toCamera, toViewer}
}

// startViewer calls show, at each datagram, with the figures that have become certain.
func startViewer(
	c config, udp *net.UDPConn, to netip.AddrPort, own reads,
	show func(v *viewer, certain []figure),
) *leg {
	v := &viewer{}
	l := newLeg(c, "viewer", udp, to, own, func(l *leg, d seal.Datagram) {
		show(v, v.take(&l.end.Link, d))
	})
	l.tell()
	return l
}

// alone runs one of the three; the others run elsewhere.
func alone(ctx context.Context, c config, stdout, stderr io.Writer) error {
	ctx, cancel := c.Limit(ctx)
	defer cancel()
	udp, to, err := program.Open(c.Listen, c.Dial)
	if err != nil {
		return err
	}
	own := program.Clock{PPM: c.Skew}.Reads
	var legs []*leg
	switch {
	case c.Listen != "":
		viewers, _, err := program.Open(c.viewers, "")
		if err != nil {
			return errors.Join(err, udp.Close())
		}
		legs = startForwarder(c, [2]*net.UDPConn{udp, viewers}, own)
	case c.as == "camera":
		legs = []*leg{startCamera(c, udp, to, own)}
	default:
		legs = []*leg{startViewer(c, udp, to, own, show(stdout))}
	}
	fmt.Fprintln(stderr, "at", udp.LocalAddr())
	<-ctx.Done()
	for _, l := range legs {
		l.Close()
	}
	return nil
}

// show prints, once a second, the figures that have become certain.
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
			fmt.Fprintf(stdout,
				"%d frames; age of the last at arrival %v, known to within %v; %d dropped after clock steps\n",
				frames, last.delay, last.bound.Round(time.Microsecond), v.void)
		} else {
			fmt.Fprintln(stdout, "no frame with a certain time:", cmp.Or(v.why, errors.New("not yet")))
		}
		frames, printed = 0, time.Now()
	}
}
