// Ticks and times convert exactly, at any rate and to the ends of the integers.

package tick

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"
)

// exact is the reference: rational arithmetic of any size, written from the definition. It returns
// a*b/c rounded down, or up, within the integers.
func exact(a, b, c int64, up bool) int64 {
	v := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
	if up {
		v.Neg(v).Div(v, big.NewInt(c)).Neg(v)
	} else {
		v.Div(v, big.NewInt(c))
	}
	if most := big.NewInt(math.MaxInt64); v.CmpAbs(most) > 0 {
		return int64(v.Sign()) * math.MaxInt64
	}
	return v.Int64()
}

// number draws an integer of any size, or one that is special.
func number(rng *rand.Rand) int64 {
	ends := []int64{0, 1, -1, math.MaxInt64, math.MinInt64, math.MaxInt64 - 1, math.MinInt64 + 1,
		maxStart, -maxStart, billion, -billion}
	if rng.IntN(4) == 0 {
		return ends[rng.IntN(len(ends))]
	}
	return int64(rng.Uint64()) >> rng.IntN(64)
}

var rates = []Rate{{20, 1}, {24, 1}, {30, 1}, {50, 1}, {60, 1}, {64, 1}, {128, 1}, {144, 1},
	{60000, 1001}, {1, math.MaxUint32}, {billion, 1}}

// A tick starts at its start rounded up, and a time is in the tick that started last. So the way
// from a tick to its start and back is exact, a nanosecond before it is the tick before, and there
// is no drift.
func TestRateAgainstBig(t *testing.T) {
	rng := newRand(t)
	for range 100_000 {
		r := Rate{rng.Uint32() >> rng.IntN(32), rng.Uint32() >> rng.IntN(32)}
		if rng.IntN(4) == 0 || !r.valid() || r == (Rate{}) {
			r = rates[rng.IntN(len(rates))]
		}
		n := number(rng)
		num := int64(r.Num)
		second := int64(r.Den) * billion

		got := int64(r.Ticks(time.Duration(n)))
		want := exact(n, num, second, false)
		if got != want {
			t.Fatalf("%v: %d ns is tick %d, want %d", r, n, got, want)
		}

		got = int64(r.Duration(Tick(n)))
		want = exact(n, second, num, true)
		if got != want {
			t.Fatalf("%v: tick %d starts at %d ns, want %v", r, n, got, want)
		}
	}
}

func TestRateValid(t *testing.T) {
	for _, tt := range []struct {
		rate  Rate
		valid bool
		text  string
	}{
		{Rate{}, true, "60/s"},
		{Rate{60000, 1001}, true, "60000/1001/s"},
		{Rate{1, math.MaxUint32}, true, "1/4294967295/s"},
		{Hz(1_000_000_000), true, "1000000000/s"},
		{Hz(1_000_000_001), false, "1000000001/s"},
		{Rate{0, 1}, false, "0/s"},
		{Rate{60, 0}, false, "60/0/s"},
	} {
		check(t, tt.rate.valid(), tt.valid, "%v: valid", tt.rate)
		if !tt.valid && (tt.rate.Ticks(sec) != 60 || tt.rate.Duration(60) != sec) {
			t.Errorf("%v is not taken for 60 a second", tt.rate)
		}
		check(t, tt.rate.String(), tt.text, "%#v", tt.rate)
	}
	if !Hz(60).equal(Rate{}) || Hz(30).equal(Rate{}) || !Hz(60).equal(Rate{120, 2}) ||
		Hz(60).equal(Rate{60000, 1001}) {
		t.Error("equal compares something else than the rates")
	}
}

// Times add and subtract as their game times do, at any rate, and are cut off at the ends. There
// nothing fails, and two agree on which is earlier.
func TestTime(t *testing.T) {
	rng := newRand(t)
	for range 20_000 {
		r := rates[rng.IntN(len(rates)-2)]
		o := rates[rng.IntN(len(rates))]
		n := Tick(int64(rng.Uint64()) >> (30 + rng.IntN(34)))
		d := time.Duration(int64(rng.Uint64()) >> (3 + rng.IntN(61)))
		e := time.Duration(int64(rng.Uint64()) >> (3 + rng.IntN(61)))
		u := r.At(n, d)
		at := r.Duration(n) + d
		v := u.Add(e)
		w := o.At(0, at+e) // the same instant at another rate
		inTick := u.offset() >= 0 && u.offset() < u.length()
		if u.Duration() != at || u.Tick() != r.Ticks(at) || !inTick {
			t.Fatalf("%v: tick %d and %d ns made %d and %d ns", r, n, d, u.Tick(), u.offset())
		}
		if f := u.Fraction(); f < 0 || f >= 1 {
			t.Fatalf("%v: fraction %v", u, f)
		}
		if v.Sub(u) != e || u.Sub(v) != -e || w.Sub(v) != 0 {
			t.Fatalf("%v and %d ns is %v, at %v %v", u, e, v, w.rate, w)
		}
		u = o.At(Tick(number(rng)), time.Duration(number(rng)))
		v = r.At(Tick(number(rng)), time.Duration(number(rng)))
		if (u.Sub(v) > 0) != (v.Sub(u) < 0) || u.offset() < 0 || u.Fraction() >= 1 ||
			u.Add(d).String() == "" {
			t.Fatalf("%#v and %#v do not agree on which is earlier", u, v)
		}
	}
}

func newRand(t testing.TB) *rand.Rand {
	const seed = 20260915
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
