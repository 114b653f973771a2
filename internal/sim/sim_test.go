package sim

import (
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"slices"
	"sort"
	"testing"
	"time"
)

// TestReport prints the table of the notes when SIM_REPORT is the number of seeds.
func TestReport(t *testing.T) {
	var seeds int
	if fmt.Sscan(os.Getenv("SIM_REPORT"), &seeds); seeds == 0 {
		t.Skip("set SIM_REPORT to the number of worlds per scenario")
	}
	for _, sc := range Scenarios() {
		line := fmt.Sprintf("%-22s", sc.Name)
		var errs [5][]float64
		for seed := range uint64(seeds) {
			Run(sc, seed, baselines(), Observer{Poll: func(o *Observation) {
				if o.At >= sc.Warmup {
					errs[o.Pair] = append(errs[o.Pair], math.Abs(o.Excess()))
				}
			}})
		}
		for _, e := range errs {
			sort.Float64s(e)
			line += fmt.Sprintf(" | %6.0f %7.0f %7.0f", e[len(e)/2], e[len(e)*99/100], e[len(e)-1])
		}
		t.Log(line)
	}
}

func baselines() []Pair {
	return []Pair{
		{"Original", new(Original), new(Original)},
		{"NTPFilter", new(NTPFilter), new(NTPFilter)},
		{"Slot", new(Slot), new(Slot)},
		{"OneShot", new(OneShot), new(OneShot)},
		{"Netfox", new(Netfox), new(Netfox)},
	}
}

// trace is an estimator that hashes all it is told.
type trace struct {
	Original
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
	Run(sc, seed, slices.Concat(others, []Pair{{"trace", &trace{sum: &sum}, &trace{sum: &sum}}}), Observer{})
	h := fnv.New64a()
	fmt.Fprint(h, sum)
	return h.Sum64()
}

func TestDeterminism(t *testing.T) {
	seen := map[uint64]string{}
	for _, sc := range Scenarios() {
		first := digest(sc, 7)
		if again := digest(sc, 7, baselines()...); again != first {
			t.Errorf("%s: the same seed gave other packets: %#x, %#x", sc.Name, first, again)
		}
		if other := digest(sc, 8); other == first {
			t.Errorf("%s: another seed gave the same packets", sc.Name)
		}
		seen[first] = sc.Name
	}
}

func BenchmarkDatagram(b *testing.B) {
	sc := Scenarios()[3]
	n := 0
	pairs := []Pair{{"none", counter{&n}, counter{&n}}}
	for b.Loop() {
		Run(sc, 1, pairs, Observer{Poll: func(*Observation) {}, OWD: func(*Observation) {}})
	}
	b.ReportMetric(float64(b.Elapsed())/float64(n), "ns/datagram")
}

type counter struct{ n *int }

func (c counter) OnDatagram(uint32, uint64) (time.Duration, bool) { *c.n++; return 0, true }
func (c counter) MinDelta(uint64) (uint32, bool)                  { return 0, true }
func (c counter) OnPeerMinDelta(uint32, uint64)                   {}
func (c counter) RemoteTime(_, near uint64) (uint64, bool)        { return near, true }
func (c counter) MinOWD() (time.Duration, bool)                   { return 0, true }
