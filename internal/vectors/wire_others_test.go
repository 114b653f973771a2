// SPDX-License-Identifier: BSD-3-Clause

package vectors

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"timesync"
	"timesync/internal/sim"
	"timesync/internal/stat"
	"timesync/link"
	"timesync/ping"
)

// payloadTime is a line of payload.jsonl.
type payloadTime struct {
	Event string `json:"event"`                // write, read, bytes
	Bits  int    `json:"bits,omitempty"`       // 23 or 16
	Now   uint64 `json:"now,omitempty,string"` // of read: the own clock, us
	// Time is a reading of the clock of the end that reads, us; of write any, of read the result.
	Time uint64 `json:"time,omitempty,string"`
	TS   uint32 `json:"ts,omitempty"`
	Flag bool   `json:"flag,omitempty"` // of bytes: the 24th bit
	Hex  string `json:"hex,omitempty"`  // of bytes: as they travel
}

// calculate returns a line with its result. s is a synchronizer of which both clocks show the same.
func (l payloadTime) calculate(s *timesync.TimeSynchronizer) payloadTime {
	switch l.Event {
	case "write":
		if ts, ok := s.ToRemoteTime23(l.Time); ok && l.Bits == 23 {
			l.TS = uint32(ts)
		}
		if ts, ok := s.ToRemoteTime16(l.Time); ok && l.Bits == 16 {
			l.TS = uint32(ts)
		}
	case "read":
		if l.Bits == 23 {
			l.Time = timesync.FromLocalTime23(l.Now, timesync.Counter23(l.TS))
		} else {
			l.Time = timesync.FromLocalTime16(l.Now, timesync.Counter16(l.TS))
		}
	case "bytes":
		if l.Bits == 23 {
			b := link.AppendTime23(nil, timesync.Counter23(l.TS)|1<<23, l.Flag) // what is above the ring does not count
			ts, flag := link.ReadTime23(b)
			l.Hex, l.TS, l.Flag = hex.EncodeToString(b), uint32(ts), flag
		} else {
			b, _ := timesync.Counter16(l.TS).AppendBinary(nil)
			l.Hex = hex.EncodeToString(b)
		}
	}
	return l
}

// payloadLines returns payload.jsonl without the results.
func payloadLines() (lines []payloadTime) {
	rng := rand.New(rand.NewPCG(48_850_000, 0))
	kinds := []struct {
		bits, shift int
		past        int64 // units that a time may lie back; it may lie ahead by a third of that, less one
	}{{23, 3, 3 << 21}, {16, 9, 3 << 14}}
	for _, k := range kinds {
		ring, unit := uint64(1)<<k.bits, uint64(1)<<k.shift
		times := []uint64{0, 1, 2, 3, 4, 5, 11, 12, 255, 256, 257, 767, 768, 1<<64 - 1, 1<<64 - 4, 1<<64 - 5, 1<<64 - 256, 1<<64 - 257}
		for i := range uint64(4) { // about each side of a wrap
			times = append(times, ring*unit*(i+1)-unit/2, ring*unit*(i+1)-unit/2-1)
		}
		for range 40 {
			times = append(times, rng.Uint64())
		}
		for _, t := range times {
			lines = append(lines, payloadTime{Event: "write", Bits: k.bits, Time: t})
			ts := uint32((t + unit/2) / unit % ring)
			for _, back := range []int64{0, 1, k.past - 1, k.past, k.past + 1, -1, 1 - k.past/3, -k.past / 3, rng.Int64N(1 << k.bits)} {
				lines = append(lines, payloadTime{Event: "read", Bits: k.bits, Now: t + uint64(back)*unit, TS: ts})
			}
			lines = append(lines, payloadTime{Event: "bytes", Bits: k.bits, TS: ts, Flag: k.bits == 23 && rng.Uint64()%2 == 0})
		}
	}
	return lines
}

// TestWirePayload: payload times are written, read and put into bytes as the vectors say.
func TestWirePayload(t *testing.T) {
	// Both clocks show the same: 8 us of delay each way.
	var s timesync.TimeSynchronizer
	s.OnAuthenticatedDatagramTimestamp(1<<23-1, 1<<26)
	s.OnPeerMinDeltaTS24(1, 1<<26)
	s.Anchor(1<<26, 1<<26)
	lines := payloadLines()
	for i, l := range lines {
		if remote, ok := s.RemoteTime(l.Time); !ok || remote != l.Time {
			t.Fatalf("the remote clock shows %d at %d", remote, l.Time)
		}
		lines[i] = l.calculate(&s)
	}
	if *update {
		writeWire(t, "payload.jsonl", lines)
	}
	checkWire(t, "payload.jsonl", func(l payloadTime) payloadTime { return l.calculate(&s) })
}

