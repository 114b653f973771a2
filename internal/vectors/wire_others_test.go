package vectors

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"testing"

	"timesync"
	"timesync/link"
	"timesync/ping"
)

// payloadTime is a line of payload.jsonl.
type payloadTime struct {
	Event string `json:"event"`
	Bits  int    `json:"bits,omitempty"`
	Now   uint64 `json:"now,omitempty,string"`
	Time  uint64 `json:"time,omitempty,string"` // by the clock of the end that reads
	TS    uint32 `json:"ts,omitempty"`
	Flag  bool   `json:"flag,omitempty"`
	Hex   string `json:"hex,omitempty"`
}

// TestWirePayload: payload times are written, read and put into bytes as the vectors say.
func TestWirePayload(t *testing.T) {
	// Both clocks show the same: 8 us of delay each way.
	var s timesync.TimeSynchronizer
	s.OnAuthenticatedDatagramTimestamp(1<<23-1, 1<<26)
	s.OnPeerMinDeltaTS24(1, 1<<26)
	s.Anchor(1<<26, 1<<26)
	wire(t, "payload.jsonl", func(l payloadTime) payloadTime {
		switch fmt.Sprint(l.Event, l.Bits) {
		case "write23":
			ts, _ := s.ToRemoteTime23(l.Time)
			l.TS = uint32(ts)
		case "write16":
			ts, _ := s.ToRemoteTime16(l.Time)
			l.TS = uint32(ts)
		case "read23":
			l.Time = timesync.FromLocalTime23(l.Now, timesync.Counter23(l.TS))
		case "read16":
			l.Time = timesync.FromLocalTime16(l.Now, timesync.Counter16(l.TS))
		case "bytes23":
			// what is above the ring does not count
			b := link.AppendTime23(nil, timesync.Counter23(l.TS)|1<<23, l.Flag)
			ts, flag := link.ReadTime23(b)
			l.Hex, l.TS, l.Flag = hex.EncodeToString(b), uint32(ts), flag
		case "bytes16":
			b, _ := timesync.Counter16(l.TS).AppendBinary(nil)
			l.Hex = hex.EncodeToString(b)
		}
		return l
	})
}

// pingLine is a line of ping.jsonl.
type pingLine struct {
	Event   string  `json:"event"` // new, next, request, reply: at the client; serve: at the server
	Session uint32  `json:"session,omitempty"`
	Now     uint64  `json:"now,omitempty,string"` // at the client
	Wait    int64   `json:"wait,omitempty"`       // us
	Request string  `json:"request,omitempty"`
	Reply   string  `json:"reply,omitempty"`       // of serve: "" if there is no answer
	Recv    uint64  `json:"recv,omitempty,string"` // at the server, as Sent
	Sent    uint64  `json:"sent,omitempty,string"`
	Verdict string  `json:"verdict,omitempty"`
	Remote  uint64  `json:"remote,omitempty,string"`
	Truth   *uint64 `json:"truth,omitempty,string"`
	Delay   uint64  `json:"delay,omitempty,string"`
	Bound   uint64  `json:"bound,omitempty,string"`
}

// pingClient is a client of package ping whose requests have the nonces of the file.
type pingClient struct {
	t      *testing.T
	clock  *ping.Clock
	nonces map[uint64]uint64 // its own, by those of the file
}

func nonce(b []byte) uint64 { return binary.LittleEndian.Uint64(b[5:]) }

// unit is that of stamps, us: a client that keeps time by them is off by as much.
const unit = 8

// keep returns what a line says where that is within d of what came out, else what came out.
func keep(said, got, d uint64) uint64 { return *kept(&said, got, d, 64) }

// play returns a line with what package ping makes of it. What follows from several exchanges may
// be another client's affair, but here it does not change by chance: -update writes it.
func (c *pingClient) play(l pingLine) pingLine {
	request, reply := unhex(l.Request), unhex(l.Reply)
	switch l.Event {
	case "new":
		c.clock = new(ping.Clock)
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
		if verdict <= ping.ManyServers {
			verdict = ping.Accepted
		}
		if l.Verdict = verdict.String(); verdict != ping.Accepted {
			break
		}
		remote, _ := c.clock.RemoteTime(l.Now)
		bound, _ := c.clock.ErrorBound(l.Now)
		delay, _ := c.clock.MinimumOneWayDelay()
		if l.Truth != nil && !within(remote, *l.Truth, uint64(bound.Microseconds()), 64) {
			c.t.Errorf("%+v: remote %d, bound %v", l, remote, bound)
		}
		l.Remote = keep(l.Remote, remote, unit)
		l.Delay = keep(l.Delay, uint64(delay.Microseconds()), unit)
		l.Bound = keep(l.Bound, uint64(bound.Microseconds()), unit)
	}
	return l
}

// TestWirePing: requests, replies, what they tell, and why others are refused.
func TestWirePing(t *testing.T) {
	wire(t, "ping.jsonl", (&pingClient{t: t}).play)
}
