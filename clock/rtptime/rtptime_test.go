// These tests prove that times of capture are those of the RFCs, and mean the same to all
// readers, today and after NTP's time has wrapped in 2036. examples/webrtc lets pion read them.
package rtptime

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"timesync"
	"timesync/link"
)

// TestFigures: the figures of RFC 3550 (6.4.1, the example of a round trip) and of RFC 5905
// (figure 4).
func TestFigures(t *testing.T) {
	date := func(y, mo, d, h, mi, s, ms int) time.Time {
		return time.Date(y, time.Month(mo), d, h, mi, s, ms*1e6, time.UTC)
	}
	for _, c := range []struct {
		at   time.Time
		want NTP
	}{
		{date(1995, 11, 10, 11, 33, 25, 125), 0xb44db705_20000000},
		{date(1995, 11, 10, 11, 33, 36, 500), 0xb44db710_80000000},
		{date(1900, 1, 1, 0, 0, 0, 0), 0},
		{date(1970, 1, 1, 0, 0, 0, 0), 2_208_988_800 << 32},
		{date(1972, 1, 1, 0, 0, 0, 0), 2_272_060_800 << 32},
		{date(1999, 12, 31, 0, 0, 0, 0), 3_155_587_200 << 32},
		{date(2036, 2, 7, 6, 28, 16, 0), 0},
		{date(2036, 2, 8, 0, 0, 0, 0), 63_104 << 32},
	} {
		if got := FromTime(c.at); got != c.want {
			t.Errorf("%v: %#x, want %#x", c.at, got, c.want)
		}
		if got := c.want.Time(c.at.AddDate(60, 0, 0)); !got.Equal(c.at) {
			t.Errorf("%#x near %v: %v", c.want, c.at, got)
		}
		if usec := c.at.UnixMicro(); usec >= 0 {
			if got := FromUsec(uint64(usec)); got != c.want {
				t.Errorf("%v: %#x, want %#x", c.at, got, c.want)
			}
		}
	}
	// A - DLSR - LSR of RFC 3550.
	sent := NTP(0xb44db705_20000000)
	arrived := NTP(0xb44db710_80000000)
	const held = Span(0x0005_4000 << 16)
	if got := (arrived.Sub(sent) - held).Duration(); got != 6125*time.Millisecond {
		t.Errorf("the round trip takes %v", got)
	}
}

// TestRoundTrip: readings, times and durations come back to the microsecond, within 68 years.
func TestRoundTrip(t *testing.T) {
	const seed = 75_100_000
	rng := rand.New(rand.NewPCG(seed, 'n'))
	for range 100_000 {
		const far = 67 * 365.25 * 86_400e6
		usec := far + rng.Uint64()>>(1+rng.IntN(63))
		near := usec + uint64(int64((2*rng.Float64()-1)*far))
		if got := FromUsec(usec).Usec(near); got != usec {
			t.Fatalf("seed %d: %d near %d is read as %d", seed, usec, near, got)
		}
		at := time.UnixMicro(rng.Int64N(1 << 52))
		apart := time.Duration((2*rng.Float64() - 1) * far * 1000)
		if got := FromTime(at).Time(at.Add(apart)); got.Sub(at).Abs() > 1 {
			t.Fatalf("seed %d: %v is read as %v", seed, at, got)
		}
		if now := uint64(at.UnixMicro()); FromTime(at) != FromUsec(now) {
			t.Fatalf("seed %d: %v and %d us are two times", seed, at, now)
		}
		d := time.Duration(rng.Int64N(1<<61) - 1<<60)
		if got := SpanOf(d).Duration(); (got - d).Abs() > 1 {
			t.Fatalf("seed %d: %v is %v", seed, d, got)
		}
	}
}

// known returns what a forwarder's Link knows of a camera's clock, 30 ms away, that is ahead of
// its own.
func known(now, ahead uint64) timesync.Snapshot {
	const delay = 30_000
	var camera, forwarder link.Link
	for at := now - 2_000_000; int64(now-at) > 0; at += 20_000 {
		forwarder.ReadHeader(camera.AppendHeader(nil, at+ahead), at+delay)
		camera.ReadHeader(forwarder.AppendHeader(nil, at), at+ahead+delay)
	}
	s, _ := forwarder.Snapshot(now)
	return s
}

// usecOf is a date as microseconds since 1970.
func usecOf(year int) uint64 {
	return uint64(time.Date(year, 7, 1, 12, 0, 0, 0, time.UTC).UnixMicro())
}

