// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"time"

	"github.com/pion/transport/v5/stdnet"
	"github.com/pion/webrtc/v4"

	"timesync/examples/channel"
)

// Unreliable returns the options of a channel that keeps time: a message waits for no other, and
// is not sent again.
func Unreliable() webrtc.DataChannelInit {
	return webrtc.DataChannelInit{Ordered: new(bool), MaxRetransmits: new(uint16)} // false and 0
}

// Set sets what a connection for such channels needs. After an outage of the network SCTP tries
// again twice a second; else it waits twice as long each time, and all channels are silent for
// many seconds after the outage. And DTLS records that anybody could have forged are dropped: see
// guard.go.
func Set(s *webrtc.SettingEngine) error {
	s.SetSCTPRTOMax(500 * time.Millisecond)
	network, err := stdnet.NewNet()
	if err != nil {
		return err
	}
	s.SetNet(guardedNet{network})
	return nil
}

// NewPeer keeps time on a channel. Messages are authenticated, and each comes at most once: give
// Take the Data of those that OnMessage gets. Each channel has a new Peer. received is the clock
// for times of receipt: clock.Received, or another monotonic one in microseconds.
func NewPeer(c *webrtc.DataChannel, received func() uint64) *channel.Peer {
	return &channel.Peer{Write: c.Send, ReceivedUsec: received}
}
