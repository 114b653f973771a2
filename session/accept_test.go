// What Accept makes of announcements that are right, late, repeated, forged or of other bytes.

package session

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"timesync"
	"timesync/link"
	"timesync/ping"
)

var _ = [...]RemoteClock{(*link.Link)(nil), (*timesync.TimeSynchronizer)(nil), (*ping.Clock)(nil)}

// fake is a clock that is offset ahead of the local one.
type fake struct {
	offset uint64
	s      timesync.Snapshot
	lost   bool
	leaves bool // after it was asked once
}

func newFake(offset uint64) *fake {
	return &fake{offset: offset, s: timesync.Snapshot{ErrorBound: 10 * ms, SkewError: 5}}
}

func (f *fake) Snapshot(localUsec uint64) (timesync.Snapshot, bool) {
	s := f.s
	s.RemoteUsec = localUsec + f.offset
	s.OffsetUsec = int64(f.offset)
	known := !f.lost
	f.lost = f.lost || f.leaves
	return s, known
}

// says returns what a host announces that is in this generation when its clock shows at.
func says(generation, at, usec uint64) []byte {
	return (&line{at: at, usec: usec}).append(nil, generation)
}

// member returns a member with identity 2 that follows host 3, in generation 5, whose clock is
// 1000 s ahead of the local one and 50 s behind session time. Its local clock shows 1 s.
func member(t *testing.T) (*Member, *fake) {
	t.Helper()
	m := New(2)
	clock := newFake(1000e6)
	must(t, m.Accept(3, clock, says(5, 1000.99e6, 1050.99e6), 1e6))
	return m, clock
}

// isAt fails if a member does not have that session time and host.
func isAt(
	t *testing.T, m *Member, localUsec, usec uint64, bound time.Duration,
	host, generation uint64, steps uint32,
) {
	t.Helper()
	r, _ := m.Read(localUsec)
	want := r // but for these
	want.Host = host
	want.Generation = generation
	want.Steps = steps
	check(t, r, want, "at %d", localUsec)
	if magnitude(int64(r.Usec-usec)) > 2 || r.Bound < bound || r.Bound > bound+ms {
		t.Errorf("at %d: %+v, want %d, bound %v", localUsec, r, usec, bound)
	}
}

func TestWire(t *testing.T) {
	a := announcement{0x0102030405060708, line{
		at:     0x1112131415161718,
		usec:   0x2122232425262728,
		rate:   -2,
		bound:  0x31323334,
		growth: 0x41424344,
	}}
	want := "\x01" + // version
		"\x08\x07\x06\x05\x04\x03\x02\x01" + // generation
		"\x18\x17\x16\x15\x14\x13\x12\x11" + // host time
		"\x28\x27\x26\x25\x24\x23\x22\x21" + // session time
		"\xfe\xff\xff\xff" + // rate
		"\x34\x33\x32\x31" + // bound
		"\x44\x43\x42\x41" // growth
	check(t, fmt.Sprintf("%x", a.append(nil, a.generation)), fmt.Sprintf("%x", want), "written")
	got, _ := parse([]byte(want))
	check(t, got, a, "read")
}

func TestFoundAndHost(t *testing.T) {
	m := New(7)
	_, reads := m.Read(0)
	_, reaches := m.LocalTime(0)
	_, announces := m.Announce(nil, 0)
	check(t, [...]bool{reads, reaches, announces}, [3]bool{}, "known before there is a session")
	check(t, m.BecomeHost(0), ErrNone, "BecomeHost")
	must(t, m.Create(math.MaxUint64-9, 5))
	must(t, m.BecomeHost(10)) // the local clock wraps
	check(t, m.Create(0, 0), ErrKnown, "Create again")
	isAt(t, m, 90, 105, 0, 7, 1, 0)
	isAt(t, m, math.MaxUint64-99, math.MaxUint64-84, 0, 7, 1, 0)
	local, _ := m.LocalTime(105)
	check(t, local, 90, "105 is reached at")
	announced, _ := m.Announce([]byte("x"), 90)
	want := fmt.Sprintf("%x%x", "x", says(1, 90, 105))
	check(t, fmt.Sprintf("%x", announced), want, "the announcement")
}

