// These fuzz targets prove that no input breaks what must always be true: counters read back as
// they were written and expand near a recent value, a snapshot that arrives says no more than its
// bytes do, and no order of calls and no stamp or report panics or leaves a state that clean
// traffic does not mend. The world that they play in is that of synchronizer_test.go, too; what
// happens in it in TestCourses stands behind it.

package timesync

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"
)

// FuzzExpand: whatever the numbers, the result has the right low bits and lies in
// the documented interval.
func FuzzExpand(f *testing.F) {
	for _, recent := range []uint64{
		0, 1, 1 << 15, 1 << 22, 1<<23 - 1, 1 << 32, 1 << 63, math.MaxUint64,
	} {
		f.Add(recent, uint32(0), int64(0))
		f.Add(recent, uint32(1<<23), int64(1<<21))
		f.Add(recent, uint32(math.MaxUint32), int64(math.MinInt64))
		f.Add(recent, uint32(0x8000), int64(math.MaxInt64))
	}
	f.Fuzz(func(t *testing.T, recent uint64, small uint32, bias int64) {
		within := func(name string, got, low, mask uint64, unit, from, to int64) {
			t.Helper()
			// The interval counts in units from the unit that recent is in.
			d := int64(got - recent/uint64(unit)*uint64(unit))
			if (got/uint64(unit)^low)&mask != 0 || d < from*unit || d > to*unit || d%unit != 0 {
				t.Fatalf("%s of %#x near %#x, bias %d: %#x is %d away, not %d to %d units of %d, "+
					"or has other low bits", name, low, recent, bias, got, d, from, to, unit)
			}
		}
		raw := uint64(small)
		c16, c23, c24 := NewCounter16(raw), Counter23(small), Counter24(small)
		for _, c := range []struct {
			name             string
			bits             uint
			expanded, biased uint64
		}{
			{"Counter16", 16, c16.Expand(recent), c16.ExpandBiased(recent, bias)},
			{"Counter23", 23, c23.Expand(recent), c23.ExpandBiased(recent, bias)},
			{"Counter24", 24, c24.Expand(recent), c24.ExpandBiased(recent, bias)},
			{"8 bits", 8, ringExpand(recent, raw, 8), ringExpandBiased(recent, raw, 8, bias)},
			{"32 bits", 32, ringExpand(recent, raw, 32), ringExpandBiased(recent, raw, 32, bias)},
		} {
			half, mask := int64(1)<<(c.bits-1), uint64(1)<<c.bits-1
			limited := min(max(bias, -half), half-1)
			within(c.name+".Expand", c.expanded, raw, mask, 1, -half, half-1)
			within(c.name+".ExpandBiased", c.biased, raw, mask, 1, -half-limited, half-1-limited)
		}
		ts23, ts16 := NewCounter23(raw), NewCounter16(raw)
		within("FromLocalTime23",
			FromLocalTime23(recent, ts23), uint64(ts23), 1<<23-1, 8, -1<<22-1<<21, 1<<22-1-1<<21)
		within("FromLocalTime16",
			FromLocalTime16(recent, ts16), uint64(ts16), 1<<16-1, 512, -1<<15-1<<14, 1<<15-1-1<<14)
	})
}

// FuzzCodec: what a counter writes reads back as it, whatever a conversion set above its ring;
// what is not as long as a counter is refused.
func FuzzCodec(f *testing.F) {
	for _, wire := range []string{
		"", "\x01", "\x34\x12", "\xff\xff", "\x00\x00\x80", "\xff\xff\xff", "\x01\x02\x03\x04",
	} {
		f.Add([]byte(wire))
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		fuzzCodec(t, wire, 16, NewCounter16, ReadCounter16)
		fuzzCodec(t, wire, 23, NewCounter23, ReadCounter23)
		fuzzCodec(t, wire, 24, NewCounter24, ReadCounter24)
	})
}

// codec is a pointer to what is written and read.
type codec[C any] interface {
	*C
	AppendBinary([]byte) ([]byte, error)
	encoding.BinaryUnmarshaler
	Put([]byte)
	fmt.Stringer
}

// fuzzCodec checks a counter of so many bits.
func fuzzCodec[C ~uint16 | ~uint32, P codec[C]](
	t *testing.T, wire []byte, bits int, convert func(uint64) C, read func([]byte) C,
) {
	n, c := (bits+7)/8, C(0x55)
	err := P(&c).UnmarshalBinary(wire)
	if len(wire) != n && (!errors.Is(err, ErrLength) || c != 0x55) ||
		len(wire) == n && (err != nil || c != read(wire)) {
		t.Fatalf("%d bits: UnmarshalBinary(% x) = %v, sets %v", bits, wire, err, c)
	}
	if len(wire) < n {
		short := append(make([]byte, 0, 8), wire...)
		if !panics(func() { read(short) }) || !panics(func() { P(&c).Put(short) }) {
			t.Errorf("%d bits: % x are too few bytes, and no panic", bits, wire)
		}
		return
	}
	value := binary.LittleEndian.Uint64(append(bytes.Clone(wire[:n]), 0, 0, 0, 0, 0, 0)[:8])
	want := binary.LittleEndian.AppendUint64(nil, value%(1<<bits))[:n]
	for _, c := range []C{read(wire), convert(value), C(value), convert(value | 1<<60)} {
		put := []byte{0xaa, 0xaa, 0xaa, 0xaa}
		P(&c).Put(put)
		appended, err := P(&c).AppendBinary([]byte{0xbb})
		if err != nil || !bytes.Equal(put[:n], want) || put[n] != 0xaa ||
			!bytes.Equal(appended, append([]byte{0xbb}, want...)) {
			t.Fatalf("%d bits, % x: Put % x, AppendBinary % x, %v, want % x",
				bits, wire, put, appended, err, want)
		}
		if P(&c).String() != fmt.Sprint(value%(1<<bits)) {
			t.Fatalf("%d bits, % x: String %s", bits, wire, P(&c))
		}
	}
}

