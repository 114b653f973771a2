// This test proves that the estimator comes back to the truth from any state.

package simtest

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"timesync"
	"timesync/internal/sim"
)

var stabilizeWorlds, stabilizeWorld = worldFlags("stabilize", "TestSelfStabilizing", 60, 200, 800)

const (
	scrambleAt = 60 * sec  // when the state of an end is scrambled
	soonRight  = 60 * sec  // by then after it nearly all must be right,
	lateRight  = 240 * sec // by then hardly any may not,
	lastRight  = 400 * sec // and by then all must
)

// scalar is a number or a flag in the state of a synchronizer. Elements of an array
// share a name.
type scalar struct {
	name string
	v    reflect.Value
}

// scalars returns all of the state that only the writer uses: the atomic values that
// readers see are left out.
func scalars(s *subject) []scalar {
	return appendScalars(nil, "", reflect.ValueOf(&s.Sync).Elem())
}

func appendScalars(list []scalar, name string, v reflect.Value) []scalar {
	switch {
	case strings.HasPrefix(v.Type().PkgPath(), "sync"):
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			list = appendScalars(list, strings.TrimPrefix(name+"."+v.Type().Field(i).Name, "."), v.Field(i))
		}
	case v.Kind() == reflect.Array:
		for i := range v.Len() {
			list = appendScalars(list, name+"[]", v.Index(i))
		}
	case v.Kind() == reflect.Bool, v.CanInt(), v.CanUint(), v.CanFloat():
		// Unexported fields cannot be set through v itself.
		list = append(list, scalar{name, reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem()})
	default:
		panic(fmt.Sprintf("the state holds %s, a %v: this test does not know how to scramble it", name, v.Type()))
	}
	return list
}

// scramble gives a scalar another value and returns how. donor is the same scalar of an
// end in another world. A value that would not be finite is 0 instead.
func scramble(r *rand.Rand, v, donor reflect.Value) (how string) {
	before := v.Interface()
	for range 10 { // until it is another one
		switch how = []string{"zero", "negative", "scaled", "random", "donated"}[r.IntN(5)]; how {
		case "zero":
			v.SetZero()
		case "negative":
			scale(v, -1)
		case "scaled":
			scale(v, math.Exp2(float64(r.IntN(41)-20)))
		case "random":
			randomize(r, v)
		case "donated":
			v.Set(donor)
		}
		if v.CanFloat() && (math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0)) {
			v.SetZero()
		}
		if v.Interface() != before {
			break
		}
	}
	return how
}

// scale multiplies a number by a power of 2 or -1, and turns a flag over.
func scale(v reflect.Value, by float64) {
	switch {
	case v.Kind() == reflect.Bool:
		v.SetBool(!v.Bool())
	case v.CanFloat():
		v.SetFloat(v.Float() * by)
	case v.CanInt():
		setBits(v, uint64(scaled(v.Int(), by)))
	case v.CanUint():
		setBits(v, uint64(scaled(int64(v.Uint()), by)))
	}
}

// scaled multiplies on the ring of 64 bits.
func scaled(n int64, by float64) int64 {
	if math.Abs(by) < 1 {
		return n / int64(1/by)
	}
	return n * int64(by)
}

// setBits sets an integer to the low bits of n.
func setBits(v reflect.Value, n uint64) {
	rest := 64 - v.Type().Bits()
	if v.CanInt() {
		v.SetInt(int64(n<<rest) >> rest)
	} else {
		v.SetUint(n << rest >> rest)
	}
}

// randomize draws any flag, any small integer, and numbers from 1 to 1e9 of both signs:
// a microsecond to a quarter of an hour.
func randomize(r *rand.Rand, v reflect.Value) {
	number := math.Pow(10, 9*r.Float64()) * float64(1-2*r.IntN(2))
	switch {
	case v.Kind() == reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case v.CanFloat():
		v.SetFloat(number)
	case v.Type().Bits() <= 16:
		setBits(v, r.Uint64())
	default:
		setBits(v, uint64(int64(number)))
	}
}

