// These tests prove what a snapshot says of its own time and of others, that mappings can be put
// together, and that they travel; and what NowUsec counts.

package simtest

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"timesync"
)

// seed is that of all tests in this file.
const seed = 20261125

// widest is the widest error bound: half the ring of the offset.
const widest = 1 << 25 * us

// TestAge: the age of the last report counts from its receipt, also of one that came first.
func TestAge(t *testing.T) {
	var s timesync.TimeSynchronizer
	age := func(at uint64, want time.Duration) {
		if snapshot, ok := s.Snapshot(at); !ok || snapshot.Age != want {
			t.Errorf("at %d us: age %v, ok %v, want %v", at, snapshot.Age, ok, want)
		}
	}
	s.OnPeerMinDeltaTS24(1000, 5_000_000)
	s.OnAuthenticatedDatagramTimestamp(timesync.LocalTimeToDatagramTS24(7_000_000), 7_008_000)
	age(8_000_000, 3*sec)
	s.OnPeerMinDeltaTS24(1000, 9_000_000)
	age(9_000_000, 0)
	age(9_000_001, us)
	age(8_000_000, 0)
	s.OnAuthenticatedDatagramTimestamp(0, 2e15) // 63 years later: the local clock was set
	age(2e15, 0)
}

// TestLongTime: after more than a year what counts from an event is still right, and at any time
// that a reader asks about.
func TestLongTime(t *testing.T) {
	const every, days = 30e6, 400
	var s timesync.TimeSynchronizer
	now := uint64(1 << 40)
	s.OnPeerMinDeltaTS24(timesync.NewCounter24(5000), now)
	for range int(days * 86400e6 / every) {
		s.OnAuthenticatedDatagramTimestamp(timesync.LocalTimeToDatagramTS24(now-20_000), now)
		s.OnPeerMinDeltaTS24(timesync.NewCounter24(5000), now)
		now += every
	}
	v, ok := s.Snapshot(now)
	if off := v.SinceStep - days*24*time.Hour; !ok || v.StepSeen || off.Abs() > 4*sec {
		t.Errorf("after %d days: undisturbed for %v too much; %v, %v", days, off, v, ok)
	}
	if v.Age != every*us || v.ErrorBound < 20*ms || v.ErrorBound > 60*ms {
		t.Errorf("after %d days: %v", days, v)
	}
	for _, c := range []struct {
		name  string
		at    uint64
		since time.Duration // what counts from an event
	}{
		{"292,000 years later", now + 1<<63 - 1<<42, math.MaxInt64},
		{"300 years later", now + 300*365*86400e6, math.MaxInt64},
		{"300 years before", now - 300*365*86400e6, 0},
		{"292,000 years before", now - 1<<63 + 1, 0},
	} {
		v, ok := s.Snapshot(c.at)
		if !ok || v.ErrorBound != widest || v.Age != c.since || v.SinceStep != c.since {
			t.Errorf("%s: %v, %v", c.name, v, ok)
		}
	}
}

// TestWithin: the reasons, in the order in which they count.
func TestWithin(t *testing.T) {
	good := timesync.Snapshot{
		ErrorBound: 20 * ms,
		Age:        15*sec - 1,
		SinceStep:  15 * sec,
		StepSeen:   true,
	}
	check := func(want error, change func(s *timesync.Snapshot)) {
		s := good
		change(&s)
		if got := s.Within(20 * ms); got != want {
			t.Errorf("%v: %v, want %v", s, got, want)
		}
	}
	check(nil, func(*timesync.Snapshot) {})
	check(timesync.ErrUnsynchronized, func(s *timesync.Snapshot) {
		*s = timesync.Snapshot{}
	})
	check(timesync.ErrSilent, func(s *timesync.Snapshot) {
		s.Age = 15 * sec
		s.SinceStep = 0
		s.ErrorBound = time.Hour
	})
	check(timesync.ErrStepped, func(s *timesync.Snapshot) {
		s.SinceStep = 15*sec - 1
		s.ErrorBound = time.Hour
	})
	check(nil, func(s *timesync.Snapshot) { // there is nothing to wait for
		s.SinceStep = 0
		s.StepSeen = false
	})
	check(nil, func(s *timesync.Snapshot) {
		s.SilentAfter = time.Minute
		s.Age = time.Minute - 1
	})
	check(timesync.ErrSilent, func(s *timesync.Snapshot) {
		s.SilentAfter = time.Minute
		s.Age = time.Minute
	})
	check(timesync.ErrAmbiguous, func(s *timesync.Snapshot) {
		s.Ambiguous = true
		s.Unchecked = true
		s.SinceStep = 0
	})
	check(timesync.ErrStepped, func(s *timesync.Snapshot) {
		s.Unchecked = true
		s.SinceStep = 0
	})
	check(timesync.ErrUnchecked, func(s *timesync.Snapshot) {
		s.Unchecked = true
		s.ErrorBound = time.Hour
	})
	check(timesync.ErrWide, func(s *timesync.Snapshot) {
		s.ErrorBound++
	})
	if n := testing.AllocsPerRun(100, func() { good.Within(0) }); n != 0 {
		t.Errorf("Within allocates %v times", n)
	}
}

