// SPDX-License-Identifier: BSD-3-Clause

package channelbench

import (
	"testing"
	"time"
)

// Test measures briefly, idle and with bulk both ways, for the test of an example that Main makes.
// It holds what is true on any machine, however busy: no end is further off than it says.
func Test(t *testing.T, connect Connect) {
	t.Helper()
	loads := Loads("bulk")
	for _, load := range []Load{loads[0], loads[2]} {
		r, err := Measure(t.Context(), load, time.Second, connect)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", r)
		if n := r.Outside(); n > 0 {
			t.Errorf("%d offsets are worse than their bound says", n)
		}
	}
}
