// SPDX-License-Identifier: BSD-3-Clause

package vectors

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"testing"
	"time"

	"timesync"
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

// TestWirePayload: payload times are written, read and put into bytes as the vectors say.
func TestWirePayload(t *testing.T) {
	// Both clocks show the same: 8 us of delay each way.
	var s timesync.TimeSynchronizer
	s.OnAuthenticatedDatagramTimestamp(1<<23-1, 1<<26)
	s.OnPeerMinDeltaTS24(1, 1<<26)
	s.Anchor(1<<26, 1<<26)
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
	t      *testing.T
	clock  *ping.Clock
	nonces map[uint64]uint64 // its own, by those of the file
}

func nonce(b []byte) uint64 { return binary.LittleEndian.Uint64(b[5:]) }

// keep returns what a line says if that is within d of what it should say, else that.
func keep(said, got, d uint64) uint64 {
	if within(said, got, d, 64) {
		return said
	}
	return got
}

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
		const irregular = 250_000 / 16 // they are in no rhythm
		l.Wait = int64(keep(uint64(l.Wait), uint64(c.clock.Next(l.Now).Microseconds()), irregular))
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
			remote, _ := c.clock.RemoteTime(l.Now)
			bound, _ := c.clock.ErrorBound(l.Now)
			delay, _ := c.clock.MinimumOneWayDelay()
			if l.Truth != nil && !within(remote, *l.Truth, uint64(bound.Microseconds()), 64) {
				c.t.Errorf("%+v: remote %d, bound %v", l, remote, bound)
			}
			l.Remote, l.Delay = keep(l.Remote, remote, 2), uint64(delay.Microseconds())
			if l.Bound != 0 {
				l.Bound = keep(l.Bound, uint64(bound.Microseconds()), 5)
			}
		}
	}
	return l
}

// TestWirePing: requests, replies, what they tell, and why others are refused.
func TestWirePing(t *testing.T) {
	c := pingClient{t: t}
	checkWire(t, "ping.jsonl", c.play)
}

// TestWireSessions: each end of the jittered sessions knows the time as well as their limits say, and its
// bound holds. What the estimator says to the microsecond does not matter.
func TestWireSessions(t *testing.T) {
	type session struct {
		wireEvent
		ends         map[string]*link.Link
		errs, bounds map[string][]float64 // by end
		qualities    [2]int               // of its reports
	}
	var all []*session
	for _, e := range events(t, "sessions.jsonl.gz") {
		if e.Event == "begin" {
			all = append(all, &session{wireEvent: e, ends: bothEnds(), errs: map[string][]float64{}, bounds: map[string][]float64{}})
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
