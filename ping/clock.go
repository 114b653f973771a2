// SPDX-License-Identifier: BSD-3-Clause

package ping

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// What the fields of Config mean when they are zero.
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
	// againInterval and againRequests: if too few of those were answered, for a minute. Who is away longer is
	// asked no more than the interval says.
	againInterval = time.Second
	againRequests = 60

	// lateUsec: "very slow responses (over 10 seconds) are discarded" (Slot, step 4).
	lateUsec = 10_000_000
	// pendingMax requests are remembered: 10 s at the default interval and the fast
	// start take 46: 8 in 0.7 s, and 38 more in the rest.
	pendingMax = 64

	// maxSkewPPM is the largest difference in rate of the two clocks for which the
	// error bound holds: NTP slews a clock by at most 500 ppm (RFC 5905: MAXFREQ),
	// and two crystals differ by up to 100 ppm.
	maxSkewPPM = 600
	maxSkew    = maxSkewPPM << 32 / 1_000_000 // rates are in units of 2^-32
	// crystalSkew is how far two crystals differ in rate at most. An exchange loses so much by growing old.
	crystalSkew = 100 << 32 / 1_000_000

	// A correction is spread out so that the clock runs 1/16 faster or slower until
	// it is done: a few milliseconds take less than a tick of 60 Hz, and no reading
	// goes back.
	slewShift = 4
	// settleUsec is how long after its receipt a correction begins, and how long the
	// one before stays readable: so far may a reader be ahead of the last reply, or behind
	// it, without seeing what it has read change. Longer than a frame at 60 Hz; package tick
	// has the same.
	settleUsec = 20_000
	// coarseUsec is by how much a server may seem to answer before it was asked: its time of
	// receipt may be rounded up by a step of its clock, and its time of sending down by another.
	// The coarsest browsers have steps of 100 ms.
	coarseUsec = 200_000
	// roundUsec covers the whole microseconds in which clocks are read.
	roundUsec = 2
)

// Config is how a Clock asks and what it believes. The zero value has all defaults.
type Config struct {
	// Rule chooses the exchange that sets the clock. Nil means the best that this package knows: the fastest request
	// and the fastest reply of the last 8 exchanges and all of the last 5 s, and that the clock stays within what the
	// exchange with the least bound lets it be, of all Samples. A Rule must not call methods of the clock.
	Rule Rule
	// SyncInterval is the time between two requests, or up to a sixteenth less, after 8 requests at most
	// 100 ms apart at the beginning and when one of the clocks was set, and up to 60 more at most 1 s
	// apart until 8 were answered; 0 means DefaultSyncInterval. From 1 s on take AdjustSteps 1, or corrections
	// take minutes; above 7 s Snapshot.Within often says ErrSilent, which begins after 15 s.
	// Replies that take longer than 64 intervals are refused as UnknownRequest.
	SyncInterval time.Duration
	// Samples is how many exchanges the rule gets to see; 0 means DefaultSamples. Without a Rule, one whose
	// reply waited on the way until that of the next came is not among them.
	Samples int
	// AdjustSteps is the fraction of the clock's error, one in AdjustSteps, that each
	// reply takes away; 1 takes all, 0 means DefaultAdjustSteps. While there are fewer
	// samples than steps, the number of samples is used, so that a new clock settles
	// quickly. Corrections are at least 40 ms apart.
	AdjustSteps int
	// RecalibrateThreshold is the error above which the clock jumps instead; 0 means
	// DefaultRecalibrateThreshold.
	RecalibrateThreshold time.Duration
}

// Clock is a client's estimate of a server's clock. The zero value is ready to use and has
// all defaults; NewClock makes one with other settings. It must not be copied after first use.
//
// Any goroutine may call any method at any time. RemoteTime, ErrorBound, MinimumOneWayDelay,
// Skew, Snapshot and Count take no lock and do not allocate.
//
// Times are readings of the local clock in microseconds. Its value is free, and it may
// wrap. It should be monotonic; if it is set nevertheless, that is noticed and mended as
// when the server's clock is set.
type Clock struct {
	conf Config

	mu      sync.Mutex // guards what follows, as far as known
	session uint32
	pending [pendingMax]request // a ring; the oldest is overwritten
	asked   uint64              // number of requests since Reset
	latest  uint64              // number of the last that was answered: earlier ones are overtaken
	fast    int                 // fast requests sent since the start, or since a clock was set
	window  []sample            // oldest first
	view    []Sample            // the window as the rule sees it
	drift   drift

	known  atomic.Pointer[published] // what readers see; nil while not synchronized
	steps  uint32                    // see Snapshot; guarded by mu
	counts [verdicts]atomic.Uint64
}

// NewClock returns a clock that knows nothing yet. The error says which setting is negative.
func NewClock(cfg Config) (*Clock, error) {
	switch {
	case cfg.SyncInterval < 0:
		return nil, fmt.Errorf("ping: SyncInterval is negative: %v", cfg.SyncInterval)
	case cfg.Samples < 0:
		return nil, fmt.Errorf("ping: Samples is negative: %d", cfg.Samples)
	case cfg.AdjustSteps < 0:
		return nil, fmt.Errorf("ping: AdjustSteps is negative: %d", cfg.AdjustSteps)
	case cfg.RecalibrateThreshold < 0:
		return nil, fmt.Errorf("ping: RecalibrateThreshold is negative: %v", cfg.RecalibrateThreshold)
	}
	return &Clock{conf: cfg}, nil
}