// donors are ends that have lived through all kinds of faults.
var donors = sync.OnceValue(func() (ends [][]scalar) {
	for seed := range uint64(24) {
		d, _ := randomWorld(seed + 1)
		d.run()
		for side := range d.ends {
			ends = append(ends, scalars(&d.ends[side].s))
		}
	}
	return ends
})

// sleeper is an end that hears and says nothing before it is awake.
type sleeper struct {
	subject
	awake bool
}

func (s *sleeper) OnDatagram(ts24 uint32, recvUsec uint64) (time.Duration, bool) {
	if !s.awake {
		return 0, false
	}
	return s.subject.OnDatagram(ts24, recvUsec)
}

func (s *sleeper) OnPeerMinDelta(delta uint32, recvUsec uint64) {
	if s.awake {
		s.subject.OnPeerMinDelta(delta, recvUsec)
	}
}

// scrambled is a world in which one end is scrambled, and what became of it.
type scrambled struct {
	seed   uint64
	side   sim.Side
	share  float64           // of the scalars that are scrambled; 0 is a single one
	fields map[string]string // names of those, and how
	wrong  time.Duration     // for how long after that an end was not right
	panics any
}

func (s *scrambled) String() string {
	what := fmt.Sprintf("%.0f %% of the fields", 100*s.share)
	for name, how := range s.fields {
		if s.share == 0 {
			what = name + " " + how
		}
	}
	if s.panics != nil {
		return fmt.Sprintf("-stabilize.world %d: %s, panics: %v", s.seed, what, s.panics)
	}
	return fmt.Sprintf("-stabilize.world %d: %s, wrong for %.0f s", s.seed, what, s.wrong.Seconds())
}

// cleanWorld is a path of 20 to 40 ms each way with exponential jitter of up to 3 ms,
// 10 to 60 datagrams a second and clocks 20 to 100 ppm apart.
func cleanWorld(r *rand.Rand) sim.Scenario {
	between := func(lo, hi float64) float64 { return lo + (hi-lo)*r.Float64() }
	ppm := between(20, 100) * float64(1-2*r.IntN(2))
	clock := func(ppm float64) func(uint64) sim.ClockSpec {
		s := sim.ClockSpec{OffsetUsec: r.Uint64(), SkewPPM: ppm, SinePPM: 2, SinePeriod: 900 * sec, WanderPPM: 0.01}
		return func(uint64) sim.ClockSpec { return s }
	}
	link := func() func(uint64) *sim.Link {
		base, jitter := time.Duration(between(20, 40)*1e6), time.Duration(between(0, 3)*1e6)
		return func(uint64) *sim.Link { return &sim.Link{Base: sim.Fixed(base), Delay: sim.Exp(jitter)} }
	}
	rate := between(10, 60)
	return sim.Scenario{A: clock(ppm / 2), B: clock(-ppm / 2), AB: link(), BA: link(), RateAB: rate, RateBA: rate, PollRate: 2}
}

// scrambleEnd scrambles the chosen scalars of an end.
func (s *scrambled) scrambleEnd(r *rand.Rand, end *subject) {
	list, donor := scalars(end), donors()[r.IntN(len(donors()))]
	var names []string // the long arrays count once
	for _, x := range list {
		if !slices.Contains(names, x.name) {
			names = append(names, x.name)
		}
	}
	name := names[r.IntN(len(names))]
	var same []int
	for i, x := range list {
		if x.name == name {
			same = append(same, i)
		}
	}
	one := same[r.IntN(len(same))]
	for i, x := range list {
		if i == one && s.share == 0 || r.Float64() < s.share {
			s.fields[x.name] = scramble(r, x.v, donor[i].v)
		}
	}
}

