package sim_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"timesync/internal/sim"
)

func TestDbg(t *testing.T) {
	for _, sc := range sim.Scenarios() {
		if !strings.Contains(sc.Name, *only) {
			continue
		}
		for seed := range uint64(*worlds) {
			if s := os.Getenv("SEED"); s != "" && s != fmt.Sprint(seed+1) {
				continue
			}
			last := [2]string{}
			mx := 0.0
			p := []sim.Pair{{Name: "x", A: &core{}, B: &core{}}}
			sim.Run(sc, seed+1, p, sim.Observer{Poll: func(o *sim.Observation) {
				if false {
					return
				}
				if o.At > sc.Warmup {
					mx = max(mx, o.Excess(), -o.Excess())
				}
				c := []sim.Estimator{p[0].A, p[0].B}[o.Side].(*core)
				if os.Getenv("SEED") != "" {
					if s := c.s.DebugString(); s != last[o.Side] {
						last[o.Side] = s
						fmt.Printf("%7.2f %c err=%.0f  %s\n", o.At.Seconds(), 'A'+rune(o.Side), o.Excess(), s)
					}
				}
			}})
			fmt.Println(sc.Name, "seed", seed+1, "max", mx)
		}
	}
}