// TestPrinting: what is not known is said to be unknown, in lines. The attributes are always the
// same.
func TestPrinting(t *testing.T) {
	known := timesync.Snapshot{
		OffsetUsec:   -5,
		ErrorBound:   20 * ms,
		FloorScatter: sec / 2,
		Skew:         20,
		SkewError:    3,
	}
	unknown := known
	unknown.FloorScatter = 0
	unknown.StepSeen = true
	const (
		line      = "offset -5 us +-20ms, skew 20.000+-3.000 ppm, delay 0s in, 0s out, jitter 0s, "
		lineEnd   = "scatter 500ms, report 0s ago, 0s since the start, 0 steps, 0 hops"
		unsureEnd = "scatter unknown, report 0s ago, 0s since a clock was set, 0 steps, 0 hops"
	)
	for _, c := range []struct {
		s    timesync.Snapshot
		line string
	}{
		{timesync.Snapshot{}, "not synchronized"},
		{known, line + lineEnd},
		{unknown, line + unsureEnd},
	} {
		if got := fmt.Sprint(c.s); got != c.line {
			t.Errorf("%#v:\n%s, want\n%s", c.s, got, c.line)
		}
	}
	want := "[known=true offset_us=-5 error_bound=20ms skew_ppm=20 skew_error_ppm=3 " +
		"min_one_way_delay=0s min_delay_to_peer=0s jitter=0s floor_scatter=500ms age=0s " +
		"silent_after=0s since_step=0s step_seen=false unchecked=false ambiguous=false steps=0 " +
		"hops=0]"
	if got := known.LogValue().String(); got != want {
		t.Errorf("attributes %s, want %s", got, want)
	}
	for _, pair := range [][2]slog.LogValuer{
		{known, timesync.Snapshot{}},
		{timesync.Stats{Datagrams: 1, QueuedSpans: 2}, timesync.Stats{}},
	} {
		some, none := pair[0].LogValue().Group(), pair[1].LogValue().Group()
		if len(some) != len(none) || len(some) != reflect.TypeOf(pair[0]).NumField() {
			t.Fatalf("%T: %d attributes, of the zero value %d", pair[0], len(some), len(none))
		}
		for i := range some {
			if some[i].Key != none[i].Key || some[i].Value.Kind() != none[i].Value.Kind() {
				t.Errorf("%T: %v, of the zero value %v", pair[0], some[i], none[i])
			}
		}
	}
}

