// This test proves that the clock is as accurate as other methods on the same requests.

package ping

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"timesync/internal/rivals"
	"timesync/internal/sim"
	"timesync/internal/stat"
)

// How the rules and what others do compare on the same packets.

// deaf is what methods that only look at exchanges do with datagrams.
type deaf struct{}

func (deaf) OnDatagram(uint32, uint64) (time.Duration, bool) { return 0, false }
func (deaf) MinDelta(uint64) (uint32, bool)                  { return 0, false }
func (deaf) OnPeerMinDelta(uint32, uint64)                   {}

// exchanged runs a Clock: every exchange of the world passes through its messages.
type exchanged struct {
	deaf
	c     Clock
	every uint64 // microseconds between the exchanges it is shown, 0 for all
	last  uint64
	begun bool
}

func (x *exchanged) OnExchange(t1, t2, t3, t4 uint64) {
	if x.begun && t1-x.last < x.every {
		return
	}
	x.begun, x.last = true, t1
	request := x.c.AppendRequest(nil, t1)
	reply, _ := AppendReply(nil, request, 0, t2, t3)
	x.c.HandleReply(reply, t4)
}
func (x *exchanged) RemoteTime(local, _ uint64) (uint64, bool) { return x.c.RemoteTime(local) }

var methods = []struct {
	name string
	make func() sim.Estimator
}{
	{"datagram", func() sim.Estimator { return new(sim.Core) }},
	{"MinDelay", func() sim.Estimator { return new(exchanged) }},
	{"Percentile", func() sim.Estimator { return &exchanged{c: Clock{conf: Config{Rule: Percentile, AdjustSteps: 1}}} }},
	{"Slot 5s", func() sim.Estimator {
		return &exchanged{c: Clock{conf: Config{Rule: SlotPercentile, AdjustSteps: 1}}, every: 4_900_000}
	}},
	{"Latest", func() sim.Estimator { return &exchanged{c: Clock{conf: Config{Rule: Latest, AdjustSteps: 1}}} }},
	{"netfox", func() sim.Estimator { return new(rivals.Netfox) }},
	{"push 5s", func() sim.Estimator { return new(rivals.Unreal) }},
}

// TestCompare lets all methods work on the same packets and prints the 99th
// percentile of the error beyond what nobody can know about the path, the median of
// all worlds. Exchanges are 4 a second for all but Slot's rule, which has his five
// seconds.
func TestCompare(t *testing.T) {
	if testing.Short() {
		t.Skip("the comparison takes seconds")
	}
	r := random(t)
	firstSeed := r.Uint64()
	var b strings.Builder
	fmt.Fprintf(&b, "p99 of the error in us, %d worlds each from seed %d\n%-20s", *compared, firstSeed, "scenario")
	for _, m := range methods {
		fmt.Fprintf(&b, "%11s", m.name)
	}
	bounded := 0
	logs := make([]float64, len(methods))
	scenarios := sim.Scenarios()
	for _, sc := range scenarios {
		worst := make([][]float64, len(methods))
		for w := range *compared {
			errors := make([][]float64, len(methods))
			pairs := make([]sim.Pair, len(methods))
			for i, m := range methods {
				pairs[i] = sim.Pair{Name: m.name, A: m.make(), B: m.make()}
			}
			sim.Run(sc, firstSeed+uint64(w), pairs, sim.Observer{Poll: func(o *sim.Observation) {
				if o.At < sc.Warmup {
					return
				}
				if !o.OK {
					t.Fatalf("%s: %s knows nothing at %v", sc.Name, methods[o.Pair].name, o.At)
				}
				errors[o.Pair] = append(errors[o.Pair], math.Abs(o.Excess()))
				x, ok := [2]sim.Estimator{pairs[o.Pair].A, pairs[o.Pair].B}[o.Side].(*exchanged)
				if !ok || sc.Tag&sim.Jumped != 0 {
					return // whether clocks that are set are within the bound is luck
				}
				if bound, _ := x.c.ErrorBound(o.LocalUsec); math.Abs(o.ErrUsec) > float64(bound.Microseconds()) {
					t.Errorf("%s: %s is %.0f us off at %v, its bound is %v", sc.Name, methods[o.Pair].name, o.ErrUsec, o.At, bound)
				}
				bounded++
			}})
			for i := range methods {
				worst[i] = append(worst[i], stat.Quantile(errors[i], 0.99))
			}
		}
		fmt.Fprintf(&b, "\n%-20s", sc.Name)
		for i := range methods {
			p99 := stat.Quantile(worst[i], 0.5)
			logs[i] += math.Log(max(p99, 1)) / float64(len(scenarios))
			fmt.Fprintf(&b, "%11.0f", p99)
		}
	}
	fmt.Fprintf(&b, "\n%-20s", "geometric mean")
	for i := range methods {
		fmt.Fprintf(&b, "%11.0f", math.Exp(logs[i]))
	}
	fmt.Fprintf(&b, "\n%d answers of a Clock were within their bound", bounded)
	t.Log(b.String())
	for i, m := range methods {
		switch mean, ours := math.Exp(logs[i]), math.Exp(logs[1]); {
		case m.name == "MinDelay" || m.name == "datagram":
		case mean < 2*ours:
			t.Errorf("%s is nearly as good as MinDelay, %.0f us: why is it not the default?", m.name, mean)
		case m.name != "push 5s" && 2*mean > math.Exp(logs[len(methods)-1]):
			t.Errorf("%s, %.0f us, is hardly better than a push", m.name, mean)
		}
	}
}

// TestPush: what the article replaces, whose clock is pushed, is 5 s behind in its own example.
func TestPush(t *testing.T) {
	var p rivals.Unreal
	p.Push(60_000_000, 15_000_000)
	if got, _ := p.RemoteTime(15_000_000, 60_000_000); got != 60_000_000 {
		t.Errorf("push: %d", got)
	}
}
