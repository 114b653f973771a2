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

// demo runs all three.
func demo(ctx context.Context, c config) (*result, error) {
	rng := rand.New(rand.NewPCG(c.Network.Seed, 'r'))
	draw := func(ppm float64) *clock { return &clock{Clock: program.Clock{Start: rng.Uint64(), PPM: ppm}} }
	var sockets [4]*net.UDPConn // of the camera, of the forwarder to both, of the viewer
	for i := range sockets {
		var err error
		if sockets[i], err = relay.Loopback(); err != nil {
			return nil, err
		}
		defer sockets[i].Close()
	}
	firstLeg, err := relay.New(c.Network, relay.Addr(sockets[1]))
	if err != nil {
		return nil, err
	}
	defer firstLeg.Close()
	secondLeg, err := relay.New(c.Network, relay.Addr(sockets[2]))
	if err != nil {
		return nil, err
	}
	defer secondLeg.Close()

	var t truth
	cameraClock, viewerClock := draw(40), draw(-30)
	forwarder := [2]*leg{}
	forwarder[0], forwarder[1] = startForwarder(c, sockets[1], sockets[2], draw(0))
	view := startViewer(c, sockets[3], secondLeg.Addr(), viewerClock, func(v *viewer, certain []figure) {
		t.judge(viewerClock, v, certain)
	})
	camera := startCamera(c, sockets[0], firstLeg.Addr(), cameraClock, t.capture)
	legs := map[*leg]bool{camera: true, view: true, forwarder[0]: true, forwarder[1]: true}
	defer func() {
		for l := range legs {
			l.close()
		}
	}()
	sleep(ctx, c.For/2)
	if c.faults && ctx.Err() == nil {
		again := [2]*net.UDPConn{}
		for i, network := range []*relay.Relay{firstLeg, secondLeg} {
			forwarder[i].close()
			delete(legs, forwarder[i])
			if again[i], err = relay.Loopback(); err != nil {
				return nil, err
			}
			defer again[i].Close()
			network.Move(relay.Addr(forwarder[i].udp), relay.Addr(again[i]))
		}
		forwarder[0], forwarder[1] = startForwarder(c, again[0], again[1], draw(0))
		legs[forwarder[0]], legs[forwarder[1]] = true, true
	}
	sleep(ctx, c.For/3)
	if c.faults {
		cameraClock.set.Store(-200_000)
	}
	sleep(ctx, c.For/6)

	t.mu.Lock()
	defer t.mu.Unlock()
	r := &result{Seed: c.Network.Seed, Frames: len(t.captured), Certain: len(t.errs), Void: t.void, Beyond: t.beyond}
	if t.why != nil {
		r.Last = t.why.Error()
	}
	if r.Certain > 0 {
		r.DelayMs, r.BoundMs, r.ErrorMs = stat.Quantile(t.delays, 0.5), stat.Quantile(t.bounds, 0.5), stat.Quantile(t.errs, 0.99)
	}
	return r, nil
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

func (r *result) print(out io.Writer, c config) error {
	_, err := fmt.Fprintf(out, `%d frames in %v, a bad network on both legs, clocks of 40, 0 and -30 ppm; -seed %d
capture to arrival %.2f ms, known to within %.2f ms (medians); p99 of the error %.3f ms
%d figures, %d more void, %d wrong by more than their bound
the last frame: %s
`, r.Frames, c.For, r.Seed, r.DelayMs, r.BoundMs, r.ErrorMs, r.Certain, r.Void, r.Beyond, r.Last)
	return err
}

// sleep sleeps, unless interrupted.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
