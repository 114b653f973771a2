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
	// Offset is the capturer's clock minus that of the end that sends this, as that end
	// estimates it. The latter is the clock of its sender reports. It means something only if
	// Known.
	Offset Span
	Known  bool // there is an Offset
}

// Forward returns what an end says that sends on a frame, which another end captured at
// capturedUsec of its clock. s is what this end's Link knows of that clock. nowUsec is now on
// this end's clock, as the Link has it, and now on the clock of this end's sender reports:
// FromUsec(nowUsec), or FromTime(time.Now()). While the other clock is not known there is no
// offset, and only differences between times of capture mean something.
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
