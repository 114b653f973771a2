// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that both ends know each other's clock over a real data channel, within
// the bounds that they state, that the channel is what the stamps need, and that a message
// without a right header does no harm.
package main

import (
	"errors"
	"testing"

	"github.com/pion/webrtc/v4"

	"timesync/clock"
	"timesync/examples/channel"
	"timesync/examples/internal/exampletest"
	"timesync/link"
)

func TestBench(t *testing.T) { exampletest.Bench(t, connect) }

// TestUnreliable: reliable or ordered messages would be late, and look like a longer path.
func TestUnreliable(t *testing.T) {
	conn, err := loopback().NewPeerConnection(webrtc.Configuration{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	options := Unreliable()
	channel, err := conn.CreateDataChannel("timed", &options)
	if err != nil {
		t.Fatal(err)
	}
	if again := channel.MaxRetransmits(); channel.Ordered() || again == nil || *again != 0 {
		t.Errorf("ordered: %v, sent again: %v", channel.Ordered(), again)
	}
}

// TestBadHeader: what is refused is an error to its reader, and the next message is read.
func TestBadHeader(t *testing.T) {
	var from link.Link
	p := &channel.Peer{ReceivedUsec: clock.Received}
	now := clock.Now()
	message := append(from.AppendHeader(nil, now), "payload"...)
	if _, err := p.Take(message[:link.MinHeader-1]); !errors.Is(err, link.ErrTruncated) {
		t.Errorf("a part of a header: %v, want %v", err, link.ErrTruncated)
	}
	got, err := p.Take(message)
	if err != nil || string(got.Payload) != "payload" || got.At < now || got.Known {
		t.Errorf("%+v, %v", got, err)
	}
}
