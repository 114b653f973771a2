// SPDX-License-Identifier: BSD-3-Clause

// Package channel keeps time over a channel that authenticates datagrams and takes each at most
// once, such as QUIC, DTLS and WebRTC. Copy this file together with timesync.go of the example for
// your transport; README.md says which files belong together.
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

// Send stamps a payload with sentUsec, the clock now, and sends both as a datagram. The payload
// must leave link.MaxHeader bytes of what a datagram can hold.
func (p *Peer) Send(payload []byte, sentUsec uint64) error {
	datagram := make([]byte, 0, link.MaxHeader+len(payload))
	datagram = p.AppendHeader(datagram, sentUsec)
	datagram = append(datagram, payload...)
	err := p.Write(datagram)
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
	r.Payload, r.Delay, r.Known, err = p.ReadHeader(datagram, r.At)
	return r, err
}

// Next takes the next datagram that read returns, and passes over those without a right header.
// Its errors are those of read.
func (p *Peer) Next(read func() ([]byte, error)) (Received, error) {
	for {
		datagram, err := read()
		if err != nil {
			return Received{}, err
		}
		received, err := p.Take(datagram)
		if err == nil {
			return received, nil
		}
	}
}