func panics(call func()) (yes bool) {
	defer func() { yes = recover() != nil }()
	call()
	return false
}

// FuzzSnapshot: any bytes are an error, or a mapping that says no more than they do, whose bound
// never narrows, and whose interval contains what it says.
func FuzzSnapshot(f *testing.F) {
	for _, s := range []Snapshot{{}, {
		ErrorBound: 20 * time.Millisecond,
		RemoteUsec: 1 << 40,
		OffsetUsec: -5,
		Skew:       20,
		SkewError:  3,
		Age:        time.Second,
	}} {
		wire, _ := s.AppendBinary(nil)
		f.Add(wire, uint64(1<<40))
		f.Add(wire[1:], uint64(0))
	}
	f.Fuzz(func(t *testing.T, wire []byte, at uint64) {
		var s Snapshot
		if err := s.UnmarshalBinary(wire); err != nil {
			if s != (Snapshot{}) {
				t.Fatalf("% x: %v, sets %+v", wire, err, s)
			}
			return
		}
		again, err := s.AppendBinary(nil)
		there := s.At(at)
		first, last := there.Interval()
		both, is := there.Then(s), s.Known()
		switch {
		case err != nil, !bytes.Equal(again, wire),
			there.ErrorBound < s.ErrorBound, there.Age < 0, there.SinceStep < 0,
			there.SkewError < s.SkewError,
			is && there.OffsetUsec != int64(there.RemoteUsec-at), there.RemoteUsec-first > last-first,
			!is && s != (Snapshot{}), s.Within(0) == nil,
			is && (both.ErrorBound < max(there.ErrorBound, s.ErrorBound) || math.IsNaN(both.Skew) ||
				both.SkewError < s.SkewError):
			t.Fatalf("% x: %+v, written as % x, %v; at %d %+v, from %d to %d; with itself %+v",
				wire, s, again, err, at, there, first, last, both)
		}
		s.LocalTime(at)
		_, _ = s.String(), s.LogValue()
	})
}

// tape is a fuzz input that is read as a sequence of calls. At its end it is zeros.
type tape []byte

func (in *tape) take(n int) uint64 {
	var word [8]byte
	*in = (*in)[copy(word[:n], *in):]
	return binary.LittleEndian.Uint64(word[:])
}

// inputs is what a synchronizer was told since it was new.
type inputs struct{ datagram, report bool }

// play feeds the calls on the tape to the synchronizers of w and checks after each
// call what must always be true.
func play(t *testing.T, w *world, in tape) {
	var told [2]inputs
	for calls := 0; len(in) > 0 && calls < 2000; calls++ {
		op := in.take(1)
		side := int(op & 1)
		s, other := w.ends()[side].s, w.ends()[1-side].s
		here, there := w.ends()[side].local, w.ends()[1-side].local
		datagram := func(stamp Counter24, recv uint64) {
			owd, ok := s.OnAuthenticatedDatagramTimestamp(stamp, recv)
			told[side].datagram = true
			minimum, okMin := s.MinimumOneWayDelay()
			if ok != okMin || !ok && owd != 0 || ok && (owd < minimum || owd > 134300*time.Millisecond) {
				t.Fatalf("call %d: one-way delay %v, %v; MinimumOneWayDelay %v, %v",
					calls, owd, ok, minimum, okMin)
			}
		}
		switch op >> 1 & 7 {
		case 0: // time goes on
			w.now += in.take(3)
		case 1: // time goes anywhere
			w.now += in.take(8)
		case 2: // time goes back a little
			w.now -= in.take(2)
		case 3: // a datagram that took up to a second
			delay := in.take(3) % 1_000_000
			datagram(LocalTimeToDatagramTS24(there-delay), here)
		case 4: // any datagram
			datagram(NewCounter24(in.take(3)), here)
		case 5: // the other's report
			if report, ok := other.MinDeltaTS24(there); ok {
				s.OnPeerMinDeltaTS24(report, here)
				told[side].report = true
			}
		case 6: // any report; bits above the ring do not count
			s.OnPeerMinDeltaTS24(Counter24(in.take(4)), here)
			told[side].report = true
		case 7:
			if in.take(1)%8 == 0 {
				s.Reset()
				told[side] = inputs{}
			}
		}
		if s.both.begun() && !s.both.sane() {
			t.Fatalf("call %d: the estimator would have to start anew: %+v", calls, s.both)
		}
		if report, ok := s.MinDeltaTS24(here); ok != told[side].datagram {
			t.Fatalf("call %d: MinDeltaTS24 %v, %v, but %+v", calls, report, ok, told[side])
		}
		_ = fmt.Sprint(s.Stats())
		for _, at := range []uint64{here, here + in.take(1)<<20, 0, math.MaxUint64} {
			if known(t, s, at, there) && !(told[side].datagram && told[side].report) {
				t.Fatalf("call %d: synchronized, but %+v", calls, told[side])
			}
		}
	}
}

// played returns the world in which all of a tape has happened: its clocks and its delay come
// first.
func played(t *testing.T, in []byte) *world {
	rest := tape(in)
	w := newWorld(rest.take(8), rest.take(8), rest.take(2)*8)
	play(t, w, rest)
	return w
}

