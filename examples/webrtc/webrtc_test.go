// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that both ends know each other's clock over a real data channel, within
// the bounds that they state, that the channel is what the stamps need, and that a message
// without a right header does no harm.
package main

import (
	"errors"
	"testing"
	"time"

	"github.com/pion/webrtc/v4"

	"timesync"
	"timesync/examples/internal/bench"
	"timesync/link"
)

// TestBounds is the table, briefly, with the limit that holds on any machine however busy:
// what each end says of its own error.
func TestBounds(t *testing.T) {
	loads := bench.Loads("bulk")
	for _, load := range []bench.Load{loads[0], loads[2]} { // idle, and bulk both ways
		r, err := bench.Measure(t.Context(), load, time.Second, connect)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", r)
		if err := r.CheckBounds(); err != nil {
			t.Error(err)
		}
	}
}

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
	p := NewPeer(nil, timesync.NowUsec)
	now := timesync.NowUsec()
	message := append(from.AppendHeader(nil, now), "payload"...)
	if _, _, _, err := p.Receive(webrtc.DataChannelMessage{Data: message[:link.MinHeader-1]}); !errors.Is(err, link.ErrTruncated) {
		t.Errorf("a part of a header: %v, want %v", err, link.ErrTruncated)
	}
	payload, received, owd, err := p.Receive(webrtc.DataChannelMessage{Data: message})
	if err != nil || string(payload) != "payload" || received < now || owd != 0 {
		t.Errorf("%q at %d, one-way delay %v, %v", payload, received, owd, err)
	}
}
