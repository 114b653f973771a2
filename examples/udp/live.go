// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"timesync/examples/internal/program"
	"timesync/examples/seal"
)

// nothing rides between two machines: the datagrams carry stamps only.
type nothing struct{}

func (nothing) payload(time.Duration) []byte                         { return nil }
func (nothing) delivered([]byte, time.Duration, time.Duration, bool) {}

// liveState is one line of the live display, and of -json.
type liveState struct {
	Seconds      float64        `json:"s"`
	Synchronized bool           `json:"synchronized"`
	Local        uint64         `json:"local_us"`  // reading of this end's clock
	Offset       int64          `json:"offset_us"` // remote - local
	Skew         float64        `json:"skew_ppm"`
	SkewError    float64        `json:"skew_error_ppm"`
	ErrorBound   float64        `json:"error_bound_ms"`
	MinDelay     float64        `json:"minimum_one_way_delay_ms"`
	Jitter       float64        `json:"jitter_ms"`
	Age          float64        `json:"last_datagram_age_s"` // since the start, if there was none
	Sent         int            `json:"sent"`
	Accepted     int            `json:"accepted"`
	Rejected     map[string]int `json:"rejected"`
	Trouble      string         `json:"trouble,omitempty"`

	silence  string
	rejected int
}

func (p *peer) state() liveState {
	now := program.True()
	heard := p.tally(nil)
	s := liveState{
		Seconds: seconds(now), Age: seconds(now - heard.last), Accepted: heard.n,
		Trouble: p.trouble(now), silence: p.silence(now),
	}
	s.rejected, s.Rejected = p.rejected()
	p.mu.Lock()
	s.Sent = p.sent
	p.mu.Unlock()
	local := p.clock.at(now)
	s.Local = local
	if remote, ok := p.end.Link.RemoteTime(local); ok {
		bound, _ := p.end.Link.ErrorBound(local)
		delay, _ := p.end.Link.MinimumOneWayDelay()
		known, _ := p.end.Link.Snapshot(local)
		s.Synchronized, s.Offset, s.ErrorBound = true, int64(remote-local), ms(bound)
		s.MinDelay, s.Jitter = ms(delay), ms(known.Jitter)
		s.Skew, s.SkewError = math.Round(known.Skew*100)/100, math.Round(known.SkewError*100)/100
	}
	return s
}

// eachSecond prints what there is to say each second, and once more at the end.
func eachSecond(ctx context.Context, out io.Writer, say func() string) {
	last := time.Now()
	program.Every(ctx.Done(), time.Second, func() {
		last = time.Now()
		fmt.Fprintln(out, say())
	})
	if time.Since(last) > time.Second/10 {
		fmt.Fprintln(out, say())
	}
}

// line is for the eye: what is known, and why if it is not.
func (s liveState) line() string {
	line := fmt.Sprintf("%4.0f s  not synchronized  %s  %d in, %d rejected", s.Seconds, s.silence, s.Accepted, s.rejected)
	if s.Synchronized {
		line = fmt.Sprintf("%4.0f s  offset %+.6f s within %.3f ms  %s  %d in, %d rejected  min OWD %.3f ms  jitter %.3f ms  skew %+.1f+-%.1f ppm",
			s.Seconds, float64(s.Offset)/1e6, s.ErrorBound, s.silence, s.Accepted, s.rejected, s.MinDelay, s.Jitter, s.Skew, s.SkewError)
	}
	if s.Trouble != "" {
		return line + "\n    " + s.Trouble
	}
	return line
}

// summary is what remains when the program ends.
func (s liveState) summary(w io.Writer) {
	fmt.Fprintf(w, "\n%.1f s: %d datagrams sent, %d accepted; %s\n", s.Seconds, s.Sent, s.Accepted, s.silence)
	for _, kind := range kinds {
		fmt.Fprintf(w, "rejected as %v: %d\n", kind, s.Rejected[kind.Error()])
	}
	if s.Synchronized {
		fmt.Fprintf(w, "offset %+.6f s, at most %.3f ms wrong\n", float64(s.Offset)/1e6, s.ErrorBound)
		fmt.Fprintf(w, "shortest one-way delay %.3f ms, jitter %.3f ms\n", s.MinDelay, s.Jitter)
	}
}

// newLive opens one end. Its clock is the wall clock of now and never set again, so the
// offset is by how much the two machines' clocks differed when they started, and what they drift
// apart since then.
func newLive(c config) (*peer, error) {
	begun := time.Now().Add(-program.True())
	p := &peer{end: seal.New(c.Key, 1), clock: clock{program.Clock{Start: uint64(begun.UnixMicro()), PPM: c.Skew}}, rider: nothing{}}
	if c.Dial != "" {
		p.end = seal.New(c.Key, 0)
	}
	var err error
	p.conn, p.dial, err = program.Open(c.Listen, c.Dial)
	return p, err
}

// play runs one peer, or the demo of both.
func play(ctx context.Context, c config, stdout, stderr io.Writer) error {
	if c.Alone() {
		return live(ctx, c, stdout)
	}
	return demo(ctx, c, stdout, stderr)
}

func live(ctx context.Context, c config, stdout io.Writer) (err error) {
	p, err := newLive(c)
	if err != nil {
		return err
	}
	recording, err := program.Record(&p.end.Link, c.record)
	if err != nil {
		p.conn.Close()
		return err
	}
	defer func() { err = errors.Join(err, recording.Close()) }() // after p.close
	p.start(c.rate)
	defer p.close()
	if !c.JSON {
		if p.listens() {
			fmt.Fprintf(stdout, "listening at %v\n", p.conn.LocalAddr())
		}
		fmt.Fprintln(stdout, "offset is the peer's clock minus this one")
		fmt.Fprintln(stdout, program.ReceiveTimes(p.rx))
	}
	ctx, stop := c.Limit(ctx)
	defer stop()
	if c.JSON {
		eachSecond(ctx, stdout, func() string {
			line, _ := json.Marshal(p.state()) // numbers and strings only
			return string(line)
		})
	} else {
		eachSecond(ctx, stdout, func() string { return p.state().line() })
		p.state().summary(stdout)
	}
	if !p.state().Synchronized {
		return errors.New("never synchronized")
	}
	return nil
}