// FuzzCalls: no sequence of calls breaks what must always be true, and Reset forgets all of it.
// Its seeds, as those of FuzzRecovery, are in testdata/fuzz: normal exchanges, absurd stamps and
// reports, time that jumps, a synchronizer that forgets in between.
func FuzzCalls(f *testing.F) {
	f.Fuzz(func(t *testing.T, in []byte) {
		w := played(t, in)
		w.a.Reset()
		w.b.Reset()
		if known(t, &w.a, w.now, 0) || known(t, &w.b, w.now, 0) {
			t.Fatal("synchronized after Reset")
		}
		w.run(2 * time.Second)
		w.check(t, "2 s after Reset", tolerance)
	})
}

// recovery is how much of a clean exchange, 20 datagrams a second, makes good whatever
// went before without a Reset: to a millisecond, or half the round trip if that is more.
// A wrong asymmetry has decayed by then, and the bound is right.
const recovery = 400 * time.Second

// FuzzRecovery: a long clean exchange leads back to the right offset after any
// stamps and reports, and after the clocks were set to anything and back. What is still
// wrong is within the bound.
func FuzzRecovery(f *testing.F) {
	f.Fuzz(func(t *testing.T, in []byte) {
		w := played(t, in)
		w.run(recovery)
		w.check(t, "after a clean exchange",
			max(time.Millisecond, time.Duration(w.delay)*time.Microsecond))
		for _, end := range w.ends() {
			off, _ := end.off()
			if bound, _ := end.s.ErrorBound(end.local); off.Abs() > bound+time.Microsecond {
				t.Errorf("off by %v, bound %v", off, bound)
			}
		}
	})
}

// ---- The world of these tests and those of synchronizer_test.go ----

// world is two synchronizers and a path between them whose truth is known.
type world struct {
	path
	a, b   TimeSynchronizer
	now    uint64 // A's clock, microseconds
	offset uint64 // B's clock minus A's at start
	start  uint64 // A's clock when B's showed start+offset
	rng    *rand.Rand
	queued [2]float64 // the jitter of to A, to B
	heard  original   // what B heard, if it is one
	sent   int
	long   bool                                  // no datagram takes the short path
	onOWD  func(owd time.Duration, truth uint64) // of each datagram to A; may be nil
}

// path is what a world has unless more is said: no noise, no skew, and a datagram each way every
// 50 ms.
type path struct {
	ppm      float64 // by which B's clock is faster
	delay    uint64  // of either way, microseconds
	longer   uint64  // by which the way from B to A takes longer than that
	every    uint64  // microseconds from datagram to datagram; 0 is 50 ms
	reports  int     // every so many datagrams a report; 0 is 10
	burst    int     // so many datagrams in a row share their jitter; 0 is 1
	jitter   float64 // mean of the exponential jitter of either way, microseconds
	lost     float64 // share of the datagrams
	mute     bool    // reports are lost
	original bool    // B reports as an original
}

// tolerance is allowed to a world without noise and skew. What the roundings cost
// exactly is in TestRoundTripError of internal/vectors, in timesync's repository.
const tolerance = 50 * time.Microsecond

// newWorld starts A's clock at now and B's at now+offset.
func newWorld(now, offset, delay uint64) *world {
	return &world{now: now, start: now, offset: offset, path: path{delay: delay}}
}

// remote returns B's clock at A's time now.
func (w *world) remote(now uint64) uint64 {
	return now + w.offset + uint64(int64(w.ppm*float64(now-w.start)/1e6))
}

// queue returns how long the next datagram to A (0) or B (1) queues.
func (w *world) queue(to int) uint64 {
	if w.jitter == 0 {
		return 0
	}
	if w.sent%max(w.burst, 1) == 0 {
		w.queued[to] = w.rng.ExpFloat64() * w.jitter
	}
	return uint64(w.queued[to])
}

// run exchanges datagrams and reports. Not all stamps fall on the same microsecond of a unit.
func (w *world) run(d time.Duration) {
	every, reports := cmp.Or(w.every, 50_000)+3, cmp.Or(w.reports, 10)
	for end := w.now + uint64(d.Microseconds()); int64(end-w.now) > 0; w.now += every {
		atA, atB := w.now+w.delay+w.longer+w.queue(0), w.remote(w.now+w.delay+w.queue(1))
		toA, toB := LocalTimeToDatagramTS24(w.remote(w.now)), LocalTimeToDatagramTS24(w.now)
		w.sent++
		var reportA, reportB Counter24
		var okA, okB bool
		if w.sent%reports == 2%reports && !w.mute { // reading a report ends its interval
			reportA, okA = w.a.MinDeltaTS24(w.now)
			reportB, okB = w.b.MinDeltaTS24(w.remote(w.now))
		}
		if w.long {
			w.a.bucket.span, w.b.bucket.span = 0, 0
		}
		here, there := w.lost == 0 || w.rng.Float64() >= w.lost, w.lost == 0 || w.rng.Float64() >= w.lost
		if here {
			if owd, ok := w.a.OnAuthenticatedDatagramTimestamp(toA, atA); ok && w.onOWD != nil {
				w.onOWD(owd, atA-w.now)
			}
		}
		if there {
			w.b.OnAuthenticatedDatagramTimestamp(toB, atB)
			if w.original {
				w.heard.datagram(toB, atB)
			}
		}
		if w.original && okB {
			reportB = w.heard.minDelta()
		}
		if okB && here {
			w.a.OnPeerMinDeltaTS24(reportB, atA)
		}
		if okA && there {
			w.b.OnPeerMinDeltaTS24(reportA, atB)
		}
	}
}

// original is what a peer with the C++ original, catid's TimeSync, heard: the lowest delta of
// about the last 10 s, the lowest that came after it, and the lowest after that one. It reports
// the first, and as that grows old, the others take its place: Kathleen Nichols' windowed minimum.
// As in the original, a delta of 0 counts as none.
type original [3]heard

// heard is a datagram: how much later than its stamp it came, and when.
type heard struct {
	delta Counter24
	at    uint64
}

