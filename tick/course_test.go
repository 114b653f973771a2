// A clock reads as its pieces say.

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
		{"before its start", Pace{0, ms(5), 10_000}, before(1_000_000), -sec},
		{"before its start, with skew", Pace{SkewPPB: 100_000}, before(1_000_000), -ms(1000) - 100*us},
		{"at rest", Pace{}, 1_000_000, sec},
		{"with skew", Pace{SkewPPB: 100_000}, 1_000_000, ms(1000) + 100*us},
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
		check(t, p.read(at+tt.after)-time.Hour, tt.want, "%s", tt.name)
		p.still = true
		check(t, p.read(at+tt.after), time.Hour, "%s: in a pause", tt.name)
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
