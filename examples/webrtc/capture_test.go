// SPDX-License-Identifier: BSD-3-Clause

// This test proves that whoever receives a frame with its time of capture can tell by the sender's clock when
// that was.
package main

import (
	"testing"
	"time"

	"github.com/pion/rtp"

	"timesync"
	"timesync/clock"
	"timesync/internal/testkit"
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
		forwarder.ReadHeader(camera.AppendHeader(nil, at+ahead), at+delay)
		camera.ReadHeader(forwarder.AppendHeader(nil, at), at+ahead+delay)
	}
	known, _ := forwarder.Snapshot(now)
	testkit.Must(t, known.Within(50*time.Millisecond))
	for _, s := range []timesync.Snapshot{known, {}} {
		sent, err := CaptureTime(s, now+ahead).Marshal()
		testkit.Must(t, err)
		var got rtp.AbsCaptureTimeExtension
		testkit.Must(t, got.Unmarshal(sent))
		if there := got.CaptureTime(); there.Sub(time.UnixMicro(int64(now+ahead))).Abs() > time.Microsecond {
			t.Errorf("the camera's clock said %v, not %v", time.UnixMicro(int64(now+ahead)), there)
		}
		offset := got.EstimatedCaptureClockOffsetDuration()
		if !s.Known() {
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
