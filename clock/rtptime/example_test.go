package rtptime_test

import (
	"fmt"
	"time"

	"timesync/clock/rtptime"
	"timesync/link"
)

// A speaker sends sound over RTP, and stamps its packets with a Link besides. Its sender reports
// have readings of its clock, so the listener knows on its own clock when each frame was captured.
func ExampleSenderReport() {
	const delay, ahead = 30_000, 7_000_000_000 // us
	var speaker, listener link.Link
	now := uint64(1_600_000_000_000_000) // on the listener's clock
	for range 20 {
		listener.ReadHeader(speaker.AppendHeader(nil, now+ahead-delay), now)
		speaker.ReadHeader(listener.AppendHeader(nil, now-delay), now+ahead)
		now += 20_000
	}

	// The speaker: RTP time 960 was captured 50 ms ago.
	report := rtptime.SenderReport{SSRC: 7, NTP: rtptime.FromUsec(now + ahead - 50_000), RTP: 960}
	packet, _ := report.AppendBinary(nil)

	// The listener gets a frame with RTP time 1920, that is 20 ms later.
	got, err := rtptime.ReadSenderReport(packet)
	if err != nil {
		fmt.Println(err)
		return
	}
	s, _ := listener.Snapshot(now)
	captured := s.LocalTime(got.At(1920, 48_000).Usec(s.RemoteUsec)) // for playout.Buffer.Push
	ago := time.Duration(now-captured) * time.Microsecond
	fmt.Println("captured", ago.Round(time.Millisecond), "ago")
	// Output: captured 30ms ago
}
