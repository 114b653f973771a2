// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"timesync"
	"timesync/internal/program"
)

// state is what one end knows: a line each second, and of -json.
type state struct {
	Seconds  float64 `json:"s"`
	Local    uint64  `json:"local_us"` // reading of this end's clock
	Accepted int
	Rejected int
	Trouble  string
	timesync.Snapshot
}

func (p *peer) state() state {
	now := program.True()
	s := state{Seconds: now.Seconds(), Local: p.clock.At(now.Microseconds()), Accepted: p.tally(nil).n, Trouble: p.trouble(now)}
	for _, k := range kinds {
		s.Rejected += p.tally(k.err).n
	}
	s.Snapshot, _ = p.end.Link.Snapshot(s.Local)
	return s
}

// String is for the eye: what is known, and why if it is not.
func (s state) String() string {
	line := fmt.Sprintf("%4.0f s  %v, %d in, %d rejected", s.Seconds, s.Snapshot, s.Accepted, s.Rejected)
	if s.Trouble != "" {
		line += "\n    " + s.Trouble
	}
	return line
}

// live runs one end, and prints what it knows each second. Its clock is the wall clock of now and never
// set again, so the offset is by how much the two machines' clocks differed when they started, and what
// they drift apart since then.
func live(ctx context.Context, c config, stdout io.Writer) error {
	udp, dial, err := program.Open(c.Listen, c.Dial)
	if err != nil {
		return err
	}
	begun := time.Now().Add(-program.True())
	p, err := newPeer(c, udp, dial, program.Clock{Start: uint64(begun.UnixMicro()), PPM: c.Skew}, "udp-*.tsr")
	if err != nil {
		return err
	}
	p.start()
	say := func() { fmt.Fprintln(stdout, p.state()) }
	if c.json {
		say = func() { json.NewEncoder(stdout).Encode(p.state()) }
	} else {
		fmt.Fprintf(stdout, "at %v; offset is the peer's clock minus this one\n", p.UDP.LocalAddr())
	}
	ctx, stop := c.Limit(ctx)
	defer stop()
	program.Every(ctx.Done(), time.Second, say)
	if s := p.state(); !p.end.Link.IsSynchronized() {
		err = errors.New("never synchronized")
	} else if !c.json {
		fmt.Fprintf(stdout, "offset %+.6f s, at most %.3f ms wrong\n", float64(s.OffsetUsec)/1e6, s.ErrorBound.Seconds()*1e3)
	}
	return errors.Join(err, p.Close())
}