// TestForward: whoever receives a frame knows when it was captured by the sender's clock: our
// own reader, and a page, which has the fields captureTimestamp and senderCaptureTimeOffset,
// milliseconds since 1900. So it is with clocks of every kind, in 2026 and beyond 2036.
func TestForward(t *testing.T) {
	for _, year := range []int{2026, 2036, 2040, 2080} {
		for name, camera := range map[string]uint64{ // what the camera's clock shows
			"readings of package clock": usecOf(2020) + 3_600_000_000,
			"a wall clock":              usecOf(year) + 40_000,
			"set to another year":       usecOf(2005),
			"since it was switched on":  5_000_000,
		} {
			wall := usecOf(year)       // the sender's reports
			own := usecOf(2020) + 7e12 // the sender's clock for its Links
			s := known(own, camera-own)
			const ago = 25_000
			c := Forward(s, camera-ago, own, FromUsec(wall))
			b, _ := c.AppendBinary(nil)
			got, err := ReadCaptureTime(b)
			if err != nil || got != c || !c.Known || len(b) != CaptureTimeLongLen {
				t.Fatalf("%d, %s: %+v, %v, want %+v", year, name, got, err, c)
			}
			if off := int64(got.BySender().Usec(wall) - (wall - ago)); max(off, -off) > 1000 {
				t.Errorf("%d, %s: read %d us off", year, name, off)
			}
			if there := got.Captured.Usec(camera); there != camera-ago {
				t.Errorf("%d, %s: the camera said %d, not %d", year, name, camera-ago, there)
			}
			// Chromium's fields, and what a page makes of them: milliseconds since 1970, of the
			// turn of 136 years that is nearest to Date.now().
			const turn = 4294967296e3
			stamp := float64(got.Captured) / (1 << 32) * 1000
			offset := float64(got.Offset) / (1 << 32) * 1000
			page := stamp - offset - 2208988800000
			date := float64(wall) / 1000
			page += math.Round((date-page)/turn) * turn
			if off := page - (date - ago/1000); math.Abs(off) > 1 {
				t.Errorf("%d, %s: a page reads it %v ms off", year, name, off)
			}
			if unwrapped := stamp - offset - 2208988800000; name == "readings of package clock" &&
				math.Abs(unwrapped-(date-ago/1000)) > 1 {
				t.Errorf("%d, %s: a page that does not know of 2036 reads it %v years off",
					year, name, (unwrapped-date)/86_400e3/365.25)
			}
		}
	}
	c := Forward(timesync.Snapshot{}, 7, 8, 9)
	if c.Known || c.Captured != FromUsec(7) || c.BySender() != FromUsec(7) {
		t.Errorf("of a clock that is not known: %+v", c)
	}
}

// TestTwoLegs: where the sender's reports are of its readings, a viewer knows on its own clock
// when the camera captured a frame.
func TestTwoLegs(t *testing.T) {
	camera := usecOf(2022)
	relay := usecOf(2024)
	viewer := usecOf(2020)
	const captured = 80_000 // us ago
	toCamera := known(relay, camera-relay)
	toRelay := known(viewer, relay-viewer)
	c := Forward(toCamera, camera-captured, relay, FromUsec(relay))
	if off := int64(c.LocalUsec(toRelay) - (viewer - captured)); max(off, -off) > 100 {
		t.Errorf("%d us off", off)
	}
}

// TestReport: a report is that of RFC 3550, is found in a compound packet, and gives each RTP
// time a time.
func TestReport(t *testing.T) {
	r := SenderReport{
		SSRC:    0x01020304,
		NTP:     0xb44db705_20000000,
		RTP:     math.MaxUint32 - 89_999,
		Packets: 7,
		Octets:  1000,
	}
	b, _ := r.AppendBinary(nil)
	want := []byte{
		0x80, 200, 0, 6, 1, 2, 3, 4, 0xb4, 0x4d, 0xb7, 5, 0x20, 0, 0, 0,
		0xff, 0xfe, 0xa0, 0x70, 0, 0, 0, 7, 0, 0, 3, 0xe8,
	}
	if !bytes.Equal(b, want) {
		t.Errorf("% x, want % x", b, want)
	}
	receiver := []byte{0x80, 201, 0, 1, 9, 9, 9, 9}
	for _, packet := range [][]byte{
		b, append(receiver[:8:8], b...), append(b[:28:28], receiver...),
	} {
		if got, err := ReadSenderReport(packet); err != nil || got != r {
			t.Errorf("% x: %+v, %v", packet, got, err)
		}
	}
	for _, c := range []struct {
		packet []byte
		want   error
	}{
		{nil, ErrNoReport}, {receiver, ErrNoReport}, {b[:27], ErrShort}, {b[:3], ErrNoReport},
		{append([]byte{0x40}, b[1:]...), ErrNoReport}, {[]byte{0x80, 200, 0, 0}, ErrShort},
	} {
		if _, err := ReadSenderReport(c.packet); !errors.Is(err, c.want) {
			t.Errorf("% x: %v, want %v", c.packet, err, c.want)
		}
	}
	for rtp, later := range map[uint32]time.Duration{
		r.RTP: 0, r.RTP + 45_000: time.Second / 2, 0: time.Second, r.RTP - 90_000: -time.Second,
		r.RTP + math.MaxInt32: 23_860_929_411_111, r.RTP - math.MaxInt32 - 1: -23_860_929_422_222,
	} {
		if got := r.At(rtp, 90_000).Sub(r.NTP).Duration(); (got - later).Abs() > time.Nanosecond {
			t.Errorf("RTP time %d: %v later, want %v", rtp, got, later)
		}
	}
	if _, err := ReadCaptureTime(b[:7]); !errors.Is(err, ErrShort) {
		t.Error(err)
	}
}

// FuzzRead: no bytes make a reader panic, and what is read is written as it was.
func FuzzRead(f *testing.F) {
	b, _ := SenderReport{NTP: 1 << 40}.AppendBinary(nil)
	f.Add(b)
	f.Add(make([]byte, 16))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := ReadCaptureTime(b); err == nil {
			again, _ := c.AppendBinary(nil)
			if !bytes.Equal(again, b[:len(again)]) {
				t.Errorf("% x is written as % x", b, again)
			}
			c.LocalUsec(timesync.Snapshot{})
		}
		if r, err := ReadSenderReport(b); err == nil {
			again, _ := r.AppendBinary(nil)
			if got, err := ReadSenderReport(again); err != nil || got != r {
				t.Errorf("%+v, %v, want %+v", got, err, r)
			}
			if at := r.At(r.RTP, 1+len(b)); at != r.NTP {
				t.Errorf("%+v: its own RTP time is %v", r, at)
			}
		}
	})
}
