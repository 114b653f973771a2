// SPDX-License-Identifier: BSD-3-Clause

package ping

import (
	"crypto/rand"
	"encoding/binary"
	"sync/atomic"
	"time"
)

// What the fields of Clock mean when they are zero.
const (
	DefaultSyncInterval         = 250 * time.Millisecond // netfox: SYNC_INTERVAL
	DefaultSamples              = 64                     // Slot: "the last 32 or 64 pings"
	DefaultAdjustSteps          = 8                      // netfox: SYNC_ADJUST_STEPS
	DefaultRecalibrateThreshold = 200 * time.Millisecond // Unity's HardResetThreshold; netfox waits for seconds
)

const (
	// fastInterval and fastRequests are the schedule after a start and a step: as
	// many requests as judge a line, as close as other engines ping all the time.
	fastInterval = 100 * time.Millisecond
	fastRequests = filterDepth

	// lateUsec: "very slow responses (over 10 seconds) are discarded" (Slot, step 4).
	lateUsec = 10_000_000
	// pendingMax requests are remembered: 10 s at the default interval and the fast
	// start take 46.
	pendingMax = 64

	// maxSkewPPM is the largest difference in rate of the two clocks for which the
	// error bound holds: NTP slews a clock by at most 500 ppm (RFC 5905: MAXFREQ),
	// and two crystals differ by up to 100 ppm.
	maxSkewPPM = 600
	maxSkew    = maxSkewPPM << 32 / 1_000_000 // rates are in units of 2^-32

	// A correction is spread out so that the clock runs 1/16 faster or slower until
	// it is done: a few milliseconds take less than a tick of 60 Hz, and no reading
	// goes back.
	slewShift = 4
	// settleUsec is how long after its receipt a correction begins, and how long the
	// one before stays readable: so far may the handling of a reply, or a reader, be
	// behind the local clock without seeing the past change. Longer than a frame at
	// 60 Hz.
	settleUsec = 20_000
	// roundUsec covers the whole microseconds in which clocks are read.
	roundUsec = 2
)

// Verdict is what became of a reply.
type Verdict uint8

const (
	Accepted   Verdict = iota // used; the clock was left alone or is being slewed
	Synced                    // used; the clock was set for the first time since Reset
	Stepped                   // used; the clock jumped, see Snapshot.LastStep
	Malformed                 // refused: not a reply
	OldSession                // refused: of another session than Reset named
	Unknown                   // refused: forged, or the request is forgotten
	Duplicate                 // refused: this request has been answered
	Overtaken                 // refused: a later request was answered before
	Late                      // refused: more than 10 s after the request
	Impossible                // refused: from the future, that is before its request, or held longer than it was away
	verdicts
)

var verdictNames = [verdicts]string{"accepted", "synced", "stepped", "malformed", "old session",
	"unknown", "duplicate", "overtaken", "late", "impossible"}

// String returns the verdict in words.
func (v Verdict) String() string {
	if v < verdicts {
		return verdictNames[v]
	}
	return "invalid"
}

// Clock is a client's estimate of a server's clock. The zero value is ready to use;
// its exported fields must be set before that and not changed after. It must not be
// copied after first use.
//
// One goroutine at a time may call AppendRequest, HandleReply, Next and Reset. All
// other methods may be called from any goroutine at any time, never block and never
// allocate.
//
// Times are readings of the local clock in microseconds. It must be monotonic;
// its value is free, and it may wrap.
type Clock struct {
	// Rule chooses the exchange that sets the clock; nil means MinDelay.
	Rule Rule
	// SyncInterval is the time between two requests, after eight fast ones at the
	// beginning and when one of the clocks was set; 0 means DefaultSyncInterval.
	// Replies that take longer than 64 intervals are refused as Unknown.
	SyncInterval time.Duration
	// Samples is how many exchanges the rule gets to see; 0 means DefaultSamples.
	Samples int
	// AdjustSteps is the fraction of the clock's error, one in AdjustSteps, that each
	// reply takes away; 1 takes all, 0 means DefaultAdjustSteps. While there are fewer
	// samples than steps, the number of samples is used, so that a new clock settles
	// quickly. Corrections are at least 40 ms apart.
	AdjustSteps int
	// RecalibrateThreshold is the error above which the clock jumps instead; 0 means
	// DefaultRecalibrateThreshold.
	RecalibrateThreshold time.Duration

	session uint32
	pending [pendingMax]request // a ring; the oldest is overwritten
	asked   uint64              // number of requests since Reset
	fast    int                 // fast requests sent since the start, or since a clock was set
	window  []sample            // oldest first
	view    []Sample            // the window as the rule sees it
	drift   drift
	latest  uint64 // latest receive time

	line   atomic.Pointer[line] // what readers see; nil while not synchronized
	steps  uint64
	counts [verdicts]atomic.Uint64
}

