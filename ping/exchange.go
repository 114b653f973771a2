// SPDX-License-Identifier: BSD-3-Clause

package ping

import (
	"math"
	"time"
)

// Exchange is a request and its reply: four clock readings, in microseconds. The offset is the
// server's clock minus the client's. No message arrives before it is sent. So the offset is at most
// T2-T1, and at least T3-T4.
type Exchange struct {
	T1 uint64 // the client's clock when it sent the request
	T2 uint64 // the server's clock when the request arrived
	T3 uint64 // the server's clock when it sent the reply
	T4 uint64 // the client's clock when the reply arrived
}

// RoundTrip returns how long the request and the reply were on their way together. The
// time that the server held the request does not count. Where a clock advances in steps,
// the result may be negative.
func (x Exchange) RoundTrip() time.Duration { return duration(x.roundTrip()) }

func (x Exchange) roundTrip() int64 { return int64(x.T4-x.T1) - int64(x.T3-x.T2) }

// Offset returns the server's clock minus the client's, in microseconds modulo 2^64. It takes both
// ways to be equally long, and is wrong by half of their difference.
func (x Exchange) Offset() uint64 { return x.T3 - x.T4 + uint64(x.roundTrip()/2) }

const (
	// lateUsec: "very slow responses (over 10 seconds) are discarded" (Slot, step 4).
	lateUsec = 10_000_000
	// coarseUsec is by how much a server may seem to answer before it was asked. Its time of
	// receipt may be rounded up by a step of its clock, and its time of sending down by another;
	// the coarsest browsers have steps of 100 ms.
	coarseUsec = 200_000
	// maxSkewPPM is the largest difference in rate of the two clocks: NTP slews a clock by at most
	// 500 ppm (RFC 5905: MAXFREQ), and two crystals differ by up to 100 ppm.
	maxSkewPPM = 600
	// roundUsec covers the whole microseconds in which clocks are read.
	roundUsec = 2
)

// verdict returns Accepted, or why these cannot be the times of an exchange.
func (x Exchange) verdict() Verdict {
	away := int64(x.T4 - x.T1)
	hold := int64(x.T3 - x.T2)
	switch {
	case away < 0 || hold < -coarseUsec:
		return Impossible
	case away > lateUsec:
		return TooLate
	case hold > away+x.slack():
		return Impossible
	}
	return Accepted
}

// slack returns by how much a time of the server may lie beyond those of the client, in
// microseconds: what the clocks drift apart during the exchange, and rounding.
func (x Exchange) slack() int64 { return int64(x.T4-x.T1)*maxSkewPPM/1e6 + roundUsec }

// allows reports whether the offset can be within bound of what is given.
func (x Exchange) allows(offset uint64, bound time.Duration) bool {
	least := int64(x.T3 - x.T4 - offset)
	most := int64(x.T2 - x.T1 - offset)
	doubt := bound.Microseconds() + x.slack()
	return least <= doubt && most >= -doubt
}

// duration converts microseconds; what does not fit becomes the largest duration.
func duration(usec int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Microsecond)
	return time.Duration(min(max(usec, -most), most)) * time.Microsecond
}
