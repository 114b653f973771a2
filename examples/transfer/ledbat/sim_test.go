// SPDX-License-Identifier: BSD-3-Clause

// What the other tests share: a bottleneck in virtual time with transfers, CUBIC flows and a
// game on it, whose ends have wrong clocks and keep time with package link.
package ledbat

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"timesync/internal/sim"
	"timesync/link"
)

const (
	headers   = 28                     // bytes: IP and UDP
	ackBytes  = 70                     // of a sealed acknowledgement
	gameBytes = 100                    // of a sealed datagram of the game
	gameEvery = time.Second / 60       // the game's rate
	ready     = 3 * time.Second        // the ends know each other's clock by then
	stallGap  = 300 * time.Millisecond // mean time between two stalls
	jitter    = 100 * time.Microsecond // mean of the exponential jitter of each way
)

// net is a bottleneck.
type net struct {
	mbit   float64       // a second
	buffer time.Duration // drop-tail
	delay  time.Duration // each way, without a queue
}

func (n net) String() string {
	return fmt.Sprintf("%g Mbit/s, buffer %v, round trip %v", n.mbit, n.buffer, 2*n.delay)
}

// world is one bottleneck to the receivers; the way back has no queue.
type world struct {
	*sim.World
	net
	rng *rand.Rand
	// By which the way to the receivers is longer, from the time at on.
	longer time.Duration
	at     time.Duration

	// Both ways stand still now and then, for up to so long.
	stalls             time.Duration
	stallFrom, stallTo time.Duration // the next time, or the one under way

	free time.Duration // when the bottleneck has sent all that waits
	last [2]time.Duration
	// ms: delays of the game's datagrams, beyond the path's, in order.
	game []float64
}

// world returns one with a game.
func (n net) world(seed uint64) *world {
	w := &world{World: sim.NewWorld(seed), net: n, rng: rand.New(rand.NewPCG(seed, 0))}
	w.after(0, w.playGame)
	return w
}

func (w *world) after(d time.Duration, do func()) { w.At(w.Now()+d, do) }

// arrive plans an arrival; datagrams do not overtake each other.
func (w *world) arrive(way int, at time.Duration, do func()) {
	at += time.Duration(w.rng.ExpFloat64() * float64(jitter))
	if w.stalls > 0 {
		for w.stallTo < at {
			w.stallFrom = w.stallTo + time.Duration(w.rng.ExpFloat64()*float64(stallGap))
			w.stallTo = w.stallFrom + time.Duration(w.rng.Float64()*float64(w.stalls))
		}
		if at > w.stallFrom {
			at = w.stallTo
		}
	}
	at = max(at, w.last[way])
	w.last[way] = at
	w.At(at, do)
}

func (w *world) path() time.Duration {
	if w.Now() >= w.at {
		return w.delay + w.longer
	}
	return w.delay
}

// forth puts a datagram of n bytes into the bottleneck's queue, or drops it.
func (w *world) forth(n int, arrived, dropped func()) {
	wait := max(w.free-w.Now(), 0)
	if wait > w.buffer {
		// It is known when those after it are acknowledged.
		w.after(wait+2*w.path(), dropped)
		return
	}
	w.free = w.Now() + wait + time.Duration(float64(8*(n+headers))/(w.mbit*1e6)*1e9)
	w.arrive(0, w.free+w.path(), arrived)
}

func (w *world) back(arrived func()) { w.arrive(1, w.Now()+w.delay, arrived) }

// playGame measures the queue with the game's datagrams.
func (w *world) playGame() {
	sent, path := w.Now(), w.path()
	w.forth(gameBytes, func() {
		w.game = append(w.game, float64(w.Now()-sent-path)/1e6)
	}, func() {})
	w.after(gameEvery, w.playGame)
}

// flow is a transfer.
type flow struct {
	w         *world
	c         Controller
	ends      [2]link.Link // sender, receiver
	receiver  sim.ClockSpec
	clocks    [2]*sim.Clock
	first     int64         // such a difference, less 5 s; 0: none yet
	raw       bool          // the control: differences of raw stamps
	slowdowns bool          // ... which believes slowdowns
	liar      bool          // the receiver says that there is no queue
	from      time.Duration // 0: ready
	heard     time.Duration
	wake      time.Duration // when the pace allows the next datagram
	got       []float64     // bytes that arrived in each second
}

func (w *world) transfer(f *flow) *flow {
	f.w, f.from = w, cmp.Or(f.from, ready)
	for i, spec := range []sim.ClockSpec{{}, f.receiver} {
		spec.OffsetUsec = w.rng.Uint64()
		f.clocks[i] = sim.NewClock(spec, 0)
	}
	w.after(max(f.from-ready, 0), f.chat)
	w.after(f.from, f.send)
	return f
}