// datagram hears one that came at recv.
func (o *original) datagram(stamp Counter24, recv uint64) {
	const window = 10_000_000 // microseconds
	now := heard{LocalTimeToDatagramTS24(recv).Sub(stamp), recv}
	lower := func(i int) bool { return !o[i].delta.Less(now.delta) }
	older := func(i int, age uint64) bool { return recv-o[i].at > age }
	switch {
	case o[0].delta == 0, lower(0), older(2, window):
		*o = original{now, now, now}
		return
	case lower(1):
		o[1], o[2] = now, now
	case lower(2):
		o[2] = now
	}
	switch {
	case older(0, window) && older(1, window):
		*o = original{o[2], now, now}
	case older(0, window):
		*o = original{o[1], o[2], now}
	case o[1].delta == o[0].delta && older(1, window/4):
		o[1], o[2] = now, now
	case o[2].delta == o[1].delta && older(2, window/2):
		o[2] = now
	}
}

// minDelta returns what the original reports.
func (o *original) minDelta() Counter24 { return o[0].delta }

// end is one of the two, the time that its clock shows, and what it should say of the other's.
type end struct {
	s            *TimeSynchronizer
	local, truth uint64
}

// off returns by how much the remote time is off. The offset is known modulo 67.1 s.
func (e end) off() (time.Duration, bool) {
	got, ok := remoteNear(e.s, e.local, e.truth)
	return time.Duration(got-e.truth) * time.Microsecond, ok
}

func (w *world) ends() [2]end {
	remote := w.remote(w.now)
	return [2]end{{&w.a, w.now, remote}, {&w.b, remote, w.now}}
}

// check demands that both offsets are known and right.
func (w *world) check(t *testing.T, what string, within time.Duration) {
	t.Helper()
	for i, end := range w.ends() {
		if off, ok := end.off(); !ok || off.Abs() > within {
			t.Fatalf("%s: end %d is %v off, ok %v; now %#x, offset %#x, delay %d us",
				what, i, off, ok, w.now, w.offset, w.delay)
		}
	}
}

// congested returns the buckets in which all datagrams queued, of both ends.
func (w *world) congested() int64 {
	return int64(w.a.Stats().QueuedSpans + w.b.Stats().QueuedSpans)
}

// setB sets B's clock, setA A's. Both say by how many microseconds.
func setB(us int64) func(*world) { return func(w *world) { w.offset += uint64(us) } }

func setA(us int64) func(*world) {
	return func(w *world) {
		w.now, w.start, w.offset = w.now+uint64(us), w.start+uint64(us), w.offset-uint64(us)
	}
}

// rate makes B's clock run faster by ppm from now on.
func rate(ppm float64) func(*world) {
	return func(w *world) { w.offset, w.start, w.ppm = w.remote(w.now)-w.now, w.now, ppm }
}

// longer makes the way from B to A take so much longer.
func longer(us uint64) func(*world) { return func(w *world) { w.longer = us } }

// both makes either way take so long.
func both(us uint64) func(*world) { return func(w *world) { w.delay = us } }

// silence lets nothing arrive for so many seconds.
func silence(s uint64) func(*world) { return func(w *world) { w.now += s * 1e6 } }

// early hands A stamps that are early by us, so many in a row.
func early(n int, us uint64) func(*world) {
	return func(w *world) {
		for range n {
			w.a.OnAuthenticatedDatagramTimestamp(LocalTimeToDatagramTS24(w.remote(w.now)+us),
				w.now+w.delay+w.longer)
		}
	}
}

// known returns what all answers say about whether the offset is known. They
// must agree, with zeros if it is not.
func known(t testing.TB, s *TimeSynchronizer, local, near uint64) bool {
	t.Helper()
	delay, ok := s.MinimumOneWayDelay()
	toPeer, okToPeer := s.MinimumDelayToPeer()
	snapshot, okSnapshot := s.Snapshot(local)
	remote, okRemote := remoteNear(s, local, near)
	ts23, ok23 := s.ToRemoteTime23(local)
	ts16, ok16 := s.ToRemoteTime16(local)
	ppm, okSkew := s.Skew()
	bound, okBound := s.ErrorBound(local)
	all := []bool{ok, s.IsSynchronized(), okToPeer, okSnapshot, okRemote, ok23, ok16, okBound}
	far, _ := s.ErrorBound(local + 1<<63) // 292,000 years
	// SkewError grows with the time from what was heard last, where Skew judges.
	surely, d := ok && snapshot.SkewError <= 25, int64(remote-near)
	least := min(delay, toPeer, bound, snapshot.Jitter, snapshot.FloorScatter,
		snapshot.Age, snapshot.SinceStep)
	switch {
	case slices.Contains(all, !ok), surely && !okSkew, okSkew && (!ok || snapshot.Skew != ppm),
		snapshot.MinimumOneWayDelay != delay, snapshot.MinimumDelayToPeer != toPeer,
		snapshot.ErrorBound != bound,
		least < 0,
		!(math.Abs(ppm) <= 1000.5), // nor NaN
		ok && (nearest(snapshot.RemoteUsec, near) != remote ||
			snapshot.OffsetUsec != int64(snapshot.RemoteUsec-local)),
		ok && (d < -1<<25 || d >= 1<<25), // it is the nearest
		// All three say the same instant, rounded to their units.
		ok && (ts23 != NewCounter23((remote+4)/8) || ts16 != NewCounter16((remote+256)/512)),
		ok && max(bound, far) != maxOffset*time.Microsecond,
		!ok && (remote != 0 || ts23 != 0 || ts16 != 0 || ppm != 0 || snapshot != (Snapshot{})):
		t.Fatalf("at %#x, known %v: remote time %#x near %#x, TS23 %v, TS16 %v, delays %v and %v, "+
			"skew %v, %v, bound %v, at the other end of time %v; %#v",
			local, all, remote, near, ts23, ts16, delay, toPeer,
			ppm, okSkew, bound, far, snapshot)
	}
	return ok
}

