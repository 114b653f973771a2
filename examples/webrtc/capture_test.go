// SPDX-License-Identifier: BSD-3-Clause

// This test proves that whoever receives a frame with its time of capture, over a real connection,
// can tell by the sender's clock when that was.
package main

import (
	"context"
	"testing"
	"time"

	"github.com/pion/rtp"
	"github.com/pion/webrtc/v4"

	"timesync"
	"timesync/clock"
	"timesync/examples/internal/exampletest"
	"timesync/link"
)

func TestCaptureTime(t *testing.T) {
	// A camera 30 ms away, whose clock was set to another year.
	const delay = 30_000
	now := clock.Now()
	ahead := 1_600_000_000_000_000 - now // wraps
	captured := clock.Time(now)
	var camera, forwarder link.Link
	for at := now - 2_000_000; int64(now-at) > 0; at += 20_000 {
		forwarder.Open(camera.AppendHeader(nil, at+ahead), at+delay)
		camera.Open(forwarder.AppendHeader(nil, at), at+ahead+delay)
	}
	known, _ := forwarder.Snapshot(now)
	exampletest.Must(t, known.Within(50*time.Millisecond))
	for _, s := range []timesync.Snapshot{known, {}} {
		got := send(t, *CaptureTime(s, now+ahead))
		if there := got.CaptureTime(); there.Sub(time.UnixMicro(int64(now+ahead))).Abs() > time.Microsecond {
			t.Errorf("the camera's clock said %v, not %v", time.UnixMicro(int64(now+ahead)), there)
		}
		offset := got.EstimatedCaptureClockOffsetDuration()
		if s.ErrorBound == 0 {
			if offset != nil {
				t.Errorf("an unknown clock has an offset of %v", *offset)
			}
			continue
		}
		here := got.CaptureTime().Add(-*offset)
		if off := here.Sub(captured.Round(0)); off.Abs() > time.Millisecond {
			t.Errorf("captured at %v, read as %v: %v off", captured, here, off)
		}
	}
}

// send sends a packet with the extension over a connection on loopback, and returns the extension
// as it arrives.
func send(t *testing.T, extension rtp.AbsCaptureTimeExtension) (got rtp.AbsCaptureTimeExtension) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var ends [2]*webrtc.PeerConnection
	for i := range ends {
		var m webrtc.MediaEngine
		exampletest.Must(t, m.RegisterDefaultCodecs())
		exampletest.Must(t, m.RegisterHeaderExtension(webrtc.RTPHeaderExtensionCapability{URI: CaptureTimeURI}, webrtc.RTPCodecTypeVideo))
		var err error
		ends[i], err = loopback(webrtc.WithMediaEngine(&m)).NewPeerConnection(webrtc.Configuration{})
		exampletest.Must(t, err)
		defer ends[i].Close()
	}
	track, err := webrtc.NewTrackLocalStaticRTP(webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeVP8}, "camera", "camera")
	exampletest.Must(t, err)
	sender, err := ends[0].AddTrack(track)
	exampletest.Must(t, err)
	packets := make(chan *rtp.Packet, 1)
	ends[1].OnTrack(func(remote *webrtc.TrackRemote, receiver *webrtc.RTPReceiver) {
		if p, _, err := remote.ReadRTP(); err == nil {
			packets <- p
		}
	})
	exampletest.Must(t, introduce(ends[0], ends[1]))
	id := uint8(0)
	for _, e := range sender.GetParameters().HeaderExtensions {
		if e.URI == CaptureTimeURI {
			id = uint8(e.ID)
		}
	}
	payload, err := extension.Marshal()
	if err != nil || id == 0 {
		t.Fatalf("extension number %d, %v", id, err)
	}
	for n := uint16(0); ; n++ { // until the connection stands
		p := &rtp.Packet{Header: rtp.Header{Version: 2, SequenceNumber: n}, Payload: []byte{1, 2, 3}}
		exampletest.Must(t, p.SetExtension(id, payload))
		exampletest.Must(t, track.WriteRTP(p))
		select {
		case p := <-packets:
			exampletest.Must(t, got.Unmarshal(p.GetExtension(id)))
			return got
		case <-ctx.Done():
			t.Fatal("no packet")
		case <-time.After(20 * time.Millisecond):
		}
	}
}
