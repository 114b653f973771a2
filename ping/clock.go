// SPDX-License-Identifier: BSD-3-Clause

package ping

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultSyncInterval is the time between two requests if Config says nothing (netfox:
// SYNC_INTERVAL).
const DefaultSyncInterval = 250 * time.Millisecond

const (
	// pendingMax requests are remembered: 10 s at the default interval and the 100 ms of the
	// beginning take 64.
	pendingMax = 64
	// recentMax exchanges are remembered for RoundTrips (Slot: "the last 32 or 64 pings").
	recentMax = 64
	// manyServers of the last 8 exchanges contradict what was known only if several machines
	// answer. A clock step contradicts one exchange, or two if requests were under way.
	manyServers = 3
)

// Config is how a Clock asks. The zero value has all defaults.
type Config struct {
	// SyncInterval is the time between two requests, or up to a sixteenth less; 0 means
	// DefaultSyncInterval.
	//
	// At first, and after a clock step, requests are 100 ms apart. Then they are apart by a
	// sixteenth of the time for which the server's clock has been known, up to a second, and from
	// the second minute on by a 64th. An interval of 5 s is reached after 320 s and 210 requests.
	// Until the first reply they are 1 s apart, for a minute.
	//
	// After a silence of 8 s, a request is followed by 7 more, 100 ms apart. So an interval of 9 s
	// or more is the time between two such groups. A message that is faster than the path allows
	// also begins a group: a clock may have been set.
	SyncInterval time.Duration
}

// Clock is what a client knows of a server's clock. The zero value is ready to use and has all
// defaults; NewClock makes one with another Config. It must not be copied after first use.
//
// Any goroutine may call any method at any time. RemoteTime, LocalTime, ErrorBound, Skew, Snapshot,
// Count and the delays take no lock and do not allocate.
//
// Times are readings of the local clock in microseconds. It may start anywhere and it may wrap; it
// should be monotonic, as that of package clock.
type Clock struct {
	conf Config

	mu           sync.Mutex // guards all up to known
	session      uint32
	schedule     schedule
	pending      [pendingMax]request // a ring; the oldest is overwritten
	latest       uint64              // number of the last one answered: earlier ones are overtaken
	recent       []Exchange          // since the start or a clock step, oldest first
	contradicted uint8               // a bit for each of the last 8 exchanges
	steps        uint32              // jumps of the time until Reset

	known  atomic.Pointer[ends] // what readers see; nil while not synchronized
	counts [verdicts]atomic.Uint64
}

// NewClock returns a clock that knows nothing yet. The error says that SyncInterval is negative.
func NewClock(cfg Config) (*Clock, error) {
	if cfg.SyncInterval < 0 {
		return nil, fmt.Errorf("ping: SyncInterval is negative: %v", cfg.SyncInterval)
	}
	return &Clock{conf: cfg}, nil
}

func (c *Clock) interval() time.Duration { return cmp.Or(c.conf.SyncInterval, DefaultSyncInterval) }

// request is one that was sent, perhaps long ago.
type request struct {
	number   uint64 // how many were sent before it since Reset
	nonce    uint64
	sent     uint64 // local time
	answered bool
}

// AppendRequest appends a new request to dst and returns the longer slice: RequestSize bytes to
// send to the server at once. A request that gets lost needs no attention.
func (c *Clock) AppendRequest(dst []byte, nowUsec uint64) []byte {
	var nonce [8]byte
	rand.Read(nonce[:]) // never fails: crypto/rand
	c.mu.Lock()
	defer c.mu.Unlock()
	number := c.schedule.asked
	c.pending[number%pendingMax] = request{
		number: number,
		nonce:  binary.LittleEndian.Uint64(nonce[:]),
		sent:   nowUsec,
	}
	c.schedule.request(nowUsec)
	dst = binary.LittleEndian.AppendUint32(append(dst, kindRequest), c.session)
	return append(dst, nonce[:]...)
}

// Next returns how long to wait before the next request; zero means now. Call it again after each
// reply, which may make that sooner. A program with its own schedule need not call it.
func (c *Clock) Next(nowUsec uint64) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.schedule.next(nowUsec, c.interval())
}