// chat sends 60 datagrams a second each way, as the game beside the transfer does.
func (f *flow) chat() {
	head := f.ends[0].AppendHeader(nil, f.clocks[0].Usec(f.w.Now()))
	f.w.forth(gameBytes, func() { f.ends[1].Open(head, f.clocks[1].Usec(f.w.Now())) }, func() {})
	back := f.ends[1].AppendHeader(nil, f.clocks[1].Usec(f.w.Now()))
	f.w.back(func() { f.ends[0].Open(back, f.clocks[0].Usec(f.w.Now())) })
	if f.w.Now()-f.heard > f.c.Timeout() && f.c.InFlight() > 0 {
		f.heard = f.w.Now()
		f.c.OnTimeout(f.time())
		f.send()
	}
	f.w.after(gameEvery, f.chat)
}

// time is the sender's clock, which is never set.
func (f *flow) time() uint64 { return f.clocks[0].Usec(f.w.Now()) }

func (f *flow) send() {
	for f.w.Now() >= f.from {
		if f.c.InFlight() == 0 {
			f.heard = f.w.Now()
		}
		sent := f.time()
		wait, ok := f.c.CanSend(sent, Segment)
		if !ok {
			if wait > 0 && f.w.Now() >= f.wake {
				f.wake = f.w.Now() + wait
				f.w.after(wait, f.send)
			}
			return
		}
		head := f.ends[0].AppendHeader(nil, sent)
		f.c.OnSend(sent, Segment)
		f.w.forth(Segment, func() { f.arrived(head, sent) }, func() {
			f.c.OnLoss(f.time(), sent, Segment)
			f.send()
		})
	}
}

// arrived is the receiver, which acknowledges.
func (f *flow) arrived(head []byte, sent uint64) {
	second := int(f.w.Now() / time.Second)
	for len(f.got) <= second {
		f.got = append(f.got, 0)
	}
	f.got[second] += Segment + headers
	local := f.clocks[1].Usec(f.w.Now())
	_, owd, ok, _ := f.ends[1].Open(head, local)
	snapshot, _ := f.ends[1].Snapshot(local)
	if f.liar {
		owd = 0
	}
	d := NewDelay(owd, snapshot.Steps, ok)
	back := f.ends[1].AppendHeader(nil, local)
	f.w.back(func() {
		f.heard = f.w.Now()
		f.ends[0].Open(back, f.clocks[0].Usec(f.w.Now()))
		f.acknowledged(sent, int64(local-sent), d)
		f.send()
	})
}

func (f *flow) acknowledged(sent uint64, raw int64, d Delay) {
	if !f.raw {
		f.c.OnAck(f.time(), sent, Segment, d)
		return
	}
	if f.first == 0 {
		f.first = raw - 5e6
	}
	f.c.OnAck(f.time(), sent, Segment, NewDelay(time.Duration(raw-f.first)*time.Microsecond, 0, true))
	if !f.slowdowns {
		f.c.base.shown = 0 // so nothing but the base of ten minutes counts
	}
}

// rate returns which part of the bottleneck the transfer had.
func (f *flow) rate(from, to time.Duration) float64 {
	sum := 0.0
	for s := int(from / time.Second); s < min(int(to/time.Second), len(f.got)); s++ {
		sum += f.got[s]
	}
	return sum * 8 / (to - from).Seconds() / (f.w.mbit * 1e6)
}

// cubic is a flow of TCP with CUBIC (RFC 9438) that always has something to send. Losses
// are known a round trip later.
type cubic struct {
	w            *world
	window, most float64 // segments
	threshold    float64
	flight       int
	cut          time.Duration // when the window was last reduced
}

func (w *world) fill(from time.Duration) {
	c := &cubic{w: w, window: 10, threshold: math.Inf(1)}
	w.after(from, c.send)
}

func (c *cubic) send() {
	for c.flight < int(c.window) {
		sent := c.w.Now()
		c.flight++
		c.w.forth(1472, func() {
			c.w.back(c.acknowledged)
		}, func() {
			c.flight--
			if sent >= c.cut { // else the loss is old
				c.cut = c.w.Now()
				c.most, c.window = c.window, max(0.7*c.window, 2)
				c.threshold = c.window
			}
			c.send()
		})
	}
}

func (c *cubic) acknowledged() {
	c.flight--
	if c.window < c.threshold {
		c.window++
	} else {
		k := math.Cbrt(c.most * 0.3 / 0.4)
		goal := 0.4*math.Pow((c.w.Now()-c.cut).Seconds()-k, 3) + c.most
		c.window += max(min(goal-c.window, c.window/2), 0.01) / c.window
	}
	c.send()
}
