// Ticks and times convert exactly, at any rate and to the ends of the integers.

package tick

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"
)

// The reference: rational arithmetic of any size, written from the definition.

func refStart(r Rate, n Tick) *big.Int { // ceil(n*den*1e9/num), in nanoseconds
	down := product(int64(n), -int64(r.Den), billion)
	return down.Neg(down.Div(down, product(int64(r.Num))))
}

func refAt(r Rate, ns *big.Int) *big.Int { // floor(ns*num/(den*1e9))
	v := new(big.Int).Mul(ns, product(int64(r.Num)))
	return v.Div(v, product(int64(r.Den), billion))
}

func product(factors ...int64) *big.Int {
	v := big.NewInt(1)
	for _, f := range factors {
		v.Mul(v, big.NewInt(f))
	}
	return v
}

func bigNS(sec, nsec int64) *big.Int {
	v := product(sec, billion)
	return v.Add(v, big.NewInt(nsec))
}

func clampBig(v *big.Int) int64 {
	switch {
	case v.IsInt64():
		return v.Int64()
	case v.Sign() < 0:
		return math.MinInt64
	default:
		return math.MaxInt64
	}
}

var rates = []Rate{{20, 1}, {24, 1}, {30, 1}, {50, 1}, {60, 1}, {64, 1}, {128, 1}, {144, 1}, {60000, 1001}}

