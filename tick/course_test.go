// A clock reads as its pieces say, and never goes back.

package tick

import (
	"math"
	"testing"
	"time"
)

func TestPieceRead(t *testing.T) {
	const at = math.MaxUint64 - 5 // the local clock wraps
	before := func(usec int64) uint64 { return uint64(-usec) }
	for _, tt := range []struct {
		name  string
		pace  Pace
		after uint64 // microseconds
		want  time.Duration
	}{
		{"at its start", Pace{0, ms(5), 10_000}, 0, 0},
		{"before its start", Pace{0, ms(5), 10_000}, before(1_000_000), -time.Second},
		{"before its start, with skew", Pace{SkewPPB: 100_000}, before(1_000_000), -ms(1000) - 100*time.Microsecond},
		{"at rest", Pace{}, 1_000_000, time.Second},
		{"with skew", Pace{SkewPPB: 100_000}, 1_000_000, ms(1000) + 100*time.Microsecond},
		{"slewed forward", Pace{0, ms(50), 10_000}, 1_000_000, ms(1010)},
		{"slewed backward", Pace{0, -ms(50), 10_000}, 1_000_000, ms(990)},
		{"slew at its end", Pace{0, ms(5), 10_000}, 1_000_000, ms(1005)},
		{"standing still", Pace{0, -time.Hour, 1_000_000}, 1_000_000, 0},
		{"standing still, slower", Pace{-100_000, -time.Hour, 1_000_000}, 1_000_000, 0},
		{"standing still, then on", Pace{0, -ms(400), 1_000_000}, 1_000_000, ms(600)},
		{"73 years on", Pace{}, math.MaxInt64, maxAhead * 1000},
		{"73 years before", Pace{}, 1 << 63, -maxAhead * 1000},
	} {
		p := piece{from: at, base: time.Hour, pace: tt.pace}
		if got := p.read(at+tt.after) - time.Hour; got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
		p.still = true
		if got := p.read(at + tt.after); got != time.Hour {
			t.Errorf("%s: %v in a pause", tt.name, got)
		}
	}
	for _, end := range []time.Duration{2 * maxStart, -2 * maxStart} {
		p := piece{base: end, pace: Pace{SkewPPB: maxSkewPPB}}
		for _, d := range []uint64{1_000_000, maxAhead, before(1_000_000), before(maxAhead)} {
			if got := p.read(d); got.Abs() > 2*maxStart {
				t.Errorf("%v from the end: %v", d, got)
			}
		}
	}
}

// Against a reference that keeps all pieces ever: random inputs, each with a slew, a change of
// the rate, a pause or a set. No reading goes back with increasing time, and what is
// read from 20 ms before the last input to 20 ms after it is what the reference reads,
// then and after the next input.
func TestCourse(t *testing.T) {
	rng := newRand(t)
	for range 3000 {
		now := rng.Uint64()
		c := course{{from: now, base: time.Duration(rng.Int64() >> 3)}}
		all := []piece{c.last()} // the reference
		read := func(at uint64) time.Duration {
			i := len(all) - 1
			for i > 0 && int64(at-all[i].from) < 0 {
				i--
			}
			return all[i].read(at)
		}
		paused := false
		for range 20 {
			before, earlier := c, now
			now += rng.Uint64N(1 << (1 + rng.IntN(20)))
			ppb, s := rng.Int64N(2*maxSkewPPB)-maxSkewPPB, Pace{Slew: time.Duration(rng.Int64N(1<<31) - 1<<30), SlewPPM: rng.Int64N(1_000_001)}
			switch {
			case rng.IntN(20) == 0:
				c.set(piece{from: now, base: c.read(now) + ms(rng.IntN(1000)), pace: Pace{SkewPPB: ppb}})
				for len(all) > 0 && int64(all[len(all)-1].from-now) >= 0 {
					all = all[:len(all)-1]
				}
				all = append(all, c.last())
				continue
			case rng.IntN(4) == 0:
				paused = !paused
				c.turn(piece{from: now + readerMargin, pace: Pace{SkewPPB: ppb}, still: paused})
			case !paused:
				s.SkewPPB = ppb
				c.change(now, s)
			}
			if c.last() != before.last() {
				all = append(all, c.last())
			}
			if len(c) > 25 {
				t.Fatalf("%d pieces", len(c))
			}
			for _, at := range []uint64{earlier - readerMargin, earlier, earlier + readerMargin} {
				if before.read(at) != read(at) {
					t.Fatalf("%d us after the input: %v, by the reference %v", int64(at-earlier), before.read(at), read(at))
				}
			}
			at := now - 2*readerMargin
			for last := c.read(at); at != now+10*readerMargin; at += readerMargin / 4 {
				if got := c.read(at); got < last {
					t.Fatalf("%+v goes back by %v, %d us after the input", c, last-got, int64(at-now))
				} else {
					last = got
				}
				if d := int64(at - now); -readerMargin <= d && c.read(at) != read(at) {
					t.Fatalf("%d us after the input: %v, by the reference %v", d, c.read(at), read(at))
				}
			}
		}
	}
}
