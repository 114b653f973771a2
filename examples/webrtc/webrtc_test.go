// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that both ends know each other's clock over a real data channel, within
// the bounds that they state, and that the channel is what the stamps need. That a message without
// a right header does no harm, TestBadHeader of examples/quic proves for all channels.
package main

import (
	"testing"

	"github.com/pion/webrtc/v4"

	"timesync/examples/channel/channelbench"
	"timesync/internal/testkit"
)

func TestBench(t *testing.T) { channelbench.Test(t, connect) }

// TestUnreliable: reliable or ordered messages would be late, and look like a longer path.
func TestUnreliable(t *testing.T) {
	conn, err := loopback().NewPeerConnection(webrtc.Configuration{})
	testkit.Must(t, err)
	defer conn.Close()
	options := Unreliable()
	channel, err := conn.CreateDataChannel("timed", &options)
	testkit.Must(t, err)
	if again := channel.MaxRetransmits(); channel.Ordered() || again == nil || *again != 0 {
		t.Errorf("ordered: %v, sent again: %v", channel.Ordered(), again)
	}
}
