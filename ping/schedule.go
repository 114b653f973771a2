// SPDX-License-Identifier: BSD-3-Clause

package ping

import "time"

const (
	// A group is 8 requests 100 ms apart: as many exchanges as judge a path (RFC 5905, section 10:
	// NSTAGE), as close as other engines ping all the time.
	groupSize    = 8
	fastInterval = 100 * time.Millisecond
	// Up to firstEnough, an interval is at most one firstPart-th of the time for which the
	// server's clock has been known. With longer intervals the clocks would drift apart before
	// their rates are known.
	firstPart   = 16
	firstEnough = time.Second
	// Above firstEnough, an interval is at most one laterPart-th of that time: it takes about 64
	// exchanges at one interval to learn the rate well. With 16 here, too, the error at a request
	// in 5 s and 20 ms of jitter is half as large again (TestWorlds).
	laterPart = 64
	// Until the first reply, requests are retryInterval apart, for a minute. A server that is away
	// longer is asked no more often than the interval says.
	retryInterval = time.Second
	retries       = 60
	// quietUsec without a request is a silence. A single exchange after it tells little: the
	// clocks may have drifted apart by a millisecond, which is the jitter of many paths.
	quietUsec = 8_000_000
)

// schedule says when to ask: in a group after a silence, and otherwise at intervals that grow with
// the time for which the server's clock has been known, up to Config.SyncInterval.
type schedule struct {
	asked uint64 // requests so far
	last  uint64 // local time of the last one
	group int    // requests of the present group; may exceed its size
	known bool   // a request was answered
	since uint64 // local time from which on the server's clock is known
}

// request notes one that is sent.
func (s *schedule) request(nowUsec uint64) {
	if int64(nowUsec-s.last) >= quietUsec {
		s.group = 0
	}
	s.asked++
	s.group++
	s.last = nowUsec
}

// start says that the server's clock is known from now on: at first, and after a clock step.
func (s *schedule) start(nowUsec uint64) {
	s.known = true
	s.since = nowUsec
}

// check asks for a group of requests, unless one is under way.
func (s *schedule) check() {
	if s.group >= groupSize {
		s.group = 0
	}
}

// next returns how long to wait before the next request. interval is the longest one.
func (s *schedule) next(nowUsec uint64, interval time.Duration) time.Duration {
	switch {
	case s.asked == 0:
		return 0
	case s.group < groupSize:
		interval = min(interval, fastInterval)
	case s.known:
		known := duration(int64(s.last - s.since))
		early := max(min(known/firstPart, firstEnough), fastInterval)
		interval = min(interval, max(early, known/laterPart))
	case s.asked < groupSize+retries:
		interval = min(interval, retryInterval)
	}
	ago := duration(int64(nowUsec - s.last))
	if ago < -interval {
		return 0 // the local clock was set back: when it reads last again is far off
	}
	return max(interval-irregular(interval, s.asked)-max(ago, 0), 0)
}

// irregular returns by how much to shorten the interval before request n, by up to a sixteenth.
// 250 ms are exactly 16 steps of a server's clock that advances by 15.625 ms. At even intervals
// all requests would meet the same part of a step. Multiples of the golden ratio are spread evenly.
func irregular(interval time.Duration, n uint64) time.Duration {
	return interval >> 20 * time.Duration(uint16(n*40503)) // 2^16 times the golden ratio
}
