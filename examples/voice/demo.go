// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"math/rand/v2"
	"net"
	"time"

	"timesync/examples/internal/program"
	"timesync/examples/internal/relay"
)

// stoppedBy is how long the end that plays is stopped.
const stoppedBy = 2 * time.Second

// stage is both ends and the network between them.
type stage struct {
	config
	rng     *rand.Rand
	network *relay.Relay
	speak   *speaker
	lives   []*listener // of the end that plays, one after the other
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
	program.Sleep(ctx, between)
	l := s.last()
	l.running.Lock()
	l.stopped.from = l.now()
	program.Sleep(ctx, stoppedBy)
	l.stopped.to = l.now()
	l.running.Unlock()
	program.Sleep(ctx, between-stoppedBy)
	l.close()
	udp, err := relay.Loopback()
	if err != nil {
		return err
	}
	s.network.Move(relay.Addr(l.udp), relay.Addr(udp))
	return s.birth(udp)
}

// demo runs both ends.
func demo(ctx context.Context, c config) (*result, error) {
	s := &stage{config: c, rng: rand.New(rand.NewPCG(c.Network.Seed, 'v'))}
	there, err := relay.Loopback()
	if err != nil {
		return nil, err
	}
	here, err := relay.Loopback()
	if err != nil {
		return nil, err
	}
	if s.network, err = relay.New(c.Network, relay.Addr(there)); err != nil {
		return nil, err
	}
	defer s.network.Close()
	s.speak = newSpeaker(c, s.clock(c.Skew/2), s.network.Addr())
	if err = s.birth(there); err != nil {
		return nil, err
	}
	begun := s.speak.now()
	s.speak.start(here)
	if err = s.suffer(ctx, c.For/3); err == nil {
		program.Sleep(ctx, c.For/3)
	}
	s.speak.close()
	time.Sleep(c.latency + 100*time.Millisecond) // what is under way is still played
	if err != nil {
		return nil, err
	}
	s.last().close()
	return judge(s.speak, s.lives, begun), nil
}
