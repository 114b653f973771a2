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
	ring [8]echo
	n    int
	best uint64 // t4 of the exchange that counts
	at   [8]uint64
}

// phi is by how much a clock may err, microseconds a second (RFC 5905).
const phi = 15

// OnExchange implements sim.Exchanger.
func (f *NTPFilter) OnExchange(t1, t2, t3, t4 uint64) {
	if !f.due(t1, 2*time.Second) {
		return
	}
	f.ring[f.n%len(f.ring)], f.at[f.n%len(f.at)] = newEcho(t1, t2, t3, t4), t4
	f.n++
	const aging = 2 * phi * 2 // microseconds of round trip in 2 s
	best, least := echo{}, uint64(math.MaxUint64)
	for age := range uint64(min(f.n, len(f.ring))) { // from the newest
		i := (f.n - 1 - int(age)) % len(f.ring)
		if r := f.ring[i].rtt + aging*age; r < least {
			best, least, f.best = f.ring[i], r, f.at[i]
		}
	}
	f.set(best)
}

// ErrorBound returns NTP's root distance: half the round trip, and 15 ppm of its age.
func (f *NTPFilter) ErrorBound(localUsec uint64) (time.Duration, bool) {
	old := time.Duration(localUsec-f.best) * time.Microsecond
	return time.Duration(f.rtt/2)*time.Microsecond + old*phi/1e6, f.synced
}
