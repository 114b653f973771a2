// These tests prove that an exchange is the same for the same seed, that all methods see the
// same packets, and that recorded series are read right.

package sim

import (
	"compress/gzip"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"timesync/internal/sim/rivals"
	"timesync/internal/sim/simnet"
)

// trace is an estimator that hashes all it is told.
type trace struct {
	rivals.Original
	sum *[]uint64
}

func (t *trace) OnDatagram(ts24 uint32, recvUsec uint64) (time.Duration, bool) {
	*t.sum = append(*t.sum, uint64(ts24), recvUsec)
	return t.Original.OnDatagram(ts24, recvUsec)
}

func (t *trace) OnPeerMinDelta(delta uint32, recvUsec uint64) {
	*t.sum = append(*t.sum, uint64(delta), recvUsec)
	t.Original.OnPeerMinDelta(delta, recvUsec)
}

func (t *trace) OnExchange(t1, t2, t3, t4 uint64) { *t.sum = append(*t.sum, t1, t2, t3, t4) }

func digest(sc Scenario, seed uint64, others ...Pair) uint64 {
	sc.Duration = min(sc.Duration, 40*time.Second)
	var sum []uint64
	Run(sc, seed, slices.Concat(others, []Pair{{"trace", &trace{sum: &sum}, &trace{sum: &sum}}}),
		Observer{})
	h := fnv.New64a()
	fmt.Fprint(h, sum)
	return h.Sum64()
}

func TestDeterminism(t *testing.T) {
	for _, sc := range Scenarios() {
		first := digest(sc, 7)
		if again := digest(sc, 7, Pair{
			"NTPFilter", new(rivals.NTPFilter), new(rivals.NTPFilter),
		}); again != first {
			t.Errorf("%s: the same seed gave other packets: %#x, %#x", sc.Name, first, again)
		}
		if other := digest(sc, 8); other == first {
			t.Errorf("%s: another seed gave the same packets", sc.Name)
		}
	}
}

// late is an estimator that counts datagrams and knows the truth up to a constant error, so
// that what Run says about it can be predicted.
type late struct {
	n   *int
	err int64
}

func (l late) OnDatagram(uint32, uint64) (time.Duration, bool) { *l.n++; return 0, true }
func (l late) MinDelta(uint64) (uint32, bool)                  { return 0, true }
func (l late) OnPeerMinDelta(uint32, uint64)                   {}
func (l late) RemoteTime(_, near uint64) (uint64, bool)        { return near + uint64(l.err), true }

func TestObservations(t *testing.T) {
	sc := recipe{up: exp1, routeUp: 20 * ms, asym: 4 * ms, seconds: 200}.scenario()
	n := 0
	pairs := []Pair{{"late", late{&n, 1<<26 + 700}, late{&n, 5000}}}
	sent := 0
	seen := map[[2]float64]bool{}
	Run(sc, 3, pairs, Observer{
		OWD: func(o *Observation) {
			sent++
			if !o.OK || o.ErrUsec >= 0 { // it says 0, the truth is longer
				t.Fatalf("%+v", *o)
			}
		},
		Poll: func(o *Observation) {
			seen[[2]float64{o.LoUsec, o.HiUsec}] = true
			want, excess := 700., 0.
			if o.Side == B {
				want, excess = 5000, 5000
			}
			if !o.OK || o.ErrUsec != want || o.Excess() != excess {
				t.Fatalf("%+v: excess %f", *o, o.Excess())
			}
		},
	})
	for _, want := range [][2]float64{{0, 2000}, {-2000, 0}, {0, 12000}, {-12000, 0}} {
		if !seen[want] {
			t.Errorf("no observation with the interval %v in %v", want, seen)
		}
	}
	if sent != n || n < 2*60*199 {
		t.Errorf("%d datagrams, %d observed", n, sent)
	}
}

func TestReadTrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.csv.gz")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	fmt.Fprint(z,
		"send_time_us,owd_us,direction\n"+
			"0,20130.5,up\n"+
			"3333.2,6557,down\n"+
			"10000,-1,up\n"+
			"15000,20000,up\n")
	z.Close()
	f.Close()
	got, err := simnet.ReadTrace(path)
	want := []simnet.Sample{{At: 0, Delay: 20130500}, {At: 10 * ms, Delay: simnet.Lost},
		{At: 15 * ms, Delay: 20 * ms}}
	if err != nil || !slices.Equal(got["up"], want) {
		t.Errorf("%v, %v", got, err)
	}
	sc, err := Replay("trace", path)
	if err != nil || sc.AB(1).BaseAt(0) != 20*ms || len(sc.SendAB) != 3 || len(sc.SendBA) != 1 {
		t.Errorf("%+v, %v", sc, err)
	}
	n := 0
	Run(sc, 1, []Pair{{"count", late{n: &n}, late{n: &n}}}, Observer{})
	if n != 3 {
		t.Errorf("%d datagrams arrived, want 3", n)
	}
	if _, err := simnet.ReadTrace("missing"); err == nil {
		t.Error("no error for a missing file")
	}
}
