// These tests prove that a clock that is steered, recorded or set by hand shows what was drawn,
// recorded or set.

package simnet

import (
	"compress/gzip"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestSteering: the corrections of 1,000 daemons have the sizes, lengths and gaps that they are
// drawn from, and a clock gains by each what it says.
func TestSteering(t *testing.T) {
	const until = 1500 * sec
	within := func(x, lo, hi float64) bool { return x >= lo && x <= hi }
	for name, s := range map[string]Steering{
		"steered": Steered, "often": SteeredOften, "at start": SteeredAtStart,
	} {
		odd, all := 0, 0
		for seed := range uint64(1000) {
			events := s.Events(rand.New(rand.NewPCG(seed, 0)), until)
			phase, end := 0.0, time.Duration(0)
			for i, e := range events {
				gap := (e.At - end).Seconds()
				lo, hi := s.Every[0].Seconds(), s.Every[1].Seconds()
				if i == 0 {
					lo, hi = s.First[0].Seconds(), s.First[1].Seconds()
				}
				if !within(gap, lo, hi) {
					t.Fatalf("%s, seed %d: a gap of %f s", name, seed, gap)
				}
				if !within(e.For.Seconds(), s.Lasting[0].Seconds(), s.Lasting[1].Seconds()) {
					t.Fatalf("%s, seed %d: a correction of %v", name, seed, e.For)
				}
				size := math.Abs(e.PPM)
				all++
				if !within(size, s.PPM[0], s.PPM[1]) {
					odd++
					if size != 1 && size != 500 {
						t.Fatalf("%s, seed %d: a correction of %f ppm", name, seed, e.PPM)
					}
				}
				phase += e.PPM * e.For.Seconds()
				end = e.At + e.For
			}
			c := NewClock(ClockSpec{Events: events}, 0)
			if got := c.Reading(end) - end.Seconds()*1e6; math.Abs(got-phase) > 1e-2 {
				t.Fatalf("%s, seed %d: gained %f us, want %f", name, seed, got, phase)
			}
		}
		if share := float64(odd) / float64(all); math.Abs(share-s.Odd) > 0.02 {
			t.Errorf("%s: %.3f of %d corrections are odd, want %.3f", name, share, all, s.Odd)
		}
	}
	if events := (Steering{}).Events(rand.New(rand.NewPCG(1, 0)), until); events != nil {
		t.Errorf("the zero value corrects: %v", events)
	}
}

// record writes a recorded clock.
func record(t *testing.T, path, rows string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	fmt.Fprint(z, "t_s,phase_us\n", rows)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestClockTrace(t *testing.T) {
	folder := t.TempDir()
	file := func(name string) string { return filepath.Join(folder, name+".csv.gz") }
	record(t, file("lab1-a"), "0.000,0.00\n1.000,2.00\n3.000,-6.00\n")
	record(t, file("lab1-b"), "0,0\n2,1\n")
	record(t, file("phone-x"), "0,0\n2,1\n")
	record(t, file("phone-y"), "0,0\n2,1\n")
	pairs, err := ReadClockPairs(folder)
	if err != nil || len(pairs) != 3 || pairs[0].B == nil || pairs[1].B != nil ||
		pairs[2].Name != "phone-y" {
		t.Fatalf("%+v, %v", pairs, err)
	}
	trace := pairs[0].A
	for at, want := range map[time.Duration]float64{
		-sec: 0, 0: 0, sec / 2: 1, sec: 2, 2 * sec: -2, 3 * sec: -6, 9 * sec: -6,
	} {
		if got := trace.Phase(at); math.Abs(got-want) > 1e-9 {
			t.Errorf("phase at %v: %f us, want %f", at, got, want)
		}
		if got := trace.From(sec / 2).Phase(at - sec/2); math.Abs(got-want) > 1e-9 {
			t.Errorf("phase at %v, from 0.5 s on: %f us, want %f", at, got, want)
		}
	}
	if trace.Duration() != 3*sec || trace.From(sec).Duration() != 2*sec {
		t.Errorf("durations %v, %v", trace.Duration(), trace.From(sec).Duration())
	}
	c := NewClock(ClockSpec{OffsetUsec: 7, SkewPPM: 10, Recorded: trace}, 0)
	if got := c.Usec(2 * sec); got != 2_000_000+7+20-2 {
		t.Errorf("a clock with it shows %d", got)
	}
	for name, rows := range map[string]string{
		"short": "0,0\n",
		"back":  "0,0\n2,0\n1,0\n",
		"words": "0,x\n",
	} {
		record(t, file(name), rows)
		if _, err := ReadClockTrace(file(name)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := ReadClockPairs(t.TempDir()); err == nil {
		t.Error("no error of an empty folder")
	}
}

// TestManualClock sets one beside a slow reference that adds up all that happened.
func TestManualClock(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 0))
	for world := range 1000 {
		start := r.Uint64()
		c := NewManualClock(start, 40)
		want, rate, now := 0.0, 40.0, time.Duration(0) // us ahead of true time
		for range 20 {
			lasts := time.Duration(r.Int64N(int64(time.Hour))).Truncate(time.Microsecond)
			now += lasts
			want += rate * lasts.Seconds()
			if r.IntN(2) == 0 {
				step := r.Int64N(1e9) - 5e8
				c.Step(now, step)
				want += float64(step)
			} else {
				rate = 1000*r.Float64() - 500
				c.SetRate(now, rate)
			}
			got := float64(int64(c.Usec(now) - start - uint64(now.Microseconds())))
			if math.Abs(got-want) > 1 {
				t.Fatalf("world %d: %f us ahead at %v, want %f", world, got, now, want)
			}
		}
		if math.Abs(c.PPM()-rate) > 1e-6 {
			t.Fatalf("world %d: %f ppm, want %f", world, c.PPM(), rate)
		}
	}
}

func TestProfile(t *testing.T) {
	p := Profile{{sec, 0}, {sec, 4}, {3 * sec, 2}}
	for at, want := range map[time.Duration]float64{
		0:       0,
		sec - 1: 0,
		sec:     4,
		2 * sec: 3,
		3 * sec: 2,
		9 * sec: 2,
	} {
		if got := p.Value(at); math.Abs(got-want) > 1e-6 {
			t.Errorf("at %v: %f, want %f", at, got, want)
		}
	}
	twice := []Profile{Factor(sec, sec, 3), Factor(0, 9*sec, 2)}
	for at, want := range map[time.Duration]time.Duration{0: 20, sec: 60, 2 * sec: 20, 9 * sec: 10} {
		if got := Scaled(Const(10), twice)(nil, at); got != want {
			t.Errorf("scaled at %v: %d, want %d", at, got, want)
		}
	}
	if got := Shifted(100, []Profile{Factor(sec, sec, -99)})(sec); got != 5 {
		t.Errorf("a path that is shifted by nearly all of it: %d", got)
	}
}