type request struct {
	nonce, sent uint64
	state       requestState
}

type requestState uint8

const (
	unused requestState = iota
	waiting
	answered
	overtaken
)

// sample is one exchange in absolute terms.
type sample struct {
	at     uint64 // local clock in the middle of the exchange
	offset uint64 // remote minus local clock
	trip   int64  // round trip without the server's hold
	half   int64  // the offset at the time at is at most this far off
}

// AppendRequest appends a new request to dst and returns the longer slice: RequestSize
// bytes to send to the server at once. A request that gets lost needs no attention.
func (c *Clock) AppendRequest(dst []byte, nowUsec uint64) []byte {
	var nonce [8]byte
	rand.Read(nonce[:]) // never fails: crypto/rand
	r := request{binary.LittleEndian.Uint64(nonce[:]), nowUsec, waiting}
	c.pending[c.asked%pendingMax] = r
	c.asked++
	c.fast = min(c.fast+1, fastRequests)
	return appendHead(dst, kindRequest, message{session: c.session, nonce: r.nonce})
}

// Next returns how long to wait before the next request; zero means now.
func (c *Clock) Next(nowUsec uint64) time.Duration {
	if c.asked == 0 {
		return 0
	}
	interval := orDefault(c.SyncInterval, DefaultSyncInterval)
	if c.fast < fastRequests {
		interval = min(interval, fastInterval)
	}
	last := c.pending[(c.asked-1)%pendingMax].sent
	return max(interval-duration(int64(nowUsec-last)), 0)
}

// HandleReply takes a reply that arrived at nowUsec and says what became of it. A
// refused reply changes nothing but its count. For readers to see no change of the
// past, call it within 20 ms of nowUsec.
//
// Replies are not authenticated: the nonce stops those who cannot see the requests.
func (c *Clock) HandleReply(reply []byte, nowUsec uint64) Verdict {
	v := c.handle(reply, nowUsec)
	c.counts[v].Add(1)
	return v
}

func (c *Clock) handle(reply []byte, now uint64) Verdict {
	m, ok := readMessage(reply, kindReply)
	if !ok {
		return Malformed
	}
	if m.session != c.session {
		return OldSession
	}
	r := c.find(m.nonce)
	if r == nil {
		return Unknown
	}
	if r.state == answered {
		return Duplicate
	}
	// The differences are unsigned: a time before its beginning is a huge one.
	away, hold := now-r.sent, m.sent-m.recv
	if int64(away) < 0 {
		return Impossible
	}
	if away > lateUsec {
		return Late
	}
	skewed := int64(away) * maxSkewPPM / 1e6 // by what the clocks can disagree on away
	if hold > away+uint64(skewed)+roundUsec {
		return Impossible
	}
	if r.state == overtaken {
		return Overtaken // its round trip is the longer one, nothing is lost
	}
	for i := range c.pending {
		if p := &c.pending[i]; p.state == waiting && int64(p.sent-r.sent) < 0 {
			p.state = overtaken
		}
	}
	r.state = answered

	// The truth at the middle lies between two bounds, a half round trip either way:
	// a request arrives after it was sent, so the remote clock is at most
	// recv-r.sent ahead, and a reply likewise, so it is at least sent-now ahead.
	trip := int64(away - hold)
	return c.use(sample{
		at:     r.sent + away/2,
		offset: m.recv - r.sent - uint64(trip/2),
		trip:   max(trip, 0),
		half:   (max(trip, 0)+1)/2 + skewed/2 + roundUsec,
	}, now)
}

func (c *Clock) find(nonce uint64) *request {
	for i := range c.pending {
		if p := &c.pending[i]; p.state != unused && p.nonce == nonce {
			return p
		}
	}
	return nil
}

