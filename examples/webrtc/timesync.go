// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"time"

	"github.com/pion/webrtc/v4"

	"timesync/link"
)

// Peer is one end of a data channel, and what it knows of the other end's clock. Each
// channel has a new one.
type Peer struct {
	link.Link
	channel *webrtc.DataChannel
	nowUsec func() uint64 // any monotonic clock in microseconds, such as timesync.NowUsec
}

// Unreliable returns the options of such a channel: a message waits for no other, and is
// not sent again.
func Unreliable() webrtc.DataChannelInit {
	return webrtc.DataChannelInit{Ordered: new(bool), MaxRetransmits: new(uint16)} // false and 0
}

// NewPeer keeps time on a channel.
func NewPeer(channel *webrtc.DataChannel, nowUsec func() uint64) *Peer {
	return &Peer{channel: channel, nowUsec: nowUsec}
}

// Send stamps a payload with sentUsec, the clock now, and sends both as a message.
func (p *Peer) Send(payload []byte, sentUsec uint64) error {
	return p.channel.Send(append(p.AppendHeader(nil, sentUsec), payload...))
}

// Receive is for the channel's OnMessage. It returns the payload, when it came on our
// clock, and its one-way delay, which is 0 while the other clock is unknown. Messages are
// authenticated, and each comes at most once.
func (p *Peer) Receive(m webrtc.DataChannelMessage) (payload []byte, receivedUsec uint64, owd time.Duration, err error) {
	receivedUsec = p.nowUsec()
	payload, owd, err = p.Open(m.Data, receivedUsec)
	return payload, receivedUsec, owd, err
}