// pingLine is a line of ping.jsonl.
type pingLine struct {
	Event   string `json:"event"` // new, next, request, reply: at the client; serve: at the server
	Session uint32 `json:"session,omitempty"`
	Now     uint64 `json:"now,omitempty,string"`  // at the client
	Wait    int64  `json:"wait,omitempty"`        // of next: us until the next request
	Request string `json:"request,omitempty"`     // hex
	Reply   string `json:"reply,omitempty"`       // hex; of serve: "" if there is no answer
	Recv    uint64 `json:"recv,omitempty,string"` // at the server
	Sent    uint64 `json:"sent,omitempty,string"` // at the server
	Verdict string `json:"verdict,omitempty"`     // of reply
	// Of an accepted reply: the server's clock now by the exchange that counts, how far off that may be if
	// there was no other exchange, us, and what it shows in truth.
	Remote uint64  `json:"remote,omitempty,string"`
	Bound  uint64  `json:"bound,omitempty,string"`
	Truth  *uint64 `json:"truth,omitempty,string"`
	Delay  uint64  `json:"delay,omitempty,string"` // the shortest, us
}

// pingClient is a client of package ping whose requests have the nonces of the file.
type pingClient struct {
	clock  *ping.Clock
	nonces map[uint64]uint64 // its own, by those of the file
}

func nonce(b []byte) uint64 { return binary.LittleEndian.Uint64(b[5:]) }

// play returns a line with what package ping makes of it.
func (c *pingClient) play(l pingLine) pingLine {
	request, reply := unhex(l.Request), unhex(l.Reply)
	switch l.Event {
	case "new":
		// It takes the exchange that counts at once, as WIRE says, where it would go there slowly by default.
		c.clock, _ = ping.NewClock(ping.Config{RecalibrateThreshold: time.Microsecond})
		c.clock.Reset(l.Session)
		c.nonces = map[uint64]uint64{}
	case "next":
		l.Wait = c.clock.Next(l.Now).Microseconds()
	case "request":
		own := c.clock.AppendRequest(nil, l.Now)
		c.nonces[nonce(request)] = nonce(own)
		l.Request = hex.EncodeToString(append(own[:5], request[5:]...))
	case "serve":
		reply, _ = ping.AppendReply(nil, request, l.Session, l.Recv, l.Sent)
		l.Reply = hex.EncodeToString(reply)
	case "reply":
		if len(reply) >= ping.RequestSize {
			if own, ok := c.nonces[nonce(reply)]; ok {
				binary.LittleEndian.PutUint64(reply[5:], own)
			}
		}
		verdict := c.clock.HandleReply(reply, l.Now)
		if verdict == ping.Synced || verdict == ping.Stepped {
			verdict = ping.Accepted
		}
		if l.Verdict = verdict.String(); verdict == ping.Accepted {
			l.Remote, _ = c.clock.RemoteTime(l.Now)
			bound, _ := c.clock.ErrorBound(l.Now)
			delay, _ := c.clock.MinimumOneWayDelay()
			l.Delay = uint64(delay.Microseconds())
			l.Bound = uint64(bound.Microseconds())
		}
	}
	return l
}