// TestEachField: each field of a Snapshot is shown, travels, and counts where two are put together.
func TestEachField(t *testing.T) {
	base := timesync.Snapshot{
		RemoteUsec:         100e6,
		OffsetUsec:         400,
		ErrorBound:         20 * ms,
		Skew:               20,
		SkewError:          3,
		MinimumOneWayDelay: 3 * ms,
		MinimumDelayToPeer: 4 * ms,
		FloorScatter:       ms,
		Age:                sec,
		SilentAfter:        60 * sec,
		SinceStep:          20 * sec,
		Steps:              2,
	}
	says := func(s timesync.Snapshot) (said [5]string) {
		wire, _ := s.AppendBinary(nil)
		return [5]string{
			s.String(),
			slog.AnyValue(s).Resolve().String(),
			fmt.Sprintf("% x", wire),
			fmt.Sprintf("%#v", s.Then(s)),
			fmt.Sprintf("%#v", s.At(110e6)),
		}
	}
	was := says(base)
	for i, f := range reflect.VisibleFields(reflect.TypeOf(base)) {
		if !f.IsExported() {
			continue
		}
		changed := base
		switch v := reflect.ValueOf(&changed).Elem().Field(i); {
		case v.CanInt():
			v.SetInt(v.Int() + int64(ms))
		case v.CanUint():
			v.SetUint(v.Uint() + 1)
		case v.CanFloat():
			v.SetFloat(v.Float() + 1)
		default:
			v.SetBool(!v.Bool())
		}
		is := says(changed)
		for k, how := range []string{"String", "LogValue", "AppendBinary", "Then", "At"} {
			if is[k] == was[k] && !(f.Name == "RemoteUsec" && k < 2) { // the offset says that
				t.Errorf("%s does not know the field %s: %s", how, f.Name, is[k])
			}
		}
	}
}

// listen lets a synchronizer hear n datagrams, one in 50 ms, and each tenth time a report, of a
// peer somewhere whose clock is up to 100 ppm off. It returns the local time of the last datagram.
func listen(sync *timesync.TimeSynchronizer, rng *rand.Rand, n int) (now uint64) {
	now = rng.Uint64()
	start := rng.Uint64()
	skew := 200*rng.Float64() - 100    // ppm
	meanJitter := 2000 * rng.Float64() // us
	for i := range n {
		now += 50_000
		offset := start + uint64(int64(skew*float64(i)/20))
		stamp := timesync.LocalTimeToDatagramTS24(now + offset)
		queued := uint64(rng.ExpFloat64() * meanJitter)
		sync.OnAuthenticatedDatagramTimestamp(stamp, now+20_000+queued)
		if i%10 == 2 {
			sync.OnPeerMinDeltaTS24(timesync.LocalTimeToDatagramTS24(offset+20_000), now+20_000)
		}
	}
	return now + 20_000
}

// TestSnapshotAt: while nothing is heard, a snapshot says of other times what the synchronizer
// says, and its bound is never narrower.
func TestSnapshotAt(t *testing.T) {
	rng := newRand(seed, 'a')
	for range 200 {
		var sync timesync.TimeSynchronizer
		now := listen(&sync, rng, 20*(1+rng.IntN(30))) + 200_000 // nothing is being slewed
		was, ok := sync.Snapshot(now)
		if !ok || was.At(now) != was {
			t.Fatalf("seed %d: %+v, %v; as of then %+v", seed, was, ok, was.At(now))
		}
		for range 20 {
			at := now + uint64(rng.Int64N(600e6))
			got := was.At(at)
			want, _ := sync.Snapshot(at)
			remote := int64(got.RemoteUsec - want.RemoteUsec)
			wider := got.ErrorBound - want.ErrorBound
			wrong := max(remote, -remote) > 1 ||
				got.OffsetUsec != int64(got.RemoteUsec-at) ||
				wider < 0 && want.ErrorBound < widest ||
				wider > 4*us ||
				(got.Age-want.Age).Abs() > 2*us ||
				(got.SinceStep-want.SinceStep).Abs() > 2*sec ||
				got.Skew != want.Skew ||
				math.Abs(got.SkewError-want.SkewError) > 1e-6 ||
				got.Steps != want.Steps
			if wrong {
				t.Fatalf("seed %d: %d us later\n%v, the synchronizer\n%v", seed, at-now, got, want)
			}
			again := was.At(now + (at-now)/3).At(at)
			if wider := again.ErrorBound - got.ErrorBound; wider < 0 || wider > 3*us {
				t.Fatalf("seed %d: in two steps %v, in one %v", seed, again, got)
			}
			before := was.At(now - (at - now))
			boundsDiffer := (before.ErrorBound - got.ErrorBound).Abs() > 2*us
			if boundsDiffer || before.Age < 0 || before.SinceStep < 0 {
				t.Fatalf("seed %d: as much earlier %v, later %v", seed, before, got)
			}
		}
	}
}

// mapped is a mapping that is as wrong as it says, and the truth: the remote clock x us after at is
// remote + x + rate*x + turns*x*x.
type mapped struct {
	timesync.Snapshot
	at, remote  uint64
	rate, turns float64
}

