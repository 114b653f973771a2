// SPDX-License-Identifier: BSD-3-Clause

// This test proves what README says of Snapshot.Within: while it is nil the peer's clock is
// known to the tolerable error, from the first second on, after silences, steps and restarts.
package link_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"timesync/link"
)

// host is one end whose clock is known: true time plus offset, faster by ppm.
type host struct {
	link   *link.Link
	offset uint64
	ppm    float64
}

func (h *host) clock(trueUsec int64) uint64 {
	return h.offset + uint64(trueUsec+int64(float64(trueUsec)*h.ppm/1e6))
}

// path is two hosts with 60 datagrams a second each way and exponential jitter.
type path struct {
	hosts  [2]*host
	rng    *rand.Rand
	delay  [2]time.Duration // each way; unequal, as ways are
	jitter time.Duration
	within time.Duration // tolerable: a fifth more than half the round trip, and 200 us
	now    int64         // us, true time
	onWay  []onWay
	silent bool
	said   map[string]time.Duration // what Within said, and for how long
	wrong  time.Duration            // for how long it was nil, and wrong
	late   time.Duration            // when it last was, after the last event
	event  int64
}

type onWay struct {
	at       int64
	to       int
	datagram []byte
}

const noticed = 2100 * time.Millisecond // a report comes every 2 s

func newPath(seed uint64, delay time.Duration) *path {
	p := &path{rng: rand.New(rand.NewPCG(seed, 'w')), delay: [2]time.Duration{delay * 11 / 10, delay * 9 / 10}, jitter: delay/20 + 20*time.Microsecond, within: delay*6/5 + 200*time.Microsecond}
	for i := range p.hosts {
		p.hosts[i] = &host{link: new(link.Link), offset: p.rng.Uint64(), ppm: 80*p.rng.Float64() - 40}
	}
	p.said = map[string]time.Duration{}
	return p
}

// run lets time pass, in steps of 1/60 s.
func (p *path) run(lasting time.Duration) {
	const frame = 16667
	for end := p.now + lasting.Microseconds(); p.now < end; p.now += frame {
		for i := 0; i < len(p.onWay); i++ {
			if d := p.onWay[i]; d.at <= p.now {
				h := p.hosts[d.to]
				h.link.Open(d.datagram, h.clock(d.at))
				p.onWay = append(p.onWay[:i], p.onWay[i+1:]...)
				i--
			}
		}
		for i, h := range p.hosts {
			if !p.silent {
				delay := p.delay[i] + time.Duration(p.rng.ExpFloat64()*float64(p.jitter))
				p.onWay = append(p.onWay, onWay{p.now + delay.Microseconds(), 1 - i, h.link.AppendHeader(nil, h.clock(p.now))})
			}
		}
		p.ask(frame * time.Microsecond)
	}
}

// ask asks both ends how good their time is, and judges the answer.
func (p *path) ask(lasting time.Duration) {
	for i, h := range p.hosts {
		s, ok := h.link.Snapshot(h.clock(p.now))
		err := s.Within(p.within)
		if i == 0 {
			what := "nil"
			if err != nil {
				what = strings.TrimPrefix(err.Error(), "timesync: ")
			}
			p.said[what] += lasting
		}
		off := time.Duration(int64(s.RemoteUsec-p.hosts[1-i].clock(p.now))) * time.Microsecond
		if err == nil && (!ok || off.Abs() > p.within) {
			p.wrong += lasting
			p.late = time.Duration(p.now-p.event) * time.Microsecond
		}
	}
}

// happens begins to count anew. It returns for how long Within was nil during the event, and for
// how long it was so and wrong.
func (p *path) happens(event func()) (answered, wrong time.Duration) {
	p.wrong, p.said = 0, map[string]time.Duration{}
	event()
	answered, wrong = p.said["nil"], p.wrong
	p.event, p.late, p.wrong, p.said["nil"] = p.now, 0, 0, 0
	return answered, wrong
}

func TestWithin(t *testing.T) {
	const seeds = 20
	events := []struct {
		name   string
		what   func(p *path)
		wrong  time.Duration // so long after the event at most it was nil and wrong
		reason string        // which is to be said, if any
	}{
		{"silence of 5 min", func(p *path) { p.silence(5 * time.Minute) }, 0, "no report from the peer for 15 s"},
		{"step of 200 ms", func(p *path) { p.hosts[1].offset += 200_000 }, noticed, "a clock was set less than 15 s ago"},
		{"step of -10 s", func(p *path) { p.hosts[0].offset -= 10_000_000 }, noticed, "a clock was set less than 15 s ago"},
		{"peer suspended for 5 min", func(p *path) { p.silence(5 * time.Minute); p.hosts[1].offset -= 300_000_000 }, time.Second, "a clock was set less than 15 s ago"},
		{"own machine suspended for 5 min", func(p *path) { p.silence(5 * time.Minute); p.hosts[0].offset -= 300_000_000 }, time.Second, "a clock was set less than 15 s ago"},
		{"peer restarted", func(p *path) { p.hosts[1] = &host{link: new(link.Link), offset: p.rng.Uint64(), ppm: 30} }, time.Second, "the remote clock is not known yet"},
	}
	for _, delay := range []time.Duration{20 * time.Microsecond, 50 * time.Millisecond} {
		for _, e := range events {
			var latest time.Duration
			for seed := range uint64(seeds) {
				p := newPath(seed, delay)
				p.run(16 * time.Second)
				if p.wrong > 0 || p.said["nil"] < 14*time.Second || p.said["the remote clock is not known yet"] > time.Second {
					t.Errorf("seed %d, %v each way: the start: wrong for %v: %v", seed, delay, p.wrong, p.said)
				}
				p.run(20 * time.Second)
				if answered, wrong := p.happens(func() { e.what(p) }); answered > 16*time.Second || wrong > 0 {
					t.Errorf("seed %d, %v each way, during %s: answered for %v, wrong for %v", seed, delay, e.name, answered, wrong)
				}
				p.run(30 * time.Second)
				if latest = max(latest, p.late); p.late > e.wrong || p.said[e.reason] == 0 || p.said["nil"] == 0 {
					t.Errorf("seed %d, %v each way, %s: wrong for %v, last %v after it: %v", seed, delay, e.name, p.wrong, p.late, p.said)
				}
			}
			t.Logf("%v each way, %s: wrong until %v after it", delay, e.name, latest)
		}
	}
}

// silence lets nothing be sent, while both ask.
func (p *path) silence(lasting time.Duration) {
	p.silent = true
	p.run(lasting)
	p.silent = false
}
