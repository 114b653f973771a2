// SPDX-License-Identifier: BSD-3-Clause

package rtptime

import (
	"encoding/binary"
	"errors"

	"timesync"
)

// CaptureTimeURI names RTP's header extension for times of capture.
const CaptureTimeURI = "http://www.webrtc.org/experiments/rtp-hdrext/abs-capture-time"

// CaptureTimeLen and CaptureTimeLongLen are the lengths of that extension, without and with an
// offset.
const (
	CaptureTimeLen     = 8
	CaptureTimeLongLen = 16
)

// ErrShort says that bytes end too early.
var ErrShort = errors.New("rtptime: too short")

// CaptureTime is what the extension abs-capture-time says: when a frame was captured.
type CaptureTime struct {
	// Captured is when, by the clock of the end that captured it. Nobody on the way changes it.
	Captured NTP
	// Offset is the capturer's clock minus the clock of the sender's reports, as the sender
	// estimates it. It has a meaning only if Known.
	Offset Span
	Known  bool // whether there is an Offset
}

// Forward returns the capture time to send along with a frame that this end forwards. Another end
// captured the frame when its clock read capturedUsec, and s is the Link's Snapshot of that clock.
// nowUsec and now are the present time: by the Link's clock, and by the clock of this end's sender
// reports, which is FromUsec(nowUsec) or FromTime(time.Now()). While the other clock is not known
// there is no offset, and only differences between capture times have a meaning.
func Forward(s timesync.Snapshot, capturedUsec, nowUsec uint64, now NTP) CaptureTime {
	c := CaptureTime{Captured: FromUsec(capturedUsec)}
	if !s.Known() {
		return c
	}
	ago := FromUsec(nowUsec).Sub(FromUsec(s.LocalTime(capturedUsec)))
	c.Offset = c.Captured.Sub(now.Add(-ago))
	c.Known = true
	return c
}

// AppendBinary appends the extension's 8 or 16 bytes, big-endian. The error is nil.
func (c CaptureTime) AppendBinary(dst []byte) ([]byte, error) {
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.Captured))
	if c.Known {
		dst = binary.BigEndian.AppendUint64(dst, uint64(c.Offset))
	}
	return dst, nil
}

// ReadCaptureTime reads the extension's bytes: all of them, 8 or 16. The error is ErrShort.
func ReadCaptureTime(b []byte) (c CaptureTime, err error) {
	if len(b) < CaptureTimeLen {
		return c, ErrShort
	}
	c.Captured = NTP(binary.BigEndian.Uint64(b))
	if len(b) >= CaptureTimeLongLen {
		c.Offset = Span(binary.BigEndian.Uint64(b[CaptureTimeLen:]))
		c.Known = true
	}
	return c, nil
}

// BySender returns when the frame was captured on the clock of the sender's reports. Without an
// offset the sender itself captured it.
func (c CaptureTime) BySender() NTP {
	if !c.Known {
		return c.Captured
	}
	return c.Captured.Add(-c.Offset)
}

// LocalUsec returns when the frame was captured on our own clock. s is what our Link knows of the
// sender's clock; the sender's reports must be of readings of that clock, not of its wall clock.
func (c CaptureTime) LocalUsec(s timesync.Snapshot) uint64 {
	return s.LocalTime(c.BySender().Usec(s.RemoteUsec))
}
