// SPDX-License-Identifier: BSD-3-Clause

// These tests prove which bound an event and a delay have, that a time on the peer's own clock is
// judged as one on ours is, and how long ago a peer was heard.
package link_test

import (
	"encoding/binary"
	"errors"
	"flag"
	"math"
	"testing"
	"time"

	"timesync"
	"timesync/internal/stat"
	"timesync/link"
)

var eventWorlds = flag.Int("event.worlds", 4, "worlds for each row of TestEventBound")

// TestEventBound: events that ReadEvent reads, and delays that Open returns, are off by at most our own
// ErrorBound; what AcceptEvent reads is off by at most the peer's. The two are about equal.
func TestEventBound(t *testing.T) {
	const captured, settled = 40 * time.Millisecond, 2 * time.Second
	for _, rate := range []float64{50, 4} {
		var errs [3][]float64 // of ReadEvent, AcceptEvent and Open, us
		var ratio []float64   // of the peer's bound to ours
		refused := 0
		for seed := range uint64(*eventWorlds) {
			w := newWire(seed, [2]float64{50, rate}, 5*time.Millisecond, 0, 0, 0)
			w.sent = func(side int, local uint64, header []byte) []byte {
				at := w.now - captured
				then := w.clocks[side].Usec(at)
				header = link.AppendEvent(header, then)
				ts, ok := w.links[side].ToRemoteTime23(then)
				header = link.AppendTime23(header, ts, ok)
				header = binary.LittleEndian.AppendUint64(header, uint64(w.now))
				bound, _ := w.links[side].ErrorBound(local)
				return binary.LittleEndian.AppendUint64(header, uint64(bound))
			}
			w.opened = func(side int, local uint64, payload []byte, owd time.Duration, known bool) {
				at := time.Duration(binary.LittleEndian.Uint64(payload[6:])) // true time of sending
				theirs := time.Duration(binary.LittleEndian.Uint64(payload[14:]))
				bound, _ := w.links[side].ErrorBound(local)
				truth := w.clocks[side].Usec(at - captured)
				check := func(kind int, err float64, bound time.Duration) {
					errs[kind] = append(errs[kind], err)
					if err > float64(bound.Microseconds())+10 { // 8 us are the unit of a stamp
						t.Errorf("rate %g, seed %d, at %v: kind %d is off by %.0f us, bound %v", rate, seed, w.now, kind, err, bound)
					}
				}
				off := func(got uint64) float64 { return math.Abs(float64(int64(got - truth))) }
				if got, err := w.links[side].ReadEvent(local, payload, time.Second); err == nil {
					check(0, off(got), bound)
				} else if refused++; w.now > settled {
					t.Errorf("rate %g, seed %d, at %v: %v", rate, seed, w.now, err)
				}
				if ts, ok := link.ReadTime23(payload[3:]); ok && w.now > settled {
					got, err := w.links[side].AcceptEvent(local, ts, time.Second)
					if check(1, off(got), theirs); err != nil {
						t.Errorf("rate %g, seed %d, at %v: a stamp: %v", rate, seed, w.now, err)
					}
					ratio = append(ratio, float64(theirs)/float64(bound))
				}
				if known {
					check(2, math.Abs(float64((owd - (w.now - at)).Microseconds())), bound)
				}
			}
			w.run(time.Minute)
		}
		if len(errs[0]) < 2000**eventWorlds || len(errs[1]) < 2000**eventWorlds {
			t.Errorf("rate %g: %d and %d events", rate, len(errs[0]), len(errs[1]))
		}
		t.Logf("50 and %g datagrams a second: off by p99 %.0f us (ReadEvent), %.0f us (AcceptEvent), %.0f us (Open); the peer's bound is %.3f to %.3f of ours (p1 and p99); %d events refused in the first %v",
			rate, stat.Quantile(errs[0], 0.99), stat.Quantile(errs[1], 0.99), stat.Quantile(errs[2], 0.99), stat.Quantile(ratio, 0.01), stat.Quantile(ratio, 0.99), refused, settled)
	}
}

// TestReadEvent: what cannot be true is refused as by AcceptEvent, wherever the clocks start.
func TestReadEvent(t *testing.T) {
	const delay, oldest = 20 * time.Millisecond, 5 * time.Second
	for _, ahead := range []uint64{0, 1e9, 1 << 63, 1<<64 - 5e6} { // of our clock
		var peer, l link.Link
		if _, err := l.ReadEvent(1e9, link.AppendEvent(nil, 1e9), oldest); !errors.Is(err, link.ErrUnsure) || !errors.Is(err, timesync.ErrUnsynchronized) {
			t.Errorf("before anything is known: %v", err)
		}
		now := talk(&peer, &l, 1<<40, ahead, delay, 8*time.Second)
		for _, c := range []struct {
			ago  time.Duration
			want error
		}{
			{0, nil}, {time.Second, nil}, {-15 * time.Millisecond, nil}, {-25 * time.Millisecond, link.ErrFuture}, {-16 * time.Second, link.ErrFuture},
			{oldest, nil}, {oldest + time.Millisecond, link.ErrOld}, {9 * time.Second, link.ErrBefore},
		} {
			at := now - uint64(c.ago.Microseconds())
			got, err := l.ReadEvent(now+ahead, link.AppendEvent(nil, at), oldest)
			if d := int64(got - ahead - at); err != c.want || d < -100 || d > 100 {
				t.Errorf("ahead by %d, %v ago: %d us wrong, %v, want %v", ahead, c.ago, d, err, c.want)
			}
		}
		if _, err := l.ReadEvent(now, []byte{1, 2}, oldest); err != link.ErrTruncated {
			t.Errorf("two bytes: %v", err)
		}
		now = talk(&peer, &l, now, ahead+300e3, delay, 5*time.Second)
		if _, err := l.ReadEvent(now+ahead+300e3, link.AppendEvent(nil, now), oldest); err != link.ErrBefore {
			t.Errorf("5 s after a clock was set: %v", err)
		}
	}
}

// TestHeard: since the last datagram, and never a negative time.
func TestHeard(t *testing.T) {
	var a, b link.Link
	if ago, ok := a.Heard(1e9); ago != 0 || ok {
		t.Errorf("before the first datagram: %v, %v", ago, ok)
	}
	for _, at := range []uint64{1 << 40, 1<<64 - 1000} {
		a.Open(b.AppendHeader(nil, 5), at)
		for after, want := range map[int64]time.Duration{0: 0, 1: time.Microsecond, 3e6: 3 * time.Second, -20: 0, -5e6: 0} {
			if ago, ok := a.Heard(at + uint64(after)); ago != want || !ok {
				t.Errorf("%d us after a datagram: %v, %v", after, ago, ok)
			}
		}
		if a.Open([]byte{0xff, 1, 2, 3}, at+9); true {
			if ago, _ := a.Heard(at + 9); ago != 9*time.Microsecond {
				t.Errorf("what is refused is heard: %v ago", ago)
			}
		}
	}
	a.Reset()
	if _, ok := a.Heard(1 << 40); ok {
		t.Error("heard before the Reset")
	}
}
