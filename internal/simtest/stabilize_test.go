// This test proves that the estimator comes back to the truth from any state.

package simtest

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"

	"timesync"
	"timesync/internal/testkit"
)

// lastRight is by when after its state is broken a synchronizer must be right again.
const lastRight = 400 * sec

// scalar is a number or a flag in the state of a synchronizer. Elements of an array
// share a name.
type scalar struct {
	name string
	v    reflect.Value
}

// appendScalars appends all of the state that only the writer uses: the atomic values that
// readers see are left out.
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

// set sets a number to n, of which an integer takes the low bits, and turns a flag over.
func (x scalar) set(n float64) {
	rest := 64 - 8*x.v.Type().Size()
	switch {
	case x.v.Kind() == reflect.Bool:
		x.v.SetBool(!x.v.Bool())
	case x.v.CanFloat():
		x.v.SetFloat(n)
	case x.v.CanInt():
		x.v.SetInt(int64(n) << rest >> rest)
	default:
		x.v.SetUint(uint64(int64(n)) << rest >> rest)
	}
}

// TestSelfStabilizing breaks one number after the other of a synchronizer that has long been right, in the
// ways that memory breaks, and then many at once, and lets clean traffic flow: nothing wrong is held for ever. What still is, known has.
func TestSelfStabilizing(t *testing.T) {
	const delay, offset, every = 20_000, 1 << 33, 50_003 // us
	m := newMusts(t)
	ends, now, jitter := [2]subject{}, uint64(1<<40), newRand(*seedFirst, 'j')
	exchange := func(d time.Duration) {
		a, b := &ends[0].Sync, &ends[1].Sync
		for n := range d.Microseconds() / every {
			var reportA, reportB timesync.Counter24
			if n%10 == 0 { // reading a report ends its interval
				reportA, _ = a.MinDeltaTS24(now)
				reportB, _ = b.MinDeltaTS24(now + offset)
			}
			there, back := now+offset+delay+uint64(1000*jitter.ExpFloat64()), now+delay+uint64(1000*jitter.ExpFloat64())
			a.OnAuthenticatedDatagramTimestamp(timesync.LocalTimeToDatagramTS24(now+offset), back)
			b.OnAuthenticatedDatagramTimestamp(timesync.LocalTimeToDatagramTS24(now), there)
			if n%10 == 0 {
				a.OnPeerMinDeltaTS24(reportB, back)
				b.OnPeerMinDeltaTS24(reportA, there)
			}
			now += every
		}
	}
	healed := func(kind, format string, args ...any) {
		exchange(lastRight)
		remote, ok := ends[0].Sync.RemoteTime(now)
		if off := int64(remote-now-offset) << 38 >> 38; !ok || off < -1000 || off > 1000 {
			m.fail("held for ever: "+kind, format+": %d us off, ok %v", append(args, off, ok)...)
		}
	}
	begin := func() {
		ends = [2]subject{}
		exchange(60 * sec)
	}
	numbers := appendScalars(nil, "", reflect.ValueOf(&ends[0].Sync).Elem())
	for _, x := range numbers {
		for _, value := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e30, -1e30, 1e15, -1e15, 1e10, -1e10, 1e3, -1e3, 0} {
			begin()
			x.set(value)
			healed(x.name, "was %v", value)
		}
	}
	for seed := range uint64(testkit.Sized(50, 200, 2000)) {
		r := newRand(*seedFirst+seed, 'z')
		begin()
		share := []float64{0.1, 0.3, 1}[seed%3]
		for _, x := range numbers {
			if r.Float64() < share {
				x.set(math.Pow(10, 9*r.Float64()) * float64(1-2*r.IntN(2))) // 1 us to a quarter of an hour
			}
		}
		healed("many", "seed %d, %.0f %% of the numbers were drawn", *seedFirst+seed, 100*share)
	}
}
