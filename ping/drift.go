// SPDX-License-Identifier: BSD-3-Clause

package ping

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
	points [bucketMax]sample // the quickest of past buckets, oldest first
	n      int
	quick  sample // the quickest of the present bucket
	begin  uint64
	open   bool

	skew  int64 // remote minus local rate, 2^-32
	known bool
}

func (d *drift) add(s sample) {
	switch {
	case !d.open:
		d.quick, d.begin, d.open = s, s.at, true
	case int64(s.at-d.begin) >= bucketUsec:
		if d.n == bucketMax {
			d.n = copy(d.points[:], d.points[1:])
		}
		d.points[d.n] = d.quick
		d.n++
		d.quick, d.begin = s, s.at
		d.fit()
	case s.trip < d.quick.trip:
		d.quick = s
	}
}

// fit takes the pair of points with the least doubt: an exchange that was slower
// than the quickest by q may be off by q/2 more than it.
func (d *drift) fit() {
	least := d.points[0].trip
	for _, p := range d.points[:d.n] {
		least = min(least, p.trip)
	}
	doubt := int64(doubtMaxPPM << 32 / 1_000_000)
	for j := range d.n {
		for i := range j {
			a, b := &d.points[i], &d.points[j]
			span := int64(b.at - a.at)
			moved := int64(b.offset - a.offset)
			excess := a.trip + b.trip - 2*least
			if span <= 0 || magnitude(moved) >= 1<<31 {
				continue
			}
			if e := (excess/2 + stampUsec) << 32 / span; e < doubt {
				doubt = e
				d.skew, d.known = min(max(moved<<32/span, -maxSkew), maxSkew), true
			}
		}
	}
}