// truth returns the remote clock.
func (m *mapped) truth(localUsec uint64) uint64 {
	x := float64(int64(localUsec - m.at))
	return m.remote + (localUsec - m.at) + uint64(int64(math.Floor(m.rate*x+m.turns*x*x)))
}

// newMapped draws one that was taken at a local time. If sharp is not 0 it is as wrong as it may
// be, in all that it says to the same side, 1 or -1, and of clocks that nobody has.
func newMapped(rng *rand.Rand, at uint64, sharp float64) (m mapped) {
	extreme := func(most float64) float64 {
		if sharp != 0 {
			return most * sharp
		}
		return most * float64(1-2*rng.IntN(2)) * max(min(2*rng.Float64(), 1), 0.5)
	}
	bound := int64(1 + rng.ExpFloat64()*30e3)
	m = mapped{
		at:     at,
		remote: rng.Uint64(),
		rate:   100e-6 * (2*rng.Float64() - 1),
		turns:  -extreme(0.05e-12),
	}
	if sharp != 0 {
		bound = 1e6
		m.rate = 0.1 * (2*rng.Float64() - 1)
		m.turns = 0
	}
	m.RemoteUsec = m.remote + uint64(int64(extreme(float64(bound))))
	m.OffsetUsec = int64(m.RemoteUsec - at)
	// One microsecond more: clocks show whole ones.
	m.ErrorBound = time.Duration(bound+1)*us + time.Duration(rng.IntN(1000))
	m.SkewError = rng.ExpFloat64() * 20
	if sharp != 0 {
		m.SkewError = 5000
	}
	m.Skew = m.rate*1e6 + extreme(m.SkewError)
	m.MinimumOneWayDelay = time.Duration(rng.IntN(1e5)) * us
	m.MinimumDelayToPeer = time.Duration(rng.IntN(1e5)) * us
	m.Age = time.Duration(rng.IntN(20e3)) * ms
	m.SinceStep = time.Duration(rng.IntN(30e3)) * ms
	m.Steps = uint32(rng.IntN(3))
	m.StepSeen = rng.IntN(3) == 0
	m.Unchecked = rng.IntN(6) == 0
	m.Ambiguous = rng.IntN(6) == 0
	m.SilentAfter = 15*sec + time.Duration(rng.IntN(2)*rng.IntN(10e3))*ms
	if rng.IntN(2) == 0 {
		m.FloorScatter = time.Duration(rng.IntN(1e4)) * us
	}
	return m
}