// HandleReply takes a reply that arrived at nowUsec and says what became of it. A refused reply
// changes nothing but its count. Call it within 20 ms of nowUsec: later, a time that was already
// read may change.
//
// Replies are not authenticated: the nonce stops those who cannot see the requests.
func (c *Clock) HandleReply(reply []byte, nowUsec uint64) Verdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, x, v := c.check(reply, nowUsec)
	if v == Accepted {
		// The times of requests do not say which came before: the local clock may have been set.
		r.answered = true
		c.latest = r.number
		v = c.use(x)
	}
	c.counts[v].Add(1)
	return v
}

// check returns the request that a reply answers, and their exchange, or why the reply is refused.
func (c *Clock) check(reply []byte, nowUsec uint64) (r *request, x Exchange, v Verdict) {
	if len(reply) != ReplySize || reply[0] != kindReply {
		return nil, x, Malformed
	}
	if sessionOf(reply) != c.session {
		return nil, x, OldSession
	}
	nonce := binary.LittleEndian.Uint64(reply[5:])
	asked := c.pending[:min(c.schedule.asked, pendingMax)]
	i := slices.IndexFunc(asked, func(r request) bool { return r.nonce == nonce })
	if i < 0 {
		return nil, x, UnknownRequest
	}
	r = &asked[i]
	if r.answered {
		return nil, x, Duplicate
	}
	x = Exchange{
		T1: r.sent,
		T2: binary.LittleEndian.Uint64(reply[13:]),
		T3: binary.LittleEndian.Uint64(reply[21:]),
		T4: nowUsec,
	}
	v = x.verdict()
	if v == Accepted && r.number < c.latest {
		v = Overtaken // its round trip is the longer one, nothing is lost
	}
	return r, x, v
}

// use lets an exchange change what is known.
func (c *Clock) use(x Exchange) Verdict {
	e := c.known.Load()
	c.contradicted <<= 1
	switch {
	case e == nil:
		c.begin(&ends{steps: c.steps}, x)
		return Synced
	case e.contradict(x):
		// One of the clocks was set, or stood still in a suspended machine, or this is another
		// server. What was learnt before is void. Readers see the new ends only when those know
		// the time.
		c.contradicted |= 1
		c.begin(&ends{anew: true, steps: e.total() + 1}, x)
		if bits.OnesCount8(c.contradicted) >= manyServers {
			return ManyServers
		}
		return Stepped
	}
	return c.goOn(e, x)
}

// begin lets new ends begin with x.
func (c *Clock) begin(e *ends, x Exchange) {
	c.recent = append(c.recent[:0], x)
	// Asking several machines more often does not help.
	if bits.OnesCount8(c.contradicted) < manyServers {
		c.schedule.start(x.T4)
	}
	e.learn(x)
	c.known.Store(e)
}

// goOn lets the ends learn x.
func (c *Clock) goOn(e *ends, x Exchange) Verdict {
	if len(c.recent) == recentMax {
		c.recent = slices.Delete(c.recent, 0, 1)
	}
	c.recent = append(c.recent, x)
	if e.surprised(x) {
		c.schedule.check()
	}
	steps := e.total()
	undisturbed := e.undisturbed(x.T4)
	e.learn(x)
	if undisturbed-e.undisturbed(x.T4) > time.Second { // less is rounding
		c.schedule.start(x.T4)
	}
	if e.total() != steps {
		return Stepped
	}
	return Accepted
}

// Reset forgets the server and starts again, as after a reconnection or when another host takes
// over. Only replies of the new session, and to requests made after Reset, will be accepted. The
// session is a number that both ends know, for instance from the login; a Clock starts with session
// 0. Counts start at 0 again; Snapshot.Steps goes on, and what is synchronized next counts as a
// step. If a tick.Client follows this Clock, take a new one instead and pass that to its Follow.
func (c *Clock) Reset(session uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = session
	c.schedule = schedule{}
	c.latest = 0
	c.contradicted = 0
	c.recent = c.recent[:0]
	if e := c.known.Swap(nil); e != nil {
		c.steps = e.total() + 1
	}
	for v := range c.counts {
		c.counts[v].Store(0)
	}
}

// Count returns how many replies got this verdict since the start or Reset.
func (c *Clock) Count(v Verdict) uint64 { return c.counts[v].Load() }
