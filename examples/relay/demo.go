// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
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
	Seed             uint64
	Frames           int     // captured
	Certain          int     // figures
	Void             int     // figures that were not to be relied on after all
	DelayMs, BoundMs float64 // medians
	ErrorMs          float64 // p99
	Beyond           int     // figures that are wrong by more than their bound
	Last             string  // why the last frame had no figure
}

// truth is when frames were captured, by true time, and what the viewer says of them.
type truth struct {
	mu       sync.Mutex
	captured []uint64  // us, by number
	errs     []float64 // ms
	delays   []float64
	bounds   []float64
	beyond   int
	void     int
	why      error
}

func (t *truth) capture(number uint32, trueUsec uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.captured = append(t.captured, trueUsec)
}

// judge takes what the viewer says; own is its clock, which is not set.
func (t *truth) judge(own *clock, v *viewer, certain []figure) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
	for _, f := range certain {
		arrived := uint64(own.True(f.arrivedUsec))
		err := f.delay - time.Duration(arrived-t.captured[f.number])*time.Microsecond
		t.errs = append(t.errs, ms(err.Abs()))
		t.delays, t.bounds = append(t.delays, ms(f.delay)), append(t.bounds, ms(f.bound))
		if err.Abs() > f.bound+10*time.Microsecond { // clocks are read in whole microseconds, and True is right to 1
			t.beyond++
		}
	}
	t.void, t.why = v.void, v.why
}

// stage is all three, and the networks between them.
type stage struct {
	config
	truth
	rng       *rand.Rand
	networks  [2]*relay.Relay // from the camera, and to the viewer
	forwarder [2]*leg
	ends      []*leg // camera and viewer
}

func (s *stage) draw(ppm float64) *clock {
	return &clock{Clock: program.Clock{Start: s.rng.Uint64(), PPM: ppm}}
}

// forward starts the forwarder, or another one in place of it.
func (s *stage) forward() error {
	var sockets [2]*net.UDPConn
	for i := range sockets {
		udp, err := relay.Loopback()
		if err != nil {
			return err
		}
		sockets[i] = udp
		if old := s.forwarder[i]; old != nil {
			old.close()
			s.networks[i].Move(relay.Addr(old.udp), relay.Addr(udp))
			s.forwarder[i] = nil
		} else if s.networks[i], err = relay.New(s.Network, relay.Addr(udp)); err != nil {
			return err
		}
	}
	s.forwarder[0], s.forwarder[1] = startForwarder(s.config, sockets[0], sockets[1], s.draw(0))
	return nil
}

func (s *stage) close() {
	for _, l := range append(s.ends, s.forwarder[:]...) {
		if l != nil {
			l.close()
		}
	}
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
	here, err := relay.Loopback()
	if err != nil {
		return nil, err
	}
	s.ends = append(s.ends, startViewer(c, here, s.networks[1].Addr(), viewerClock, func(v *viewer, certain []figure) {
		s.judge(viewerClock, v, certain)
	}))
	there, err := relay.Loopback()
	if err != nil {
		return nil, err
	}
	s.ends = append(s.ends, startCamera(c, there, s.networks[0].Addr(), cameraClock, s.capture))
	program.Sleep(ctx, c.For/2)
	if ctx.Err() == nil {
		if err := s.forward(); err != nil {
			return nil, err
		}
	}
	program.Sleep(ctx, c.For/3)
	cameraClock.set.Store(-200_000)
	program.Sleep(ctx, c.For/6)
	return s.result(), nil
}

// result is what has become of the figures so far.
func (s *stage) result() *result {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &result{Seed: s.Network.Seed, Frames: len(s.captured), Certain: len(s.errs), Void: s.void, Beyond: s.beyond}
	if s.why != nil {
		r.Last = s.why.Error()
	}
	if r.Certain > 0 {
		r.DelayMs, r.BoundMs, r.ErrorMs = stat.Quantile(s.delays, 0.5), stat.Quantile(s.bounds, 0.5), stat.Quantile(s.errs, 0.99)
	}
	return r
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
`, r.Frames, c.For, r.Seed, r.DelayMs, r.BoundMs, r.ErrorMs, r.Certain, r.Void, r.Beyond, r.Last)
}
