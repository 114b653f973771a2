// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that both ends of a proposed instant mean the same time, and that an
// instant that would be misread or missed is refused.
package link_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"timesync"
	"timesync/link"
)

// talk lets two ends exchange 60 datagrams a second each way for so long, from the local time
// now on; the peer's clock is ahead by offset. It returns when it ended.
func talk(a, b *link.Link, now, offset uint64, delay, lasting time.Duration) uint64 {
	way := uint64(delay.Microseconds())
	for end := now + uint64(lasting.Microseconds()); int64(end-now) > 0; now += 16667 {
		b.Open(a.AppendHeader(nil, now), now+way+offset)
		a.Open(b.AppendHeader(nil, now+offset), now+way)
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
				if d := int64(got - offset - at); d < -100 || d > 100 || err != nil && ahead > time.Millisecond {
					t.Errorf("offset %d, start %d, %v ahead: %d us wrong, %v", offset, start, ahead, d, err)
				}
			}
		}
	}
}

func TestInstantRefused(t *testing.T) {
	var a, b link.Link
	const within = 50 * time.Millisecond
	if _, err := a.ProposeInstant(0, 1, within); !errors.Is(err, link.ErrUnsure) || !errors.Is(err, timesync.ErrUnsynchronized) {
		t.Errorf("before anything is known: %v", err)
	}
	now := talk(&a, &b, 1<<40, 1e9, 20*time.Millisecond, 8*time.Second)
	for _, at := range []uint64{now - 1, now - 1e9, now + 16e6 + 1, now + 1<<40, now + 1<<63, now - 1<<63} {
		if _, err := a.ProposeInstant(now, at, within); !errors.Is(err, link.ErrAhead) {
			t.Errorf("%d us ahead: %v", int64(at-now), err)
		}
	}
	if _, err := a.ProposeInstant(now, now+1e6, 19*time.Millisecond); !errors.Is(err, link.ErrUnsure) || !errors.Is(err, timesync.ErrWide) {
		t.Errorf("a path of 20 ms each way, wanted within 19 ms: %v", err)
	}
	now = talk(&a, &b, now, 1e9+50e3, 20*time.Millisecond, 5*time.Second) // the peer's clock is set
	if _, err := a.ProposeInstant(now, now+1e6, within); !errors.Is(err, link.ErrUnsure) || !errors.Is(err, timesync.ErrDisturbed) {
		t.Errorf("5 s after a clock was set: %v", err)
	}
	now = talk(&a, &b, now, 1e9+50e3, 20*time.Millisecond, 15*time.Second)
	if _, err := a.ProposeInstant(now, now+1e6, within); err != nil {
		t.Errorf("20 s after a clock was set: %v", err)
	}
	if _, err := a.ProposeInstant(now+20e6, now+21e6, time.Hour); !errors.Is(err, link.ErrUnsure) || !errors.Is(err, timesync.ErrSilent) {
		t.Errorf("after a silence of 20 s: %v", err)
	}
	if at, err := link.AcceptInstant(1e9, timesync.NewCounter23((1e9-8000)>>3)); !errors.Is(err, link.ErrPassed) || at != 1e9-8000 {
		t.Errorf("an instant of 8 ms ago: %d, %v", at, err)
	}
}

// TestTime23: the free bit of a TS23 is what was put there, and no other reader sees it.
func TestTime23(t *testing.T) {
	for _, ts := range []timesync.Counter23{0, 1, 0x7fffff, 0x400000, 0xffffffff} {
		for _, flag := range []bool{false, true} {
			b := link.AppendTime23([]byte{9}, ts, flag)
			got, gotFlag := link.ReadTime23(b[1:])
			if len(b) != 4 || b[0] != 9 || got != timesync.NewCounter23(uint64(ts)) || gotFlag != flag || timesync.ReadCounter23(b[1:]) != got {
				t.Errorf("%#x, %v: %x, read as %#x, %v", uint32(ts), flag, b, uint32(got), gotFlag)
			}
		}
	}
	var l link.Link
	ts, ok := l.ToRemoteTime23(5)
	if b := link.AppendTime23(nil, ts, ok); !bytes.Equal(b, []byte{0, 0, 0}) {
		t.Errorf("while nothing is known: %x", b)
	}
}

// TestEvent: times that cannot be true are told apart, and all others are right.
func TestEvent(t *testing.T) {
	const delay, offset, oldest = 20 * time.Millisecond, uint64(1e9), 5 * time.Second
	accept := func(l *link.Link, now, at uint64) (time.Duration, error) {
		got, err := l.AcceptEvent(now, timesync.NewCounter23((at+4)>>3), oldest)
		if d := int64(got - at); d < -8 || d > 8 {
			t.Errorf("an event at %d: %d us wrong, %v", int64(at-now), d, err)
		}
		return time.Duration(now-got) * time.Microsecond, err
	}
	var a, b link.Link
	if _, err := accept(&a, 1e9, 1e9-5e3); !errors.Is(err, link.ErrUnsure) || !errors.Is(err, timesync.ErrUnsynchronized) {
		t.Errorf("before anything is known: %v", err)
	}
	// a speaks, b has come 8 s ago; its clock reads what a's does, and offset.
	now := talk(&a, &b, 1<<40, offset, delay, 8*time.Second) + offset
	check := func(when string, ago time.Duration, want error) {
		t.Helper()
		if age, err := accept(&b, now, now-uint64(ago.Microseconds())); !errors.Is(err, want) || err == nil != (want == nil) {
			t.Errorf("%s, %v ago (read as %v): %v, want %v", when, ago, age, err, want)
		}
	}
	check("young", 0, nil)
	check("young", -15*time.Millisecond, nil) // as far as the error bound goes
	check("young", -25*time.Millisecond, link.ErrFuture)
	check("young", -16*time.Second, link.ErrFuture)
	check("young", oldest, nil)
	check("young", oldest+time.Millisecond, link.ErrOld)
	check("young", 9*time.Second, link.ErrBefore) // nobody was there
	now = talk(&a, &b, now-offset, offset, delay, 20*time.Second) + offset
	check("old enough", 9*time.Second, link.ErrOld)
	now = talk(&a, &b, now-offset, offset+300e3, delay, 5*time.Second) + offset + 300e3
	check("5 s after a clock was set", time.Second, link.ErrBefore)
	now = talk(&a, &b, now-offset-300e3, offset+300e3, delay, 15*time.Second) + offset + 300e3
	check("20 s after it", time.Second, nil)
	check("20 s after it", -time.Second, link.ErrFuture)

	// b starts anew with another clock. What a stamped for the one before means something else now.
	for ahead, want := range map[int64]error{40e6: link.ErrBefore, 2e6: link.ErrBefore, -10e6: link.ErrFuture, -1e6: link.ErrFuture} {
		var anew link.Link
		before := offset + 300e3
		after := before + uint64(ahead)
		here := talk(&a, &anew, now-before, after, delay, time.Second)
		if got, err := anew.AcceptEvent(here+after, timesync.NewCounter23((here+before-100e3)>>3), time.Minute); !errors.Is(err, want) {
			t.Errorf("stamped for a clock %d us behind: read as %d us ago, %v, want %v", ahead, here+after-got, err, want)
		}
	}
}