// TestErrors: each of these leaves the member as it was.
func TestErrors(t *testing.T) {
	fit := says(5, 1001.99e6, 1051.99e6)
	change := func(at int, to ...byte) []byte {
		return append(append(append([]byte{}, fit[:at]...), to...), fit[at+len(to):]...)
	}
	wide := newFake(1000e6)
	wide.s.ErrorBound = 2 * sec
	lost := newFake(1000e6)
	leaves := newFake(1000e6)
	lost.lost, leaves.leaves = true, true
	for _, c := range []struct {
		name  string
		from  uint64
		clock RemoteClock
		bytes []byte
		want  error
	}{
		{"no bytes", 3, nil, nil, ErrMalformed},
		{"too short", 3, nil, fit[:36], ErrMalformed},
		{"too long", 3, nil, append(change(0, 1), 0), ErrMalformed},
		{"another version", 3, nil, change(0, 2), ErrMalformed},
		{"generation 0", 3, nil, says(0, 1001.99e6, 1051.99e6), ErrMalformed},
		{"generation 2^63", 3, nil, says(1<<63, 1001.99e6, 1051.99e6), ErrMalformed},
		{"a rate that no clock has", 3, nil, change(25, 0x41, 0x0d, 0x03, 0), ErrMalformed},
		{"the own identity", 2, nil, says(6, 1001.99e6, 1051.99e6), ErrIdentity},
		{"an earlier generation", 9, nil, says(4, 1001.99e6, 1051.99e6), ErrOld},
		{"an earlier generation of the host", 3, nil, says(4, 1001.99e6, 1051.99e6), ErrOld},
		{"a lower identity", 1, nil, fit, ErrOld},
		{"a generation made up", 9, nil, says(5+1<<32+1, 1001.99e6, 1051.99e6), ErrGeneration},
		{"the latest generation", 9, nil, says(math.MaxInt64, 1001.99e6, 1051.99e6), ErrGeneration},
		{"no clock", 9, nil, says(6, 1001.99e6, 1051.99e6), ErrClock},
		{"a clock that is not known", 9, lost, says(6, 1001.99e6, 1051.99e6), ErrClock},
		{"a clock that is lost meanwhile", 9, leaves, says(6, 1001.99e6, 1051.99e6), ErrClock},
		{"a clock that is hardly known", 9, wide, says(6, 1001.99e6, 1051.99e6), ErrClock},
		{"the clock of another peer", 9, newFake(2000e6), says(6, 1001.99e6, 1051.99e6), ErrClock},
		{"from the future", 3, newFake(1000e6), says(5, 1002.02e6, 1052.02e6), ErrClock},
		{"17 s old", 3, newFake(1000e6), says(5, 985e6, 1035e6), ErrClock},
		{"another time", 3, newFake(1000e6), says(5, 1001.99e6, 1051.99e6+3), ErrChanged},
		{"another rate", 3, newFake(1000e6), change(25, 1), ErrChanged},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, _ := member(t)
			check(t, m.Accept(c.from, c.clock, c.bytes, 2e6), c.want, "the error")
			isAt(t, m, 2e6, 1052e6, 10*ms, 3, 5, 0)
		})
	}
}

// TestOrder: announcements that are lost, repeated and reordered are harmless, and all members
// decide the same.
func TestOrder(t *testing.T) {
	m, clock := member(t)
	for _, at := range []uint64{1005e6, 1003e6, 1005e6, 1004e6} {
		must(t, m.Accept(3, clock, says(5, at, at+50e6), 6e6))
		isAt(t, m, 6e6, 1056e6, 10*ms, 3, 5, 0)
	}
	higher := newFake(3000e6)
	must(t, m.Accept(4, higher, says(5, 3006e6, 1056e6), 6e6)) // the same generation
	check(t, m.Accept(3, clock, says(5, 1006e6, 1056e6), 7e6), ErrOld, "the former host")
	must(t, m.Accept(1, clock, says(6, 1007e6, 1057e6), 7e6)) // a later one
	isAt(t, m, 8e6, 1058e6, 10*ms, 1, 6, 0)
}

