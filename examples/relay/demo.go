// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"timesync/examples/internal/program"
	"timesync/examples/internal/relay"
	"timesync/internal/stat"
)

// tally is what has become of figures that were certain.
type tally struct {
	delays, bounds, errs []time.Duration
	beyond               int // wrong by more than their bound
}

// add takes a figure of a frame that was under way for took, known to within the slack.
func (t *tally) add(f figure, took, slack time.Duration) {
	err := (f.delay - took).Abs()
	t.delays, t.bounds, t.errs = append(t.delays, f.delay), append(t.bounds, f.bound), append(t.errs, err)
	if err > f.bound+slack {
		t.beyond++
	}
}

// stage is all three, and the networks between them, when frames were captured, and what the viewer
// says of them.
type stage struct {
	config
	rng       *rand.Rand
	networks  [2]*relay.Relay // from the camera, and to the viewer
	forwarder [2]*leg
	ends      []*leg // camera and viewer

	mu       sync.Mutex
	captured []uint64 // by true time, us, by number
	tally
	void int   // figures that were not to be relied on after all
	why  error // why the last frame had no figure
}

func (s *stage) capture(trueUsec uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.captured = append(s.captured, trueUsec)
}

// judge takes what the viewer says; own is its clock, which is not set.
func (s *stage) judge(own *clock, v *viewer, certain []figure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range certain {
		arrived := uint64(own.True(f.arrivedUsec))
		took := time.Duration(arrived-s.captured[f.number]) * time.Microsecond
		s.add(f, took, 10*time.Microsecond) // clocks are read in whole microseconds, and True is right to 1
	}
	s.void, s.why = v.void, v.why
}

func (s *stage) draw(ppm float64) *clock {
	return &clock{Clock: program.Clock{Start: s.rng.Uint64(), PPM: ppm}}
}

// forward starts the forwarder, or another one in place of it.
func (s *stage) forward() {
	sockets := [2]*net.UDPConn{relay.Loopback(), relay.Loopback()}
	for i, old := range s.forwarder {
		if at := relay.Addr(sockets[i]); old != nil {
			s.networks[i].Move(relay.Addr(old.UDP), at)
		} else {
			s.networks[i] = relay.New(s.Network, at)
		}
	}
	closeAll(s.forwarder[:])
	s.forwarder = startForwarder(s.config, sockets, s.draw(0))
}

func (s *stage) close() {
	closeAll(append(s.ends, s.forwarder[:]...))
	for _, n := range s.networks {
		n.Close()
	}
}

// demo runs all three.
func demo(ctx context.Context, c config) *stage {
	s := &stage{config: c, rng: rand.New(rand.NewPCG(c.Network.Seed, 'r'))}
	defer s.close()
	cameraClock, viewerClock := s.draw(40), s.draw(-30)
	s.forward()
	judge := func(v *viewer, certain []figure) { s.judge(viewerClock, v, certain) }
	s.ends = []*leg{
		startViewer(c, relay.Loopback(), s.networks[1].Addr(), viewerClock, judge),
		startCamera(c, relay.Loopback(), s.networks[0].Addr(), cameraClock, s.capture),
	}
	program.Sleep(ctx, c.For/2)
	s.forward()
	program.Sleep(ctx, c.For/3)
	cameraClock.set.Store(-200_000)
	program.Sleep(ctx, c.For/6)
	return s
}

// print prints what became of the frames, and says what is not as it should be. How exact the figures
// are a busy machine decides, too; whether their bounds hold does not.
func (s *stage) print(out io.Writer) error {
	if len(s.errs) == 0 {
		return fmt.Errorf("no frame whose time is certain: %w", s.why)
	}
	fmt.Fprintf(out, `%d frames in %v, a bad network on both legs, clocks of 40, 0 and -30 ppm; -seed %d
capture to arrival %v, known to within %v (medians); p99 of the error %v
%d figures, %d more void, %d wrong by more than their bound
the last frame: %v
`, len(s.captured), s.For, s.Network.Seed,
		stat.Quantile(s.delays, 0.5), stat.Quantile(s.bounds, 0.5), stat.Quantile(s.errs, 0.99),
		len(s.errs), s.void, s.beyond, cmp.Or(s.why, errors.New("in time")))
	if s.beyond > 0 {
		return fmt.Errorf("%d figures are wrong by more than their bound", s.beyond)
	}
	return nil
}
