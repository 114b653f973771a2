// SPDX-License-Identifier: BSD-3-Clause

package main

import (
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

// result is what the demo found.
type result struct {
	Frames  int // captured
	Certain int // figures
	// Void are figures that were not to be relied on after all.
	Void             int
	DelayMs, BoundMs float64 // medians
	ErrorMs          float64 // p99
	// Beyond are figures that are wrong by more than their bound.
	Beyond int
	Last   string // why the last frame had no figure
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
	captured []uint64  // by true time, us, by number
	errs     []float64 // ms
	delays   []float64
	bounds   []float64
	result   result
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
	ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
	for _, f := range certain {
		arrived := uint64(own.True(f.arrivedUsec))
		err := f.delay - time.Duration(arrived-s.captured[f.number])*time.Microsecond
		s.errs = append(s.errs, ms(err.Abs()))
		s.delays, s.bounds = append(s.delays, ms(f.delay)), append(s.bounds, ms(f.bound))
		// Clocks are read in whole microseconds, and True is right to 1.
		if err.Abs() > f.bound+10*time.Microsecond {
			s.result.Beyond++
		}
	}
	s.result.Void, s.result.Last = v.void, ""
	if v.why != nil {
		s.result.Last = v.why.Error()
	}
}

func (s *stage) draw(ppm float64) *clock {
	return &clock{Clock: program.Clock{Start: s.rng.Uint64(), PPM: ppm}}
}

// forward starts the forwarder, or another one in place of it.
func (s *stage) forward() error {
	var sockets [2]*net.UDPConn
	for i, old := range s.forwarder {
		udp, err := relay.Loopback()
		if err != nil {
			return err
		}
		sockets[i] = udp
		if old != nil {
			s.networks[i].Move(relay.Addr(old.udp), relay.Addr(udp))
		} else if s.networks[i], err = relay.New(s.Network, relay.Addr(udp)); err != nil {
			return err
		}
	}
	closeAll(s.forwarder[:])
	s.forwarder = startForwarder(s.config, sockets, s.draw(0))
	return nil
}

func (s *stage) close() {
	closeAll(append(s.ends, s.forwarder[:]...))
	for _, n := range s.networks {
		if n != nil {
			n.Close()
		}
	}
}

// demo runs all three.
func demo(ctx context.Context, c config) (*result, error) {
	s := &stage{config: c, rng: rand.New(rand.NewPCG(c.Network.Seed, 'r'))}
	defer s.close()
	cameraClock, viewerClock := s.draw(40), s.draw(-30)
	if err := s.forward(); err != nil {
		return nil, err
	}
	here, err1 := relay.Loopback()
	there, err2 := relay.Loopback()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	judge := func(v *viewer, certain []figure) { s.judge(viewerClock, v, certain) }
	s.ends = []*leg{
		startViewer(c, here, s.networks[1].Addr(), viewerClock, judge),
		startCamera(c, there, s.networks[0].Addr(), cameraClock, s.capture),
	}
	program.Sleep(ctx, c.For/2)
	if err := s.forward(); err != nil {
		return nil, err
	}
	program.Sleep(ctx, c.For/3)
	cameraClock.set.Store(-200_000)
	program.Sleep(ctx, c.For/6)
	return s.found(), nil
}

// found is what has become of the figures so far.
func (s *stage) found() *result {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.result
	r.Frames, r.Certain = len(s.captured), len(s.errs)
	if r.Certain > 0 {
		r.DelayMs, r.BoundMs = stat.Quantile(s.delays, 0.5), stat.Quantile(s.bounds, 0.5)
		r.ErrorMs = stat.Quantile(s.errs, 0.99)
	}
	return &r
}

// check says what is not as it should be. How exact the figures are a busy machine decides, too;
// whether their bounds hold does not.
func (r *result) check() error {
	switch {
	case r.Certain == 0:
		return fmt.Errorf("no frame whose time is certain: %s", r.Last)
	case r.Beyond > 0:
		return fmt.Errorf("%d figures are wrong by more than their bound", r.Beyond)
	}
	return nil
}

func (r *result) print(out io.Writer, c config) {
	fmt.Fprintf(out, `%d frames in %v, a bad network on both legs, clocks of 40, 0 and -30 ppm; -seed %d
capture to arrival %.2f ms, known to within %.2f ms (medians); p99 of the error %.3f ms
%d figures, %d more void, %d wrong by more than their bound
the last frame: %s
`, r.Frames, c.For, c.Network.Seed, r.DelayMs, r.BoundMs, r.ErrorMs, r.Certain, r.Void, r.Beyond, r.Last)
}