// TestSlew: a host whose time differs by up to 50 ms is followed at five or three quarters of the
// speed, 20 ms later; by more, at once. Bound contains what is still to be slewed. Announcements
// may come as often as one likes: they neither delay nor hasten that.
func TestSlew(t *testing.T) {
	differences := []int64{40_000, -40_000, 50_000, -50_000, 50_010, -50_010, 1e15, -1e9} // us
	for _, differs := range differences {
		for _, every := range []uint64{1000, 1e9} {
			m, clock := member(t)
			for now := uint64(2e6); now < 2.3e6; now += 1000 {
				if (now-2e6)%every == 0 {
					said := says(6, now+999.99e6, now+1049.99e6+uint64(differs))
					must(t, m.Accept(9, clock, said, now))
				}
				slewed := differs
				steps := uint32(1)
				bound := 10 * ms
				hostBound := 10 * ms
				if magnitude(differs) <= 50_000 {
					most := max(int64(now-2.02e6), 0) / 4
					slewed = min(max(differs, -most), most)
					steps = 0
					hostBound += time.Duration(magnitude(differs-slewed)) * us
					if now >= 2.02e6 {
						bound = hostBound // the line before the change has the old one
					}
				}
				isAt(t, m, now, now+1050e6+uint64(slewed), bound, 9, 6, steps)
				if r, _ := m.Read(now); r.HostBound < hostBound {
					t.Errorf("differs by %d, at %d: HostBound %v, want %v",
						differs, now, r.HostBound, hostBound)
				}
			}
		}
	}
}

// TestNewConnection: the same host by another clock is slewed to.
func TestNewConnection(t *testing.T) {
	m, _ := member(t)
	other := newFake(1000e6 + 4000)
	must(t, m.Accept(3, other, says(5, 1001.99e6, 1051.99e6), 2e6))
	isAt(t, m, 2.02e6, 1052.02e6, 14*ms, 3, 5, 0) // 4 ms are still to be slewed
	isAt(t, m, 3e6, 1053e6+4000, 10*ms, 3, 5, 0)
}

// TestLocalTime: it is the inverse of Read, also while session time is slewed.
func TestLocalTime(t *testing.T) {
	for _, differs := range []uint64{40_000, 1<<64 - 40_000} {
		m, clock := member(t)
		must(t, m.Accept(9, clock, says(6, 1001.99e6, 1051.99e6+differs), 2e6))
		for usec := uint64(1051.9e6); usec < 1052.5e6; usec += 777 {
			local, ok := m.LocalTime(usec)
			if r, _ := m.peek(local); !ok || magnitude(int64(r.Usec-usec)) > 1 {
				t.Fatalf("%d is reached at %d, where it is %d", usec, local, r.Usec)
			}
		}
		local, _ := m.LocalTime(1e15)
		check(t, local, 1e15-1050e6-differs, "10^15 is reached at")
	}
}

// TestNeverBack: session time does not go back, whatever the clock of the host does, and Bound says
// by how much it is ahead. Only for an earlier local time it is earlier.
func TestNeverBack(t *testing.T) {
	m, clock := member(t)
	isAt(t, m, 2e6, 1052e6, 10*ms, 3, 5, 0)
	clock.offset -= 8000
	isAt(t, m, 2e6, 1052e6, 18*ms, 3, 5, 0)
	isAt(t, m, 2.004e6, 1052e6, 14*ms, 3, 5, 0)
	isAt(t, m, 2.009e6, 1052.001e6, 10*ms, 3, 5, 0)
	isAt(t, m, 1.99e6, 1051.982e6, 10*ms, 3, 5, 0)
}

// TestJoin: who is in no session believes any generation, also from a clock whose bound the
// announcement just fits.
func TestJoin(t *testing.T) {
	m := New(2)
	clock := newFake(1000e6)
	check(t, m.Accept(3, clock, says(1<<40, 1001.01e6+3, 7e6), 1e6), ErrClock, "from the future")
	must(t, m.Accept(3, clock, says(1<<40, 1001.01e6, 7e6), 1e6))
	isAt(t, m, 1.01e6, 7e6, 10*ms, 3, 1<<40, 0)
	isAt(t, m, 0.91e6, 6.9e6, 10*ms, 3, 1<<40, 0) // from before it has joined
}