// remoteNear returns the remote time nearest to near: the offset is known modulo 67.1 s.
func remoteNear(s *TimeSynchronizer, localUsec, near uint64) (remoteUsec uint64, ok bool) {
	if remoteUsec, ok = s.RemoteTime(localUsec); !ok {
		return remoteUsec, false
	}
	return nearest(remoteUsec, near), true
}

// ---- Courses: what happens in such worlds, for TestCourses ----

// incident is what happens in a world after some seconds.
type incident struct {
	at     int
	happen func(w *world)
}

// course is a world and what happens in it.
type course struct {
	name, guards string
	path
	events  []incident
	mixture int // so many random events instead
	length  int // s; 0 is 120
}

// score is how well both ends do in three worlds of a course, by column.
type score map[string]int64

// columns are the numbers of a score. Errors are those of the offset from 30 s on, but for the 15
// s after an event.
var columns = []struct {
	name, unit string
	same       bool // it is to be the same; else it may be less
}{
	{"Mean", "ns", false}, // error
	{"P99", "us", false},  // error
	// until the last error above 1 ms after the last event, in the worst of the worlds
	{"Back", "ms", false},
	{"OWD", "ns", false},   // mean error of one-way delays, then, too
	{"Early", "ns", false}, // mean error of the offset in the first 30 s
	{"Beyond", "1", false}, // errors beyond the bound
	// error of the sum of both minimum one-way delays in the end, the largest
	{"Delay", "us", false},
	{"Skew", "ppb", false},     // its error in the end, the largest
	{"Bound", "us", true},      // mean, always
	{"Jitter", "us", true},     // in the end, of all ends
	{"Undisturbed", "s", true}, // in the end, of all ends
	{"Congested", "1", true},   // buckets
	{"Steps", "1", true},       // of all ends
}

// worse returns the columns in which a score is not as good as another: an error is greater, or
// what is counted is not the same. Where the compiler fuses multiplications and additions,
// roundings differ, and what they decide with them.
func (s score) worse(want score) (names []string) {
	share, few := int64(50), int64(2)
	switch runtime.GOARCH {
	case "arm64", "loong64", "ppc64", "ppc64le", "riscv64", "s390x":
		share, few = 1, 50
	}
	most := func(n int64) int64 { return n + n/share + few }
	for _, c := range columns {
		a, b := s[c.name], want[c.name]
		bad := a > most(b) || c.same && b > most(a)
		switch c.name {
		case "Beyond":
			bad = a > b
		case "Steps":
			bad = a != b && share > 1
		}
		if bad {
			names = append(names, c.name)
		}
	}
	return names
}

// play returns the score of a course.
func (c *course) play() score {
	s, n := score{}, score{}
	mean := func(column string, v int64) { s[column], n[column] = s[column]+max(v, -v), n[column]+1 }
	most := func(column string, v int64) { s[column] = max(s[column], v, -v) }
	var errs []int64
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 3))
		w := newWorld(rng.Uint64(), rng.Uint64(), 0)
		w.path, w.rng = c.path, rng
		events, last, judged := c.events, int64(0), false
		if c.mixture > 0 {
			events = mixture(rng, c.mixture)
		}
		w.onOWD = func(owd time.Duration, truth uint64) {
			if judged {
				mean("OWD", int64(owd)-int64(truth)*1000)
			}
		}
		poll := int64(max(w.every, 100_000))
		for at := int64(0); at < 1e6*int64(cmp.Or(c.length, 120)); at += poll {
			if len(events) > 0 && at >= 1e6*int64(events[0].at) {
				s["Congested"] += w.congested()
				events[0].happen(w) // which may reset an end
				last, events = at, events[1:]
				s["Congested"] -= w.congested()
			}
			w.run(time.Duration(poll) * time.Microsecond)
			since := at + poll - last // us
			judged = since > 15e6 && at > 30e6
			for _, end := range w.ends() {
				off, ok := end.off()
				if !ok {
					continue
				}
				limit, _ := end.s.ErrorBound(end.local)
				e, bound := off.Abs().Microseconds(), limit.Microseconds()
				mean("Bound", bound)
				if e > 1000 {
					most("Back", since/1000)
				}
				if at < 30e6 {
					mean("Early", e*1000)
				}
				if judged {
					mean("Mean", e*1000)
					errs = append(errs, e)
				}
				if judged && e > bound {
					s["Beyond"]++
				}
			}
		}
		for i, end := range w.ends() {
			snapshot, _ := end.s.Snapshot(end.local)
			s["Steps"] += int64(snapshot.Steps)
			s["Jitter"] += snapshot.FloorScatter.Microseconds()
			s["Undisturbed"] += int64(snapshot.SinceStep.Seconds())
			most("Skew", int64(1000*(snapshot.Skew-w.ppm*float64(1-2*i))))
		}
		toA, _ := w.a.MinimumOneWayDelay()
		toB, _ := w.b.MinimumOneWayDelay()
		most("Delay", (toA+toB).Microseconds()-int64(2*w.delay+w.longer))
		s["Congested"] += w.congested()
	}
	for column := range n {
		s[column] /= n[column]
	}
	slices.Sort(errs)
	s["P99"] = errs[len(errs)*99/100]
	return s
}

