// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"timesync/internal/badnet"
	"timesync/internal/program"
	"timesync/internal/testkit"
)

// tally collects the certain figures and their errors.
type tally struct {
	delays, bounds, errs []time.Duration
	beyond               int // wrong by more than their bound
}

// add adds the figure of a frame whose true delay was took, known to within slack.
func (t *tally) add(f figure, took, slack time.Duration) {
	err := (f.delay - took).Abs()
	t.delays = append(t.delays, f.delay)
	t.bounds = append(t.bounds, f.bound)
	t.errs = append(t.errs, err)
	if err > f.bound+slack {
		t.beyond++
	}
}

// stage is all three ends, the networks between them, and what the viewer found.
type stage struct {
	config
	rng       *rand.Rand
	networks  [2]*badnet.Relay // from the camera, and to the viewer
	forwarder []*leg

	tally
	void int   // figures that turned out to be unreliable
	why  error // why the last frame has no figure
}

func (s *stage) clock(ppm float64) program.Clock {
	return program.Clock{Start: s.rng.Uint64(), PPM: ppm}
}

// forward starts the forwarder, or replaces it by a new one.
func (s *stage) forward() {
	sockets := [2]*net.UDPConn{badnet.Loopback(), badnet.Loopback()}
	for i, network := range s.networks {
		if at := badnet.Addr(sockets[i]); network == nil {
			s.networks[i] = badnet.New(s.Network, at)
		} else {
			network.Move(at)
			s.forwarder[i].Close()
		}
	}
	s.forwarder = startForwarder(s.config, sockets, s.clock(0).Reads)
}

// demo runs all three.
func demo(ctx context.Context, c config) *stage {
	s := &stage{config: c, rng: rand.New(rand.NewPCG(c.Network.Seed, 'r'))}
	cameraClock, viewerClock := s.clock(40), s.clock(-30)
	var set atomic.Int64 // the step of the camera's clock, us
	s.forward()
	viewer := startViewer(c, badnet.Loopback(), s.networks[1].Addr(), viewerClock.Reads,
		func(v *viewer, certain []figure) {
			for _, f := range certain {
				took := viewerClock.True(f.arrivedUsec) - int64(binary.LittleEndian.Uint64(f.picture))
				// Clocks show whole microseconds, and True is right to 1.
				s.add(f, time.Duration(took)*time.Microsecond, 10*time.Microsecond)
			}
			s.void, s.why = v.void, v.why
		})
	camera := startCamera(c, badnet.Loopback(), s.networks[0].Addr(), func(usec uint64) uint64 {
		return cameraClock.Reads(usec) + uint64(set.Load())
	})
	program.Sleep(ctx, c.For/2)
	s.forward()
	program.Sleep(ctx, c.For/3)
	set.Store(-200_000)
	program.Sleep(ctx, c.For/6)
	for _, end := range append(s.forwarder, viewer, camera) {
		end.Close()
	}
	for _, n := range s.networks {
		n.Close()
	}
	return s
}

// print prints the results. The error says which bounds did not hold. They hold on any machine; a
// busy machine only makes the figures less exact.
func (s *stage) print(out io.Writer) error {
	if len(s.errs) == 0 {
		return fmt.Errorf("no frame with a certain time: %w", s.why)
	}
	fmt.Fprintf(out,
		`60 frames a second for %v, a bad network on both legs, clocks of 40, 0 and -30 ppm; -seed %d
age of a frame at arrival %v, known to within %v (medians); p99 of the error %v
%d ages, %d more dropped after clock steps, %d wrong by more than their bound
is the last frame's age known? %v
`, s.For, s.Network.Seed,
		testkit.Quantile(s.delays, 0.5), testkit.Quantile(s.bounds, 0.5), testkit.Quantile(s.errs, 0.99),
		len(s.errs), s.void, s.beyond, cmp.Or(s.why, errors.New("yes")))
	if s.beyond > 0 {
		return fmt.Errorf("%d ages are wrong by more than their bound", s.beyond)
	}
	return nil
}