// play lets time pass for lasting after the scrambling. An end is right if it is within
// 1 ms of the truth, but for what the asymmetry of the path makes of it, or of what two
// ends say that started when the other was scrambled.
func (s *scrambled) play(lasting time.Duration, each func(o *sim.Observation, fresh float64)) {
	defer func() {
		if p := recover(); p != nil {
			s.panics, s.wrong = p, math.MaxInt64
		}
	}()
	r := newRand(s.seed, 'z')
	sc := cleanWorld(r)
	sc.Duration = scrambleAt + lasting
	s.side = sim.Side(r.IntN(2))
	if s.share = 0; s.seed%2 != 0 {
		s.share = []float64{0.3, 1}[r.IntN(2)]
	}
	s.fields, s.wrong = map[string]string{}, 0
	old, fresh := [2]*subject{{}, {}}, [2]*sleeper{{}, {}}
	var last sim.Observation // of old, the same side and time
	sim.Run(sc, s.seed, []sim.Pair{{A: old[0], B: old[1]}, {A: fresh[0], B: fresh[1]}}, sim.Observer{Poll: func(o *sim.Observation) {
		switch {
		case o.At < scrambleAt:
			return
		case !fresh[0].awake:
			s.scrambleEnd(r, old[s.side])
			fresh[0].awake, fresh[1].awake = true, true
		case o.Pair == 0:
			last = *o
		case last.At == o.At:
			off := math.Abs(last.Excess())
			if o.OK {
				off = min(off, math.Abs(last.ErrUsec-o.ErrUsec))
			}
			if !last.OK || off > 1000 {
				s.wrong = o.At - scrambleAt
			}
			if each != nil {
				each(&last, o.ErrUsec)
			}
		}
	}})
}

// playScrambled plays n worlds. One in which all are right soon is not played to its
// end, but for every eighth: what was scrambled may come to light late.
func playScrambled(n int) []*scrambled {
	runs := make([]*scrambled, n)
	eachOf(n, func(i int) {
		s := &scrambled{seed: *seedFirst + uint64(i) + 1}
		if s.play(soonRight+20*sec, nil); s.wrong > soonRight || i/2%8 == 0 {
			s.play(lastRight+5*sec, nil)
		}
		runs[i] = s
	})
	return runs
}

// culprits lists the fields with which the most runs are wrong for too long, among
// those in which the field was scrambled.
func culprits(runs []*scrambled) string {
	type count struct {
		name       string
		wrong, all int
	}
	counts := map[string]*count{}
	for _, s := range runs {
		for name, how := range s.fields {
			if s.share == 0 {
				name += " " + how
			}
			if counts[name] == nil {
				counts[name] = &count{name: name}
			}
			counts[name].all++
			if s.wrong > soonRight {
				counts[name].wrong++
			}
		}
	}
	var list []*count
	for _, c := range counts {
		if c.wrong > 0 {
			list = append(list, c)
		}
	}
	share := func(c *count) float64 { return float64(c.wrong) / (float64(c.all) + 1) } // few say less
	slices.SortFunc(list, func(a, b *count) int { return cmp.Or(cmp.Compare(share(b), share(a)), cmp.Compare(a.name, b.name)) })
	var b strings.Builder
	for _, c := range list[:min(len(list), 15)] {
		fmt.Fprintf(&b, "%6d of %6d  %s\n", c.wrong, c.all, c.name)
	}
	return b.String()
}