// mixture draws n events, each 25 s after the one before.
func mixture(rng *rand.Rand, n int) (events []incident) {
	for i := range n {
		at, size := 30+25*i, math.Exp(rng.Float64()*7) // 1 to 1100
		ms := int64(1000*size) * (1 - 2*rng.Int64N(2))
		events = append(events, [][]incident{
			{{at, setB(ms)}},
			{{at, setA(ms)}},
			{{at, setB(ms / 100)}},
			{{at, longer(uint64(rng.IntN(60_000)))}},
			{{at, both(uint64(rng.IntN(60_000)))}},
			{{at, longer(uint64(100 * size))}, {at + 7, longer(0)}},
			{{at, rate(rng.Float64()*160 - 80)}},
			{{at, silence(uint64(size / 10))}},
			{{at, early(1+rng.IntN(4), uint64(100*size))}},
			{{at, func(w *world) { w.jitter = size * 5 }}},
			{{at, func(w *world) { w.reports = 1 + rng.IntN(60) }}},
			{{at, func(w *world) { w.burst = 1 + rng.IntN(6) }}},
		}[rng.IntN(12)]...)
	}
	return events
}

var usual = path{delay: 20_000, jitter: 1000, ppm: 40}
var overtaking = path{delay: 30_000, jitter: 20_000, every: 16_667, ppm: 40}
var short = path{delay: 100, jitter: 20, ppm: 20}

