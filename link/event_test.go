// These tests prove that both ends of a proposed instant mean the same time, which bound an event
// and a delay have, that what cannot be true, or would be misread or missed, is refused, and how
// long ago a peer was heard.
package link_test

import (
	"encoding/binary"
	"errors"
	"flag"
	"math"
	"testing"
	"time"

	"timesync"
	"timesync/internal/testkit"
	"timesync/link"
)

// talk lets two ends exchange 60 datagrams a second each way for so long, from the local time
// now on; the peer's clock is ahead by offset. It returns when it ended.
func talk(a, b *link.Link, now, offset uint64, delay, lasting time.Duration) uint64 {
	way := uint64(delay.Microseconds())
	for end := now + uint64(lasting.Microseconds()); int64(end-now) > 0; now += 16667 {
		b.ReadHeader(a.AppendHeader(nil, now), now+way+offset)
		a.ReadHeader(b.AppendHeader(nil, now+offset), now+way)
	}
	return now
}

func TestInstant(t *testing.T) {
	for _, offset := range []uint64{0, 123_456_789, 1 << 63, 1<<64 - 5} {
		for _, start := range []uint64{0, 1 << 40, 1<<64 - 8e6} {
			var a, b link.Link
			now := talk(&a, &b, start, offset, 20*time.Millisecond, 8*time.Second)
			for _, ahead := range []time.Duration{0, time.Microsecond, time.Second, link.MaxAhead} {
				at := now + uint64(ahead.Microseconds())
				instant, err := a.ProposeInstant(now, at, 50*time.Millisecond)
				if err != nil {
					t.Fatalf("offset %d, start %d, %v ahead: %v", offset, start, ahead, err)
				}
				got, err := link.AcceptInstant(now+offset-100, instant)
				wrong := int64(got - offset - at)
				refused := err != nil && ahead > time.Millisecond
				if wrong < -100 || wrong > 100 || refused {
					t.Errorf("offset %d, start %d, %v ahead: %d us wrong, %v",
						offset, start, ahead, wrong, err)
				}
			}
		}
	}
}

func TestInstantRefused(t *testing.T) {
	var a, b link.Link
	const within = 50 * time.Millisecond
	propose := func(when string, now, at uint64, within time.Duration, want ...error) {
		t.Helper()
		_, err := a.ProposeInstant(now, at, within)
		for _, w := range want {
			if !errors.Is(err, w) {
				t.Errorf("%s, %d us ahead: %v, want %v", when, int64(at-now), err, w)
			}
		}
	}
	propose("before anything is known", 0, 1, within, link.ErrUnsure, timesync.ErrUnsynchronized)
	now := talk(&a, &b, 1<<40, 1e9, 20*time.Millisecond, 8*time.Second)
	outside := []uint64{
		now - 1,
		now - 1e9,
		now + 16e6 + 1,
		now + 1<<40,
		now + 1<<63,
		now - 1<<63,
	}
	for _, at := range outside {
		propose("past, or too far ahead", now, at, within, link.ErrAhead)
	}
	propose("20 ms each way", now, now+1e6, 19*time.Millisecond, link.ErrUnsure, timesync.ErrWide)
	now = talk(&a, &b, now, 1e9+50e3, 20*time.Millisecond, 5*time.Second) // the peer's clock is set
	propose("5 s after a clock was set", now, now+1e6, within, link.ErrUnsure, timesync.ErrStepped)
	now = talk(&a, &b, now, 1e9+50e3, 20*time.Millisecond, 15*time.Second)
	propose("20 s after a clock was set", now, now+1e6, within, nil)
	now += 20e6
	propose("after a silence of 20 s", now, now+1e6, time.Hour, link.ErrUnsure, timesync.ErrSilent)

	const ago = 1e9 - 8000
	at, err := link.AcceptInstant(1e9, timesync.NewCounter23(ago>>3))
	if !errors.Is(err, link.ErrPassed) || at != ago {
		t.Errorf("an instant of 8 ms ago: %d, %v", at, err)
	}
}

var eventWorlds = flag.Int("event.worlds", 4, "worlds for each row of TestEventBound")

// TestEventBound: events that ReadEvent reads, and delays that ReadHeader returns, are
// off by at most our own ErrorBound; what AcceptEvent reads is off by at most the peer's.
// The two are about equal.
func TestEventBound(t *testing.T) {
	const captured, settled = 40 * time.Millisecond, 2 * time.Second
	for _, rate := range []float64{50, 4} {
		var errs [3][]float64 // of ReadEvent, AcceptEvent and ReadHeader, us
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
			w.opened = func(
				side int, local uint64, _, payload []byte, owd time.Duration, known bool,
			) {
				at := time.Duration(binary.LittleEndian.Uint64(payload[6:])) // true time of sending
				theirs := time.Duration(binary.LittleEndian.Uint64(payload[14:]))
				bound, _ := w.links[side].ErrorBound(local)
				truth := w.clocks[side].Usec(at - captured)
				check := func(kind int, err float64, bound time.Duration) {
					errs[kind] = append(errs[kind], err)
					if err > float64(bound.Microseconds())+10 { // 8 us are the unit of a stamp
						t.Errorf("rate %g, seed %d, at %v: kind %d is off by %.0f us, bound %v",
							rate, seed, w.now, kind, err, bound)
					}
				}
				off := func(got uint64) float64 {
					return math.Abs(float64(int64(got - truth)))
				}
				got, err := w.links[side].ReadEvent(local, payload, time.Second)
				if err == nil {
					check(0, off(got), bound)
				} else {
					refused++
					if w.now > settled {
						t.Errorf("rate %g, seed %d, at %v: %v", rate, seed, w.now, err)
					}
				}
				if ts, ok := link.ReadTime23(payload[3:]); ok && w.now > settled {
					got, err := w.links[side].AcceptEvent(local, ts, time.Second)
					check(1, off(got), theirs)
					if err != nil {
						t.Errorf("rate %g, seed %d, at %v: a stamp: %v", rate, seed, w.now, err)
					}
					ratio = append(ratio, float64(theirs)/float64(bound))
				}
				if known {
					lasted := w.now - at
					check(2, math.Abs(float64((owd - lasted).Microseconds())), bound)
				}
			}
			w.run(time.Minute)
		}
		if len(errs[0]) < 2000**eventWorlds || len(errs[1]) < 2000**eventWorlds {
			t.Errorf("rate %g: %d and %d events", rate, len(errs[0]), len(errs[1]))
		}
		t.Logf("50 and %g datagrams a second: off by p99 "+
			"%.0f us (ReadEvent), %.0f us (AcceptEvent), %.0f us (ReadHeader)",
			rate, p99(errs[0]), p99(errs[1]), p99(errs[2]))
		t.Logf("the peer's bound is %.3f to %.3f of ours (p1 and p99); "+
			"%d events refused in the first %v",
			testkit.Quantile(ratio, 0.01), p99(ratio), refused, settled)
	}
}

