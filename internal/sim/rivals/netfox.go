// SPDX-License-Identifier: BSD-3-Clause

package rivals

import (
	"cmp"
	"math"
	"slices"
)

// Netfox is netfox's NetworkTimeSynchronizer: four pings a second in its own
// reference time; the average of 8, weighted by the logarithm of the round trip,
// nudges that time by an eighth; beyond 8 s it jumps. As in netfox the ring is sorted
// in place, so that the rank of a round trip, not its age, decides what is replaced.
// The zero value is ready to use.
type Netfox struct {
	pinged
	Even bool // all round trips weigh the same: what the weights are worth
	ring []foxEcho
	next int
}

// foxEcho is an exchange in netfox's reference time, seconds.
type foxEcho struct{ offset, rtt float64 }

// OnExchange implements sim.Exchanger.
func (n *Netfox) OnExchange(t1, t2, t3, t4 uint64) {
	const size, panicAt = 8, 8 // samples, seconds
	e := newEcho(t1, t2, t3, t4)
	if !n.synced { // set from the first answer, without its round trip
		n.set(t3 - t4)
	}
	f := foxEcho{float64(int64(e.offset-n.offset)) * 1e-6, float64(e.rtt) * 1e-6}
	if len(n.ring) < size {
		n.ring = append(n.ring, f)
	} else {
		n.ring[n.next] = f
		n.next = (n.next + 1) % size
	}
	slices.SortStableFunc(n.ring, func(a, b foxEcho) int { return cmp.Compare(a.rtt, b.rtt) })
	var sum, weights, plain float64
	for _, s := range n.ring {
		w := math.Log(1 + s.rtt)
		if n.Even {
			w = 1
		}
		sum, weights, plain = sum+w*s.offset, weights+w, plain+s.offset
	}
	offset := plain / float64(len(n.ring))
	if weights > 0 {
		offset = sum / weights
	}
	if math.Abs(offset) > panicAt {
		n.ring, n.next = n.ring[:0], 0
	} else {
		offset /= 8
	}
	n.offset += uint64(int64(offset * 1e6))
}
