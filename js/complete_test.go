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

	"timesync"
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
		link.ErrFuture:    "future",
		link.ErrBefore:    "before",
		link.ErrOld:       "old",
		link.ErrUnsure:    "unsynchronized",
		link.ErrTruncated: "truncated",
		link.ErrPassed:    "passed",
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
		answer := p.javascript.call("event %d %x %d", p.now, bytes, 30_000_000)
		_, err := fmt.Sscan(answer, &at, &said)
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
		answer := javascript.call("jitter %g%s", share, told.String())
		words := bufio.NewScanner(strings.NewReader(answer))
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

// TestViews: a view has the same bytes in Go and in JavaScript. Both read the same from it, at
// another time and chained with another view.
func TestViews(t *testing.T) {
	p := newPair(t, 48_100_002)
	read := func(said string) (s timesync.Snapshot) {
		t.Helper()
		b, err := hex.DecodeString(said)
		testkit.Must(t, errors.Join(err, s.UnmarshalBinary(b)))
		return s
	}
	same := func(what string, got, want timesync.Snapshot, tolerance time.Duration) {
		t.Helper()
		near := func(got, want, tolerance time.Duration) time.Duration {
			t.Helper()
			if off := got - want; off.Abs() > tolerance {
				t.Errorf("%s: %v, Go says %v", what, got, want)
			}
			return want
		}
		near(time.Duration(got.RemoteUsec-want.RemoteUsec)*time.Microsecond, 0, tolerance)
		got.RemoteUsec, got.OffsetUsec = want.RemoteUsec, want.OffsetUsec
		got.ErrorBound = near(got.ErrorBound, want.ErrorBound, tolerance)
		got.MinimumOneWayDelay = near(got.MinimumOneWayDelay, want.MinimumOneWayDelay, tolerance)
		got.MinimumDelayToPeer = near(got.MinimumDelayToPeer, want.MinimumDelayToPeer, tolerance)
		got.Jitter = near(got.Jitter, want.Jitter, 10*tolerance)
		got.FloorScatter = near(got.FloorScatter, want.FloorScatter, 10*tolerance)
		got.Age = near(got.Age, want.Age, 2*time.Millisecond) // of which it is a whole number
		got.SinceStep = near(got.SinceStep, want.SinceStep, 2*time.Millisecond)
		if math.Abs(got.Skew-want.Skew) > 0.1 || math.Abs(got.SkewError-want.SkewError) > 0.2 {
			t.Errorf("%s: skew %v+-%v, Go says %v+-%v",
				what, got.Skew, got.SkewError, want.Skew, want.SkewError)
		}
		got.Skew, got.SkewError = want.Skew, want.SkewError
		if got != want { // flags, counts
			t.Errorf("%s: %+v, Go says %+v", what, got, want)
		}
	}
	mine, _ := p.golang.link.Snapshot(p.now)
	same("view", read(p.javascript.call("view %d", p.now)), mine, 5*time.Microsecond)

	rng := rand.New(rand.NewPCG(3, 4))
	drawn := func() (s timesync.Snapshot) { // as it travels
		remote := rng.Uint64()
		s = timesync.Snapshot{
			RemoteUsec:         remote,
			OffsetUsec:         rng.Int64N(1 << 50),
			ErrorBound:         time.Duration(1+rng.Int64N(1e6)) * time.Microsecond,
			MinimumOneWayDelay: time.Duration(rng.Int64N(1e6)) * time.Microsecond,
			MinimumDelayToPeer: time.Duration(rng.Int64N(1e6)) * time.Microsecond,
			Jitter:             time.Duration(rng.Int64N(1e5)) * time.Microsecond,
			FloorScatter:       time.Duration(rng.Int64N(1e5)) * time.Microsecond,
			Age:                time.Duration(rng.Int64N(30_000)) * time.Millisecond,
			SilentAfter:        time.Duration(15_000+rng.Int64N(60_000)) * time.Millisecond,
			SinceStep:          time.Duration(rng.Int64N(100_000)) * time.Millisecond,
			Skew:               rng.NormFloat64() * 100,
			SkewError:          rng.Float64() * 50,
			Steps:              rng.Uint32(),
			StepSeen:           rng.IntN(2) == 0,
			Unchecked:          rng.IntN(4) == 0,
			Ambiguous:          rng.IntN(4) == 0,
			Hops:               uint8(rng.IntN(5)),
		}
		b, _ := s.AppendBinary(nil)
		return read(hex.EncodeToString(b))
	}
	bytes := func(s timesync.Snapshot) []byte {
		b, _ := s.AppendBinary(nil)
		return b
	}
	for range 200 {
		one, next := drawn(), drawn()
		local := next.RemoteUsec - uint64(next.OffsetUsec)
		next.OffsetUsec += int64(one.RemoteUsec - local) // both know the second clock
		next.RemoteUsec = one.RemoteUsec + uint64(next.OffsetUsec) + uint64(rng.Int64N(1e6))
		local = one.RemoteUsec - uint64(one.OffsetUsec) + uint64(rng.Int64N(1e9)) - 5e8
		at := read(p.javascript.call("at %x %d", bytes(one), local))
		same("at", at, read(hex.EncodeToString(bytes(one.At(local)))), 2*time.Microsecond)
		then := read(p.javascript.call("then %x %x", bytes(one), bytes(next)))
		same("then", then, read(hex.EncodeToString(bytes(one.Then(next)))), 3*time.Microsecond)
	}
	p.javascript.tell("new")
	same("nothing", read(p.javascript.call("view %d", p.now)), timesync.Snapshot{}, 0)
}
