// SPDX-License-Identifier: BSD-3-Clause

// What the other tests share: a bottleneck in virtual time with transfers, CUBIC flows and a
// game on it, whose ends have wrong clocks and keep time with package link.
package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"timesync/examples/seal"
	"timesync/examples/transfer/ledbat"
	"timesync/internal/sim/simnet"
	"timesync/internal/testkit"
	"timesync/link"
)

const (
	headers   = 28                     // bytes: IP and UDP
	gameBytes = 100                    // of a sealed datagram of the game
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

var nets = []net{
	{10, 300 * time.Millisecond, 10 * time.Millisecond},
	{50, 40 * time.Millisecond, 10 * time.Millisecond},
}

func (n net) String() string {
	return fmt.Sprintf("%g Mbit/s, buffer %v, round trip %v", n.mbit, n.buffer, 2*n.delay)
}

// world is one bottleneck to the receivers; the way back has no queue.
type world struct {
	*simnet.World
	net
	rng    *rand.Rand
	ways   [2]simnet.Link // to the receivers behind the queue, and back
	free   time.Duration  // when the bottleneck has sent all that waits
	others float64        // bytes of TCP that arrived
	// ms: delays of the game's datagrams, beyond the path's, in order.
	game []float64
}

// world returns one with a game, whose datagrams measure the queue.
func (n net) world(seed uint64) *world {
	w := &world{World: simnet.NewWorld(seed), net: n}
	w.rng = w.Rand("ways")
	for i := range w.ways {
		w.ways[i] = simnet.Link{Base: simnet.Fixed(n.delay), Delay: simnet.Exp(jitter), FIFO: true}
	}
	w.Every(gameEvery, 0, func() {
		sent := w.Now()
		path := w.ways[0].BaseAt(sent)
		arrived := func() { w.game = append(w.game, float64(w.Now()-sent-path)/1e6) }
		w.forth(gameBytes, arrived, func() {})
	})
	return w
}

// loses makes both ways lose this part of the datagrams, and deliver others late.
func (w *world) loses(part float64) {
	for i := range w.ways {
		late := simnet.Reorder(0.25, 1500*time.Microsecond)
		w.ways[i] = simnet.Link{
			Base:  w.ways[i].Base,
			Delay: simnet.Sum(simnet.Exp(jitter), late),
			Loss:  simnet.Bernoulli(part),
		}
	}
}

// stalls makes both ways of a world stand still now and then, for up to so long.
func stalls(most time.Duration) func(*world) {
	return func(w *world) {
		var from, to time.Duration // the next time, or the one under way
		stalls := func(r *rand.Rand, t time.Duration) time.Duration {
			for to < t {
				from = to + time.Duration(r.ExpFloat64()*float64(stallGap))
				to = from + time.Duration(r.Float64()*float64(most))
			}
			if t < from {
				return 0
			}
			return to - t
		}
		for i := range w.ways {
			w.ways[i].Delay = simnet.Sum(simnet.Exp(jitter), stalls)
		}
	}
}

// far makes the round trip of a world longer, from a time on.
func far(from, roundTrip time.Duration) func(*world) {
	return func(w *world) {
		for i := range w.ways {
			w.ways[i].Base = simnet.Route(w.delay, simnet.RouteStep{At: from, Change: roundTrip/2 - w.delay})
		}
	}
}

// forth puts a datagram of n bytes into the bottleneck's queue, or drops it.
func (w *world) forth(n int, arrived, dropped func()) {
	wait := max(w.free-w.Now(), 0)
	if wait > w.buffer {
		// It is known when those after it are acknowledged.
		w.At(w.Now()+wait+2*w.ways[0].BaseAt(w.Now()), dropped)
		return
	}
	w.free = w.Now() + wait + time.Duration(float64(8*(n+headers))/(w.mbit*1e6)*1e9)
	for _, at := range w.ways[0].Arrivals(w.rng, w.free) {
		w.At(at, arrived)
	}
}

func (w *world) back(arrived func()) { w.Pass(&w.ways[1], w.rng, arrived) }

// p99 returns the 99th percentile of the game's delays beyond the path's, in ms.
func (w *world) p99() float64 { return testkit.Quantile(w.game, 0.99) }

// What a world allocates lives for a round trip. To collect it more often would take a third of
// the time.
var _ = debug.SetGCPercent(400)

// buffers are for datagrams, for the same reason.
var buffers = sync.Pool{New: func() any { return new([sealedData]byte) }}

// flow is a transfer.
type flow struct {
	w        *world
	offer    // not given: of test data that lasts
	source   io.ReaderAt
	s        *sender
	r        *receiver
	ends     [2]link.Link // sender, receiver
	receiver simnet.ClockSpec
	clocks   [2]simnet.Clock

	stamps int    // 0: synchronized; the controls: 1: raw, and slowdowns are not believed; 2: raw
	first  uint64 // the difference of the first two raw stamps, less 5 s; 0: none yet
	liar   bool   // the receiver says that there is no queue
	from   time.Duration
	stops  time.Duration // until when the sender stands still
	cut    int           // after so many datagrams with data the network is gone; 0: never

	wake time.Duration // when the pace allows the next datagram
	data int           // datagrams with data that were sent
	got  []float64     // bytes that arrived in each second
	err  error         // of the sender
}

// transfer adds a transfer, from ready on unless it says when.
func (w *world) transfer(f *flow) *flow {
	f.w, f.from, f.r = w, cmp.Or(f.from, ready), cmp.Or(f.r, new(receiver))
	f.offer = cmp.Or(f.offer, offer{size: 1e9})
	for i, spec := range []simnet.ClockSpec{{}, f.receiver} {
		spec.OffsetUsec = w.Rand("clocks").Uint64()
		f.clocks[i] = simnet.NewClock(spec, 0)
	}
	f.s = newSender(f.offer, f.source, f.clocks[0].Usec(f.from))
	f.s.draw = w.Rand("skipped").IntN // the seed decides all that happens
	w.Every(gameEvery, max(f.from-ready, 0), f.chat)
	return f
}

// usec reads an end's clock.
func (f *flow) usec(end int) uint64 { return f.clocks[end].Usec(f.w.Now()) }

// gone reports whether the network is.
func (f *flow) gone() bool { return f.cut > 0 && f.data > f.cut }

// chat sends the game's datagrams, 60 a second each way.
func (f *flow) chat() {
	game := make([]byte, gameLen)
	f.forth(game)
	f.answer(game)
	f.pump()
}

// pump sends what may be sent.
func (f *flow) pump() {
	for f.err == nil && f.w.Now() >= max(f.from, f.stops) {
		message, wait, err := f.s.poll(f.usec(0))
		f.err = err
		if message != nil {
			f.forth(message)
			continue
		}
		if wait > 0 && f.w.Now() >= f.wake {
			f.wake = f.w.Now() + wait
			f.w.At(f.wake, f.pump)
		}
		return
	}
}

// forth sends a message to the receiver.
func (f *flow) forth(message []byte) {
	if message[0] == kindData {
		f.data++
	}
	sent := f.usec(0)
	buf := buffers.Get().(*[sealedData]byte)
	b := append(f.ends[0].AppendHeader(buf[:0], sent), message...)
	f.w.forth(len(b)+seal.Overhead, func() {
		if !f.gone() {
			f.arrived(b, sent)
		}
		buffers.Put(buf)
	}, func() {})
}

// arrived is the receiver.
func (f *flow) arrived(datagram []byte, sent uint64) {
	local := f.usec(1)
	message, owd, ok, _ := f.ends[1].ReadHeader(datagram, local)
	snapshot, _ := f.ends[1].Snapshot(local)
	switch {
	case f.liar:
		owd = 0
	case f.stamps > 0:
		f.first = cmp.Or(f.first, local-sent-5e6)
		owd, snapshot.Steps = time.Duration(local-sent-f.first)*time.Microsecond, 0
	}
	if message[0] == kindData {
		second := int(f.w.Now() / time.Second)
		f.got = append(f.got, make([]float64, max(second+1-len(f.got), 0))...)
		f.got[second] += float64(len(datagram) + seal.Overhead + headers)
	}
	answer, _ := f.r.take(message, ledbat.NewDelay(owd, snapshot.Steps, ok), local)
	// The checksum is computed in a goroutine; virtual time waits for it.
	for f.r.checked != nil && f.r.ended == nil {
		time.Sleep(time.Millisecond)
		f.r.check()
	}
	if answer != nil {
		f.answer(answer)
	}
}

// answer sends a message to the sender.
func (f *flow) answer(message []byte) {
	datagram := append(f.ends[1].AppendHeader(make([]byte, 0, 32), f.usec(1)), message...)
	f.w.back(func() {
		if f.gone() {
			return
		}
		message, _, _, _ := f.ends[0].ReadHeader(datagram, f.usec(0))
		if f.stops > f.w.Now() {
			f.w.At(f.stops, func() { f.answered(message) })
		} else {
			f.answered(message)
		}
	})
}

// answered is the sender.
func (f *flow) answered(message []byte) {
	_, base := f.s.cc.Queueing()
	if f.stamps == 1 && message[0] == kindAck && base > 0 && f.s.cc.Window() == ledbat.MinWindow {
		copy(message[5:], ledbat.NewDelay(0, 0, false).Append(nil)) // what a slowdown would show
	}
	if f.err == nil {
		_, f.err = f.s.take(message, 0, f.usec(0))
	}
	f.pump()
}

// rate returns which part of the bottleneck the transfer had.
func (f *flow) rate(from, to time.Duration) float64 {
	sum := 0.0
	for s := int(from / time.Second); s < min(int(to/time.Second), len(f.got)); s++ {
		sum += f.got[s]
	}
	return sum * 8 / (to - from).Seconds() / (f.w.mbit * 1e6)
}

// fill adds a flow of TCP with CUBIC (RFC 9438) that always has something to send. Losses
// are known a round trip later.
func (w *world) fill() {
	window, most, threshold := 10., 0., math.Inf(1) // segments
	flight, cut := 0, time.Duration(0)              // when the window was last reduced
	var send func()
	acknowledged := func() {
		flight--
		if window < threshold {
			window++
		} else {
			k := math.Cbrt(most * 0.3 / 0.4)
			goal := 0.4*math.Pow((w.Now()-cut).Seconds()-k, 3) + most
			window += max(min(goal-window, window/2), 0.01) / window
		}
		send()
	}
	send = func() {
		for flight < int(window) {
			sent := w.Now()
			flight++
			w.forth(1472, func() {
				w.others += 1472 + headers
				w.back(acknowledged)
			}, func() {
				flight--
				if sent >= cut { // else the loss is old
					cut, most, window = w.Now(), window, max(0.7*window, 2)
					threshold = window
				}
				send()
			})
		}
	}
	w.At(0, send)
}

// fillBBR adds a flow that probes as BBR v1 does and always has something to send: it paces at
// the largest rate of ten round trips, more for one round trip of eight and less for the next,
// has at most two bandwidth-delay products under way, and drains every 10 s to measure the
// round trip. It takes no notice of losses. Its startup is left out.
func (w *world) fillBBR() {
	const size = 1472
	type sample struct {
		round int
		rate  float64 // bytes a second: the largest of the round
	}
	gains := []float64{1.25, 0.75, 1, 1, 1, 1, 1, 1}
	var samples []sample
	delivered, flight := 0., 0.
	round, roundEnd := 0, 0.     // a round ends when what was sent in it is acknowledged
	minimum := time.Second       // the least round trip, until one is known
	measured := time.Duration(0) // when it was last measured
	rate := func() float64 {
		most := w.mbit * 1e6 / 8 / 10
		for len(samples) > 0 && samples[0].round <= round-10 {
			samples = samples[1:]
		}
		for _, s := range samples {
			most = max(most, s.rate)
		}
		return most
	}
	var send func()
	send = func() {
		bandwidth := rate()
		limit := 2 * bandwidth * minimum.Seconds()
		if w.Now()-measured > 10*time.Second {
			limit = 4 * size
			if w.Now()-measured > 10200*time.Millisecond {
				measured = w.Now()
			}
		}
		if flight < max(limit, 4*size) {
			sent, before := w.Now(), delivered
			flight += size
			w.forth(size, func() {
				w.others += size + headers
				w.back(func() {
					flight -= size
					delivered += size
					roundTrip := w.Now() - sent
					minimum = min(minimum, roundTrip)
					now := (delivered - before) / roundTrip.Seconds()
					if last := len(samples) - 1; last >= 0 && samples[last].round == round {
						samples[last].rate = max(samples[last].rate, now)
					} else {
						samples = append(samples, sample{round, now})
					}
					if before >= roundEnd {
						round++
						roundEnd = delivered
					}
				})
			}, func() { flight -= size })
		}
		gain := gains[int(w.Now()/minimum)%len(gains)]
		w.At(w.Now()+time.Duration(size/(gain*bandwidth)*1e9), send)
	}
	w.At(0, send)
}

// wanders makes the way to the receivers longer by up to most, drawn anew every 0.1 s.
func wanders(most time.Duration) func(*world) {
	return func(w *world) {
		wander := simnet.Shared(100*time.Millisecond, simnet.Uniform(0, most))
		w.ways[0].Delay = simnet.Sum(simnet.Exp(jitter), wander)
	}
}