// TestHandover: the bound is carried along and grows by what is not known of the rates.
func TestHandover(t *testing.T) {
	m, clock := member(t)
	clock.s.Skew, clock.s.SkewError = 30, 5
	must(t, m.BecomeHost(2e6))
	isAt(t, m, 2e6, 1052e6, 10*ms, 2, 6, 0)
	isAt(t, m, 102e6, 1152e6+3000, 10*ms+2500*us, 2, 6, 0) // 30 ppm, and 5 and 20
	r, _ := m.Read(102e6)
	check(t, r.HostBound, 0, "the host from itself")
	b, _ := m.Announce(nil, 102e6)
	a, _ := parse(b)
	want := announcement{6, line{
		at:     102e6,
		usec:   1152e6 + 3000,
		rate:   30_000,
		bound:  a.bound,
		growth: 25_000,
	}}
	check(t, a, want, "the announcement")
	// The next one adds its own.
	next := New(8)
	to := newFake(0)
	must(t, next.Accept(2, to, b, 102e6))
	isAt(t, next, 202e6, 1252e6+6000, 20*ms+5*ms, 2, 6, 0)
	must(t, next.BecomeHost(202e6))
	isAt(t, next, 302e6, 1352e6+9000, 20*ms+5*ms+5*ms, 8, 7, 0) // from here on 50 ppm
}

// TestRateLimit: a host does not run at a rate that no clock has.
func TestRateLimit(t *testing.T) {
	for skew, want := range map[float64]line{
		1e9:          {rate: 200_000, growth: 825_000},
		-1e9:         {rate: -200_000, growth: 825_000},
		700:          {rate: 200_000, growth: 525_000},
		math.Inf(1):  {rate: 200_000, growth: 825_000},
		math.Inf(-1): {rate: -200_000, growth: 825_000},
		math.NaN():   {rate: 0, growth: 25_000},
	} {
		m, clock := member(t)
		clock.s.Skew = skew
		must(t, m.BecomeHost(2e6))
		b, _ := m.Announce(nil, 3e6)
		a, _ := parse(b)
		check(t, line{rate: a.rate, growth: a.growth}, want, "%g ppm", skew)
	}
}

// TestClockJumps: while the host's clock is another one, session time goes on as it was.
func TestClockJumps(t *testing.T) {
	m, clock := member(t)
	alone := func(want bool) {
		t.Helper()
		r, _ := m.Read(5e6)
		check(t, r.Alone, want, "alone")
	}
	alone(false)
	clock.offset = 77e6
	clock.s.Steps = 1
	isAt(t, m, 5e6, 1055e6, 10*ms, 3, 5, 0)
	alone(true)
	check(t, m.Accept(3, clock, says(5, 1005e6, 1055e6), 5e6), ErrClock, "the old clock")
	must(t, m.Accept(3, clock, says(5, 82e6, 132e6), 5e6)) // the host's clock was set
	isAt(t, m, 5e6, 132e6, 10*ms, 3, 5, 1)
	alone(false)
	clock.lost = true
	isAt(t, m, 6e6, 133e6, 10*ms, 3, 5, 1)
	alone(true)
	must(t, m.BecomeHost(6e6))
	isAt(t, m, 7e6, 134e6, 10*ms, 2, 6, 1)
	alone(false)
}

// TestFaultyPeer: one that is authenticated makes up generations. It is followed while it says the
// truth about its clock, and any other member can take over from it.
func TestFaultyPeer(t *testing.T) {
	m, clock := member(t)
	generation := uint64(5)
	for i := range uint64(1000) {
		now := 2e6 + i*100_000
		must(t, m.Accept(9, clock, says(generation+1<<32, now+1000e6, i*i*i*1e9), now))
		generation += 1 << 32
	}
	must(t, m.BecomeHost(200e6))
	r, _ := m.Read(200e6)
	leads := r.Generation == generation+1 && r.Host == 2
	if !leads || r.Steps != 999 && r.Steps != 1000 {
		t.Errorf("%+v", r)
	}
	check(t, m.Accept(9, clock, says(generation, 1200e6, 0), 200e6), ErrOld, "the faulty peer")
}

