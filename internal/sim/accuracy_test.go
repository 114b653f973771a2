package sim_test

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"timesync"
	"timesync/internal/sim"
)

var (
	worlds = flag.Int("worlds", 6, "worlds per scenario of the accuracy table")
	only   = flag.String("scenario", "", "only scenarios whose name contains this")
)

// core is one end of the project's own estimator.
type core struct{ s timesync.TimeSynchronizer }

func (c *core) OnDatagram(ts24 uint32, recvUsec uint64) (time.Duration, bool) {
	return c.s.OnAuthenticatedDatagramTimestamp(timesync.Counter24(ts24), recvUsec)
}

func (c *core) MinDelta(localUsec uint64) (uint32, bool) {
	d, ok := c.s.MinDeltaTS24(localUsec)
	return uint32(d), ok
}

func (c *core) OnPeerMinDelta(delta uint32, recvUsec uint64) {
	c.s.OnPeerMinDeltaTS24(timesync.Counter24(delta), recvUsec)
}

func (c *core) RemoteTime(localUsec, nearUsec uint64) (uint64, bool) {
	return c.s.RemoteTime(localUsec, nearUsec)
}

func (c *core) MinOWD() (time.Duration, bool) { return c.s.MinimumOneWayDelay() }

// methods are the columns of the table. The first is the original.
func methods() []sim.Pair {
	return []sim.Pair{
		{Name: "original", A: &sim.Original{}, B: &sim.Original{}},
		{Name: "ntp", A: &sim.NTPFilter{}, B: &sim.NTPFilter{}},
		{Name: "slot", A: &sim.Slot{}, B: &sim.Slot{}},
		{Name: "oneshot", A: &sim.OneShot{}, B: &sim.OneShot{}},
		{Name: "netfox", A: &sim.Netfox{}, B: &sim.Netfox{}},
		{Name: "timesync", A: &core{}, B: &core{}},
	}
}

// errors are absolute errors in microseconds.
type errors []float64

func (e errors) quantile(q float64) float64 {
	if len(e) == 0 {
		return math.NaN()
	}
	return e[int(q*float64(len(e)-1))]
}

// result is a cell of the table.
type result struct {
	poll, owd errors
	missed    int // polls without an answer
}

// measure runs worlds of a scenario and returns a result for each pair.
func measure(sc sim.Scenario, pairs func() []sim.Pair, worlds int) []result {
	results := make([]result, len(pairs()))
	for seed := range uint64(worlds) {
		sim.Run(sc, seed+1, pairs(), sim.Observer{
			Poll: func(o *sim.Observation) {
				if o.At < sc.Warmup {
					return
				}
				r := &results[o.Pair]
				if !o.OK {
					r.missed++
					return
				}
				r.poll = append(r.poll, math.Abs(o.Excess()))
			},
			OWD: func(o *sim.Observation) {
				if o.At >= sc.Warmup && o.OK {
					results[o.Pair].owd = append(results[o.Pair].owd, math.Abs(o.Excess()))
				}
			},
		})
	}
	for i := range results {
		slices.Sort(results[i].poll)
		slices.Sort(results[i].owd)
	}
	return results
}

func TestAccuracy(t *testing.T) {
	var b strings.Builder
	row := func(cells ...any) {
		for i, c := range cells {
			if f, ok := c.(float64); ok {
				c = fmt.Sprintf("%.0f", f)
			}
			fmt.Fprintf(&b, map[bool]string{true: "%-22v", false: " %9v"}[i == 0], c)
		}
		b.WriteByte('\n')
	}
	row("error p99, us", "original", "ntp", "slot", "oneshot", "netfox", "timesync", "median", "max", "OWD p99", "original", "median")
	var logs []float64
	scenarios := slices.DeleteFunc(sim.Scenarios(), func(sc sim.Scenario) bool { return !strings.Contains(sc.Name, *only) })
	n := *worlds
	if testing.Short() {
		n = min(n, 2)
	}
	results := make([][]result, len(scenarios))
	eachOf(len(scenarios), func(next func() (int, bool)) {
		for i, ok := next(); ok; i, ok = next() {
			results[i] = measure(scenarios[i], methods, n)
		}
	})
	for i, sc := range scenarios {
		r := results[i]
		cells := []any{sc.Name}
		for _, m := range r {
			cells = append(cells, m.poll.quantile(0.99))
		}
		orig, ours := r[0], r[len(r)-1]
		cells = append(cells, ours.poll.quantile(0.5), ours.poll.quantile(1), ours.owd.quantile(0.99), orig.owd.quantile(0.99), ours.owd.quantile(0.5))
		row(cells...)
		p, q := ours.poll.quantile(0.99), orig.poll.quantile(0.99)
		logs = append(logs, math.Log(p/q))
		if ours.missed > orig.missed {
			t.Errorf("%s: %d polls without an answer, the original %d", sc.Name, ours.missed, orig.missed)
		}
		if p > 1.1*q+25 {
			t.Errorf("%s: p99 error %.0f us, the original's %.0f us", sc.Name, p, q)
		}
		if p, q := ours.owd.quantile(0.99), orig.owd.quantile(0.99); p > 1.1*q+25 {
			t.Errorf("%s: p99 error of one-way delays %.0f us, the original's %.0f us", sc.Name, p, q)
		}
	}
	sum := 0.0
	for _, l := range logs {
		sum += l
	}
	t.Logf("%d worlds a scenario\n%sgeometric mean of p99 relative to the original's: %.3f", n, b.String(), math.Exp(sum/cmp.Or(float64(len(logs)), 1)))
}
