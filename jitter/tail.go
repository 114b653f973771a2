// SPDX-License-Identifier: BSD-3-Clause

package jitter

import (
	"math/bits"
	"time"
)

const (
	bins = 128
	// The first 16 bins are finest wide. Above them, each octave has perOctave bins.
	finest    = 32 * time.Microsecond
	perOctave = 8
	// Each half of the counts takes halfShares/share observations.
	halfShares = 20
	// Half an observation more may be late, whatever the share: the quantile is then a median
	// estimate. The mean estimate would be far longer where observations are few and the tail is
	// heavy.
	halfOne = 0.5
)

// tail counts by how much delays are above the level. Two halves take turns: when the younger is
// full, the older is emptied. So what is older than both is forgotten completely.
type tail struct {
	counts [2][bins]uint16
	total  [2]int32
	young  uint8
	at     int   // the bin in which the quantile was last
	beyond int32 // how many are counted in higher bins
}

// binOf returns the bin of what is so far above the level.
func binOf(above time.Duration) int {
	units := uint64(max(above, 0) / finest)
	octave := max(bits.Len64(units)-4, 0)
	return min(octave*perOctave+int(units>>octave), bins-1)
}

// binEnd returns where a bin ends and the next one begins.
func binEnd(bin int) time.Duration {
	bin++
	if bin < 2*perOctave {
		return time.Duration(bin) * finest
	}
	octave := bin/perOctave - 1
	return time.Duration(perOctave+bin%perOctave) << octave * finest
}

// count counts what is in a bin.
func (t *tail) count(bin int, share float64) {
	if float64(t.total[t.young]) >= halfShares/share {
		t.young ^= 1
		old := &t.counts[t.young]
		for _, count := range old[t.at+1:] {
			t.beyond -= int32(count)
		}
		*old = [bins]uint16{}
		t.total[t.young] = 0
	}
	t.counts[t.young][bin]++
	t.total[t.young]++
	if bin > t.at {
		t.beyond++
	}
}

func (t *tail) in(bin int) int32 { return int32(t.counts[0][bin]) + int32(t.counts[1][bin]) }

// quantile returns how far above the level no more than a share of the observations lies, and
// half an observation more. From one call to the next it moves by few bins.
func (t *tail) quantile(share float64) time.Duration {
	may := share*float64(t.total[0]+t.total[1]) + halfOne
	for t.at < bins-1 && float64(t.beyond) > may {
		t.at++
		t.beyond -= t.in(t.at)
	}
	for t.at > 0 && float64(t.beyond+t.in(t.at)) <= may {
		t.beyond += t.in(t.at)
		t.at--
	}
	begin := binEnd(t.at - 1)
	end := binEnd(t.at)
	late := 0.0 // the part of the bin that may be late, too
	if in := t.in(t.at); in > 0 {
		late = max(0, min((may-float64(t.beyond))/float64(in), 1))
	}
	return end - time.Duration(float64(end-begin)*late)
}