// pingVectors returns ping.jsonl.
func pingVectors() (lines []pingLine) {
	rng := rand.New(rand.NewPCG(48_400_000, 0))
	var c pingClient
	var session uint32
	add := func(l pingLine) *pingLine {
		lines = append(lines, c.play(l))
		return &lines[len(lines)-1]
	}
	anew := func(s uint32) {
		session = s
		add(pingLine{Event: "new", Session: s})
	}
	request := func(now uint64) []byte {
		b := binary.LittleEndian.AppendUint64(make([]byte, 5), rng.Uint64())
		return unhex(add(pingLine{Event: "request", Now: now, Request: hex.EncodeToString(b)}).Request)
	}
	serve := func(request []byte, session uint32, recv, sent uint64) []byte {
		l := pingLine{Event: "serve", Session: session, Request: hex.EncodeToString(request), Recv: recv, Sent: sent}
		return unhex(add(l).Reply)
	}
	reply := func(b []byte, now, ahead uint64, first bool) {
		l := add(pingLine{Event: "reply", Now: now, Reply: hex.EncodeToString(b)})
		if truth := now + ahead; l.Verdict == ping.Accepted.String() {
			l.Truth = &truth
		}
		if !first {
			l.Bound = 0
		}
	}
	exchange := func(now, ahead, up, hold, down uint64, first bool) {
		b := serve(request(now), session, now+ahead+up, now+ahead+up+hold)
		reply(b, now+up+hold+down, ahead, first)
	}
	for i := range 40 { // one exchange each, wherever the clocks are
		anew(rng.Uint32())
		now, ahead := rng.Uint64(), rng.Uint64()
		if i == 0 {
			now, ahead = math.MaxUint64-5, 10
		}
		up, hold, down := rng.Uint64N(1<<uint(4+i/2)), rng.Uint64N(1<<uint(2+i/2)), rng.Uint64N(1<<uint(4+i/2))
		exchange(now, ahead, up, hold, down, true)
	}
	// Each reason to refuse.
	anew(7)
	const ahead = 1 << 40
	a, b := request(1000), request(101_000)
	serve(a, 8, ahead, ahead)            // another session
	serve(a, 0, ahead, ahead)            // of a server without one
	serve(a[:12], 7, ahead, ahead)       // too short
	serve(append(a, 0), 7, ahead, ahead) // too long
	serve(append([]byte{0x71}, a[1:]...), 7, ahead, ahead)
	ra, rb := serve(a, 7, ahead+11_000, ahead+11_000), serve(b, 7, ahead+111_000, ahead+111_000)
	reply(append([]byte{0x70}, rb[1:]...), 121_000, ahead, false) // malformed
	reply(rb, 121_000, ahead, true)
	reply(rb, 122_000, ahead, false) // duplicate
	reply(ra, 130_000, ahead, false) // overtaken
	reply(rb[:28], 1, ahead, false)  // malformed
	reply(append(rb, 0), 1, ahead, false)
	reply(a, 130_000, ahead, false)
	other := slices.Clone(rb)
	other[1]++
	reply(other, 130_000, ahead, false) // old session
	other = slices.Clone(rb)
	other[5] ^= 1
	reply(other, 130_000, ahead, false) // unknown request
	d := request(201_000)
	reply(serve(d, 7, ahead, ahead), 200_999, ahead, false)                        // before it was sent
	reply(serve(d, 7, ahead+200_002, ahead+1), 211_000, ahead, false)              // sent over 200 ms before it was received
	reply(serve(d, 7, ahead+211_000, ahead+211_000+10_009), 211_000, ahead, false) // held for longer than it was away
	reply(serve(d, 7, ahead, ahead), 201_000+10*second+1, ahead, false)            // too late
	// And what is just not refused.
	for _, e := range []struct{ away, hold int64 }{{10_000, -200_000}, {10 * second, 0}, {1_000_000, 1_000_602}, {1_000_000, 1_000_603}, {0, 2}, {0, 3}, {9_999, 10_006}, {9_999, 10_007}} {
		anew(0)
		r := request(5000)
		reply(serve(r, 0, ahead, ahead+uint64(e.hold)), 5000+uint64(e.away), ahead-5000, true)
	}
	// The fastest request and the fastest reply count.
	const ms = 1000
	anew(1)
	exchange(0, ahead, 10*ms, 0, 20*ms, true)
	exchange(250*ms, ahead, 40*ms, 5*ms, 10*ms, false)
	exchange(500*ms, ahead, 4*ms, 90*ms, 17*ms, false) // the hold is not on its way
	exchange(750*ms, ahead, 7*ms, 0, 5*ms, false)
	anew(2)
	for i := range uint64(12) { // of the last 8, however old
		exchange(i*second, ahead, 10*ms+min(i, 1)*30*ms, 0, 5*ms, i == 0)
	}
	anew(3)
	for i := range uint64(60) { // of the last 5 s, however many
		exchange(i*100*ms, ahead, 10*ms, 0, 5*ms+min(i, 1)*30*ms, i == 0)
	}
	anew(4) // age makes each way count less: 100 us a second
	exchange(0, ahead, 6*ms, 0, 4*ms, true)
	exchange(4*second, ahead, 6*ms+410, 0, 4*ms+390, false)
	exchange(4*second+100*ms, ahead, 6*ms+380, 0, 4*ms+430, false)
	anew(6) // a queue one way that outlasts them is limited by the surest one
	exchange(0, ahead, 30*ms, 0, 30*ms, true)
	exchange(250*ms, ahead, 5*ms, 0, 5*ms, false)
	for i := range uint64(10) {
		exchange((i+1)*second, ahead, 5*ms, 0, 45*ms, false)
	}
	anew(8) // a server that hangs for a second: of the requests that it answers then only the last one counts
	exchange(0, ahead, 5*ms, 0, 5*ms, true)
	var waiting [10][]byte
	for i := range waiting {
		waiting[i] = request(6*second + uint64(i)*100*ms)
	}
	for _, r := range waiting {
		reply(serve(r, 8, ahead+7*second-ms, ahead+7*second-ms), 7*second, ahead, false)
	}
	// A clock that is set, and when to ask.
	anew(5)
	now, off := uint64(0), uint64(ahead)
	for i := range 24 {
		if i == 12 {
			off += 500 * ms
		}
		add(pingLine{Event: "next", Now: now})
		exchange(now, off, 10*ms+uint64(i%3)*ms, 0, 15*ms+uint64(i/12)*10*ms, i == 0)
		add(pingLine{Event: "next", Now: now + 60*ms})
		now += uint64(c.clock.Next(now).Microseconds())
	}
	return lines
}