// use lets a sample change the clock.
func (c *Clock) use(s sample, now uint64) Verdict {
	old := c.line.Load()
	if old != nil && int64(now-c.latest) < 0 {
		now = c.latest
	}
	c.latest = now
	verdict := Accepted
	if old == nil {
		verdict = Synced
	} else if !old.admits(s) {
		// Both bounds cannot be true of one pair of clocks: one of them was set, or
		// stood still in a suspended machine. What was learnt before is void.
		c.window, c.drift, c.fast = c.window[:0], drift{}, 0
	}
	if len(c.window) == orDefault(c.Samples, DefaultSamples) {
		c.window = c.window[:copy(c.window, c.window[1:])]
	}
	c.window = append(c.window, s)
	c.drift.add(s)

	next := &line{skew: c.drift.skew, skewKnown: c.drift.known}
	next.best = c.window[c.best(next.skew, now)]
	next.trip, next.jitter = c.roundTrip()
	if old == nil {
		c.step(next, s, now, 0)
	} else {
		next.before, next.after, next.from, next.lastStep = old.before, old.after, old.from, old.lastStep
		if i := c.choose(old, next.skew, now); i >= 0 && c.adjust(next, old, c.window[i], now) {
			verdict = Stepped
		}
	}
	next.steps = c.steps
	c.line.Store(next)
	return verdict
}

// choose asks the rule. There is nothing to choose from a single exchange.
func (c *Clock) choose(l *line, skew int64, now uint64) int {
	if len(c.window) == 1 {
		return 0
	}
	reading := l.read(now)
	c.view = c.view[:0]
	for _, s := range c.window {
		c.view = append(c.view, Sample{
			RoundTrip: duration(s.trip),
			Age:       duration(int64(now - s.at)),
			Error:     duration(int64(s.remote(now, skew) - reading)),
		})
	}
	if c.Rule == nil {
		return MinDelay(c.view)
	}
	return c.Rule(c.view)
}

// adjust moves the clock toward s and reports whether it jumped.
func (c *Clock) adjust(next, old *line, s sample, now uint64) bool {
	threshold := orDefault(c.RecalibrateThreshold, DefaultRecalibrateThreshold)
	if e := int64(s.remote(now, next.skew) - old.read(now)); magnitude(e) > uint64(threshold.Microseconds()) {
		c.step(next, s, now, e)
		return true
	}
	if int64(now-old.from) < settleUsec {
		return false // the last correction has hardly begun
	}
	from := now + settleUsec
	reading := old.read(from)
	e := int64(s.remote(from, next.skew) - reading)
	// Rounded away from zero, or the last few microseconds would stay for ever.
	n := min(int64(orDefault(c.AdjustSteps, DefaultAdjustSteps)), int64(len(c.window)))
	share := e / n
	if e%n > 0 {
		share++
	} else if e%n < 0 {
		share--
	}
	next.before, next.from = old.after, from
	next.after = segment{from, reading, next.skew, share}
	return false
}

// step sets the clock by s at once; e is by how much.
func (c *Clock) step(next *line, s sample, now uint64, e int64) {
	next.from = now
	next.after = segment{now, s.remote(now, next.skew), next.skew, 0}
	next.before = next.after
	next.lastStep = e
	c.steps++
}

// best returns the exchange that bounds the error of the clock most tightly.
func (c *Clock) best(skew int64, now uint64) int {
	best := 0
	for i := range c.window {
		if c.window[i].bound(now, skew) <= c.window[best].bound(now, skew) {
			best = i
		}
	}
	return best
}

// roundTrip returns the shortest round trip of the last 8 exchanges, so that a line
// that became slower is soon seen, and by how much their mean exceeds it.
func (c *Clock) roundTrip() (least, jitter int64) {
	recent := c.window[max(0, len(c.window)-filterDepth):]
	sum := int64(0)
	least = recent[0].trip
	for _, s := range recent {
		sum += s.trip
		least = min(least, s.trip)
	}
	return least, sum/int64(len(recent)) - least
}

// Reset forgets the server and starts again, as after a reconnection or when
// another host takes over. Only replies of the new session, and to requests made
// after Reset, will be accepted. The session is a number that both ends know, for
// instance from the login; a Clock starts with session 0. Counts go on.
func (c *Clock) Reset(session uint32) {
	c.session = session
	c.pending = [pendingMax]request{}
	c.asked, c.fast, c.latest = 0, 0, 0
	c.window, c.drift = c.window[:0], drift{}
	c.line.Store(nil)
}

// Count returns how many replies got this verdict.
func (c *Clock) Count(v Verdict) uint64 { return c.counts[v].Load() }

// orDefault returns v, or what stands for it when it is zero. A negative setting is
// a programming error.
func orDefault[T int | time.Duration](v, whenZero T) T {
	switch {
	case v < 0:
		panic("ping: negative setting")
	case v == 0:
		return whenZero
	}
	return v
}
