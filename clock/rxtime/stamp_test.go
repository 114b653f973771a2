// These tests prove that stamps are found in control messages, that no bytes of them panic, and
// that a kernel's stamp becomes an age, whatever happened to the wall clock in between.

package rxtime

import (
	"encoding/binary"
	"math"
	"testing"
	"time"
)

// testLevel is SOL_SOCKET; on MIPS it is another number, as given to stampOf.
const testLevel = 1

// message appends a control message as the kernel of a machine with words of that size
// and this machine's byte order writes it.
func message(b []byte, word int, level, kind uint32, data []byte) []byte {
	for len(b)%word != 0 {
		b = append(b, 0)
	}
	b = appendWord(b, word, uint64(word+8+len(data)))
	b = binary.NativeEndian.AppendUint32(b, level)
	b = binary.NativeEndian.AppendUint32(b, kind)
	return append(b, data...)
}

func appendWord(b []byte, word int, v uint64) []byte {
	if word == 4 {
		return binary.NativeEndian.AppendUint32(b, uint32(v))
	}
	return binary.NativeEndian.AppendUint64(b, v)
}

// stamp is a message of either kind; the seconds and the fraction may be any.
func stamp(b []byte, word int, kind uint32, seconds, fraction uint64) []byte {
	size := word
	if kind == timestampNew {
		size = 8
	}
	return message(b, word, testLevel, kind,
		appendWord(appendWord(nil, size, seconds), size, fraction))
}

// found fails if another time is found among control messages than want, which is -1 for none.
func found(t *testing.T, name string, control []byte, word int, want int64) {
	t.Helper()
	if nsec, ok := stampOf(control, word, testLevel); ok != (want >= 0) || ok && nsec != want {
		t.Errorf("%d-bit, %s: got %d, %v; want %d", word*8, name, nsec, ok, want)
	}
}

func TestStampOf(t *testing.T) {
	const seconds, fraction = 1_790_000_000, 999_999_999
	const want int64 = seconds*1_000_000_000 + fraction
	for _, word := range []int{4, 8} {
		for _, kind := range []uint32{timestampOld, timestampNew} {
			after := func(b []byte) []byte { return stamp(b, word, kind, seconds, fraction) }
			good := after(nil)
			others := message(message(nil, word, 0, 8, make([]byte, 12)), word, testLevel, 40,
				make([]byte, 5))
			wrongLevel := message(nil, word, 0, kind, good[word+8:])
			const microseconds = 29 // SO_TIMESTAMP
			wrongType := message(nil, word, testLevel, microseconds, good[word+8:])
			wrongSize := message(nil, word, testLevel, kind, good[word+8:len(good)-4])
			for name, control := range map[string][]byte{
				"alone":                      good,
				"first":                      append(good[:len(good):len(good)], others...),
				"last":                       after(others),
				"after one of another level": after(wrongLevel),
				"after one of another size":  after(wrongSize),
			} {
				found(t, name, control, word, want)
			}
			withLength := func(length uint64) []byte {
				return append(appendWord(nil, word, length), good[word:]...)
			}
			for name, control := range map[string][]byte{
				"nothing":                    nil,
				"others":                     others,
				"zeros, then a stamp":        append(make([]byte, 64), good...),
				"another level":              wrongLevel,
				"another type":               wrongType,
				"another size":               wrongSize,
				"a whole second too much":    stamp(nil, word, kind, seconds, 1_000_000_000),
				"negative fraction":          stamp(nil, word, kind, seconds, math.MaxUint64),
				"length short of the header": withLength(uint64(word + 7)),
				"length beyond the end":      withLength(uint64(len(good) + 1)),
				"enormous length":            withLength(math.MaxUint64),
			} {
				found(t, name, control, word, -1)
			}
		}
	}
}

// TestStampOfYears holds the edges of what the seconds can say.
func TestStampOfYears(t *testing.T) {
	found(t, "1970", stamp(nil, 8, timestampNew, 0, 0), 8, 0)
	found(t, "2038, cut to 32 bits", stamp(nil, 4, timestampOld, 1<<31, 0), 4, 1<<31*1_000_000_000)
	found(t, "2106, cut to 32 bits", stamp(nil, 4, timestampOld, 1<<32-1, 5), 4,
		(1<<32-1)*1_000_000_000+5)
	found(t, "2106, new", stamp(nil, 4, timestampNew, 1<<32, 5), 4, 1<<32*1_000_000_000+5)
	found(t, "2262", stamp(nil, 8, timestampOld, maxSeconds, 999_999_999), 8,
		int64(maxSeconds*1_000_000_000+999_999_999))
	found(t, "after 2262", stamp(nil, 8, timestampOld, maxSeconds+1, 0), 8, -1)
	found(t, "before 1970", stamp(nil, 8, timestampNew, math.MaxUint64, 0), 8, -1)
}

// FuzzStampOf: whatever comes, there is no panic. What is found does not depend on what
// comes before or after it.
func FuzzStampOf(f *testing.F) {
	for _, word := range []int{4, 8} {
		f.Add(stamp(nil, word, timestampNew, 1_790_000_000, 5), word == 8, int32(testLevel))
		f.Add(stamp(message(nil, word, 0, 2, []byte{64}), word, timestampOld, 1_790_000_000, 5),
			word == 8, int32(testLevel))
	}
	f.Fuzz(func(t *testing.T, control []byte, wide bool, level int32) {
		word := 4
		if wide {
			word = 8
		}
		nsec, ok := stampOf(control, word, level)
		if !ok {
			return
		}
		if nsec < 0 {
			t.Errorf("% x: %d", control, nsec)
		}
		// Behind another message it is found as well.
		behind := append(message(nil, word, uint32(level), 0, make([]byte, 8)), control...)
		if again, ok := stampOf(behind, word, level); !ok || again != nsec {
			t.Errorf("% x: %d, but %d, %v behind another message", control, nsec, again, ok)
		}
		for n := range len(control) {
			if short, ok := stampOf(control[:n], word, level); ok {
				check(t, short, nsec, "the first %d bytes of % x", n, control)
			}
		}
	})
}

