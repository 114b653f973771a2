// SPDX-License-Identifier: BSD-3-Clause

package ping

import "math"

const (
	// A bucket keeps one exchange in 8 s, 16 of them span two minutes: long enough to
	// measure 5 ppm through milliseconds of jitter, short enough to follow the
	// temperature.
	bucketUsec = 8_000_000
	bucketMax  = 16
	// A slope is believed when its doubt is under 25 ppm, well under the skew of
	// ordinary crystals. stampUsec is the doubt of any exchange, for reading clocks.
	doubtMaxPPM = 25
	stampUsec   = 20
)

// drift measures the skew: from the quickest exchange of each bucket, the slope
// between those two that say most about it.
type drift struct {
	quick []sample // the quickest of each bucket, oldest first; the last is the present one
	begin uint64   // of that

	skew  int64 // remote minus local rate, 2^-32
	known bool
}

// add takes one more exchange.
func (d *drift) add(s sample) {
	n := len(d.quick)
	switch {
	case n == 0 || int64(s.at-d.begin) >= bucketUsec:
		d.quick = d.quick[max(n-bucketMax, 0):]
		d.fit()
		d.quick, d.begin = append(d.quick, s), s.at
	case s.trip < d.quick[n-1].trip:
		d.quick[n-1] = s
	}
}

// fit takes the pair of points with the least doubt.
func (d *drift) fit() {
	least := int64(math.MaxInt64)
	for _, s := range d.quick {
		least = min(least, s.trip)
	}
	points := d.sinceStep(least)
	doubt := int64(doubtMaxPPM << 32 / 1_000_000)
	for j := range points {
		for i := range j {
			a, b := points[i], points[j]
			span, moved := int64(b.at-a.at), int64(b.offset-a.offset)
			if span <= 0 || magnitude(moved) >= 1<<31 {
				continue // out of order, or more than can be shifted, after months of silence
			}
			if e := excess(a, b, least) << 32 / span; e < doubt {
				doubt = e
				d.skew, d.known = min(max(moved<<32/span, -maxSkew), maxSkew), true
			}
		}
	}
}

// sinceStep returns the latest points without a level shift between them: an offset
// that moves by more than queues and rates explain is that of a clock that was set by
// less than the error bounds show, and a slope across it is no skew.
func (d *drift) sinceStep(least int64) []sample {
	i := max(len(d.quick)-1, 0)
	for ; i > 0; i-- {
		a, b := d.quick[i-1], d.quick[i]
		rates := scale(int64(b.at-a.at), maxSkew)
		if magnitude(int64(b.offset-a.offset)) > uint64(excess(a, b, least)+max(rates, 0)) {
			break
		}
	}
	return d.quick[i:]
}

// excess returns by how much queues may have moved the offset from a to b: an exchange
// that was slower than the quickest by q may be off by q/2 more than it, and where the server's clock advances in steps,
// each by half of one.
func excess(a, b sample, least int64) int64 {
	return (a.trip+b.trip-2*least)/2 + stampUsec + max(a.coarse, b.coarse)
}
