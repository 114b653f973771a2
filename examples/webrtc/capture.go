// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"time"

	"github.com/pion/rtp"

	"timesync"
	"timesync/clock"
)

// CaptureTimeURI names RTP's header extension for the time of capture. Register it with the
// MediaEngine of both ends.
const CaptureTimeURI = "http://www.webrtc.org/experiments/rtp-hdrext/abs-capture-time"

// CaptureTime returns that extension for a frame that the other end of a link captured at
// captureUsec, by its clock, and that this end now sends on. s is what the link knows of that
// clock, of readings of package clock. The receiver gets both what the capturer's clock said, as
// microseconds since 1970, and the estimated offset of that clock from the NTP clock of this end's
// sender reports, time.Now. So it can tell when the frame was captured by a clock that it knows.
//
// While the other clock is not known, there is no offset: then only differences between capture
// times mean something.
func CaptureTime(s timesync.Snapshot, captureUsec uint64) *rtp.AbsCaptureTimeExtension {
	there := time.UnixMicro(int64(captureUsec))
	if !s.Known() {
		return rtp.NewAbsCaptureTimeExtension(there)
	}
	now := time.Now()
	ago := time.Duration(clock.At(now)-s.LocalTime(captureUsec)) * time.Microsecond
	// By the wall clock, which may have been set since the process started.
	here := now.Add(-ago).Round(0)
	return rtp.NewAbsCaptureTimeExtensionWithCaptureClockOffset(there, there.Sub(here))
}