// TestThen: of mappings that are as wrong as they say, one behind the other, the truth lies in the
// interval of the whole; what may not be relied on in one may not be in the whole.
func TestThen(t *testing.T) {
	rng := newRand(seed, 't')
	close := 0 // how often the truth uses up nine tenths of the bound
	for i := range 50_000 {
		sharp := float64(i%3 - 1)
		chain := [3]mapped{newMapped(rng, rng.Uint64(), sharp)}
		taken := chain[0].remote
		for j := range chain[1:] { // up to a minute away from the last one
			taken += uint64(rng.Int64N(120e6) - 60e6)
			chain[j+1] = newMapped(rng, taken, sharp)
			taken = chain[j+1].remote
		}
		a, b, c := chain[0], chain[1], chain[2]
		ab := a.Then(b.Snapshot)
		whole := ab.Then(c.Snapshot)
		at := a.at + uint64(rng.Int64N(120e6)-60e6)
		got := whole.At(at)
		want := c.truth(b.truth(a.truth(at)))
		first, last := got.Interval()
		outside := last-first < 1<<63 && want-first > last-first
		off := math.Abs(float64(int64(got.RemoteUsec - want)))
		bound := float64(got.ErrorBound.Microseconds())
		if outside || off > bound {
			t.Fatalf("seed %d, run %d: off by %v us, which is not within %v",
				seed, i, off, got.ErrorBound)
		}
		if off > 0.9*bound {
			close++
		}
		other := a.Then(b.Then(c.Snapshot))
		d := int64(other.RemoteUsec - whole.RemoteUsec)
		// It may be wider, as c is asked there and back.
		narrower := whole.ErrorBound - other.ErrorBound
		older := (other.Age - whole.Age).Abs()
		if a.SilentAfter != b.SilentAfter || b.SilentAfter != c.SilentAfter {
			older = 0 // the one that is nearer to being silent counts, and At forgets ages below 0
		}
		differ := max(d, -d) > 3 || narrower > whole.ErrorBound/1000+5*us || older > 50*ms
		if sharp == 0 && differ {
			t.Fatalf("seed %d, run %d: the first two first %v, the last two first %v",
				seed, i, whole, other)
		}
		const wide = math.MaxInt64
		errA := a.Within(wide)
		errB := b.At(a.RemoteUsec).Within(wide)
		errAB := ab.Within(wide)
		if bothGood := errA == nil && errB == nil; bothGood != (errAB == nil) {
			t.Fatalf("seed %d, run %d: %v and %v together %v", seed, i, errA, errB, errAB)
		}
		if ab.MinimumOneWayDelay != a.MinimumOneWayDelay+b.MinimumOneWayDelay ||
			(ab.FloorScatter > 0) != (a.FloorScatter > 0 && b.FloorScatter > 0) {
			t.Fatalf("seed %d, run %d: %v and %v together %v", seed, i, a, b, ab)
		}
		jumped := a.Snapshot
		jumped.Steps++
		anew := b.Snapshot
		anew.Steps--
		for _, both := range []timesync.Snapshot{
			jumped.Then(b.Snapshot),
			a.Then(anew),
			jumped.Then(anew),
		} {
			if both.Steps == ab.Steps {
				t.Fatalf("seed %d, run %d: a jump leaves Steps alone", seed, i)
			}
		}
		var unknown timesync.Snapshot
		if a.Then(unknown) != unknown || unknown.Then(a.Snapshot) != unknown {
			t.Fatal("what is unknown is known behind another one")
		}
	}
	if t.Logf("%d of 50,000 truths are far out in their bound", close); close < 20 {
		t.Error("the mappings are not as wrong as they say")
	}
}

// TestSnapshotInverse: LocalTime is the inverse of At.
func TestSnapshotInverse(t *testing.T) {
	rng := newRand(seed, 'i')
	for range 20_000 {
		m := newMapped(rng, rng.Uint64(), 0)
		if rng.IntN(4) == 0 {
			m.Skew = 2e5 * (rng.Float64() - 0.5)
		}
		want := m.RemoteUsec + uint64(rng.Int64N(1<<42)-1<<41)
		local := m.LocalTime(want)
		d := int64(m.At(local).RemoteUsec - want)
		before := int64(m.At(local-1).RemoteUsec - want)
		if d < 0 || d > 1 || before >= 0 {
			t.Fatalf("seed %d: %+v: %d reads %d us more, 1 us before %d",
				seed, m.Snapshot, local, d, before)
		}
	}
	for bound, us := range map[time.Duration]uint64{1: 1, us: 1, us + 1: 2, 7 * sec: 7e6} {
		known := timesync.Snapshot{RemoteUsec: 5, ErrorBound: bound}
		if first, last := known.Interval(); 5-first != us || last-5 != us {
			t.Errorf("5 us to %v is from %d to %d", bound, int64(first), last)
		}
	}
	var unknown timesync.Snapshot
	if got := unknown.LocalTime(5); got != 5 {
		t.Errorf("of nothing %d", got)
	}
	first, last := unknown.Interval()
	if first != 0 || last != math.MaxUint64 || unknown.At(7) != unknown {
		t.Errorf("what is not known is from %d to %d", first, last)
	}
}

