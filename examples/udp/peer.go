// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"timesync/examples/internal/program"
	"timesync/examples/seal"
	"timesync/rxtime"
)

// quiet is how long nothing must come before a peer is said to be gone. By then a listener
// serves another. Far longer than a gap of a network that works.
const quiet = 3 * time.Second

// clock is the clock of one peer.
type clock struct{ program.Clock }

// at returns the reading at true time t.
func (c clock) at(t time.Duration) uint64 { return c.At(t.Microseconds()) }

// until returns how much true time passes from now on until the clock reads at.
func (c clock) until(at uint64, now time.Duration) time.Duration {
	return time.Duration(c.True(at))*time.Microsecond - now
}

// rider is what travels in the datagrams besides the stamps. sent and recv are true
// times; known says whether owd is.
type rider interface {
	payload(sent time.Duration) []byte
	delivered(payload []byte, recv, owd time.Duration, known bool)
}

// peer is one end: a socket, a clock, and the seal between them.
type peer struct {
	end   *seal.End
	conn  *net.UDPConn
	rx    *rxtime.Conn // reads conn; from start on
	clock clock
	rider rider
	dial  netip.AddrPort // where to send; not valid: it listens, and sends to who calls

	stop  chan struct{}
	tasks sync.WaitGroup

	mu                  sync.Mutex
	opened              map[error]tally // by the error of Open; nil for those it took
	sent, bytes, header int             // datagrams, their bytes, and those of the header of link
}

// tally is how many datagrams there were of a kind.
type tally struct {
	n    int
	last time.Duration // true time of the last; of those taken before there is one, when the peer started
}

// start sends rate datagrams a second and receives until close.
func (p *peer) start(rate float64) {
	p.stop, p.opened = make(chan struct{}), map[error]tally{nil: {last: program.True()}}
	p.rx = rxtime.NewConn(p.conn)
	p.tasks.Go(func() { p.end.Serve(program.Reader{Conn: p.rx, Clock: p.clock.Clock}, p.conn, quiet, p.take) })
	p.tasks.Go(func() {
		program.Every(p.stop, time.Duration(float64(time.Second)/rate), func() {
			if to := p.to(); to.IsValid() {
				p.send(to)
			}
		})
	})
}

func (p *peer) listens() bool { return !p.dial.IsValid() }

func (p *peer) to() netip.AddrPort { return cmp.Or(p.dial, p.end.Peer().Addr) }

// hush ends the sending; what is under way still arrives.
func (p *peer) hush() {
	select {
	case <-p.stop:
	default:
		close(p.stop)
	}
}

// close ends both directions and waits for that.
func (p *peer) close() {
	p.hush()
	p.conn.Close()
	p.tasks.Wait()
}

func (p *peer) send(to netip.AddrPort) {
	sent := program.True()
	payload := p.rider.payload(sent)
	datagram := p.end.Seal(nil, payload, p.clock.at(sent))
	p.mu.Lock()
	p.sent++
	p.bytes += len(datagram)
	p.header += len(datagram) - len(payload) - seal.Overhead
	p.mu.Unlock()
	// An error is a loss like any other; the next datagram may fare better.
	_, _ = p.conn.WriteToUDPAddrPort(datagram, to)
}

// take takes a datagram, or hears why it was refused.
func (p *peer) take(d seal.Datagram, err error) {
	recv := time.Duration(p.clock.True(d.RecvUsec)) * time.Microsecond
	p.mu.Lock()
	p.opened[err] = tally{p.opened[err].n + 1, recv}
	p.mu.Unlock()
	if err == nil {
		p.rider.delivered(d.Payload, recv, d.OWD, d.Known)
	}
}

// tally returns how many datagrams met that error; nil: were taken.
func (p *peer) tally(kind error) tally {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opened[kind]
}

// rejected returns how many datagrams were, and why.
func (p *peer) rejected() (total int, reasons map[string]int) {
	reasons = map[string]int{}
	for _, kind := range kinds {
		n := p.tally(kind).n
		total += n
		reasons[kind.Error()] = n
	}
	return total, reasons
}

// silence says when the last datagram came.
func (p *peer) silence(now time.Duration) string {
	heard := p.tally(nil)
	switch age := now - heard.last; {
	case heard.n == 0:
		return "nothing heard yet"
	case age < time.Second:
		return fmt.Sprintf("heard %d ms ago", age.Milliseconds())
	default:
		return fmt.Sprintf("silent for %d s", age/time.Second)
	}
}

// trouble says why nothing comes, if that is so for long.
func (p *peer) trouble(now time.Duration) string {
	heard, refused, forged := p.tally(nil), p.tally(seal.ErrRefused), p.tally(seal.ErrForged)
	switch {
	case refused.n > 0 && refused.last > heard.last:
		return "refused: the listener serves another dialer"
	case now-heard.last < quiet:
		return ""
	case forged.n > 0 && now-forged.last < quiet:
		return "what comes is made with another key, or changed"
	case p.listens():
		return "nothing comes: no dialer, wrong address, or a firewall?"
	default:
		return "nothing comes: wrong address, wrong key, or no listener?"
	}
}
