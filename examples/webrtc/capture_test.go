// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that pion reads the times of capture that package rtptime writes, and the
// other way round, today and after NTP's time has wrapped in 2036.
package main

import (
	"testing"
	"time"

	"github.com/pion/rtcp"
	"github.com/pion/rtp"

	"timesync"
	"timesync/clock"
	"timesync/clock/rtptime"
	"timesync/internal/testkit"
	"timesync/link"
)

// known returns what a forwarder's link knows of a camera's clock, 30 ms away, that is ahead of
// its own.
func known(t *testing.T, now, ahead uint64) timesync.Snapshot {
	t.Helper()
	const delay = 30_000
	var camera, forwarder link.Link
	for at := now - 2_000_000; int64(now-at) > 0; at += 20_000 {
		forwarder.ReadHeader(camera.AppendHeader(nil, at+ahead), at+delay)
		camera.ReadHeader(forwarder.AppendHeader(nil, at), at+ahead+delay)
	}
	s, _ := forwarder.Snapshot(now)
	testkit.Must(t, s.Within(50*time.Millisecond))
	return s
}

// TestCaptureTime: of a camera whose process began an hour before this one and that passes
// readings of package clock, and of one whose clock was set to another year, pion knows when a
// frame was captured.
func TestCaptureTime(t *testing.T) {
	now := clock.Now()
	const ago = 40_000
	for _, year := range []int{0, 2040} {
		wall := clock.Time(now).Round(0)
		if year != 0 {
			wall = time.Date(year, 2, 3, 4, 5, 6, 0, time.UTC)
		}
		for name, ahead := range map[string]uint64{
			"readings of package clock": 3_600_000_000,
			"another year":              1_600_000_000_000_000 - now, // wraps
		} {
			s := known(t, now, ahead)
			captured := now + ahead - ago
			sent, err := CaptureTime(s, captured, now, wall).Marshal()
			testkit.Must(t, err)
			var got rtp.AbsCaptureTimeExtension
			testkit.Must(t, got.Unmarshal(sent))
			there := got.CaptureTime()
			said := time.UnixMicro(int64(captured))
			if there.Sub(said).Abs() > time.Microsecond {
				t.Errorf("%v, %s: the camera's clock said %v, not %v", wall, name, said, there)
			}
			here := there.Add(-*got.EstimatedCaptureClockOffsetDuration())
			if off := here.Sub(wall.Add(-ago * time.Microsecond)); off.Abs() > time.Millisecond {
				t.Errorf("%v, %s: captured at %v, read as %v: %v off", wall, name, wall, here, off)
			}
			ours, err := rtptime.ReadCaptureTime(sent)
			testkit.Must(t, err)
			if off := ours.BySender().Time(wall).Sub(here); off.Abs() > time.Microsecond {
				t.Errorf("%v, %s: pion reads %v, and rtptime %v later", wall, name, here, off)
			}
		}
	}
	unknown := CaptureTime(timesync.Snapshot{}, 7, now, time.Now())
	if offset := unknown.EstimatedCaptureClockOffset; offset != nil {
		t.Errorf("an unknown clock has an offset of %v", *offset)
	}
}

// TestOffset: the offset has pion's sign and unit, and so have times.
func TestOffset(t *testing.T) {
	const ms, year = time.Millisecond, 365 * 24 * time.Hour
	for _, offset := range []time.Duration{0, 1500 * ms, -250 * ms, -20 * year} {
		at := time.Date(2026, 11, 28, 13, 0, 0, 123_456_000, time.UTC)
		b, err := rtp.NewAbsCaptureTimeExtensionWithCaptureClockOffset(at, offset).Marshal()
		testkit.Must(t, err)
		c, err := rtptime.ReadCaptureTime(b)
		testkit.Must(t, err)
		got, captured := c.Offset.Duration(), c.Captured.Time(at)
		if !c.Known || (got-offset).Abs() > 2 || captured.Sub(at).Abs() > 2 { // ns
			t.Errorf("captured at %v, offset %v: read as %v, %v", at, offset, captured, got)
		}
	}
}

// TestSenderReport: pion reads our reports, and we read pion's.
func TestSenderReport(t *testing.T) {
	ours := rtptime.SenderReport{
		SSRC:    7,
		NTP:     rtptime.FromUsec(clock.Now()),
		RTP:     1 << 31,
		Packets: 9,
		Octets:  99,
	}
	b, err := ours.AppendBinary(nil)
	testkit.Must(t, err)
	var read rtcp.SenderReport
	testkit.Must(t, read.Unmarshal(b))
	if got := ReadReport(&read); got != ours {
		t.Errorf("pion reads %+v, want %+v", got, ours)
	}
	theirs := &rtcp.SenderReport{
		SSRC:        8,
		NTPTime:     1 << 63,
		RTPTime:     5,
		PacketCount: 6,
		OctetCount:  1 << 31,
		Reports:     []rtcp.ReceptionReport{{SSRC: 1}},
	}
	b, err = rtcp.Marshal([]rtcp.Packet{theirs, &rtcp.SourceDescription{}})
	testkit.Must(t, err)
	got, err := rtptime.ReadSenderReport(b)
	if want := ReadReport(theirs); err != nil || got != want {
		t.Errorf("read as %+v, %v, want %+v", got, err, want)
	}
}
