// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"time"

	"timesync/examples/internal/program"
	"timesync/examples/internal/relay"
)

// anywhere is a free port.
var anywhere netip.AddrPort

const (
	settling  = 3 * time.Second // the start, which does not count
	stoppedBy = 2 * time.Second // for so long the end that plays is stopped
	longGap   = 5               // frames: shorter gaps are not listed
)

// result is what the judge says. Times are true.
type result struct {
	Captured int `json:"captured"` // frames
	Played   int `json:"played"`
	InFlight int `json:"in_flight"`   // not played: on the way to, or due at, an end that was stopped or started anew
	Lost     int `json:"lost"`        // not played otherwise: on the network
	Unplayed int `json:"unplayed"`    // not played otherwise, although they arrived
	Late     int `json:"played_late"` // and must not have been
	Refused  int `json:"refused"`     // capture times that cannot be
	Overdue  int `json:"overdue"`     // arrived, or were asked for, too late

	// From 3 s after each start on, but for what came due while the end was stopped.
	Error  spread `json:"error"`  // play - capture - latency, which is the sum of:
	Clocks spread `json:"clocks"` // how far off the time of capture was
	Woke   spread `json:"woke"`   // how late the program woke up to play

	Latency float64 `json:"latency_ms"` // in the end
	CardPPM float64 `json:"card_ppm"`   // the capturing card against the clock that plays; 0: not known

	Gaps []gap `json:"gaps"` // of 5 frames and more, the start included
}

// spread is of sizes, in microseconds.
type spread struct {
	Median int64 `json:"median_us"`
	P99    int64 `json:"p99_us"`
	Most   int64 `json:"most_us"`
}

func newSpread(v []int64) (s spread) {
	for i := range v {
		v[i] = max(v[i], -v[i])
	}
	if slices.Sort(v); len(v) > 0 {
		s = spread{v[len(v)/2], v[len(v)*99/100], v[len(v)-1]}
	}
	return s
}

func (s spread) String() string {
	return fmt.Sprintf("median %d us, p99 %d us, most %d us", s.Median, s.P99, s.Most)
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
	s.speak = newSpeaker(c, s.clock(c.Skew/2), s.network.Addr())
	if err = s.birth(there); err != nil {
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
	l, err := newListener(s.config, s.clock(-s.Skew/2))
	if err == nil {
		s.lives = append(s.lives, l)
		l.start(udp)
	}
	return err
}

func (s *stage) last() *listener { return s.lives[len(s.lives)-1] }

// suffer lets happen what happens to programs: in all it takes twice as long as between.
func (s *stage) suffer(ctx context.Context, between time.Duration) error {
	sleep(ctx, between)
	l := s.last()
	l.running.Lock()
	l.stopped.from = l.now()
	sleep(ctx, stoppedBy)
	l.stopped.to = l.now()
	l.running.Unlock()
	sleep(ctx, between-stoppedBy)
	l.close()
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
	here, err := relay.Loopback(anywhere)
	if err != nil {
		return nil, err
	}
	begun := s.speak.now()
	s.speak.start(here)
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
	return judge(s.speak, s.lives, begun), nil
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
	var over, clocks, woke []int64
	away := absences(s, lives)
	absent := func(captured int64) bool {
		return slices.ContainsFunc(away, func(a span) bool { return captured >= a.from && captured <= a.to })
	}
	for _, l := range lives {
		r.Played += len(l.played)
		r.Refused += l.refused
		r.Late += l.late
		r.Overdue += int(l.buffer.Stats().Late)
		for n, p := range l.played {
			if at := s.captured[n]; at >= l.begun+settling.Microseconds() && !absent(at) {
				over, clocks, woke = append(over, p.over), append(clocks, p.over-p.woke), append(woke, p.woke)
			}
		}
		r.Latency = l.buffer.Latency().Seconds() * 1e3
		if ppm, ok := l.card.PPM(); ok {
			r.CardPPM = ppm
		}
	}
	r.Error, r.Clocks, r.Woke = newSpread(over), newSpread(clocks), newSpread(woke)
	row := 0 // frames in a row that were not played
	for n, captured := range s.captured {
		played, arrived := false, false
		for _, l := range lives {
			_, ok := l.played[uint32(n)]
			played, arrived = played || ok, arrived || l.arrived[uint32(n)]
		}
		switch {
		case played:
			row = 0
			continue
		case absent(captured):
			r.InFlight++
		case arrived:
			r.Unplayed++
		default:
			r.Lost++
		}
		if row++; row == longGap {
			r.Gaps = append(r.Gaps, gap{float64(s.captured[n+1-row]-begun) / 1e6, row})
		} else if row > longGap {
			r.Gaps[len(r.Gaps)-1].Frames = row
		}
	}
	return r
}

// span is a time, true, us.
type span struct{ from, to int64 }

// absences says when frames were captured that nobody could play: what came due while the end
// that plays was stopped; and around its start what was on its way to, or waited in, the one
// before, and what the speaker captured until it heard of the new one, whose time it could not
// know, and which could not know that what came was no recording.
func absences(s *speaker, lives []*listener) (away []span) {
	for i, l := range lives {
		latency := l.buffer.Latency().Microseconds()
		if l.stopped.to > 0 {
			away = append(away, span{l.stopped.from - latency - late.Microseconds(), l.stopped.to - latency})
		}
		heard := int64(math.MaxInt64)
		if i < len(s.heard) {
			heard = s.heard[i]
		}
		away = append(away, span{l.begun - latency - late.Microseconds(), heard})
	}
	return away
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
	fmt.Fprintf(w, "captured %d, played %d; in flight to an end that was stopped or started anew %d, lost on the network %d, arrived and not played %d\n", r.Captured, r.Played, r.InFlight, r.Lost, r.Unplayed)
	fmt.Fprintf(w, "played late %d, overdue %d, of an impossible time %d\n", r.Late, r.Overdue, r.Refused)
	fmt.Fprintf(w, "play - capture - latency of %.0f ms, from 3 s after each start on: %v\n", r.Latency, r.Error)
	fmt.Fprintf(w, "  by the clocks:      %v\n  by waking up late:  %v\n", r.Clocks, r.Woke)
	if r.CardPPM != 0 {
		fmt.Fprintf(w, "the capturing card is %.0f ppm faster than the clock that plays\n", r.CardPPM)
	}
	for _, g := range r.Gaps {
		fmt.Fprintf(w, "silence from %.2f s on: %d frames, %v\n", g.From, g.Frames, time.Duration(g.Frames)*frameTime)
	}
	_, err := fmt.Fprintln(w)
	return err
}