// TestWirePing: requests, replies, what they tell, and why others are refused.
func TestWirePing(t *testing.T) {
	if *update {
		writeWire(t, "ping.jsonl", pingVectors())
	}
	var c pingClient
	verdicts := map[string]int{}
	for i, l := range readWire[pingLine](t, "ping.jsonl") {
		got := c.play(l)
		if l.Truth != nil && !within(got.Remote, *l.Truth, got.Bound, 64) {
			t.Errorf("line %d: remote %d, bound %d us, truth %d", i+1, got.Remote, got.Bound, *l.Truth)
		}
		if within(got.Remote, l.Remote, 2, 64) {
			got.Remote = l.Remote
		}
		if within(uint64(got.Wait), uint64(l.Wait), 250_000/16, 64) {
			got.Wait = l.Wait // in no rhythm
		}
		if l.Bound == 0 || within(got.Bound, l.Bound, 5, 64) {
			got.Bound = l.Bound
		}
		if got != l {
			t.Errorf("line %d: %+v, want %+v", i+1, got, l)
		}
		if l.Event == "reply" {
			verdicts[l.Verdict]++
		}
	}
	if t.Logf("%v", verdicts); len(verdicts) < 8 {
		t.Error("not all verdicts")
	}
}

// badPath is a session of sessions.jsonl.
type badPath struct {
	name, about string
	rate        float64          // datagrams a second
	shortest    [2]time.Duration // ms that datagrams of A and of B take at least
	jitter      time.Duration    // mean of what they take longer
	lasts       time.Duration
	silent      time.Duration    // from then on nothing of B arrives at A
	set         [2]time.Duration // A's clock is set by 20 ms back, and B's by 125 ms ahead
	p99, bound  uint64           // limits, us
	confirmed   int              // percent of the reports
}

const afterSet = 6 * time.Second // an end has to know the time again

