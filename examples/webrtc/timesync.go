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
	channel  *webrtc.DataChannel
	received func() uint64 // the clock for times of receipt
}

// Unreliable returns the options of such a channel: a message waits for no other, and is
// not sent again.
func Unreliable() webrtc.DataChannelInit {
	return webrtc.DataChannelInit{Ordered: new(bool), MaxRetransmits: new(uint16)} // false and 0
}

// NewPeer keeps time on a channel. received is the clock for times of receipt: clock.Received, or
// any in microseconds.
func NewPeer(channel *webrtc.DataChannel, received func() uint64) *Peer {
	return &Peer{channel: channel, received: received}
}

// Send stamps a payload with sentUsec, the clock now, and sends both as a message.
func (p *Peer) Send(payload []byte, sentUsec uint64) error {
	err := p.channel.Send(append(p.AppendHeader(nil, sentUsec), payload...))
	if err != nil {
		p.SendFailed()
	}
	return err
}

// Received is a message that has come.
type Received struct {
	Payload []byte
	At      uint64        // when it came, on our clock, us
	Delay   time.Duration // its one-way delay, if Known
	Known   bool          // the other clock is
}

// Receive is for the channel's OnMessage. Messages are authenticated, and each comes at most
// once. One without a right header is an error; the channel is none the worse for it.
func (p *Peer) Receive(m webrtc.DataChannelMessage) (r Received, err error) {
	r.At = p.received()
	r.Payload, r.Delay, r.Known, err = p.Open(m.Data, r.At)
	return r, err
}
