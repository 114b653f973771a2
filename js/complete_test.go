// SPDX-License-Identifier: BSD-3-Clause

package js

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"timesync/internal/sim/waiting"
	"timesync/internal/testkit"
	"timesync/jitter"
	"timesync/link"
)

// pair is a Go link and a JavaScript one that were told the same.
type pair struct {
	golang     *goEnd
	javascript *jsEnd
	now        uint64
}

// newPair lets both talk to the same peer for a while.
func newPair(t *testing.T, seed uint64) *pair {
	p := &pair{golang: &goEnd{}, javascript: newJSEnd(t)}
	e := &twin{golang: p.golang, javascript: p.javascript}
	ends := [2]end{e, &goEnd{}}
	session(seed, 20, course{}, ends, [2]*outcome{{}, {}})
	p.now = e.now
	return p
}

// TestEvents: events, instants and local times mean the same in both languages.
func TestEvents(t *testing.T) {
	p := newPair(t, 48_100_001)
	rng := rand.New(rand.NewPCG(1, 2))
	names := map[error]string{
		link.ErrFuture: "future", link.ErrBefore: "before", link.ErrOld: "old", link.ErrUnsure: "unsynchronized",
		link.ErrTruncated: "truncated", link.ErrPassed: "passed",
	}
	name := func(err error) string {
		for known, name := range names {
			if errors.Is(err, known) {
				return name
			}
		}
		return "-"
	}
	near := func(what string, got, want uint64, tolerance int64) {
		t.Helper()
		if off := int64(got - want); off > tolerance || off < -tolerance {
			t.Errorf("%s: %d, Go says %d", what, got, want)
		}
	}
	seen := map[string]int{}
	remote, _ := p.golang.link.RemoteTime(p.now)
	for range 300 {
		happened := remote + uint64(rng.Int64N(70_000_000)) - 60_000_000
		bytes := link.AppendEvent(nil, happened)
		if said := p.javascript.call("happened %d", happened); said != hex.EncodeToString(bytes) {
			t.Errorf("event at %d: %s, Go says %x", happened, said, bytes)
		}
		var at uint64
		var said string
		_, err := fmt.Sscan(p.javascript.call("event %d %x %d", p.now, bytes, 30_000_000), &at, &said)
		testkit.Must(t, err)
		want, wrong := p.golang.link.ReadEvent(p.now, bytes, 30*time.Second)
		near("event", at, want, 3)
		if said != name(wrong) {
			t.Errorf("event at %d: %s, Go says %v", happened, said, wrong)
		}
		seen[said]++

		local := p.now + uint64(rng.Int64N(40_000_000)) - 20_000_000
		_, err = fmt.Sscan(p.javascript.call("local %d", local-p.now+remote), &at)
		testkit.Must(t, err)
		known, _ := p.golang.link.Snapshot(p.now)
		want = known.LocalTime(local - p.now + remote)
		near("local time", at, want, 3)

		instant, wrong := p.golang.link.ProposeInstant(p.now, local, time.Second)
		proposed := p.javascript.call("propose %d %d %d", p.now, local, 1_000_000)
		if wrong != nil {
			if proposed != "ahead" {
				t.Errorf("instant: %s, Go says %v", proposed, wrong)
			}
			continue
		}
		var ts23 uint64
		_, err = fmt.Sscan(proposed, &ts23)
		testkit.Must(t, err)
		near("instant", ts23, uint64(instant), 1)
		_, err = fmt.Sscan(p.javascript.call("accept %d %d", remote, instant), &at, &said)
		testkit.Must(t, err)
		want, wrong = link.AcceptInstant(remote, instant)
		near("accepted", at, want, 0)
		if said != name(wrong) {
			t.Errorf("accepted: %s, Go says %v", said, wrong)
		}
	}
	if seen["-"] == 0 || seen["future"] == 0 || seen["old"] == 0 {
		t.Error("not every kind of event came: ", seen)
	}
	if said := p.javascript.call("event %d 0102 1", p.now); said != "0 truncated" {
		t.Error("two bytes: ", said)
	}
	p.javascript.tell("new")
	if said := p.javascript.call("event %d 010203 1", p.now); said != "0 unsynchronized" {
		t.Error("of an unknown peer: ", said)
	}
}

// TestJitter: told the same arrivals, both jitter estimators say the same.
func TestJitter(t *testing.T) {
	javascript := newJSEnd(t)
	javascript.out.Buffer(nil, 1<<24)
	for i, kind := range waiting.Kinds() {
		share := []float64{0.01, 0.001, 0.2}[i%3]
		estimator := jitter.Estimator{Share: share}
		items := waiting.New(kind, 60, uint64(i)).Items
		items = items[:min(len(items), 6000)]
		var told strings.Builder
		var want []float64
		for _, item := range items {
			sent := time.Duration(item.Sent * float64(time.Millisecond))
			arrived := time.Duration(item.Arrived * float64(time.Millisecond))
			fmt.Fprintf(&told, " %g %g", float64(sent)/1000, float64(arrived)/1000)
			estimator.Add(sent, arrived)
			wait, _ := estimator.Wait()
			for _, d := range []time.Duration{wait, estimator.Level(), estimator.Interval()} {
				want = append(want, float64(d)/1000)
			}
		}
		words := bufio.NewScanner(strings.NewReader(javascript.call("jitter %g%s", share, told.String())))
		words.Split(bufio.ScanWords)
		worst, n := 0.0, 0
		for ; words.Scan(); n++ {
			var got float64
			_, err := fmt.Sscan(words.Text(), &got)
			testkit.Must(t, err)
			worst = max(worst, math.Abs(got-want[n]))
		}
		if n != len(want) || worst > 1 {
			t.Errorf("%s: %d of %d numbers, apart by up to %.1f us", kind, n, len(want), worst)
		}
	}
}
