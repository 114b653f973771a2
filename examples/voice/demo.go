// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"time"

	"timesync"
	"timesync/examples/internal/program"
	"timesync/examples/internal/relay"
)

// anywhere is a free port.
var anywhere netip.AddrPort

const (
	settling  = 3 * time.Second // the start, which does not count
	stoppedBy = 2 * time.Second // for so long the end that plays is stopped
)

// result is what the judge says. Times are true.
type result struct {
	Captured int `json:"captured"` // frames
	Played   int `json:"played"`
	Late     int `json:"played_late"` // and must not have been
	Refused  int `json:"refused"`     // capture times that cannot be
	Overdue  int `json:"overdue"`     // arrived, or were asked for, too late

	Median  int64   `json:"median_us"` // of play - capture - latency, 3 s after each start
	P99     int64   `json:"p99_us"`
	Most    int64   `json:"most_us"`
	Latency float64 `json:"latency_ms"` // in the end
	CardPPM float64 `json:"card_ppm"`   // the capturing card against the clock that plays; 0: not known

	Gaps []gap `json:"gaps"` // longer than 100 ms, the start included
}

// gap is sound that was not played.
type gap struct {
	From   float64 `json:"from_s"`
	Frames int     `json:"frames"`
}

// stage is both ends and the network between them.
type stage struct {
	config
	rng     *rand.Rand
	network *relay.Relay
	at      netip.AddrPort // of the end that plays
	speak   *speaker
	lives   []*listener // of the end that plays, one after the other
}

// newStage opens the sockets; nobody speaks yet.
func newStage(c config) (*stage, error) {
	s := &stage{config: c, rng: rand.New(rand.NewPCG(c.Network.Seed, 'v'))}
	there, err := relay.Loopback(anywhere)
	if err != nil {
		return nil, err
	}
	s.at = relay.Addr(there)
	if s.network, err = relay.New(c.Network, s.at); err != nil {
		return nil, errors.Join(err, there.Close())
	}
	here, err := relay.Loopback(anywhere)
	if err == nil {
		s.speak = &speaker{side: newSide(0, c, here, s.clock(c.Skew/2)), to: s.network.Addr()}
		if err = s.birth(there); err != nil {
			err = errors.Join(err, here.Close())
		}
	}
	if err != nil {
		s.network.Close()
		return nil, errors.Join(err, there.Close())
	}
	return s, nil
}

func (s *stage) clock(ppm float64) program.Clock {
	return program.Clock{Start: s.rng.Uint64(), PPM: ppm}
}

// birth starts the end that plays anew.
func (s *stage) birth(udp *net.UDPConn) error {
	l, err := newListener(s.config, udp, s.clock(-s.Skew/2))
	if err == nil {
		s.lives = append(s.lives, l)
		l.start()
	}
	return err
}

func (s *stage) last() *listener { return s.lives[len(s.lives)-1] }

// suffer lets happen what happens to programs: in all it takes twice as long as between.
func (s *stage) suffer(ctx context.Context, between time.Duration) error {
	sleep(ctx, between)
	s.last().running.Lock()
	sleep(ctx, stoppedBy)
	s.last().running.Unlock()
	sleep(ctx, between-stoppedBy)
	s.last().close()
	udp, err := relay.Loopback(s.at)
	if err != nil {
		return err
	}
	return s.birth(udp)
}

// demo runs both ends.
func demo(ctx context.Context, c config) (*result, error) {
	s, err := newStage(c)
	if err != nil {
		return nil, err
	}
	defer s.network.Close()
	begun := timesync.NowUsec()
	s.speak.start()
	rest := c.For
	if c.faults {
		rest = c.For / 3
		err = s.suffer(ctx, rest)
	}
	if err == nil {
		sleep(ctx, rest)
	}
	s.speak.close()
	time.Sleep(c.latency + 100*time.Millisecond) // what is under way is still played
	if err != nil {
		return nil, err
	}
	s.last().close()
	return judge(s.speak, s.lives, int64(begun)), nil
}

// sleep sleeps, unless interrupted.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// judge compares what was played with what was captured.
func judge(s *speaker, lives []*listener, begun int64) *result {
	r := &result{Captured: len(s.captured)}
	var errs []int64
	for _, l := range lives {
		r.Played += len(l.played)
		r.Refused += l.refused
		r.Late += l.late
		r.Overdue += int(l.buffer.Stats().Late)
		for n, e := range l.played {
			if s.captured[n] >= l.begun+settling.Microseconds() {
				errs = append(errs, max(e, -e))
			}
		}
		r.Latency = l.buffer.Latency().Seconds() * 1e3
		if ppm, ok := l.card.PPM(); ok {
			r.CardPPM = ppm
		}
	}
	if slices.Sort(errs); len(errs) > 0 {
		r.Median, r.P99, r.Most = errs[len(errs)/2], errs[len(errs)*99/100], errs[len(errs)-1]
	}
	played := func(n int) bool {
		return slices.ContainsFunc(lives, func(l *listener) bool { _, ok := l.played[uint32(n)]; return ok })
	}
	for n := 0; n < len(s.captured); n++ {
		from := n
		for n < len(s.captured) && !played(n) {
			n++
		}
		if n-from > 5 {
			r.Gaps = append(r.Gaps, gap{float64(s.captured[from]-begun) / 1e6, n - from})
		}
	}
	return r
}

// check says what must not be.
func (r *result) check() error {
	switch {
	case r.Played == 0:
		return errors.New("nothing was played")
	case r.Late > 0:
		return fmt.Errorf("%d frames were played late", r.Late)
	}
	return nil
}

func (r *result) print(w io.Writer, c config) error {
	fmt.Fprintf(w, "frames of %v; each datagram takes 15 to 25 ms, %g %% are lost; clocks %g ppm apart; -seed %d\n", frameTime, c.Network.Loss, c.Skew, c.Network.Seed)
	fmt.Fprintf(w, "captured %d, played %d, played late %d, overdue %d, of an impossible time %d\n", r.Captured, r.Played, r.Late, r.Overdue, r.Refused)
	fmt.Fprintf(w, "play - capture - latency of %.0f ms, 3 s after each start: median %d us, p99 %d us, most %d us\n", r.Latency, r.Median, r.P99, r.Most)
	if r.CardPPM != 0 {
		fmt.Fprintf(w, "the capturing card is %.0f ppm faster than the clock that plays\n", r.CardPPM)
	}
	for _, g := range r.Gaps {
		fmt.Fprintf(w, "silence from %.2f s on: %d frames, %v\n", g.From, g.Frames, time.Duration(g.Frames)*frameTime)
	}
	_, err := fmt.Fprintln(w)
	return err
}