// TestSelfStabilizing scrambles the state of an end, as no fault should but some
// unforeseen world might, and lets clean traffic flow: nothing wrong is held for ever.
func TestSelfStabilizing(t *testing.T) {
	if *stabilizeWorld != 0 {
		printScrambled(*stabilizeWorld)
		return
	}
	n := stabilizeWorlds()
	runs := playScrambled(n)
	m := musts{t: t}
	for _, mode := range []struct {
		name   string
		is     func(share float64) bool
		within [3]float64 // percent of the worlds that must be right soon, late, last
	}{
		{"one field scrambled", func(share float64) bool { return share == 0 }, [3]float64{100, 100, 100}},
		{"many fields scrambled", func(share float64) bool { return share > 0 }, [3]float64{85, 99, 100}},
	} {
		of := slices.DeleteFunc(slices.Clone(runs), func(s *scrambled) bool { return !mode.is(s.share) })
		slices.SortStableFunc(of, func(a, b *scrambled) int { return cmp.Compare(b.wrong, a.wrong) })
		for i, by := range []time.Duration{soonRight, lateRight, lastRight} {
			wrong := 0
			for _, s := range of {
				if s.wrong > by {
					wrong++
				}
			}
			m.judge(fmt.Sprintf("%s: %% of %d worlds wrong after %v", mode.name, len(of), by), 100*float64(wrong)/float64(len(of)), 100-mode.within[i], 0)
		}
		t.Logf("%s: of the worlds in which this field was, wrong after %v or a panic\n%s", mode.name, soonRight, culprits(slices.DeleteFunc(of, func(s *scrambled) bool { return s.share == 1 })))
	}
	m.log()
	slices.SortStableFunc(runs, func(a, b *scrambled) int { return cmp.Compare(b.wrong, a.wrong) })
	var f failures
	for _, s := range runs {
		if s.panics != nil {
			f.add("panics", "%v", s)
		} else if s.wrong > soonRight && s.share == 0 {
			f.add("one field scrambled, wrong after 60 s", "%v", s)
		} else if s.wrong > lastRight {
			f.add("many fields scrambled, wrong after 400 s", "%v", s)
		}
	}
	f.report(t)
}

// TestBrokenNumbers breaks one number after the other of a synchronizer that has long been right,
// in the ways that memory breaks, and lets clean traffic flow.
func TestBrokenNumbers(t *testing.T) {
	const delay, offset, every = 20_000, 1 << 33, 50_003 // us
	ends, now := [2]subject{}, uint64(1<<40)
	exchange := func(d time.Duration) {
		a, b := &ends[0].Sync, &ends[1].Sync
		for n := range d.Microseconds() / every {
			reportA, _ := a.MinDeltaTS24(now)
			reportB, _ := b.MinDeltaTS24(now + offset)
			a.OnAuthenticatedDatagramTimestamp(timesync.LocalTimeToDatagramTS24(now+offset), now+delay)
			b.OnAuthenticatedDatagramTimestamp(timesync.LocalTimeToDatagramTS24(now), now+offset+delay)
			if n%10 == 0 {
				a.OnPeerMinDeltaTS24(reportB, now+delay)
				b.OnPeerMinDeltaTS24(reportA, now+offset+delay)
			}
			now += every
		}
	}
	exchange(60 * sec)
	for _, x := range scalars(&ends[0]) {
		for _, value := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e30, -1e30, 1e15, -1e15, 1e10, -1e10, 1e3, -1e3, 0} {
			switch {
			case x.v.Kind() == reflect.Bool:
				x.v.SetBool(!x.v.Bool())
			case x.v.CanFloat():
				x.v.SetFloat(value)
			default:
				setBits(x.v, uint64(int64(value)))
			}
			exchange(lastRight)
			remote, ok := ends[0].Sync.RemoteTime(now)
			if off := int64(remote-now-offset) << 38 >> 38; !ok || off < -1000 || off > 1000 {
				t.Errorf("%s was %v: %d us off, ok %v", x.name, value, off, ok)
			}
		}
	}
}

// printScrambled prints what becomes of a world, every 5 s.
func printScrambled(seed uint64) {
	s := scrambled{seed: seed}
	s.play(lastRight+5*sec, func(o *sim.Observation, fresh float64) {
		if o.At%(5*sec) < sec/2 {
			fmt.Printf("%6.1f s %c: off by %.0f us, of what nobody can know %.0f to %.0f; a fresh end by %.0f us\n",
				(o.At - scrambleAt).Seconds(), 'A'+rune(o.Side), o.ErrUsec, o.LoUsec, o.HiUsec, fresh)
		}
	})
	fmt.Printf("%v; %c: %v\n", &s, 'A'+rune(s.side), s.fields)
}