// TestSnapshotTravels: what arrives is never better than what was sent, and hardly worse.
func TestSnapshotTravels(t *testing.T) {
	rng := newRand(seed, 'm')
	for i := range 20_000 {
		sent := newMapped(rng, rng.Uint64(), 0).Snapshot
		for range i % 3 {
			sent = sent.Then(newMapped(rng, sent.RemoteUsec, 0).Snapshot)
		}
		wire := must(sent.AppendBinary([]byte("before")))
		var got timesync.Snapshot
		err := got.UnmarshalBinary(wire[len("before"):])
		if err != nil || len(wire) > len("before")+64 {
			t.Fatalf("seed %d: %+v: %d bytes, %v", seed, sent, len(wire), err)
		}
		rounding := math.Abs(got.Skew - sent.Skew) // of the skew, ppm: its error grows by as much
		wrong := got.RemoteUsec != sent.RemoteUsec ||
			got.OffsetUsec != sent.OffsetUsec ||
			got.Steps != sent.Steps ||
			got.StepSeen != sent.StepSeen ||
			got.FloorScatter != sent.FloorScatter ||
			got.ErrorBound < sent.ErrorBound ||
			got.ErrorBound >= sent.ErrorBound+us ||
			got.Age < sent.Age ||
			got.Age > sent.Age+ms ||
			got.SinceStep > sent.SinceStep ||
			rounding > 3e-4 ||
			got.SkewError < sent.SkewError+rounding-1e-12 ||
			got.SkewError > sent.SkewError+1e-3
		if wrong {
			t.Fatalf("seed %d: %+v arrives as\n%+v", seed, sent, got)
		}
		for _, later := range []int64{-1e7, 0, 1e6, 1e9} {
			at := sent.RemoteUsec - uint64(sent.OffsetUsec) + uint64(later)
			if a, b := got.At(at), sent.At(at); a.ErrorBound < b.ErrorBound {
				t.Fatalf("seed %d: %+v arrives as %+v", seed, b, a)
			}
		}
	}
	good := newMapped(rng, 1, 0).Snapshot
	for _, nothing := range []timesync.Snapshot{
		{},
		{ErrorBound: 2 * time.Hour},
		{ErrorBound: -1},
		{RemoteUsec: 7},
		{ErrorBound: 1, Skew: math.NaN()},
		{ErrorBound: 1, Skew: math.Inf(-1)},
		{ErrorBound: 1, Skew: 6e5},
		{ErrorBound: 1, SkewError: 2e6},
		{ErrorBound: 1, SkewError: math.NaN()},
		{ErrorBound: math.MaxInt64, RemoteUsec: 5},
	} {
		got := good
		err := got.UnmarshalBinary(must(nothing.AppendBinary(nil)))
		if err != nil || got != (timesync.Snapshot{}) {
			t.Errorf("%+v arrives as %+v, %v", nothing, got, err)
		}
	}
	vague := timesync.Snapshot{
		ErrorBound:         1,
		Jitter:             time.Hour,
		FloorScatter:       time.Hour,
		Age:                -1,
		SinceStep:          math.MinInt64,
		MinimumOneWayDelay: -5,
		MinimumDelayToPeer: math.MaxInt64,
	}
	clamped := timesync.Snapshot{
		ErrorBound:         us,
		MinimumDelayToPeer: math.MaxUint32 * us,
		Jitter:             time.Hour,
		FloorScatter:       time.Hour,
	}
	wire := must(vague.AppendBinary(nil))
	got := good
	if err := got.UnmarshalBinary(wire); err != nil || got != clamped {
		t.Errorf("%+v arrives as %+v, %v", vague, got, err)
	}
	wire = must(good.AppendBinary(nil))
	got = good
	for i := range wire {
		if err := got.UnmarshalBinary(wire[:i]); err != timesync.ErrLength || got != good {
			t.Errorf("%d of %d bytes: %v", i, len(wire), err)
		}
	}
	for i, b := range map[int]byte{0: 2, 1: 8} {
		bad := bytes.Clone(wire)
		bad[i] = b
		if err := got.UnmarshalBinary(bad); err == nil || got != good {
			t.Errorf("with %d in byte %d: %v", b, i, err)
		}
	}
}

// TestGob: gob reads what it wrote, of a Snapshot that travels and of counters.
func TestGob(t *testing.T) {
	type message struct {
		S  timesync.Snapshot
		C  timesync.Counter16
		TS timesync.Counter23
		D  timesync.Counter24
	}
	rng := newRand(seed, 'g')
	for range 1000 {
		sent := message{
			S:  newMapped(rng, rng.Uint64(), 0).Snapshot,
			C:  timesync.NewCounter16(rng.Uint64()),
			TS: timesync.NewCounter23(rng.Uint64()),
			D:  timesync.NewCounter24(rng.Uint64()),
		}
		must(0, sent.S.UnmarshalBinary(must(sent.S.MarshalBinary()))) // in the units of the wire
		var wire bytes.Buffer
		var got message
		must(0, gob.NewEncoder(&wire).Encode(sent))
		must(0, gob.NewDecoder(&wire).Decode(&got))
		// At and Then widen what they return, and a rate is rounded once more.
		if got.S.SkewError-sent.S.SkewError > 1e-3 || got.S.SkewError < sent.S.SkewError {
			t.Fatalf("seed %d: %+v is read as %+v", seed, sent, got)
		}
		got.S.SkewError = sent.S.SkewError
		if got != sent {
			t.Fatalf("seed %d: %+v is read as %+v", seed, sent, got)
		}
	}
}