// sessionVectors returns sessions.jsonl.gz: what two Go ends hear over a bad path, and the truth.
func sessionVectors() (lines []wireEvent) {
	const ms, s = time.Millisecond, time.Second
	even := [2]time.Duration{10 * ms, 10 * ms}
	for i, c := range []badPath{
		{name: "60 a second", about: "10 ms and exponential 5 ms each way, 2 % loss, clocks of quartz 40 ppm apart; from 40 s on nothing arrives at A",
			rate: 60, shortest: even, jitter: 5 * ms, lasts: 48 * s, silent: 40 * s, p99: 40, bound: 10_600, confirmed: 50},
		{name: "4 a second", about: "the same, without the silence",
			rate: 4, shortest: even, jitter: 5 * ms, lasts: 150 * s, p99: 700, bound: 14_000},
		{name: "unequal ways", about: "0 and 20 ms and exponential 2 ms, 20 a second: the truth is at the bound",
			rate: 20, shortest: [2]time.Duration{0, 20 * ms}, jitter: 2 * ms, lasts: 50 * s, p99: 10_200, bound: 10_800},
		{name: "clocks are set", about: "10 ms and exponential 5 ms, 20 a second; A's clock is set back by 20 ms, B's ahead by 125 ms",
			rate: 20, shortest: even, jitter: 5 * ms, lasts: 75 * s, set: [2]time.Duration{30 * s, 55 * s}, p99: 400, bound: 12_000},
	} {
		begin := wireEvent{Scenario: c.name, Event: "begin", About: c.about, P99: c.p99, Bound: c.bound, Confirmed: c.confirmed}
		lines = append(lines, begin)
		rng := rand.New(rand.NewPCG(48_500_000, uint64(c.rate)+uint64(i/2)))
		var clocks [2]*sim.Clock
		var links [2]link.Link
		for side := range clocks {
			spec := sim.ClockSpec{OffsetUsec: rng.Uint64(), SkewPPM: 20 - 40*float64(side), WanderPPM: 0.01}
			if c.set[side] != 0 {
				spec.Events = []sim.ClockEvent{{At: c.set[side], Step: [2]time.Duration{-20 * ms, 125 * ms}[side]}}
			}
			clocks[side] = sim.NewClock(spec, rng.Uint64())
		}
		w := sim.NewWorld(0)
		add := func(side int, e wireEvent) {
			e.Scenario, e.End, e.Now = c.name, "AB"[side:side+1], clocks[side].Usec(w.Now())
			lines = append(lines, e)
		}
		for side := range links {
			other := 1 - side
			w.Every(time.Duration(1e9/c.rate), time.Duration(side)*7*ms, func() {
				b := links[side].AppendHeader(nil, clocks[side].Usec(w.Now()))
				add(side, wireEvent{Event: "send"})
				if rng.Float64() >= 0.02 && (c.silent == 0 || side == 0 || w.Now() < c.silent) {
					delay := c.shortest[side] + time.Duration(float64(c.jitter)*rng.ExpFloat64())
					w.At(w.Now()+delay, func() {
						links[other].Open(b, clocks[other].Usec(w.Now()))
						add(other, wireEvent{Event: "open", Hex: hex.EncodeToString(b)})
					})
				}
			})
			w.Every(100*ms, 20*s, func() {
				truth := clocks[other].Usec(w.Now())
				line, unsure := wireEvent{Event: "read", Truth: &truth}, false
				for _, set := range c.set {
					line.Set = line.Set || set != 0 && w.Now() >= set && w.Now() < set+timesync.Settled
					unsure = unsure || set != 0 && w.Now() >= set && w.Now() < set+afterSet
				}
				if !unsure {
					add(side, line)
				}
			})
		}
		w.Run(c.lasts)
	}
	return lines
}

// TestWireSessions: each end of the jittered sessions knows the time as well as their limits say, and its
// bound holds. What the estimator says to the microsecond does not matter.
func TestWireSessions(t *testing.T) {
	if *update {
		writeWire(t, "sessions.jsonl.gz", sessionVectors())
	}
	type session struct {
		wireEvent
		ends         map[string]*link.Link
		errs, bounds map[string][]float64 // by end
		qualities    [2]int               // of its reports
	}
	var all []*session
	for _, e := range readWire[wireEvent](t, "sessions.jsonl.gz") {
		if e.Event == "begin" {
			ends := map[string]*link.Link{"A": {}, "B": {}}
			all = append(all, &session{wireEvent: e, ends: ends, errs: map[string][]float64{}, bounds: map[string][]float64{}})
		}
		s := all[len(all)-1]
		switch e.Event {
		case "send":
			if h := s.ends[e.End].AppendHeader(nil, e.Now); h[0]&flagReport != 0 {
				s.qualities[timesync.ReadCounter24(h[4:])%3]++
			}
		case "open":
			if _, _, _, err := s.ends[e.End].Open(unhex(e.Hex), e.Now); err != nil {
				t.Fatal(err)
			}
		case "read":
			known, ok := s.ends[e.End].Snapshot(e.Now)
			err, bound := math.Abs(float64(int64(known.RemoteUsec-*e.Truth))), float64(known.ErrorBound.Microseconds())
			if !ok || err > bound && !e.Set {
				t.Errorf("%s, %s at %d: off by %.0f us, the bound is %.0f", e.Scenario, e.End, e.Now, err, bound)
			}
			if s.errs[e.End] = append(s.errs[e.End], err); !e.Set {
				s.bounds[e.End] = append(s.bounds[e.End], bound)
			}
		}
	}
	for _, s := range all {
		if confirmed := 100 * s.qualities[1] / (s.qualities[0] + s.qualities[1]); confirmed < s.Confirmed {
			t.Errorf("%s: %d %% of the reports are confirmed", s.Scenario, confirmed)
		}
		for end, errs := range s.errs {
			p99, bound := stat.Quantile(errs, .99), stat.Quantile(s.bounds[end], .99)
			t.Logf("%s, %s: p99 %.0f us, of the bounds %.1f ms", s.Scenario, end, p99, bound/1e3)
			if !(p99 <= float64(s.P99)) || !(bound <= float64(s.Bound)) {
				t.Errorf("the limits are %d us and %d us", s.P99, s.Bound)
			}
		}
	}
}
