// SPDX-License-Identifier: BSD-3-Clause

// Package channel keeps time over a channel that authenticates datagrams and takes each at most
// once. The examples for DTLS, QUIC and WebRTC have it in common: copy this file with theirs.
package channel

import (
	"time"

	"timesync/link"
)

// Peer is one end of a channel, and what it knows of the other end's clock. Each channel has a new
// one. All methods may be called from any goroutine at any time, if Write may.
type Peer struct {
	link.Link
	// Write sends a datagram, whole or not at all.
	Write func(datagram []byte) error
	// ReceivedUsec is the clock for times of receipt, in microseconds: clock.Received of package
	// clock, or another monotonic one.
	ReceivedUsec func() uint64
}

// Send stamps a payload with sentUsec, the clock now, and sends both as a datagram. It must leave
// link.MaxHeader bytes of that.
func (p *Peer) Send(payload []byte, sentUsec uint64) error {
	err := p.Write(append(p.AppendHeader(make([]byte, 0, link.MaxHeader+len(payload)), sentUsec), payload...))
	if err != nil {
		p.SendFailed()
	}
	return err
}

// Received is a datagram that has come.
type Received struct {
	Payload []byte
	At      uint64        // when it came, on our clock, us
	Delay   time.Duration // its one-way delay, if Known
	Known   bool          // the other clock is
}

// Take takes a datagram that has just come. One without a right header is an error; the channel is
// none the worse for it.
func (p *Peer) Take(datagram []byte) (r Received, err error) {
	r.At = p.ReceivedUsec()
	r.Payload, r.Delay, r.Known, err = p.Open(datagram, r.At)
	return r, err
}

// Next takes the next datagram that read returns, and passes over those without a right header. An error is
// that of read.
func (p *Peer) Next(read func() ([]byte, error)) (Received, error) {
	for {
		datagram, err := read()
		if err != nil {
			return Received{}, err
		}
		if r, err := p.Take(datagram); err == nil {
			return r, nil
		}
	}
}
