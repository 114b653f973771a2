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

	"timesync/examples/internal/seal"
)

// meter rides with a peer between two machines: the datagrams carry stamps and
// nothing else, and it watches their delays.
type meter struct {
	mu     sync.Mutex
	sent   int
	last   time.Duration // one-way delay of the datagram before; 0: not known
	jitter float64       // as RFC 3550, 6.4.1 has it: mean difference of neighbours, ns
}

func (m *meter) payload(time.Duration) []byte { return nil }

func (m *meter) sealed(int, int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent++
}

func (m *meter) delivered(_ []byte, _, owd time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last != 0 && owd != 0 {
		m.jitter += (float64((owd - m.last).Abs()) - m.jitter) / 16
	}
	m.last = owd
}

// liveState is one line of the live display, and of -json.
type liveState struct {
	Seconds      float64 `json:"s"`
	Synchronized bool    `json:"synchronized"`
	Offset       int64   `json:"offset_us"` // remote - local
	ErrorBound   float64 `json:"error_bound_ms"`
	MinDelay     float64 `json:"minimum_one_way_delay_ms"`
	Jitter       float64 `json:"jitter_ms"`
	Age          float64 `json:"last_datagram_age_s"` // since the start, if there was none
	Sent         int     `json:"sent"`
	Accepted     int     `json:"accepted"`
	Forged       int     `json:"forged"`
	Replayed     int     `json:"replayed"`
	Unproven     int     `json:"unproven"`
	Trouble      string  `json:"trouble,omitempty"`

	silence string
}

func (p *peer) state(m *meter) liveState {
	now := p.now()
	heard := p.tally(nil)
	s := liveState{
		Seconds: seconds(now), Age: seconds(now - heard.last), Accepted: heard.n,
		Forged: p.tally(seal.ErrForged).n, Replayed: p.tally(seal.ErrReplayed).n, Unproven: p.tally(seal.ErrUnproven).n,
		Trouble: p.trouble(now), silence: p.silence(now),
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s.Sent, s.Jitter = m.sent, ms(time.Duration(m.jitter))
	local := p.clock.at(now)
	if remote, ok := p.keeper.RemoteTime(local); ok {
		bound, _ := p.keeper.ErrorBound(local)
		delay, _ := p.keeper.MinimumOneWayDelay()
		s.Synchronized, s.Offset, s.ErrorBound, s.MinDelay = true, int64(remote-local), ms(bound), ms(delay)
	}
	return s
}

// lines are for the eye: what is known, and why if it is not.
func (s liveState) lines() []string {
	rejected := s.Forged + s.Replayed + s.Unproven
	line := fmt.Sprintf("%4.0f s  not synchronized  %s  %d in, %d rejected", s.Seconds, s.silence, s.Accepted, rejected)
	if s.Synchronized {
		line = fmt.Sprintf("%4.0f s  offset %+.6f s within %.3f ms  %s  %d in, %d rejected  min OWD %.3f ms  jitter %.3f ms",
			s.Seconds, float64(s.Offset)/1e6, s.ErrorBound, s.silence, s.Accepted, rejected, s.MinDelay, s.Jitter)
	}
	if s.Trouble != "" {
		return []string{line, "    " + s.Trouble}
	}
	return []string{line}
}

// summary is what remains when the program ends.
func (s liveState) summary(w io.Writer) {
	fmt.Fprintf(w, "\n%.1f s: %d datagrams sent, %d accepted; %s\n", s.Seconds, s.Sent, s.Accepted, s.silence)
	fmt.Fprintf(w, "rejected: %d forged, %d replayed, %d of another session\n", s.Forged, s.Replayed, s.Unproven)
	if s.Synchronized {
		fmt.Fprintf(w, "offset %+.6f s, at most %.3f ms wrong\n", float64(s.Offset)/1e6, s.ErrorBound)
		fmt.Fprintf(w, "shortest one-way delay %.3f ms, jitter %.3f ms\n", s.MinDelay, s.Jitter)
	}
}

// newLive opens one end. Its clock is the wall clock of now and never set again, so
// the offset is by how much the two machines' clocks differed when they started.
func newLive(c config, m *meter) (*peer, error) {
	now := time.Now()
	p := &peer{end: seal.New(c.key, 1), clock: clock{start: uint64(now.UnixMicro())}, epoch: now}
	at, err := net.ResolveUDPAddr("udp", c.listen+c.dial) // one of them is empty
	if err != nil {
		return nil, err
	}
	if c.dial != "" {
		p.end, p.dial, at = seal.New(c.key, 0), at.AddrPort(), nil
		if !p.dial.Addr().IsValid() || p.dial.Port() == 0 {
			return nil, fmt.Errorf("-dial %s: needs a host and a port", c.dial)
		}
	}
	pinger := &pinger{rider: m, local: p.clock, asks: c.sync == "ping"} // and answers one that asks
	p.rider, p.keeper = pinger, &p.end.Link
	if pinger.asks {
		p.keeper = pinger
	}
	p.conn, err = net.ListenUDP("udp", at)
	return p, err
}

func live(ctx context.Context, c config, stdout io.Writer) error {
	m := &meter{}
	p, err := newLive(c, m)
	if err != nil {
		return err
	}
	p.start(c.rate)
	defer p.close()
	if !c.json {
		if p.listens() {
			fmt.Fprintf(stdout, "listening at %v\n", p.conn.LocalAddr())
		}
		fmt.Fprintln(stdout, "offset is the peer's clock minus this one")
		fmt.Fprintln(stdout, p.receiveTimes())
	}
	if c.length > 0 {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, c.length)
		defer cancel()
	}
	if c.json {
		(&screen{out: stdout}).watch(ctx, func() []string {
			line, _ := json.Marshal(p.state(m)) // numbers and strings only
			return []string{string(line)}
		})
	} else {
		newScreen(stdout).watch(ctx, func() []string { return p.state(m).lines() })
		p.state(m).summary(stdout)
	}
	if !p.state(m).Synchronized {
		return errors.New("never synchronized")
	}
	return nil
}
