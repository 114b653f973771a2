// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that both ends of a proposed instant mean the same time, and that an
// instant that would be misread or missed is refused.
package link_test

import (
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
	if _, err := a.ProposeInstant(0, 1, within); !errors.Is(err, link.ErrUnsure) {
		t.Errorf("before anything is known: %v", err)
	}
	now := talk(&a, &b, 1<<40, 1e9, 20*time.Millisecond, 8*time.Second)
	for _, at := range []uint64{now - 1, now - 1e9, now + 16e6 + 1, now + 1<<40, now + 1<<63, now - 1<<63} {
		if _, err := a.ProposeInstant(now, at, within); !errors.Is(err, link.ErrAhead) {
			t.Errorf("%d us ahead: %v", int64(at-now), err)
		}
	}
	if _, err := a.ProposeInstant(now, now+1e6, 19*time.Millisecond); !errors.Is(err, link.ErrUnsure) {
		t.Errorf("a path of 20 ms each way, wanted within 19 ms: %v", err)
	}
	now = talk(&a, &b, now, 1e9+50e3, 20*time.Millisecond, 5*time.Second) // the peer's clock is set
	if _, err := a.ProposeInstant(now, now+1e6, within); !errors.Is(err, link.ErrUnsure) {
		t.Errorf("5 s after a clock was set: %v", err)
	}
	now = talk(&a, &b, now, 1e9+50e3, 20*time.Millisecond, 15*time.Second)
	if _, err := a.ProposeInstant(now, now+1e6, within); err != nil {
		t.Errorf("20 s after a clock was set: %v", err)
	}
	if at, err := link.AcceptInstant(1e9, timesync.NewCounter23((1e9-8000)>>3)); !errors.Is(err, link.ErrPassed) || at != 1e9-8000 {
		t.Errorf("an instant of 8 ms ago: %d, %v", at, err)
	}
}
