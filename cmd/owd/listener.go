// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"timesync/examples/seal"
	"timesync/internal/program"
)

const (
	// mostCallers is how many callers a listener serves at once: each takes 50 kB and sends as
	// often as it wants.
	mostCallers = 100
	// gone is how long a caller may be silent before it is forgotten. One that comes back later has
	// another id anyway.
	gone = longestInterval + patience
)

// listener is the end that answers all callers that have the key.
type listener struct {
	*program.Socket
	config config
	show   *screen
	forged atomic.Int64 // datagrams that were made with another key

	mu      sync.Mutex
	callers map[id]*callee
}

// callee is a caller, as the listener sees it.
type callee struct {
	*conversation
	stop         context.CancelFunc
	sends        sync.WaitGroup
	endRecording func() error
}

// listen answers callers until ctx is done.
func listen(ctx context.Context, c config, out, errs io.Writer) error {
	at, err := net.ResolveUDPAddr("udp", c.listen)
	if err != nil {
		return err
	}
	udp, err := net.ListenUDP("udp", at)
	if err != nil {
		return err
	}
	clock := wallClock(c.skew)
	l := &listener{
		Socket:  program.NewSocket(udp, clock.Reads),
		config:  c,
		show:    newScreen(out, errs, c.json, true),
		callers: map[id]*callee{},
	}
	l.show.begin(fmt.Sprintf("owd listens on %v", udp.LocalAddr()))
	l.Go(func() {
		seal.Receive(l, func(b []byte, from netip.AddrPort, recvUsec uint64) {
			l.receive(clock, b, from, recvUsec)
		})
	})
	heardAny := false
	look := func() { heardAny = l.second() || heardAny }
	program.Every(ctx.Done(), time.Second, look)
	look()
	err = l.Close() // first, since a caller that still sends would join again
	for _, c := range slices.Collect(maps.Values(l.callers)) {
		l.leave(c)
	}
	if !heardAny {
		return errors.Join(fmt.Errorf("%w: nobody called", errNoAnswer), err)
	}
	return err
}

func (l *listener) receive(clock program.Clock, b []byte, from netip.AddrPort, recvUsec uint64) {
	if len(b) < idLen {
		return
	}
	c := l.callee(clock, b, from, recvUsec)
	if c == nil {
		return
	}
	answer, err := c.take(b, from, recvUsec)
	if errors.Is(err, seal.ErrForged) {
		l.forged.Add(1)
	}
	if answer != nil {
		l.Write(answer, from)
	}
}

// callee returns whom a datagram is of, or nil if nobody is to hear of it. A datagram made with
// another key leaves nothing behind.
func (l *listener) callee(
	clock program.Clock, b []byte, from netip.AddrPort, recvUsec uint64,
) *callee {
	i := id(b[:idLen])
	l.mu.Lock()
	c := l.callers[i]
	l.mu.Unlock()
	if c != nil {
		return c
	}
	// Whether it has the key a conversation tells that is thrown away: a recorder wants to see a
	// link from its first datagram on.
	probe := newConversation(l.config.key, i, clock, false)
	_, err := probe.take(slices.Clone(b), from, recvUsec)
	if errors.Is(err, seal.ErrForged) {
		l.forged.Add(1)
		return nil
	}
	if !l.makeRoom() {
		return nil
	}
	c = &callee{conversation: newConversation(l.config.key, i, clock, false)}
	l.join(c)
	return c
}

// makeRoom reports whether there is room for one more caller. Of those that may be recordings of an
// earlier one the oldest has to go.
func (l *listener) makeRoom() bool {
	l.mu.Lock()
	isFull := len(l.callers) >= mostCallers
	oldest := (*callee)(nil)
	for _, c := range l.callers {
		if _, ever := c.silence(); !ever && (oldest == nil || c.begun < oldest.begun) {
			oldest = c
		}
	}
	l.mu.Unlock()
	if !isFull {
		return true
	}
	if oldest == nil {
		return false
	}
	l.leave(oldest)
	return true
}

// join begins to record a new caller, if that is asked for, and to send to it.
func (l *listener) join(c *callee) {
	end, err := program.Record(&c.end.Link, l.config.record, "owd-*.tsr")
	if err != nil {
		l.show.warn(err.Error())
	}
	c.endRecording = end
	ctx, stop := context.WithCancel(l.Ctx)
	c.stop = stop
	l.mu.Lock()
	l.callers[c.id] = c
	l.mu.Unlock()
	c.sends.Go(func() {
		for ctx.Err() == nil {
			if to := c.end.Peer().Addr; to.IsValid() {
				l.Write(c.datagram(), to)
			}
			program.Sleep(ctx, c.wanted())
		}
	})
}

// leave shows what was measured with a caller, and forgets it.
func (l *listener) leave(c *callee) {
	c.stop()
	c.sends.Wait()
	l.mu.Lock()
	delete(l.callers, c.id)
	l.mu.Unlock()
	if err := c.endRecording(); err != nil {
		l.show.warn(err.Error())
	}
	if r := c.summary(); r.from.Received > 0 {
		l.show.summary(r)
	}
}

// second shows the last second of each caller, and reports whether there is one.
func (l *listener) second() (some bool) {
	l.mu.Lock()
	all := slices.Collect(maps.Values(l.callers))
	l.mu.Unlock()
	slices.SortFunc(all, func(a, b *callee) int { return cmp.Compare(a.begun, b.begun) })
	for _, c := range all {
		silence, ever := c.silence()
		if silence > gone {
			l.leave(c)
			continue
		}
		if !ever {
			continue // it has yet to prove that it is no recording
		}
		some = true
		r := c.second()
		if silence >= c.wanted()+patience {
			r.trouble = "nothing arrives any more"
		}
		l.show.second(r)
	}
	if forged := l.forged.Swap(0); forged > 0 {
		l.show.warn(fmt.Sprintf("%d datagrams were sealed with another key: "+
			"set the same %s on both machines", forged, program.KeyVariable))
	}
	return some
}
