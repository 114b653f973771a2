package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// meter rides with a peer between two machines: the datagrams carry stamps and
// nothing else, and it watches their delays.
type meter struct {
	mu     sync.Mutex
	any    bool
	last   time.Duration // one-way delay of the datagram before
	jitter float64       // as RFC 3550, 6.4.1 has it: mean difference of neighbours, ns
}

func (m *meter) payload(time.Duration) []byte { return nil }
func (m *meter) sealed(int, int)              {}

func (m *meter) delivered(_ []byte, _, owd time.Duration, synced bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !synced {
		m.any = false // a new session of the peer: the delays of the old one are another clock's
		return
	}
	if m.any {
		m.jitter += (float64((owd - m.last).Abs()) - m.jitter) / 16
	}
	m.any, m.last = true, owd
}

// liveState is one line of the live display, and of -json.
type liveState struct {
	Seconds      float64 `json:"s"`
	Synchronized bool    `json:"synchronized"`
	Offset       int64   `json:"offset_us"` // remote - local, modulo 67.1 s
	MinDelay     float64 `json:"minimum_one_way_delay_ms"`
	Jitter       float64 `json:"jitter_ms"`
	Accepted     int     `json:"accepted"`
	Forged       int     `json:"forged"`
	Replayed     int     `json:"replayed"`
	Truncated    int     `json:"truncated"`
	Unproven     int     `json:"unproven"`
}

func (p *peer) state(m *meter) liveState {
	now := time.Since(p.epoch)
	s := liveState{
		Seconds: ms(now) / 1e3, Accepted: p.count(nil), Forged: p.count(ErrForged),
		Replayed: p.count(ErrReplayed), Truncated: p.count(ErrTruncated), Unproven: p.count(ErrUnproven),
	}
	local := p.clock.at(now)
	remote, ok := p.Sync.RemoteTime(local)
	delay, ok2 := p.Sync.MinimumOneWayDelay()
	if ok && ok2 {
		m.mu.Lock()
		defer m.mu.Unlock()
		s.Synchronized, s.Offset, s.MinDelay, s.Jitter = true, int64(remote-local), ms(delay), ms(time.Duration(m.jitter))
	}
	return s
}

func (s liveState) String() string {
	if !s.Synchronized {
		return fmt.Sprintf("%4.0f s  not synchronized; %d in, rejected %d forged %d replayed %d truncated %d unproven",
			s.Seconds, s.Accepted, s.Forged, s.Replayed, s.Truncated, s.Unproven)
	}
	return fmt.Sprintf("%4.0f s  offset %+.6f s  min OWD %.3f ms  jitter %.3f ms  %d in, %d rejected",
		s.Seconds, float64(s.Offset)/1e6, s.MinDelay, s.Jitter, s.Accepted, s.Forged+s.Replayed+s.Truncated+s.Unproven)
}

// newLive opens one end. Its clock is the wall clock of now and never set again, so
// the offset is by how much the two machines' clocks differed when they started.
func newLive(c config, m *meter) (*peer, error) {
	now := time.Now()
	p := &peer{clock: clock{start: uint64(now.UnixMicro())}, epoch: now, rider: m, listens: c.dial == ""}
	local, direction := &net.UDPAddr{}, uint64(0)
	var err error
	if p.listens {
		direction = 1
		if local, err = net.ResolveUDPAddr("udp", c.listen); err != nil {
			return nil, err
		}
	} else {
		remote, err := net.ResolveUDPAddr("udp", c.dial)
		if err != nil {
			return nil, err
		}
		to := remote.AddrPort()
		if !to.Addr().IsValid() || to.Port() == 0 {
			return nil, fmt.Errorf("-dial %s: needs a host and a port", c.dial)
		}
		p.remote.Store(&to)
	}
	p.Hook = NewHook(c.key, direction)
	p.conn, err = net.ListenUDP("udp", local)
	return p, err
}

func live(ctx context.Context, c config, stdout io.Writer) error {
	m := &meter{}
	p, err := newLive(c, m)
	if err != nil {
		return err
	}
	if p.listens && !c.json {
		fmt.Fprintf(stdout, "listening at %v; offset is the peer's clock minus this one, modulo 67.1 s\n", p.conn.LocalAddr())
	}
	p.start(c.rate)
	defer p.close()
	if !c.json {
		fmt.Fprintln(stdout, p.receiveTimes())
	}
	if c.length > 0 {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, c.length)
		defer cancel()
	}
	terminal := isTerminal(stdout) && !c.json
	every := time.Second
	if terminal {
		every = 100 * time.Millisecond
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	synced, done := false, false
	for lines := 0; !done; lines++ {
		select {
		case <-ctx.Done():
			done = true
		case <-tick.C:
		}
		s := p.state(m)
		synced = synced || s.Synchronized
		switch {
		case done && lines > 0: // the last one is fresh enough
		case c.json:
			if err := json.NewEncoder(stdout).Encode(s); err != nil {
				return err
			}
		case terminal:
			fmt.Fprintf(stdout, "\r%v\x1b[K", s)
		default:
			fmt.Fprintln(stdout, s)
		}
	}
	if terminal {
		fmt.Fprintln(stdout)
	}
	if !synced {
		return errors.New("never synchronized")
	}
	return nil
}
