// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"timesync/examples/seal"
	"timesync/internal/program"
)

const (
	// defaultInterval is that of voice over IP, so a path that carries calls carries it. Offsets rest
	// on the fastest datagrams, and of ten a second hardly any is fast: docs/OWD.md.
	defaultInterval = 20 * time.Millisecond
	// patience is how long nothing may come before a person is told why that may be.
	patience = 5 * time.Second
	// attempt is how long to wait at one of several addresses of a host before the next one.
	attempt = 2 * time.Second
	// stragglers is how long to wait in the end for what is still under way.
	stragglers = time.Second
)

var errNoAnswer = errors.New("no answer")

// caller is the end that asks. Its socket is connected, so the system says where no listener is.
type caller struct {
	*program.Socket
	*conversation
	to       netip.AddrPort
	sentAll  chan struct{} // closed after the last datagram of -count
	problem  atomic.Pointer[error]
	answered atomic.Bool // the listener is there
}

// call measures the ways to a listener and back until ctx is done, or as many datagrams are sent as
// -count says.
func call(ctx context.Context, c config, out, errs io.Writer) error {
	addresses, err := resolve(ctx, c.host)
	if err != nil {
		return err
	}
	p, err := firstAnswer(ctx, c, addresses)
	if err != nil {
		return err
	}
	show := newScreen(out, errs, c.json, false)
	show.begin(fmt.Sprintf("owd %v: every %v, %d bytes of payload", p.to, c.interval, c.size))
	p.watch(ctx, show)
	err = p.Close()
	r := p.summary()
	r.peer = p.to
	show.summary(r)
	if r.from.Received == 0 {
		return errors.Join(fmt.Errorf("%w from %v: %s", errNoAnswer, p.to, p.why()), err)
	}
	return err
}

// errNoPort says what an address lacks.
func errNoPort(address string) error {
	const examples = "example.org:9000 or [2001:db8::1]:9000"
	return fmt.Errorf("%q: want a host and a port, such as %s", address, examples)
}

// resolve returns all addresses of a host and port.
func resolve(ctx context.Context, hostPort string) (addresses []netip.AddrPort, err error) {
	host, service, err := net.SplitHostPort(hostPort)
	if err != nil {
		return nil, errNoPort(hostPort)
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "udp", service)
	if err != nil {
		return nil, err
	}
	all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	for _, address := range all {
		addresses = append(addresses, netip.AddrPortFrom(address.Unmap(), uint16(port)))
	}
	return addresses, nil
}

// firstAnswer calls one address after the other until one answers. If none does, it stays with the
// first one: the listener may come later.
func firstAnswer(ctx context.Context, c config, addresses []netip.AddrPort) (*caller, error) {
	if len(addresses) == 1 {
		return dial(c, addresses[0])
	}
	var failed error
	for _, to := range addresses {
		p, err := dial(c, to)
		if err != nil { // such as no route for IPv6
			failed = errors.Join(failed, err)
			continue
		}
		if p.answers(ctx) {
			return p, nil
		}
		failed = errors.Join(failed, p.Close())
	}
	p, err := dial(c, addresses[0])
	if err != nil {
		return nil, errors.Join(failed, err)
	}
	return p, nil
}

// answers waits for the first datagram.
func (p *caller) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	for ctx.Err() == nil {
		if p.answered.Load() {
			return true
		}
		program.Sleep(ctx, 10*time.Millisecond)
	}
	return false
}

// dial begins to send to an address, and to receive.
func dial(c config, to netip.AddrPort) (*caller, error) {
	udp, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return nil, err
	}
	var i id
	rand.Read(i[:])
	clock := wallClock(c.skew)
	p := &caller{
		Socket:       program.NewSocket(udp, clock.Reads),
		conversation: newConversation(c.key, i, clock, true),
		to:           to,
		sentAll:      make(chan struct{}),
	}
	p.interval = c.interval
	p.size = c.size
	if err := p.Record(&p.end.Link, c.record, "owd-*.tsr"); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	p.Go(func() { seal.Receive(p, p.receive) })
	p.Go(func() { p.send(c.count) })
	return p, nil
}

// ReadFrom implements seal.Reader, and notes what the system says of the peer's.
func (p *caller) ReadFrom(b []byte) (n int, from netip.AddrPort, recvUsec uint64, err error) {
	n, from, recvUsec, err = p.Socket.ReadFrom(b)
	if err != nil {
		p.note(err)
	}
	return n, from, recvUsec, err
}

// note keeps what went wrong last, but for the end of the socket.
func (p *caller) note(err error) {
	if !errors.Is(err, net.ErrClosed) {
		p.problem.Store(&err)
	}
}

func (p *caller) receive(b []byte, from netip.AddrPort, recvUsec uint64) {
	if len(b) < idLen || id(b[:idLen]) != p.id {
		return
	}
	_, err := p.take(b, from, recvUsec)
	if err == nil || errors.Is(err, seal.ErrAnswer) {
		p.problem.Store(nil)
		p.answered.Store(true)
	}
}

// send sends until Close, or until that many datagrams are sent, if that is not 0.
func (p *caller) send(count int) {
	defer close(p.sentAll)
	tick := time.NewTicker(p.wanted())
	defer tick.Stop()
	for n := 0; count == 0 || n < count; n++ {
		if _, err := p.UDP.Write(p.datagram()); err != nil {
			p.end.Link.SendFailed()
			p.note(err)
		}
		select {
		case <-p.Ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// watch shows each second until ctx is done, or all is sent and what is under way has come.
func (p *caller) watch(ctx context.Context, show *screen) {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	end := (<-chan time.Time)(nil)
	all := p.sentAll
	for {
		select {
		case <-ctx.Done():
			return
		case <-end:
			return
		case <-all:
			all = nil
			end = time.After(stragglers)
		case <-second.C:
			r := p.second()
			r.peer = p.to
			if silence, _ := p.silence(); silence >= p.wanted()+patience {
				r.trouble = p.why()
			}
			show.second(r)
		}
	}
}

// why says what may be wrong if nothing comes, and what to do.
func (p *caller) why() string {
	problem := p.problem.Load()
	switch {
	case p.hasForged():
		return "what arrives was sealed with another key: set the same " +
			program.KeyVariable + " on both machines"
	case problem != nil && errors.Is(*problem, syscall.ECONNREFUSED):
		return fmt.Sprintf("the machine is there, but nothing listens at that port: "+
			"run owd -listen :%d on it", p.to.Port())
	case problem != nil:
		return (*problem).Error()
	default:
		return "is owd -listen running there, with the same " + program.KeyVariable +
			", and does a firewall let UDP pass?"
	}
}

// wallClock begins at the wall clock of now and is never set after that. So offsets are those of
// two machines' wall clocks when the programs started, and what they have drifted apart since then.
func wallClock(skew float64) program.Clock {
	begun := time.Now().Add(-program.True())
	return program.Clock{Start: uint64(begun.UnixMicro()), PPM: skew}
}