var courses = []course{
	{
		name:   "jitter of 3 ms",
		guards: "accuracy on a usual path",
		path:   path{delay: 20_000, jitter: 3000, every: 16_667, ppm: 40},
	},
	{
		name:   "jitter of 0.1 ms",
		guards: "accuracy in a local network",
		path:   path{delay: 200, jitter: 100, every: 16_667, ppm: -40},
	},
	{
		name:   "no jitter at 300 ppm",
		guards: "roundings, and a skew beyond that of crystals",
		path:   path{delay: 20_000, ppm: 300},
	},
	{
		name:   "frames of 8 that share jitter",
		guards: "the spread where datagrams share their delay",
		path:   path{delay: 20_000, jitter: 3000, every: 4000, burst: 8, reports: 120, ppm: 40},
	},
	{
		name:   "one a second",
		guards: "points, gates and the first spreads where buckets hold one datagram",
		path:   path{delay: 20_000, jitter: 1000, every: 1e6, reports: 1, ppm: 20},
		length: 600,
	},
	{
		name:   "one a minute",
		guards: "buckets of a minute, and a bound that is believed",
		path:   path{delay: 20_000, jitter: 1000, every: 60e6, reports: 1, ppm: 20},
		length: 18_000,
	},
	{
		name:   "one in 10 s on a short path",
		guards: "drift that is more than the path",
		path:   path{delay: 100, jitter: 20, every: 10e6, reports: 1, ppm: 20},
		length: 600,
	},
	{
		name:   "a third is lost",
		guards: "nothing rests on each datagram",
		path:   path{delay: 20_000, jitter: 3000, lost: 0.3, ppm: 40},
	},
	{name: "receive times go back", guards: "datagrams that overtake others", path: overtaking},
	{
		name:   "receive times go back, where deltas wrap at A",
		guards: "the end of the ring of deltas",
		path:   overtaking,
		events: []incident{{0, func(w *world) { w.offset = 1<<26 + 40_000 }}},
	},
	{
		name:   "receive times go back, where deltas wrap at B",
		guards: "the same at the other end",
		path:   overtaking,
		events: []incident{{0, func(w *world) { w.offset = 1<<26 - 40_000 }}},
	},
	{
		name:   "a peer that is an original",
		guards: "minima of 10 s",
		path:   path{delay: 20_000, jitter: 1000, every: 16_667, original: true, ppm: 40},
	},
	{
		name:   "step of an original",
		guards: "a step that an original reports after 10 s",
		path:   path{delay: 20_000, jitter: 1000, original: true, ppm: 40},
		events: []incident{{60, setB(5000)}},
	},
	{
		name:   "step back of an original",
		guards: "a step that an original reports at once",
		path:   path{delay: 20_000, jitter: 1000, original: true, ppm: 40},
		events: []incident{{60, setB(-5000)}},
	},
	{
		name:   "queue beside an original",
		guards: "a queue is not taken for the clock of an original",
		path:   path{delay: 20_000, jitter: 1000, original: true},
		events: []incident{{40, longer(100_000)}, {44, longer(0)}},
	},
	{
		name:   "short queue to A",
		guards: "a queue moves neither floor nor offset",
		path:   usual,
		events: []incident{{40, longer(100_000)}, {48, longer(0)}},
	},
	{
		name:   "long queue to A",
		guards: "a plateau raises the floor, and the offset stays",
		path:   usual,
		events: []incident{{40, longer(100_000)}, {100, longer(0)}},
		length: 160,
	},
	{
		name:   "queue both ways",
		guards: "a round trip that is longer both ways",
		path:   usual,
		events: []incident{{40, both(80_000)}, {55, both(20_000)}},
	},
	{
		name:   "queue at the start",
		guards: "the first round trip is replaced by a shorter one",
		path:   path{delay: 70_000, jitter: 1000, ppm: 40},
		events: []incident{{3, both(20_000)}},
		length: 60,
	},
	{
		name:   "queue one way at the start",
		guards: "a wrong first offset is corrected as the queue ends",
		path:   path{delay: 20_000, longer: 50_000, jitter: 1000, ppm: 40},
		events: []incident{{3, longer(0)}},
		length: 60,
	},
	{
		name:   "queue one way at the start, and the way longer by as much",
		guards: "what passes for a clock that was set early",
		path:   path{delay: 20_000, longer: 20_000, jitter: 1000, ppm: 40},
		events: []incident{{3, longer(0)}, {12, longer(20_000)}},
		length: 50,
	},
	{
		name:   "longer way to A",
		guards: "an asymmetry is kept",
		path:   usual,
		events: []incident{{60, longer(20_000)}},
		length: 200,
	},
	{
		name:   "longer way to A, and back",
		guards: "an asymmetry ends where it began",
		path:   usual,
		events: []incident{{60, longer(20_000)}, {120, longer(0)}},
		length: 180,
	},
	{
		name:   "longer way to A fades",
		guards: "an asymmetry decays, but slowly",
		path:   usual,
		events: []incident{{60, longer(20_000)}},
		length: 500,
	},
	{
		name:   "shorter way to A",
		guards: "a shorter way moves the offset no more than it must",
		path:   path{delay: 20_000, longer: 20_000, jitter: 1000, ppm: 40},
		events: []incident{{60, longer(0)}},
		length: 160,
	},
	{
		name:   "a longer way makes both equal",
		guards: "no asymmetry is made up where both ways change",
		path:   path{delay: 20_000, longer: 20_000, jitter: 1000, ppm: 40},
		events: []incident{{20, func(w *world) { w.delay, w.longer = 40_000, 0 }}},
		length: 180,
	},
	{
		name:   "a new A behind a queue, and the first report",
		guards: "what is known after a Reset",
		path:   path{delay: 20_000, jitter: 1000, ppm: 40, reports: 2, mute: true},
		events: []incident{{60, func(w *world) {
			w.a.Reset()
			w.mute = false
			w.longer = 50_000
		}}, {63, longer(0)}},
	},
	{
		name:   "longer ways",
		guards: "both floors rise, and no clock was set",
		path:   usual,
		events: []incident{{60, both(40_000)}},
	},
	{
		name:   "shorter ways",
		guards: "both floors fall, and no clock was set",
		path:   path{delay: 40_000, jitter: 1000, ppm: 40},
		events: []incident{{60, both(20_000)}},
	},
	{
		name:   "B's clock set by 0.3 ms",
		guards: "a step below all gates",
		path:   path{delay: 20_000, jitter: 300, ppm: 40},
		events: []incident{{60, setB(300)}},
	},
	{
		name:   "B's clock set by 5 ms",
		guards: "a step that makes the own datagrams early",
		path:   usual,
		events: []incident{{60, setB(5000)}},
	},
	{
		name:   "B's clock set back by 5 ms",
		guards: "a step that makes the own datagrams late",
		path:   usual,
		events: []incident{{60, setB(-5000)}},
	},
	{
		name:   "A's clock set by 300 ms",
		guards: "a large step, of the local clock",
		path:   usual,
		events: []incident{{60, setA(300_000)}},
	},
	{
		name:   "A's clock set back by 300 ms",
		guards: "receive times that go back",
		path:   usual,
		events: []incident{{60, setA(-300_000)}},
	},
	{
		name:   "B's clock set by 40 s",
		guards: "a step of more than half a ring",
		path:   usual,
		events: []incident{{60, setB(40e6)}},
	},
	{
		name:   "B's clock set back by 2 s, and again",
		guards: "another step before the first is learnt",
		path:   usual,
		events: []incident{{60, setB(-2e6)}, {62, setB(-2e6)}},
	},
	{
		name:   "A's clock set by 11 days",
		guards: "a local clock far from where it was",
		path:   usual,
		events: []incident{{60, setA(1.1e12)}},
	},
	{
		name:   "A's clock set ahead by two hours",
		guards: "what looks like a silence",
		path:   usual,
		events: []incident{{60, setA(100<<26 - 100_000)}},
	},
	{
		name:   "B's clock set early",
		guards: "a step in warm-up, where it looks like a queue",
		path:   usual,
		events: []incident{{4, setB(20_000)}},
		length: 60,
	},
	{
		name:   "B's clock set back early",
		guards: "the same, late datagrams first",
		path:   usual,
		events: []incident{{4, setB(-20_000)}},
		length: 60,
	},
	{
		name:   "B's clock set in a queue",
		guards: "a step that a queue hides",
		path:   usual,
		events: []incident{{60, longer(60_000)}, {62, setB(8000)}, {66, longer(0)}},
	},
	{
		name:   "B's clock set back, one report in 5 s",
		guards: "a step that is reported seconds later",
		path:   path{delay: 20_000, jitter: 1000, reports: 100, ppm: 40},
		events: []incident{{60, setB(-8000)}},
	},
	{
		name:   "B's clock set without reports",
		guards: "a step that nobody reports",
		path:   usual,
		events: []incident{
			{60, func(w *world) { w.mute = true }},
			{61, setB(8000)},
			{90, func(w *world) { w.mute = false }},
		},
	},
	{
		name:   "a new B whose clock was set, without reports",
		guards: "what datagrams alone show",
		path:   path{delay: 30_000},
		events: []incident{{60, func(w *world) {
			w.b.Reset()
			w.mute = true
			setB(5e6)(w)
		}}, {105, longer(40_000)}, {150, longer(0)}},
		length: 195,
	},
	{
		name:   "B's clock slewed",
		guards: "a slope that changes, datagrams become early",
		path:   usual,
		events: []incident{{60, rate(500)}, {80, rate(40)}},
		length: 160,
	},
	{
		name:   "B's clock slewed the other way",
		guards: "a slope that changes, datagrams become late",
		path:   usual,
		events: []incident{{60, rate(-500)}, {80, rate(40)}},
		length: 160,
	},
	{
		name:   "another rate",
		guards: "a clock that goes on at another rate",
		path:   usual,
		events: []incident{{60, rate(-40)}},
		length: 200,
	},
	{
		name:   "more jitter",
		guards: "gates that follow a larger spread",
		path:   path{delay: 20_000, jitter: 100, ppm: 40},
		events: []incident{{60, func(w *world) { w.jitter = 5000 }}},
		length: 160,
	},
	{
		name:   "less jitter",
		guards: "gates that follow a smaller spread",
		path:   path{delay: 20_000, jitter: 5000, ppm: 40},
		events: []incident{{60, func(w *world) { w.jitter = 100 }}},
		length: 160,
	},
	{
		name:   "silence for 5 min",
		guards: "old points after a silence",
		path:   usual,
		events: []incident{{60, silence(300)}},
	},
	{
		name:   "silence, and B's clock set",
		guards: "a step during a silence",
		path:   usual,
		events: []incident{{60, func(w *world) {
			silence(30)(w)
			setB(50_000)(w)
		}}},
	},
	{
		name:   "two early datagrams",
		guards: "two early datagrams change nothing",
		path:   usual,
		events: []incident{{60, early(2, 1_000_000)}},
	},
	{
		name:   "three early datagrams",
		guards: "three do, and late ones undo it",
		path:   usual,
		events: []incident{{60, early(3, 30_000)}},
	},
	{
		name:   "a new B",
		guards: "a peer that started anew",
		path:   usual,
		events: []incident{{60, func(w *world) {
			w.b.Reset()
			setB(7_654_321)(w)
		}}},
	},
	{
		name:   "a clock set without jitter",
		guards: "a step of ten times the rounding",
		path:   path{delay: 20_000, ppm: -40},
		events: []incident{{60, setB(-1300)}},
	},
	{
		name:   "B's clock set back at one a second",
		guards: "a step that few datagrams show, late ones",
		path:   path{delay: 20_000, jitter: 1000, every: 1e6, reports: 1, ppm: 20},
		events: []incident{{120, setB(-5000)}},
		length: 300,
	},
	{
		name:   "B's clock set at one a second",
		guards: "a step that few datagrams show, early ones",
		path:   path{delay: 20_000, jitter: 1000, every: 1e6, reports: 2, ppm: 20},
		events: []incident{{120, setB(5000)}},
		length: 300,
	},
	{
		name:   "B's clock set back on a short path",
		guards: "a step that would make the round trip negative",
		path:   short,
		events: []incident{{60, setB(-40_000)}},
	},
	{
		name:   "A's clock set back on a short path, reports each 5 s",
		guards: "the same, reported seconds later",
		path:   path{delay: 100, jitter: 20, reports: 100, ppm: 20},
		events: []incident{{60, setA(-40_000)}},
	},
	{
		name:   "a peer whose rate wanders",
		guards: "a slope that is followed",
		path:   path{delay: 200, jitter: 100, ppm: 20},
		events: []incident{{40, rate(22)}, {60, rate(18)}, {80, rate(23)}, {100, rate(20)}},
		length: 140,
	},
	{
		name:   "a queue for 90 s at 100 ppm",
		guards: "the slope in a queue of which no datagram comes near",
		path:   path{delay: 20_000, jitter: 1000, ppm: -100},
		events: []incident{{30, longer(80_000)}, {120, longer(0)}},
		length: 180,
	},
	{
		name:   "B's clock much slower for a while",
		guards: "slews of the largest skew",
		path:   usual,
		events: []incident{{40, rate(-900)}, {120, rate(40)}},
		length: 220,
	},
	{
		name:   "B's clock much faster for a while",
		guards: "the same, the other way",
		path:   usual,
		events: []incident{{40, rate(900)}, {120, rate(40)}},
		length: 220,
	},
	{
		name:   "B's clock slewed in a queue on a short path",
		guards: "a slew that a queue hides",
		path:   short,
		events: []incident{{60, longer(50_000)}, {60, rate(-400)}, {69, rate(20)}, {69, longer(0)}},
	},
	{
		name:   "B's clock slewed the other way in a queue there",
		guards: "the same, the other way",
		path:   short,
		events: []incident{{60, longer(50_000)}, {60, rate(400)}, {69, rate(20)}, {69, longer(0)}},
	},
	{
		name:   "a wrong skew, and a queue on a short path",
		guards: "a skew that was learnt too early",
		path:   path{delay: 100, jitter: 20, ppm: 400},
		events: []incident{{5, longer(30_000)}, {5, rate(0)}, {14, longer(0)}},
		length: 60,
	},
	{
		name:   "little arrives",
		guards: "a path that loses nine of ten",
		path:   path{delay: 20_000, jitter: 5000, lost: 0.9, reports: 2, ppm: 40},
		length: 300,
	},
	{
		name:    "a mixture",
		guards:  "what no other course thought of",
		path:    path{delay: 20_000, jitter: 1000, ppm: 30},
		mixture: 20,
		length:  560,
	},
	{
		name:    "a mixture on a short path",
		guards:  "the same where bounds are narrow",
		path:    path{delay: 300, jitter: 100, ppm: -30},
		mixture: 20,
		length:  560,
	},
	{
		name:    "another mixture on a short path",
		guards:  "a slope that no line holds is forgotten",
		path:    path{delay: 300, jitter: 100, ppm: -30},
		mixture: 17,
		length:  485,
	},
	{
		name:    "a mixture at 5 a second",
		guards:  "the same with few datagrams",
		path:    path{delay: 20_000, jitter: 2000, every: 200_000, reports: 5, ppm: 30},
		mixture: 20,
		length:  560,
	},
	{
		name:    "a mixture with an original",
		guards:  "the same beside an original",
		path:    path{delay: 20_000, jitter: 1000, original: true, ppm: 30},
		mixture: 20,
		length:  560,
	},
	{
		name:    "a mixture from the start",
		guards:  "the same in warm-up",
		path:    path{delay: 20_000, jitter: 1000, lost: 0.1, ppm: 30},
		mixture: 3,
		length:  60,
	},
	{
		name:   "a new A",
		guards: "what is known after a Reset, without a queue",
		path:   usual,
		events: []incident{{60, func(w *world) { w.a.Reset() }}},
	},
}
