// These tests prove that inputs come in time, and what that costs, beside the others.

package ontime

import (
	"flag"
	"fmt"
	"testing"
)

var worldName = flag.String("world", "", "only this world")

func TestTable(t *testing.T) {
	for _, w := range Worlds() {
		if *worldName != "" && w.Name != *worldName {
			continue
		}
		line := ""
		for _, rule := range Rules {
			r := Run(w, 1, rule.New)
			steps := 0
			for _, e := range r.Events {
				if e.Kind == 3 {
					steps++
				}
			}
			line += fmt.Sprintf(" | %5.2f %% %6.1f ms until %.2f excess %.1f lost %3d st %d u%d", 100*r.Share(), r.Lead.Seconds()*1e3, r.Until.Seconds(), r.Excess.Seconds(), r.Lost, steps, r.Unreported)
			if *worldName != "" && rule.Name == "timesync" {
				t.Log(r.Events)
			}
		}
		t.Logf("%-20s %v%s", w.Name, w.Steady, line)
	}
}