// TestEvent: times that cannot be true are told apart, whether they come as AppendEvent or as a
// stamp of ToRemoteTime23, and wherever the clocks start. All others are right.
func TestEvent(t *testing.T) {
	const delay, oldest = 20 * time.Millisecond, 5 * time.Second
	for _, ahead := range []uint64{0, 1e9, 1 << 63, 1<<64 - 5e6} { // of our clock
		var peer, l link.Link
		now := uint64(1 << 40) // the peer's clock
		check := func(when string, ago time.Duration, want error) {
			t.Helper()
			at := now - uint64(ago.Microseconds())
			read, err := l.ReadEvent(now+ahead, link.AppendEvent(nil, at), oldest)
			wrong := int64(read - ahead - at)
			hasTime := !errors.Is(err, link.ErrUnsure)
			if !errors.Is(err, want) || hasTime && (wrong < -100 || wrong > 100) {
				t.Errorf("ahead by %d, %s, %v ago: read %d us wrong, %v, want %v",
					ahead, when, ago, wrong, err, want)
			}

			stamp := timesync.NewCounter23((at + ahead + 4) >> 3)
			accepted, err := l.AcceptEvent(now+ahead, stamp, oldest)
			wrong = int64(accepted - ahead - at)
			if !errors.Is(err, want) || wrong < -8 || wrong > 8 {
				t.Errorf("ahead by %d, %s, %v ago: accepted %d us wrong, %v, want %v",
					ahead, when, ago, wrong, err, want)
			}
		}
		check("before anything is known", 5*time.Millisecond, link.ErrUnsure)
		check("before anything is known", 5*time.Millisecond, timesync.ErrUnsynchronized)
		now = talk(&peer, &l, now, ahead, delay, 8*time.Second)
		check("young", 0, nil)
		check("young", time.Second, nil)
		check("young", -15*time.Millisecond, nil) // as far as the error bound goes
		check("young", -25*time.Millisecond, link.ErrFuture)
		check("young", -16*time.Second, link.ErrFuture)
		check("young", oldest, nil)
		check("young", oldest+time.Millisecond, link.ErrOld)
		check("young", 9*time.Second, link.ErrBefore) // nobody was there
		if _, err := l.ReadEvent(now, []byte{1, 2}, oldest); err != link.ErrTruncated {
			t.Errorf("two bytes: %v", err)
		}
		now = talk(&peer, &l, now, ahead, delay, 20*time.Second)
		check("old enough", 9*time.Second, link.ErrOld)
		ahead += 300e3
		now = talk(&peer, &l, now, ahead, delay, 5*time.Second)
		check("5 s after a clock was set", 0, link.ErrBefore)
		check("5 s after a clock was set", time.Second, link.ErrBefore)
		now = talk(&peer, &l, now, ahead, delay, 15*time.Second)
		check("20 s after it", time.Second, nil)
		check("20 s after it", -time.Second, link.ErrFuture)
	}
}

// TestHeard: since the last datagram, and never a negative time.
func TestHeard(t *testing.T) {
	var a, b link.Link
	if ago, ok := a.SinceHeard(1e9); ago != 0 || ok {
		t.Errorf("before the first datagram: %v, %v", ago, ok)
	}
	answers := map[int64]time.Duration{ // us since the datagram, and what is said
		0:             0,
		1:             time.Microsecond,
		3e6:           3 * time.Second,
		-20:           0,
		-5e6:          0,
		math.MaxInt64: math.MaxInt64 / 1000 * 1000,
	}
	for _, at := range []uint64{1 << 40, 1<<64 - 1000} {
		a.ReadHeader(b.AppendHeader(nil, 5), at)
		for after, want := range answers {
			if ago, ok := a.SinceHeard(at + uint64(after)); ago != want || !ok {
				t.Errorf("%d us after a datagram: %v, %v", after, ago, ok)
			}
		}
		a.ReadHeader([]byte{0xff, 1, 2, 3}, at+9)
		if ago, _ := a.SinceHeard(at + 9); ago != 9*time.Microsecond {
			t.Errorf("what is refused is heard: %v ago", ago)
		}
	}
	a.Reset()
	if _, ok := a.SinceHeard(1 << 40); ok {
		t.Error("heard before the Reset")
	}
}