// A tick starts at its start rounded up, and a time is in the tick that started last. So the way from a
// tick to its start and back is exact, a nanosecond before it is the tick before, and there is no drift.
func TestRateAgainstBig(t *testing.T) {
	rng := newRand(t)
	ends := []int64{0, 1, -1, math.MaxInt64, math.MinInt64, math.MaxInt64 - 1, math.MinInt64 + 1, billion, -billion}
	number := func() int64 {
		if rng.IntN(4) == 0 {
			return ends[rng.IntN(len(ends))]
		}
		return int64(rng.Uint64()) >> rng.IntN(64)
	}
	for i := range 100_000 {
		r := Rate{rng.Uint32() >> rng.IntN(32), rng.Uint32() >> rng.IntN(32)}
		if rng.IntN(4) == 0 {
			r = rates[rng.IntN(len(rates))]
		}
		if !r.valid() || r == (Rate{}) {
			continue
		}
		sec, nsec, n := number(), number(), Tick(number())
		switch i % 2 { // as a time, as a tick
		case 0:
			carry, _ := floorDiv(nsec, billion)
			if sum := sec + carry; (sec > 0) == (carry > 0) && (sum > 0) != (sec > 0) {
				continue // the time itself is out of range
			}
			got, _ := r.split(sec, nsec)
			if want := clampBig(refAt(r, bigNS(sec, nsec))); int64(got) != want {
				t.Fatalf("%v: %d s %d ns is tick %d, want %d", r, sec, nsec, got, want)
			}
		default:
			want := refStart(r, n)
			wantSec := new(big.Int).Div(want, product(billion))
			gotSec, gotNsec := r.start(n)
			if gotSec != clampBig(wantSec) || wantSec.IsInt64() && bigNS(gotSec, gotNsec).Cmp(want) != 0 {
				t.Fatalf("%v: tick %d starts at %d s %d ns, want %v ns", r, n, gotSec, gotNsec, want)
			}
			if got := r.Duration(n); int64(got) != clampBig(want) {
				t.Fatalf("%v: tick %d starts at %d ns, want %v", r, n, got, want)
			}
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
		{Hz(128), true, "128/s"},
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
	if !Hz(60).equal(Rate{}) || Hz(30).equal(Rate{}) || !Hz(60).equal(Rate{120, 2}) || Hz(60).equal(Rate{60000, 1001}) {
		t.Error("equal compares something else than the rates")
	}
}

func TestTimeAgainstBig(t *testing.T) {
	rng := newRand(t)
	for range 20_000 {
		r := rates[rng.IntN(len(rates))]
		n := Tick(int64(rng.Uint64()) >> (20 + rng.IntN(44)))
		d := time.Duration(int64(rng.Uint64()) >> rng.IntN(64))
		u := r.At(n, d)
		want := new(big.Int).Add(refStart(r, n), big.NewInt(int64(d)))
		exact := func(u Time) *big.Int {
			return new(big.Int).Add(refStart(u.rate, u.Tick()), big.NewInt(u.offset))
		}
		if exact(u).Cmp(want) != 0 || u.offset < 0 || u.offset >= int64(u.length()) {
			t.Fatalf("%v: tick %d and %d ns made %d and %d ns", r, n, d, u.Tick(), u.offset)
		}
		if got := int64(u.Duration()); got != clampBig(want) {
			t.Fatalf("%v: time %d ns, want %v", u, got, want)
		}
		if f := u.Fraction(); f < 0 || f >= 1 {
			t.Fatalf("%v: fraction %v", u, f)
		}
		e := time.Duration(int64(rng.Uint64()) >> (2 + rng.IntN(62)))
		v := u.Add(e)
		if got := new(big.Int).Sub(exact(v), exact(u)); got.Cmp(big.NewInt(int64(e))) != 0 {
			t.Fatalf("%v plus %d ns is %v later", u, e, got)
		}
		if v.Sub(u) != e || u.Sub(v) != -e {
			t.Fatalf("%v minus %v is %v, want %v", v, u, v.Sub(u), e)
		}
		o := rates[rng.IntN(len(rates))] // the same instant at another rate
		sec, nsec := v.rate.start(v.tick)
		m, rest := o.split(sec, nsec+v.offset)
		w := Time{o, m, rest}
		if compare(w, v) != 0 || exact(w).Cmp(exact(v)) != 0 {
			t.Fatalf("%v at %v is %v: another instant", v, w.rate, w)
		}
		if got, want := compare(u, w), exact(u).Cmp(exact(w)); got != want {
			t.Fatalf("%v compares to %v as %d, want %d", u, w, got, want)
		}
	}
}

func TestTimeExtremes(t *testing.T) {
	for _, r := range append(rates, Rate{}, Rate{1, math.MaxUint32}, Hz(billion)) {
		for _, n := range []Tick{math.MinInt64, math.MinInt64 + 1, -1, 0, math.MaxInt64} {
			for _, d := range []time.Duration{math.MinInt64, -1, 0, 1, math.MaxInt64} {
				u := r.At(n, d)
				for _, v := range []Time{{}, r.At(0, 0), r.At(-n, d), u.Add(d), Hz(50).At(n, d)} {
					if compare(u, v) != -compare(v, u) {
						t.Fatalf("%v and %v do not agree on which is earlier", u, v)
					}
					if s := u.Sub(v); s > 0 && compare(u, v) < 0 || s < 0 && compare(u, v) > 0 {
						t.Fatalf("%v minus %v is %v", u, v, s)
					}
				}
				_, _, _ = u.String(), u.Duration(), u.length()
			}
		}
	}
}

// The sum of two Times is that of their ticks and of the offsets in them; of different rates there is
// none. A Time knows its rate.
func TestTimePlus(t *testing.T) {
	if sum, err := Hz(60).At(1, ms(10)).Plus(Rate{120, 2}.At(2, ms(10))); err != nil || sum != Hz(60).At(3, ms(20)) {
		t.Errorf("%v, %v", sum, err)
	}
	if sum, err := Hz(60).At(1, 0).Plus(Hz(50).At(1, 0)); err != ErrRate || sum != (Time{}) {
		t.Errorf("%v, %v", sum, err)
	}
	for n, m := range map[Tick]Tick{math.MaxInt64: 1, math.MinInt64: -1} {
		if sum, err := Hz(60).At(n, 0).Plus(Hz(60).At(m, 0)); err != nil || sum.Tick() != n {
			t.Errorf("%d and %d are %v, %v", n, m, sum, err)
		}
	}
	check(t, (Time{}).Rate(), Hz(60), "the rate of the zero Time")
}

func newRand(t testing.TB) *rand.Rand {
	const seed = 20260915
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