const (
	wall0 = 1_790_000_000_000_000_000 // nanoseconds since 1970
	now0  = 5_000_000                 // microseconds on package clock
)

// TestAge: both clocks go on alike, and a datagram is read some time after the kernel
// has stamped it.
func TestAge(t *testing.T) {
	for age, want := range map[time.Duration]uint64{ // microseconds before the read
		0: 0, 999: 0, 1000: 1, 20 * ms: 20_000, sec: 1_000_000,
		sec + 1: 0, wall0: 0, math.MaxInt64: 0, // too old, stamped 0
		-1: 0, -time.Hour: 0, // from the future
	} {
		for _, now := range []uint64{0, 1, now0, math.MaxUint64} { // the clock may wrap
			a := newAger(wall0, now)
			got := a.received(wall0+1_000_000-int64(age), wall0+1_000_000, now+1000)
			check(t, now+1000-got, want, "age %v at %#x", age, now)
		}
	}
}

// TestSteps: the wall clock is set while a datagram waits to be read, or, which looks as if it was
// set back, the reader is stopped between reading it and the other clock. It must never become
// earlier than it was by more than what passes for an interruption, and later at most by its wait.
// A second after, ages count again.
func TestSteps(t *testing.T) {
	const wait = 30 * ms
	for _, step := range []time.Duration{
		0, 1, us, maxShift, -maxShift, maxShift + us, 5 * ms, -5 * ms,
		500 * ms, -500 * ms, sec, -sec, time.Hour, -time.Hour, 50 * 365 * 24 * time.Hour,
	} {
		a := newAger(wall0, now0)
		const truth = now0 + 1000
		const read = truth + uint64(wait/us)
		stamp := wall0 + int64(ms)
		// Two that waited, read one after the other: the second must not be believed either.
		for i := range uint64(2) {
			now := read + i*100
			got := a.received(stamp, wall0+int64(now-now0)*1000+int64(step), now)
			late := time.Duration(int64(got-truth)) * us
			if late < -maxShift || late > time.Duration(now-truth)*us {
				t.Errorf("step %v, datagram %d: received %v after the truth", step, i, late)
			}
		}
		now := read + 1_001_000
		wall := wall0 + int64(now-now0)*1000 + int64(step)
		ago := now - a.received(wall-int64(wait), wall, now)
		check(t, ago, uint64(wait/us), "step %v, a second later", step)
	}
}

// TestInterruptions: an interruption between the readings of both clocks changes no receive time.
// Only if each try is interrupted, one receive time is late, by the shortest interruption.
func TestInterruptions(t *testing.T) {
	const wait = 30 * ms
	for _, c := range []struct {
		name  string
		stops []time.Duration // before each reading of the wall clock, and after it
		late  time.Duration
	}{
		{"not at all", nil, 0},
		{"before the wall clock is read", []time.Duration{20 * ms, 0}, 0},
		{"after the wall clock was read", []time.Duration{0, 20 * ms}, 0},
		{"shortly", []time.Duration{0, 300 * us}, 0},
		{"for long", []time.Duration{0, 900 * ms}, 0},
		{"in the first two tries", []time.Duration{0, 20 * ms, 5 * ms, 20 * ms}, 0},
		{
			"in each try",
			[]time.Duration{0, 20 * ms, 0, 400 * us, 0, 9 * ms, 0, 3 * ms},
			400 * us,
		},
	} {
		elapsed := time.Duration(0)
		stop := func() {
			if len(c.stops) > 0 {
				elapsed += c.stops[0]
				c.stops = c.stops[1:]
			}
		}
		readPackage := func() uint64 { return now0 + uint64(elapsed/us) }
		readWall := func() int64 {
			stop()
			wall := wall0 + int64(elapsed)
			stop()
			return wall
		}
		a := newAger(wall0, now0)
		for i := range 3 {
			elapsed += ms
			received := readPackage()
			stamp := wall0 + int64(elapsed)
			elapsed += wait
			wall, now := together(readWall, readPackage)
			late := time.Duration(a.received(stamp, wall, now)-received) * us
			want := time.Duration(0)
			if i == 0 {
				want = c.late
			}
			check(t, late, want, "interrupted %s: datagram %d is late by", c.name, i)
		}
	}
}

// TestSlowClocks: the number of readings is bounded, and the clocks are no further apart than one
// of them takes.
func TestSlowClocks(t *testing.T) {
	const reading = 50 * us
	elapsed := time.Duration(0)
	readings := 0
	read := func() time.Duration {
		readings++
		elapsed += reading
		return elapsed
	}
	wall, now := together(
		func() int64 { return wall0 + int64(read()) },
		func() uint64 { return now0 + uint64(read()/us) },
	)
	check(t, time.Duration(now-now0)*us-time.Duration(wall-wall0), reading, "the clocks are apart by")
	check(t, readings, 3*maxTries, "readings")
}
