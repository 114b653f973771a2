// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"time"

	"github.com/pion/rtcp"
	"github.com/pion/rtp"

	"timesync"
	"timesync/clock/rtptime"
)

// CaptureTime returns RTP's header extension for the time of capture (rtptime.CaptureTimeURI, to
// be registered with the MediaEngine of both ends). It is for a frame that the other end of a
// link captured at capturedUsec, by its clock, and that this end now sends on, at nowUsec. s is
// what the link knows of that clock.
//
// The receiver gets what the capturer's clock said, and the estimated offset of that clock from
// the clock of this end's sender reports, which pion takes from time.Now: pass that as now. So
// the receiver can tell when the frame was captured by a clock that it knows. While the other
// clock is not known, there is no offset: then only differences between capture times mean
// something.
func CaptureTime(
	s timesync.Snapshot, capturedUsec, nowUsec uint64, now time.Time,
) *rtp.AbsCaptureTimeExtension {
	c := rtptime.Forward(s, capturedUsec, nowUsec, rtptime.FromTime(now))
	e := &rtp.AbsCaptureTimeExtension{Timestamp: uint64(c.Captured)}
	if c.Known {
		offset := int64(c.Offset)
		e.EstimatedCaptureClockOffset = &offset
	}
	return e
}

// ReadReport returns what a sender report says of the sender's clock.
func ReadReport(r *rtcp.SenderReport) rtptime.SenderReport {
	return rtptime.SenderReport{
		SSRC:    r.SSRC,
		NTP:     rtptime.NTP(r.NTPTime),
		RTP:     r.RTPTime,
		Packets: r.PacketCount,
		Octets:  r.OctetCount,
	}
}
