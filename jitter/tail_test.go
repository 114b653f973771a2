package jitter

import (
	"testing"
	"time"
)

// TestBins: each bin begins where the one before ends, and has what lies between.
func TestBins(t *testing.T) {
	for bin := range bins {
		end := binEnd(bin)
		if got := binOf(end - 1); got != bin {
			t.Errorf("just before the end of bin %d is bin %d", bin, got)
		}
		if got := binOf(end); got != min(bin+1, bins-1) {
			t.Errorf("the end of bin %d is in bin %d", bin, got)
		}
		if width := end - binEnd(bin-1); width > finest && width > end/perOctave {
			t.Errorf("bin %d ends at %v and is %v wide", bin, end, width)
		}
	}
	for _, below := range []time.Duration{0, -1, -time.Hour} {
		if binOf(below) != 0 {
			t.Errorf("%v is in bin %d", below, binOf(below))
		}
	}
}

// slowTail does what a tail does from a list of all that was counted.
type slowTail struct {
	halves [2][]int // the younger first
}

func (s *slowTail) count(bin int, share float64) {
	if float64(len(s.halves[0])) >= halfShares/share {
		s.halves[1] = s.halves[0]
		s.halves[0] = nil
	}
	s.halves[0] = append(s.halves[0], bin)
}

// above returns how many are in bins above one.
func (s *slowTail) above(bin int) (n int) {
	for _, half := range s.halves {
		for _, b := range half {
			if b > bin {
				n++
			}
		}
	}
	return n
}

// quantileBin returns the lowest bin above which there are no more than a share.
func (s *slowTail) quantileBin(share float64) int {
	may := share*float64(len(s.halves[0])+len(s.halves[1])) + halfOne
	for bin := range bins {
		if float64(s.above(bin)) <= may {
			return bin
		}
	}
	return bins - 1
}

// FuzzTail: the counts that are kept from one call to the next are those of a recount, whatever is
// counted, forgotten and asked for.
func FuzzTail(f *testing.F) {
	f.Add([]byte{1, 2, 3, 200, 90, 10})
	f.Add([]byte("a tail that is counted, and counted again, until the older half is forgotten"))
	f.Fuzz(func(t *testing.T, tape []byte) {
		if len(tape) > 2000 {
			return
		}
		var fast tail
		var slow slowTail
		share := 0.5
		for _, b := range tape {
			if b >= bins {
				share = float64(b-bins+1) / 256
			} else {
				fast.count(int(b), share)
				slow.count(int(b), share)
			}
			got := fast.quantile(share)
			want := slow.quantileBin(share)
			if fast.at != want || int(fast.beyond) != slow.above(want) {
				t.Fatalf("the quantile is in bin %d, %d beyond; want %d, %d",
					fast.at, fast.beyond, want, slow.above(want))
			}
			if got < binEnd(want-1) || got > binEnd(want) {
				t.Fatalf("the quantile is %v, outside of bin %d", got, want)
			}
		}
	})
}
