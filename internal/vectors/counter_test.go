// These tests prove what the three counters do: arithmetic on their rings, their bytes, what
// they expand to; and the order of Counter16 for every pair of values that there is.
package vectors

import (
	"bytes"
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"timesync"
)

// counter is what the three counters have in common.
type counter[C any] interface {
	~uint16 | ~uint32
	Add(C) C
	Sub(C) C
	Inc() C
	Dec() C
	Distance(C) int32
	Compare(C) int
	Less(C) bool
	Expand(uint64) uint64
	ExpandBiased(uint64, int64) uint64
	AppendBinary([]byte) ([]byte, error)
	Put([]byte)
	String() string
}

type unmarshaler[C any] interface {
	*C
	encoding.BinaryUnmarshaler
}

var (
	_ encoding.BinaryAppender = timesync.Counter16(0)
	_ fmt.Stringer            = timesync.Counter24(0)
)

func TestCounters(t *testing.T) {
	t.Run("16", func(t *testing.T) { testCounter(t, 16, timesync.NewCounter16, timesync.ReadCounter16) })
	t.Run("23", func(t *testing.T) { testCounter(t, 23, timesync.NewCounter23, timesync.ReadCounter23) })
	t.Run("24", func(t *testing.T) { testCounter(t, 24, timesync.NewCounter24, timesync.ReadCounter24) })
}

func testCounter[C counter[C], P unmarshaler[C]](t *testing.T, bits uint, newC func(uint64) C, read func([]byte) C) {
	size, n := int64(1)<<bits, int(bits+7)/8
	rng := rand.New(rand.NewPCG(uint64(bits), 2))
	values := []int64{0, 1, 0x7f, 0x80, 0xff, 0x100, 0x1234, size/2 - 1, size / 2, size/2 + 1, size - 2, size - 1}
	for range 200 {
		values = append(values, rng.Int64N(size))
	}
	mod := func(v int64) C { return C((v + 2*size) % size) }
	for _, v := range values {
		c := newC(rng.Uint64()<<bits | uint64(v))
		if int64(c) != v {
			t.Fatalf("new(… %#x) = %#x", v, c)
		}

		// The wire form, least significant byte first. What a conversion sets above the ring is ignored.
		wide := c | C(size) | C(size)<<3 // no more than c for 16 bits
		want := make([]byte, n)
		for i, rest := 0, v; i < n; i, rest = i+1, rest/256 {
			want[i] = byte(rest % 256)
		}
		put := []byte{0xaa, 0xaa, 0xaa, 0xaa}
		wide.Put(put)
		appended, err := wide.AppendBinary([]byte{0xbb})
		if !bytes.Equal(put[:n], want) || put[n] != 0xaa || err != nil || !bytes.Equal(appended, append([]byte{0xbb}, want...)) {
			t.Fatalf("%#x: Put % x, AppendBinary % x (%v), want % x", v, put, appended, err, want)
		}
		var back C
		spare := bytes.Clone(want) // the 24th bit of 23 is the application's
		spare[n-1] |= byte(0xff << ((bits-1)%8 + 1))
		if err := P(&back).UnmarshalBinary(spare); err != nil || back != c || read(append(spare, 0xcc)) != c {
			t.Fatalf("% x: UnmarshalBinary %#x (%v), read %#x", spare, back, err, read(spare))
		}
		for length := range 2 * n {
			if err := P(&back).UnmarshalBinary(make([]byte, length)); length != n && (!errors.Is(err, timesync.ErrLength) || back != c) {
				t.Fatalf("UnmarshalBinary of %d bytes: %v, and the counter became %#x", length, err, back)
			}
			back = c
		}
		if c.String() != fmt.Sprint(v) {
			t.Fatalf("%#x: String %q", v, c)
		}

		// The ring.
		for _, w := range values {
			d := newC(uint64(w))
			if wide.Add(d) != mod(v+w) || wide.Sub(d) != mod(v-w) {
				t.Fatalf("%#x and %#x: Add %#x, Sub %#x", wide, w, wide.Add(d), wide.Sub(d))
			}
			distance := (v-w+size/2+size)%size - size/2
			order := cmp.Compare(distance, 0)
			if distance == -size/2 { // as far either way
				order = cmp.Compare(v, w)
			}
			if int64(wide.Distance(d)) != distance || wide.Compare(d) != order || wide.Less(d) != (order < 0) {
				t.Fatalf("%#x and %#x: Distance %d, Compare %d, Less %v", wide, w, wide.Distance(d), wide.Compare(d), wide.Less(d))
			}
		}
		if wide.Inc() != mod(v+1) || wide.Dec() != mod(v-1) || wide.String() != c.String() || newC(uint64(wide)) != c {
			t.Fatalf("%#x: Inc %#x, Dec %#x, String %s", wide, wide.Inc(), wide.Dec(), wide)
		}
		testExpand(t, rng, wide, v, size)
	}

	mustPanic := func(name string, f func()) {
		defer func() {
			if recover() == nil {
				t.Errorf("%s does not panic on %d bytes", name, n-1)
			}
		}()
		f()
	}
	mustPanic("Put", func() { newC(1).Put(make([]byte, n-1, 8)) })
	mustPanic("Read", func() { read(make([]byte, n-1, 8)) })
}

// testExpand: what a counter expands to has its low bits, and is the nearest to recent, the
// earlier of two; or lies, with a bias, in the interval from half a ring and bias before
// recent on. A bias beyond half a ring is limited to that.
func testExpand[C counter[C]](t *testing.T, rng *rand.Rand, c C, v, size int64) {
	for _, recent := range []uint64{0, uint64(v), uint64(v + size/2), uint64(v - size/2), uint64(v + size/2 - 1), 1 << 32, 1 << 63, math.MaxUint64, rng.Uint64()} {
		for _, bias := range []int64{0, 1, -1, 5, size / 4, -size / 4, size/2 - 1, size / 2, -size / 2, -size/2 - 1, math.MaxInt64, math.MinInt64} {
			from := -size/2 - min(max(bias, -size/2), size/2-1)
			want := recent + uint64(from)
			want += (uint64(v) - want) % uint64(size) // the first one there with the low bits
			if got := c.ExpandBiased(recent, bias); got != want {
				t.Fatalf("%#x: ExpandBiased(%#x, %d) = %#x, want %#x", v, recent, bias, got, want)
			}
			if got := c.Expand(recent); bias == 0 && got != want {
				t.Fatalf("%#x: Expand(%#x) = %#x, want %#x", v, recent, got, want)
			}
		}
	}
}
