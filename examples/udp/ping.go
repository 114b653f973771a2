// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"fmt"
	"sync"
	"time"

	"timesync"
	"timesync/link"
	"timesync/ping"
)

// pinger puts requests and replies in front of what another rider sends, so that both
// methods are compared on the same datagrams.
type pinger struct {
	rider
	ping.Clock
	local clock
	asks  bool // else it only answers

	mu      sync.Mutex
	request []byte // the peer's, to be answered
	recv    uint64 // when it came
}

// payload spends a byte for the length of the message, which may be none.
func (p *pinger) payload(sent time.Duration) []byte {
	p.mu.Lock()
	now, b := p.local.at(sent), []byte{0}
	if p.request != nil {
		b, _ = ping.AppendReply(b, p.request, 0, p.recv, now)
		p.request = nil
	} else if p.asks && p.Next(now) == 0 {
		b = p.AppendRequest(b, now)
	}
	p.mu.Unlock()
	b[0] = byte(len(b) - 1)
	return append(b, p.rider.payload(sent)...)
}

func (p *pinger) delivered(payload []byte, recv, owd time.Duration, known bool) {
	if len(payload) == 0 || len(payload) <= int(payload[0]) {
		p.rider.delivered(nil, recv, owd, known) // what we did not send
		return
	}
	message, rest := payload[1:1+payload[0]], payload[1+payload[0]:]
	now := p.local.at(recv)
	p.mu.Lock()
	switch len(message) {
	case ping.RequestSize:
		p.request, p.recv = append([]byte(nil), message...), now
	case ping.ReplySize:
		p.HandleReply(message, now)
	}
	p.mu.Unlock()
	p.rider.delivered(rest, recv, owd, known)
}

// ToRemoteTime23 stamps an event as TimeSynchronizer.ToRemoteTime23 does.
func (p *pinger) ToRemoteTime23(localUsec uint64) (timesync.Counter23, bool) {
	remote, ok := p.RemoteTime(localUsec)
	return timesync.NewCounter23((remote + 4) >> 3), ok
}

// ProposeInstant is that of link.Link.
func (p *pinger) ProposeInstant(nowUsec, atUsec uint64, within time.Duration) (timesync.Counter23, error) {
	s, _ := p.Snapshot(nowUsec)
	if err := s.Within(within); err != nil {
		return 0, fmt.Errorf("%w: %w", link.ErrUnsure, err)
	}
	instant, _ := p.ToRemoteTime23(atUsec)
	return instant, nil
}
