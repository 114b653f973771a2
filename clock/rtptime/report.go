// SPDX-License-Identifier: BSD-3-Clause

package rtptime

import (
	"encoding/binary"
	"errors"
)

// ErrNoReport says that an RTCP packet contains no sender report.
var ErrNoReport = errors.New("rtptime: no sender report")

// SenderReportLen is the length of a sender report without report blocks.
const SenderReportLen = 28

// What stands in RTCP's header (RFC 3550, 6.4.1).
const (
	rtcpVersion  = 2
	senderReport = 200
	headerLen    = 4
)

// SenderReport says which time on the sender's clock belongs to which RTP time of a stream
// (RFC 3550, 6.4.1).
type SenderReport struct {
	SSRC    uint32 // which stream
	NTP     NTP    // a moment on the sender's clock
	RTP     uint32 // the same moment, in units of the stream's clock rate
	Packets uint32 // sent since the stream began
	Octets  uint32 // of payload in them
}

// AppendBinary appends the report as an RTCP packet without report blocks. The error is nil.
func (r SenderReport) AppendBinary(dst []byte) ([]byte, error) {
	dst = append(dst, rtcpVersion<<6, senderReport)
	dst = binary.BigEndian.AppendUint16(dst, SenderReportLen/4-1)
	dst = binary.BigEndian.AppendUint32(dst, r.SSRC)
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.NTP))
	dst = binary.BigEndian.AppendUint32(dst, r.RTP)
	dst = binary.BigEndian.AppendUint32(dst, r.Packets)
	return binary.BigEndian.AppendUint32(dst, r.Octets), nil
}

// ReadSenderReport reads the first sender report of an RTCP packet, which may be a compound one.
// The error is ErrNoReport, or ErrShort where the packet ends too early.
func ReadSenderReport(b []byte) (r SenderReport, err error) {
	for len(b) >= headerLen {
		length := 4 * (int(binary.BigEndian.Uint16(b[2:])) + 1)
		switch {
		case b[0]>>6 != rtcpVersion:
			return r, ErrNoReport
		case length > len(b):
			return r, ErrShort
		case b[1] != senderReport:
			b = b[length:]
			continue
		case length < SenderReportLen:
			return r, ErrShort
		}
		r.SSRC = binary.BigEndian.Uint32(b[4:])
		r.NTP = NTP(binary.BigEndian.Uint64(b[8:]))
		r.RTP = binary.BigEndian.Uint32(b[16:])
		r.Packets = binary.BigEndian.Uint32(b[20:])
		r.Octets = binary.BigEndian.Uint32(b[24:])
		return r, nil
	}
	return r, ErrNoReport
}

// At returns when, on the sender's clock, something was captured that has an RTP time. rate is
// that of the stream's RTP clock, such as 48,000 or 90,000 a second. It must be above 0. The
// time may be 2^31 units from that of the report: 6 hours at 90,000.
func (r SenderReport) At(rtp uint32, rate int) NTP {
	units := int64(int32(rtp - r.RTP))
	seconds := units / int64(rate)
	rest := units % int64(rate)
	return r.NTP.Add(Span(seconds*fraction + rounded(rest*fraction, int64(rate))))
}
