// SPDX-License-Identifier: BSD-3-Clause

package tick

// tallyMost is over how many arrivals a share of late ones is told: a minute's at 60 Hz, at least
// half of that.
const tallyMost = 4096

// tally counts arrivals and those of them that came late. It forgets slowly.
type tally struct {
	late, all float32 // all is 0 only before the first one
}

// count counts an arrival.
func (t *tally) count(late bool) {
	t.all++
	if late {
		t.late++
	}
	if t.all >= tallyMost {
		t.late /= 2
		t.all /= 2
	}
}

// share returns the share of late arrivals.
func (t *tally) share() float64 { return float64(t.late) / float64(max(t.all, 1)) }
