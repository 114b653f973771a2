// SPDX-License-Identifier: BSD-3-Clause

package tick

import (
	"math"
	"slices"
	"time"
)

const (
	recentKept = 64 // the last delays, which say where the level is
	levelKept  = 32 // of them, those that say that it has shifted

	// The delays above the level are counted in bins, 32 to an octave from 50 us to 3 s, so
	// that a quantile is right to 2.2 %.
	bins       = 512
	perOctave  = 32
	finest     = 50 * time.Microsecond
	mostCounts = 8192 // then all counts are halved: what is two minutes old is forgotten

	// One of 20 delays is above the usual ones. Where so many in a row are not, the jitter has
	// become less, and the counts are halved at once.
	unusual  = 1. / 20
	usualRow = 200
)

// spread learns how delays are spread: their level, which is their median of late, and what
// is above it, over a minute or so. A path that becomes longer shifts the level and leaves the
// rest as it was, so that both are known again within half a second. The zero value knows
// nothing.
type spread struct {
	level  time.Duration
	recent []time.Duration // oldest first, recentKept at most
	counts [bins]float32   // of those before, by how far they were above the level
	total  float32
	usual  int // the bin that most delays do not exceed
	row    int // how many have not since one did, or since the counts were halved
}

// add takes a delay. inRow says that all recent ones were late in a row, which may be taken back.
func (s *spread) add(d time.Duration, inRow bool) {
	if len(s.recent) == recentKept {
		if !inRow {
			s.count(s.recent[0])
		}
		s.recent = slices.Delete(s.recent, 0, 1)
	}
	s.recent = append(s.recent, d)
}

// forget takes the first n delays of a row back, as far as they are recent. After the row one more came.
func (s *spread) forget(row, n int) {
	end := max(len(s.recent)-1, 0)
	s.recent = slices.Delete(s.recent, max(end-row, 0), max(end-row+n, 0))
}

// count counts a delay that is recent no more.
func (s *spread) count(d time.Duration) {
	b := bin(d - s.level)
	s.counts[b]++
	s.total++
	if s.row++; b > s.usual {
		s.row = 0
	}
	if s.total >= mostCounts || min(float32(s.row), s.total) >= usualRow {
		s.total, s.row = 0, 0
		for i := range s.counts {
			s.counts[i] /= 2
			s.total += s.counts[i]
		}
	}
}

// bin returns the bin of what is so far above the level.
func bin(above time.Duration) int {
	if above <= finest {
		return 0
	}
	return min(1+int(perOctave*math.Log2(float64(above)/float64(finest))), bins-1)
}

// last returns the last n delays, the shortest first.
func (s *spread) last(n int) []time.Duration {
	last := slices.Clone(s.recent[max(len(s.recent)-n, 0):])
	slices.Sort(last)
	return last
}

// settle lets the level follow the last delays if they show that it has shifted: by more than
// chance moves a median of so many. There must be one.
func (s *spread) settle() {
	last := s.last(levelKept)
	median := last[len(last)/2]
	if s.total == 0 && len(s.recent) < recentKept {
		s.level = median
		return
	}
	quartiles := last[len(last)*3/4] - last[len(last)/4]
	if shift := median - s.level; len(last) < levelKept || shift.Abs() < time.Millisecond+quartiles*2/3 {
		return
	}
	// Those that are nearer to the level of before belong there.
	s.recent = slices.DeleteFunc(s.recent, func(d time.Duration) bool {
		nearer := (d - s.level).Abs() < (d - median).Abs()
		if nearer {
			s.count(d)
		}
		return nearer
	})
	s.level = median
}

// restart says that the path has become another one, of which only the last n delays are known.
func (s *spread) restart(n int) {
	s.recent = slices.Delete(s.recent, 0, max(len(s.recent)-n, 0))
	s.level = s.last(n)[len(s.recent)/2]
}

// beyond returns the delay above the level that a share of the delays exceeds, with few of them
// known the longest of all.
func (s *spread) beyond(share float64) time.Duration {
	counts, total := s.counts, s.total+float32(len(s.recent))
	for _, d := range s.recent {
		counts[bin(d-s.level)]++
	}
	end := func(share float64) int {
		may, i := float32(share)*total, bins-1
		for ; i > 0 && counts[i] <= may; i-- {
			may -= counts[i]
		}
		return i
	}
	s.usual = end(unusual)
	if i := end(share); i > 0 {
		return time.Duration(float64(finest) * math.Exp2(float64(i)/perOctave)) // the end of the bin
	}
	return 0
}