// request is one that was sent, perhaps long ago.
type request struct {
	number   uint64 // how many were sent before it since Reset
	nonce    uint64
	sent     uint64 // local time
	answered bool
}

// AppendRequest appends a new request to dst and returns the longer slice: RequestSize
// bytes to send to the server at once. A request that gets lost needs no attention.
func (c *Clock) AppendRequest(dst []byte, nowUsec uint64) []byte {
	var nonce [8]byte
	rand.Read(nonce[:]) // never fails: crypto/rand
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending[c.asked%pendingMax] = request{c.asked, binary.LittleEndian.Uint64(nonce[:]), nowUsec, false}
	c.asked++
	c.fast = min(c.fast+1, fastRequests+againRequests)
	dst = binary.LittleEndian.AppendUint32(append(dst, kindRequest), c.session)
	return append(dst, nonce[:]...)
}

// Next returns how long to wait before the next request; zero means now.
func (c *Clock) Next(nowUsec uint64) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked == 0 {
		return 0
	}
	interval := cmp.Or(c.conf.SyncInterval, DefaultSyncInterval)
	if c.fast < fastRequests {
		interval = min(interval, fastInterval)
	} else if c.fast < fastRequests+againRequests && len(c.window) < min(fastRequests, cmp.Or(c.conf.Samples, DefaultSamples)) {
		interval = min(interval, againInterval)
	}
	last := c.pending[(c.asked-1)%pendingMax].sent
	ago := duration(int64(nowUsec - last))
	if ago < -interval {
		return 0 // the local clock was set back: when it reads last again is far off
	}
	return max(interval-irregular(interval, c.asked)-max(ago, 0), 0)
}

// irregular returns up to a sixteenth of an interval, another one for each request. 250 ms are 16 steps of a server
// whose clock advances by 15.625 ms: else all requests would meet the same part of a step. Multiples of the golden ratio
// come near to every value soon.
func irregular(interval time.Duration, n uint64) time.Duration {
	return interval >> 20 * time.Duration(uint16(n*40503)) // 2^16 times the golden ratio
}

// HandleReply takes a reply that arrived at nowUsec and says what became of it. A
// refused reply changes nothing but its count. For readers of the present to see no change
// of what they have read, call it within 20 ms of nowUsec. A reply that arrived before the last
// one counts as of the time of that.
//
// Replies are not authenticated: the nonce stops those who cannot see the requests.
func (c *Clock) HandleReply(reply []byte, nowUsec uint64) Verdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, s, v := c.check(reply, nowUsec)
	if v == Accepted {
		// The times of requests do not say which came before: the local clock may have been set.
		r.answered, c.latest = true, r.number
		v = c.use(s, nowUsec)
	}
	c.counts[v].Add(1)
	return v
}

// check returns the request that a reply answers and what the exchange tells, or why
// the reply is refused.
func (c *Clock) check(reply []byte, now uint64) (r *request, s sample, v Verdict) {
	if len(reply) != ReplySize || reply[0] != kindReply {
		return nil, s, Malformed
	}
	if sessionOf(reply) != c.session {
		return nil, s, OldSession
	}
	nonce := binary.LittleEndian.Uint64(reply[5:])
	asked := c.pending[:min(c.asked, pendingMax)]
	i := slices.IndexFunc(asked, func(r request) bool { return r.nonce == nonce })
	if i < 0 {
		return nil, s, UnknownRequest
	}
	if r = &asked[i]; r.answered {
		return nil, s, Duplicate
	}
	recv, sent := binary.LittleEndian.Uint64(reply[13:]), binary.LittleEndian.Uint64(reply[21:])
	s, v = measure(r.sent, recv, sent, now)
	if v == Accepted && r.number < c.latest {
		v = Overtaken // its round trip is the longer one, nothing is lost
	}
	return r, s, v
}

// Reset forgets the server and starts again, as after a reconnection or when
// another host takes over. Only replies of the new session, and to requests made
// after Reset, will be accepted. The session is a number that both ends know, for
// instance from the login; a Clock starts with session 0. Counts start at 0 again;
// Snapshot.Steps goes on, and what is synchronized next counts as a step. If a tick.Client follows this
// Clock, take a new one instead and pass that to its Follow.
func (c *Clock) Reset(session uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = session
	c.asked, c.latest, c.fast = 0, 0, 0
	c.window, c.drift = c.window[:0], drift{}
	if c.known.Swap(nil) != nil {
		c.steps++
	}
	for v := range c.counts {
		c.counts[v].Store(0)
	}
}

// Count returns how many replies got this verdict since the start or Reset.
func (c *Clock) Count(v Verdict) uint64 { return c.counts[v].Load() }