// TestJSON: as JSON a Snapshot loses nothing, to the last bit.
func TestJSON(t *testing.T) {
	rng := newRand(seed, 'j')
	for range 1000 {
		sent := newMapped(rng, rng.Uint64(), 0).Snapshot
		sent = sent.Then(newMapped(rng, sent.RemoteUsec, 0).Snapshot)
		var got timesync.Snapshot
		if must(0, json.Unmarshal(must(json.Marshal(sent)), &got)); got != sent || got.Hops != 1 {
			t.Fatalf("seed %d: %+v is read as %+v", seed, sent, got)
		}
	}
}

// TestJitter: Jitter is what RFC 3550 counts, in its own words, of datagrams in the order in which
// they come: the same in the mean, and as soon where the path changes.
func TestJitter(t *testing.T) {
	rng := newRand(seed, 'r')
	for _, every := range []uint64{2000, 20_000, 250_000} { // us
		var s timesync.TimeSynchronizer
		now := rng.Uint64()
		transit := 0.0
		want := 0.0
		for _, jitter := range []float64{20_000, 500, 3000} {
			const datagrams = 20_000
			sum, wantSum := 0.0, 0.0
			for i := range datagrams {
				now += every
				sent := now &^ 7 // a stamp has units of 8 us
				delay := 20_000 + uint64(rng.ExpFloat64()*jitter)
				stamp := timesync.LocalTimeToDatagramTS24(sent + 5e9)
				s.OnAuthenticatedDatagramTimestamp(stamp, sent+delay)
				s.OnPeerMinDeltaTS24(timesync.LocalTimeToDatagramTS24(5e9+20_000), sent+delay)
				if transit > 0 {
					want += (math.Abs(float64(delay)-transit) - want) / 16
				}
				transit = float64(delay)
				snapshot, ok := s.Snapshot(now)
				afterChange := i - int(200_000/every) // it may be 0.2 s old
				if !ok || afterChange < 200 {
					continue
				}
				got := float64(snapshot.Jitter.Microseconds())
				sum += got
				wantSum += want
				if got < jitter/4 || got > 4*jitter {
					t.Fatalf("every %d us, seed %d: jitter %.0f us, want about %.0f",
						every, seed, got, jitter)
				}
			}
			if share := sum / wantSum; share < 0.98 || share > 1.02 {
				t.Errorf("every %d us, seed %d: jitter %.3f of what RFC 3550 counts",
					every, seed, share)
			}
		}
	}
}

// TestNowUsec: NowUsec and UsecAt are one clock, which runs as that of package time, and TimeAt is
// the way back.
func TestNowUsec(t *testing.T) {
	before := timesync.NowUsec()
	then := time.Now()
	after := timesync.NowUsec()
	got := timesync.UsecAt(then)
	if got < before || got > after {
		t.Errorf("UsecAt says %d, read between %d and %d", got, before, after)
	}
	for _, later := range []time.Duration{-time.Hour, 0, time.Hour} {
		want := got + uint64(later/us)
		usec := timesync.UsecAt(then.Add(later))
		if usec-want > 1 && want-usec > 1 { // rounded towards the start
			t.Errorf("%v later: %d, want %d", later, usec, want)
		}
	}
	for _, usec := range []uint64{0, got, got + 3_600_000_000} {
		if at := timesync.TimeAt(usec); timesync.UsecAt(at) != usec {
			t.Errorf("%d is at %v, and that is %d", usec, at, timesync.UsecAt(at))
		}
	}
	if d := then.Sub(timesync.TimeAt(got)); d < 0 || d >= us {
		t.Errorf("there and back: %v earlier", d)
	}
}
