// SPDX-License-Identifier: BSD-3-Clause

package badnet

import (
	"bytes"
	"time"
)

// Kind is what is wrong with a datagram.
type Kind int

// What the attacker injects.
const (
	Genuine  Kind = iota
	Forged        // a bit is wrong; it arrives ahead of the true one
	Replayed      // a copy, later
	Cut           // the beginning only
	Recorded      // of another session, see Recordings
	kinds
)

const attackRate = 0.1 // injected datagrams for each that is forwarded

// Injected returns how many datagrams of those kinds the attacker has delivered.
func (r *Relay) Injected(w Way, all ...Kind) (sum int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range all {
		sum += r.injected[w][k]
	}
	return sum
}

// inject takes the kinds in turn. What is made up goes ahead of the true datagram: an
// early stamp is what would move a clock that believed it.
func (r *Relay) inject(p parcel, now time.Time, lost bool) {
	r.turn++
	p.kind = Genuine + 1 + Kind(r.turn)%(kinds-1)
	later := p.due.Add(5*time.Millisecond + time.Duration(r.rng.Int64N(3e8)))
	p.due = now
	switch p.kind {
	case Recorded:
		p.data = r.Recordings[p.way]
	case Forged:
		p.data = bytes.Clone(p.data)
		p.data[r.rng.IntN(len(p.data))] ^= 1 << r.rng.IntN(8)
	case Cut:
		p.data = p.data[:r.rng.IntN(len(p.data))]
	case Replayed:
		if lost { // nobody has seen it: its copy would be a late delivery
			return
		}
		p.due = later
	}
	r.put(p)
}
