// SPDX-License-Identifier: BSD-3-Clause

// Package metrics shows Prometheus what is known of the peers' clocks: copy this file, and view.go
// and log.go if you want what they do. A program registers one Collector and adds each peer when it
// comes:
//
//	collector := metrics.New(clock.Now)
//	prometheus.MustRegister(collector)
//	http.Handle("/metrics", promhttp.Handler()) // of client_golang, for Prometheus to scrape
//	peer := collector.Add("seat 3", &connection) // a link.Link, ping.Clock or TimeSynchronizer
//	payload, delay, ok, err := connection.ReadHeader(datagram, clock.Received())
//	if ok {
//		peer.DelayIn(delay)
//	}
//	peer.Remove() // when the connection ends: its series end, too
//
// A scrape holds a link's lock only for SinceHeard, which copies two fields.
package metrics

import (
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"timesync"
)

// Clock is what knows a peer's clock: a link.Link, a ping.Clock, a timesync.TimeSynchronizer or a
// View. If it also has the methods Stats or SinceHeard of a link.Link, what they tell is shown.
type Clock interface {
	Snapshot(localUsec uint64) (snapshot timesync.Snapshot, ok bool)
}

// Collector is a prometheus.Collector of all peers. Any goroutine may use it at any time.
type Collector struct {
	nowUsec func() uint64
	delays  *prometheus.HistogramVec

	mu    sync.Mutex
	peers map[string]*Peer
}

// Peer is one that is shown.
type Peer struct {
	collector *Collector
	name      string
	clock     Clock
	in, out   delays
	removed   bool // guarded by the collector's mu
}

// delays is the histogram of one direction.
type delays struct {
	first     sync.Once
	histogram prometheus.Observer // nil until the first, or if the peer left before
}

// New makes a Collector. nowUsec is the clock of all peers, such as clock.Now.
func New(nowUsec func() uint64) *Collector {
	return &Collector{
		nowUsec: nowUsec,
		delays: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "timesync_one_way_delay_seconds",
			Help: "One-way delays of datagrams from the peer (in) and to it (out).",
			// From a LAN to a satellite and a full queue: 100 us to 6.6 s, each twice the one
			// before.
			Buckets: prometheus.ExponentialBuckets(100e-6, 2, 17),
		}, []string{"peer", "direction"}),
		peers: map[string]*Peer{},
	}
}

// Add shows a peer from now on, in place of another one of that name. Take the names of places,
// such as seats in a game: names of connections would make ever more series.
func (c *Collector) Add(name string, clock Clock) *Peer {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end(c.peers[name])
	p := &Peer{
		collector: c,
		name:      name,
		clock:     clock,
	}
	c.peers[name] = p
	return p
}

// DelayIn counts how long a datagram from the peer was under way, as link's ReadHeader returns it.
// A direction without delays has no histogram.
func (p *Peer) DelayIn(delay time.Duration) { p.observe(&p.in, "in", delay) }

// DelayOut counts how long a datagram to the peer was under way. The peer has to tell: it sends
// what its ReadHeader returned, or when the datagram arrived, with link's AppendEvent. In that case
// the delay is what ReadEvent returns minus the time of sending.
func (p *Peer) DelayOut(delay time.Duration) { p.observe(&p.out, "out", delay) }

func (p *Peer) observe(d *delays, direction string, delay time.Duration) {
	d.first.Do(func() {
		p.collector.mu.Lock()
		defer p.collector.mu.Unlock()
		if !p.removed {
			d.histogram = p.collector.delays.WithLabelValues(p.name, direction)
		}
	})
	if d.histogram != nil {
		d.histogram.Observe(delay.Seconds())
	}
}

// Remove ends the series of a peer, and whatever is counted later. It does nothing if another one
// has its name by now.
func (p *Peer) Remove() {
	p.collector.mu.Lock()
	defer p.collector.mu.Unlock()
	p.collector.end(p)
}

// end ends the series of a peer, or of nil. The caller holds mu.
func (c *Collector) end(p *Peer) {
	if p == nil || p.removed {
		return
	}
	p.removed = true
	delete(c.peers, p.name)
	c.delays.DeletePartialMatch(prometheus.Labels{"peer": p.name})
}

