package ping

import (
	"math"
	"slices"
)

// What others do, for comparison, faults included.

// netfoxClock is netfox's NetworkTimeSynchronizer: the average of 8 exchanges,
// weighted by the logarithm of the round trip, so that the slowest pull hardest; an
// eighth of it is taken per exchange, and a jump made beyond 8 s. The ring is sorted
// in place and samples are not corrected for what was adjusted since.
type netfoxClock struct {
	reference uint64 // its clock minus the local clock
	synced    bool
	ring      []foxSample
	next      int
	even      bool // control of the control: weights all equal
}

type foxSample struct{ offset, trip float64 } // seconds

func (f *netfoxClock) exchange(t1, t2, t3, t4 uint64) {
	if !f.synced {
		f.reference, f.synced = t3-t4, true // the first timestamp, uncorrected
	}
	a, b := int64(t2-(t1+f.reference)), int64(t3-(t4+f.reference))
	s := foxSample{float64(a+b) / 2e6, float64(int64(t4-t1)-int64(t3-t2)) / 1e6}
	if len(f.ring) < 8 {
		f.ring = append(f.ring, s)
	} else {
		f.ring[f.next%8] = s
		f.next++
	}
	slices.SortFunc(f.ring, func(x, y foxSample) int {
		if x.trip < y.trip {
			return -1
		}
		return 1
	})
	sum, weights := 0.0, 0.0
	for _, s := range f.ring {
		weight := math.Log(1 + s.trip)
		if f.even {
			weight = 1
		}
		sum += weight * s.offset
		weights += weight
	}
	if weights == 0 {
		sum, weights = s.offset, 1
	}
	offset := sum / weights
	if math.Abs(offset) > 8 {
		f.ring, f.next = nil, 0
	} else {
		offset /= 8
	}
	f.reference += uint64(int64(offset * 1e6))
}

func (f *netfoxClock) remote(local uint64) uint64 { return local + f.reference }

// pushClock is Unreal's own clock: every five seconds the server pushes its time,
// and what that lost on the way is lost.
type pushClock struct {
	offset uint64
	last   uint64
	synced bool
}

func (p *pushClock) push(sent, received uint64) {
	if !p.synced || received-p.last >= 5_000_000 {
		p.offset, p.last, p.synced = sent-received, received, true
	}
}
