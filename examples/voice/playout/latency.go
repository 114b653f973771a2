// SPDX-License-Identifier: BSD-3-Clause

package playout

import "cmp"

const (
	binUsec = 1000 // us: the width of a bin of delays

	// memory is how many frames the delays of the past count for: 20 s of 20 ms each.
	memory = 1000

	// inARow late frames in a row are a longer path, which need not wait for the quantile.
	inARow = 3

	// Of frames that arrive within burstUsec only the first counts. The others waited for it, as
	// after the program was stopped: that is one event, and no latency helps. It took as long as the
	// longest of them, which may have been overtaken.
	burstUsec = 5000

	// A latency that is longer than it need be by slackUsec is lowered by a part in lower of
	// the time: 0.5 %, which nobody hears.
	slackUsec = 2 * binUsec
	lower     = 200
)

// latency is the time from capture to play, in microseconds: fixed, or a quantile of the
// one-way delays, raised at once and lowered slowly.
type latency struct {
	conf     Config
	now      int64
	bins     []float64 // the last one has all that are longer; the past fades
	total    float64   // of all bins
	last     uint64    // arrival that counted
	lastFor  int64     // and the longest delay of that burst
	late     int       // frames in a row
	lateMost int64     // the longest delay of them
	begun    bool
}

func newLatency(c Config) latency {
	bins := make([]float64, c.Most.Microseconds()/binUsec+1)
	return latency{conf: c, now: cmp.Or(c.Latency, c.Least).Microseconds(), bins: bins}
}

// arrived takes the one-way delay of a frame that arrived at nowUsec.
func (l *latency) arrived(nowUsec uint64, delay int64) {
	since := int64(nowUsec - l.last)
	burst := l.begun && since >= 0 && since < burstUsec
	switch {
	case l.conf.Latency > 0, burst && delay <= l.lastFor:
		return
	case burst: // as if only this one had come
		l.bins[l.bin(l.lastFor)]--
	default:
		l.last, l.begun = nowUsec, true
		for i := range l.bins {
			l.bins[i] *= 1 - 1./memory
		}
		l.total += 1 - l.total/memory
	}
	l.lastFor = delay
	l.bins[l.bin(delay)]++
	wanted := l.quantile()
	switch {
	case burst: // the first of it was counted
	case delay <= l.now:
		l.late, l.lateMost = 0, 0
	default:
		if l.late, l.lateMost = l.late+1, max(l.lateMost, delay); l.late >= inARow {
			wanted = max(wanted, l.lateMost+binUsec)
		}
	}
	switch {
	case wanted > l.now:
		l.now = wanted
	case !burst && since > 0 && l.now-wanted > slackUsec:
		l.now -= min(since/lower, l.now-wanted)
	}
	l.now = min(max(l.now, l.conf.Least.Microseconds()), l.conf.Most.Microseconds())
}

// bin returns where a delay counts.
func (l *latency) bin(delay int64) int64 { return min(max(delay, 0)/binUsec, int64(len(l.bins)-1)) }

// quantile returns the delay within which the wanted share of frames arrives.
func (l *latency) quantile() int64 {
	rest := l.total * (1 - l.conf.InTime)
	for i := len(l.bins) - 1; i >= 0; i-- {
		if rest -= l.bins[i]; rest < 0 {
			return int64(i+1) * binUsec
		}
	}
	return 0
}
