// SPDX-License-Identifier: BSD-3-Clause

package js

import (
	"math"
	"testing"

	"timesync/internal/testkit"
)

// twin is a Go end and a JavaScript end that are told the same. What the Go end sends is sent.
type twin struct {
	golang, javascript end
	apart              []float64 // us, of the remote times that both know
	wider              float64   // us: most by which their bounds differ
	unlike             int       // times when only one of them knew the time
	headers            int       // that were of another length
	now                uint64    // when it was last read
}

func (e *twin) anew() {
	e.golang.anew()
	e.javascript.anew()
}

func (e *twin) send(now uint64) []byte {
	header := e.golang.send(now)
	if other := e.javascript.send(now); len(other) != len(header) {
		e.headers++
	}
	return header
}

func (e *twin) open(b []byte, now uint64) {
	e.golang.open(b, now)
	e.javascript.open(b, now)
}

func (e *twin) read(now uint64) (remote uint64, bound float64, ok bool) {
	e.now = now
	remote, bound, ok = e.golang.read(now)
	other, otherBound, otherOK := e.javascript.read(now)
	switch {
	case ok != otherOK:
		e.unlike++
	case ok:
		e.apart = append(e.apart, math.Abs(float64(int64(other-remote))))
		e.wider = max(e.wider, math.Abs(otherBound-bound))
	}
	return remote, bound, ok
}

// TestLikeGo: told the same datagrams, a JavaScript end knows the same as a Go end. Go counts in whole microseconds
// here and there, by which a gate may say otherwise now and then.
func TestLikeGo(t *testing.T) {
	const usual, most = 5, 150 // us
	javascript := newJSEnd(t)
	for _, rate := range []float64{60, 4} {
		for _, c := range courses {
			e := &twin{golang: &goEnd{}, javascript: javascript}
			session(*first, rate, c, [2]end{e, &goEnd{}}, [2]*outcome{{}, {}})
			median, p99 := testkit.Quantile(e.apart, .5), testkit.Quantile(e.apart, .99)
			t.Logf("%g/s, %s: apart by %.0f us (median), %.0f (p99), %.0f (most), bounds by %.0f",
				rate, c.name, median, p99, testkit.Quantile(e.apart, 1), e.wider)
			if median > usual || p99 > most || e.unlike > 0 || e.headers > 0 {
				t.Errorf("%g/s, %s: too far apart; %d times one did not know the time; %d headers are of other lengths",
					rate, c.name, e.unlike, e.headers)
			}
		}
	}
}