// all returns the peers of now.
func (c *Collector) all() []*Peer {
	c.mu.Lock()
	defer c.mu.Unlock()
	peers := make([]*Peer, 0, len(c.peers))
	for _, p := range c.peers {
		peers = append(peers, p)
	}
	return peers
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("timesync_"+name, help, append([]string{"peer"}, labels...), nil)
}

var (
	offset = describe("offset_seconds",
		"Remote minus local clock.")
	bound = describe("error_bound_seconds",
		"The offset, and each one-way delay, may be so far off.")
	skew = describe("skew_ratio",
		"Rate of the remote clock minus that of the local one.")
	skewError = describe("skew_error_ratio",
		"The skew may be so far off.")
	minDelay = describe("min_delay_seconds",
		"Shortest one-way delay recently, from the peer (in) and to it (out).", "direction")
	jitter = describe("jitter_seconds",
		"Interarrival jitter of RFC 3550 of the datagrams from the peer.")
	reportAge = describe("report_age_seconds",
		"Time since the peer last reported.")
	silence = describe("silence_seconds",
		"Time since the peer's last datagram.")
	steps = describe("steps_total",
		"Jumps of the remote time: clocks that were set, machines that slept.")
	datagrams = describe("datagrams_total",
		"Datagrams from the peer that were taken.")
	queued = describe("queued_spans_total",
		"Spans of 0.2 s in which all datagrams from the peer queued.")
	state = describe("state",
		"1 for why the time may be relied on, or not; 0 for the others.", "state")

	everything = []*prometheus.Desc{
		offset, bound, skew, skewError, minDelay, jitter,
		reportAge, silence, steps, datagrams, queued, state,
	}
)

// states are why Snapshot.Within says what it says, however wide the bound.
var states = []struct {
	name string
	err  error
}{
	{"trusted", nil},
	{"unsynchronized", timesync.ErrUnsynchronized},
	{"silent", timesync.ErrSilent},
	{"ambiguous", timesync.ErrAmbiguous},
	{"stepped", timesync.ErrStepped},
	{"unchecked", timesync.ErrUnchecked},
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range everything {
		out <- d
	}
	c.delays.Describe(out)
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	now := c.nowUsec()
	for _, p := range c.all() {
		p.collect(out, p.observed(now))
	}
	c.delays.Collect(out)
}

// observation is all that is known of a peer at one time.
type observation struct {
	snapshot timesync.Snapshot
	state    string // a name of states
	stats    timesync.Stats
	counts   bool // whether there are stats
	silence  time.Duration
	heard    bool // whether silence is known
}

func (p *Peer) observed(now uint64) observation {
	var o observation
	o.snapshot, _ = p.clock.Snapshot(now)
	within := o.snapshot.Within(math.MaxInt64)
	for _, one := range states {
		if within == one.err {
			o.state = one.name
		}
	}
	if counts, ok := p.clock.(interface{ Stats() timesync.Stats }); ok {
		o.stats = counts.Stats()
		o.counts = true
	}
	if hears, ok := p.clock.(interface {
		SinceHeard(nowUsec uint64) (ago time.Duration, ok bool)
	}); ok {
		o.silence, o.heard = hears.SinceHeard(now)
	}
	return o
}

func (p *Peer) collect(out chan<- prometheus.Metric, o observation) {
	send := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		labels = append([]string{p.name}, labels...)
		out <- prometheus.MustNewConstMetric(d, kind, value, labels...)
	}
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	for _, one := range states {
		is := 0.0
		if o.state == one.name {
			is = 1
		}
		send(state, gauge, is, one.name)
	}
	if s := o.snapshot; s.Known() {
		send(offset, gauge, float64(s.OffsetUsec)/1e6)
		send(bound, gauge, s.ErrorBound.Seconds())
		send(skew, gauge, s.Skew/1e6)
		send(skewError, gauge, s.SkewError/1e6)
		send(minDelay, gauge, s.MinimumOneWayDelay.Seconds(), "in")
		send(minDelay, gauge, s.MinimumDelayToPeer.Seconds(), "out")
		send(jitter, gauge, s.Jitter.Seconds())
		send(reportAge, gauge, s.Age.Seconds())
		send(steps, counter, float64(s.Steps))
	}
	if o.counts {
		send(datagrams, counter, float64(o.stats.Datagrams))
		send(queued, counter, float64(o.stats.QueuedSpans))
	}
	if o.heard {
		send(silence, gauge, o.silence.Seconds())
	}
}
