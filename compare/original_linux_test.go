// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that the port of the original is compared with what the C++ peer prints,
// and that the relay delays datagrams as its path says.

package main

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"timesync/internal/rivals"
)

// TestOriginalLines: what the port answers, too, is no mismatch; everything else is one, or
// an error.
func TestOriginalLines(t *testing.T) {
	var model, port rivals.Original
	e := &liveEnd{peer: &liveEnd{}}
	stamps := []uint32{1000, 3500, 1<<24 - 1, 5}
	for i, stamp := range stamps {
		at := uint64(100_000 * (i + 1))
		delay := model.Datagram(stamp, at)
		report, _ := model.MinDelta(at)
		if err := e.line(&port, fmt.Sprintf("d %d %d %d %d", stamp, at, delay, report)); err != nil {
			t.Fatal(err)
		}
		model.OnPeerMinDelta(77, at)
		if err := e.line(&port, "r 77"); err != nil {
			t.Fatal(err)
		}
		if err := e.line(&port, fmt.Sprintf("q %d %d %d", at, at, model.Remote23(at))); err != nil {
			t.Fatal(err)
		}
	}
	if e.compared != 3*len(stamps) || e.mismatches != 0 {
		t.Errorf("%d compared, %d differ", e.compared, e.mismatches)
	}
	if err := e.line(&port, "d 1000 900000 1 1"); err != nil || e.mismatches != 1 {
		t.Errorf("a wrong delay: %d differ, %v", e.mismatches, err)
	}
	if err := e.line(&port, "q 900000 900000 4242"); err != nil || e.mismatches != 2 {
		t.Errorf("a wrong reading: %d differ, %v", e.mismatches, err)
	}
	for _, bad := range []string{"", "x 1", "r", "r 1 2", "q 1 2 -3", "d 1 2 3", "d 1 2 3 four"} {
		if e.line(&port, bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// TestRelayPath: nothing overtakes, nothing is faster than the path, neighbours share their
// jitter, and bundles leave together.
func TestRelayPath(t *testing.T) {
	for _, p := range []relayPath{
		{}, {base: 20 * ms}, {base: 20 * ms, mean: 3 * ms}, {base: 20 * ms, mean: 3 * ms, hold: 30 * ms}, {base: 20 * ms, mean: ms, bundle: 20 * ms},
	} {
		r := rand.New(rand.NewPCG(1, 2))
		var state [3]time.Duration
		var last, sum time.Duration
		const n = 20_000
		for i := range n {
			at := time.Duration(i) * 16 * ms
			due := p.due(r, at, &state)
			if due < at+p.base || due < last {
				t.Fatalf("%+v: came at %v, leaves at %v, the one before at %v", p, at, due, last)
			}
			if p.bundle > 0 && due%p.bundle != 0 {
				t.Fatalf("%+v: leaves at %v", p, due)
			}
			last, sum = due, sum+due-at-p.base
		}
		if mean := sum / n; p.bundle == 0 && (mean < p.mean*9/10 || mean > p.mean*12/10) {
			t.Errorf("%+v: mean jitter %v", p, mean)
		}
	}
	p := relayPath{mean: ms, hold: 30 * ms}
	r := rand.New(rand.NewPCG(1, 2))
	var state [3]time.Duration
	a, b := p.due(r, 0, &state), p.due(r, 29*ms, &state)-29*ms
	if a != b || p.due(r, 40*ms, &state)-40*ms == a {
		t.Errorf("delays %v and %v within 30 ms, and then the same again", a, b)
	}
}