// TestConcurrent: any goroutine may call any method. The race detector looks, and to each goroutine
// the generation only grows, up to the last one that was announced or beyond.
func TestConcurrent(t *testing.T) {
	m, clock := member(t)
	const calls, first, perGeneration = 1000, 5, 100
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			latest := uint64(0)
			for i := range uint64(calls) {
				now := 1e6 + i*1000
				announced := says(first+i/perGeneration, 1000e6+now, 1050e6+now)
				_ = m.Accept(3, clock, announced, now)
				r, ok := m.Read(now)
				if !ok || r.Generation < latest {
					t.Errorf("generation %d, then %d, %v", latest, r.Generation, ok)
				}
				latest = r.Generation
				m.LocalTime(1050e6 + now)
				m.Announce(nil, now)
				if i%50 == 0 {
					_ = m.BecomeHost(now)
				}
			}
		})
	}
	wg.Wait()
	const last = first + (calls-1)/perGeneration
	if r, _ := m.Read(2e6); r.Generation < last {
		t.Errorf("generation %d, but %d was announced", r.Generation, last)
	}
}

func TestNoAllocations(t *testing.T) {
	m, clock := member(t)
	buf := make([]byte, 0, 64)
	a := says(5, 1001.99e6, 1051.99e6)
	follow := func() {
		_ = m.Accept(3, clock, a, 2e6)
		m.Read(2e6)
		m.LocalTime(1052e6)
	}
	check(t, testing.AllocsPerRun(100, follow), 0, "allocations of a member that follows")
	_ = m.BecomeHost(3e6)
	announce := func() { m.Announce(buf, 3e6) }
	check(t, testing.AllocsPerRun(100, announce), 0, "allocations of an announcement")
}

// FuzzMember does calls with any values: nothing panics, a refused announcement changes nothing,
// session time goes back only at a step, and bounds are never negative.
func FuzzMember(f *testing.F) {
	f.Add([]byte("\x01\x02\x03"), says(5, 1001.99e6, 1051.99e6),
		uint64(1e6), uint64(math.MaxUint64), 1e9)
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, says(6, 0, math.MaxUint64),
		uint64(1<<63), uint64(1), math.NaN())
	f.Fuzz(func(t *testing.T, calls, bytes []byte, localUsec, offset uint64, ppm float64) {
		m := New(2)
		clock := newFake(offset)
		clock.s.Skew = ppm
		clock.s.SkewError = -ppm
		if ppm > 1e3 {
			clock.s.ErrorBound = math.MaxInt64
		}
		for i, c := range calls {
			localUsec += uint64(c) << (i % 40)
			before, known := m.peek(localUsec)
			switch c % 8 {
			case 0:
				_ = m.Create(localUsec, offset)
			case 1:
				_ = m.BecomeHost(localUsec)
			case 2, 3:
				b := bytes
				if c%16 > 8 {
					b = says(uint64(c), localUsec+clock.offset, localUsec<<(c%7))
				}
				err := m.Accept(uint64(c%5), clock, b, localUsec)
				if after, _ := m.peek(localUsec); err != nil && known && after != before {
					t.Fatalf("%v, but %+v became %+v", err, before, after)
				}
			case 4:
				m.Announce(nil, localUsec)
			case 5:
				m.LocalTime(offset)
			case 6:
				clock.offset += uint64(c)
				clock.s.Steps += uint32(i % 2)
			case 7:
				clock.lost = !clock.lost
			}
			was, _ := m.Read(localUsec)
			now, ok := m.Read(localUsec + 1)
			if ok && (int64(now.Usec-was.Usec) < 0 || was.Bound < 0 || was.HostBound < 0) {
				t.Fatalf("call %d: %+v, then %+v", i, was, now)
			}
		}
	})
}

// TestFaultyFirst: whoever announces the latest generation that there is, and is the first whom a
// member hears, does not lock it out of the session of the others.
func TestFaultyFirst(t *testing.T) {
	m := New(7)
	clock := newFake(1000e6)
	faulty := says(math.MaxInt64, 1000.99e6, 1050.99e6)
	check(t, m.Accept(9, clock, faulty, 1e6), ErrGeneration, "the faulty host")
	must(t, m.Accept(3, clock, says(2, 1000.99e6, 1050.99e6), 1e6))
}
