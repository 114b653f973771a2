// SPDX-License-Identifier: BSD-3-Clause

package vectors

import (
	"encoding/hex"
	"math/rand/v2"
	"testing"

	"timesync"
	"timesync/link"
)

// payloadTime is a line of payload.jsonl.
type payloadTime struct {
	Event string `json:"event"`                // write, read, bytes
	Bits  int    `json:"bits,omitempty"`       // 23 or 16
	Now   uint64 `json:"now,omitempty,string"` // of read: the own clock, us
	// Time is a reading of the clock of the end that reads, us; of write any, of read the result.
	Time uint64 `json:"time,omitempty,string"`
	TS   uint32 `json:"ts,omitempty"`
	Flag bool   `json:"flag,omitempty"` // of bytes: the 24th bit
	Hex  string `json:"hex,omitempty"`  // of bytes: as they travel
}

// calculate returns a line with its result. s is a synchronizer of which both clocks show the same.
func (l payloadTime) calculate(s *timesync.TimeSynchronizer) payloadTime {
	switch l.Event {
	case "write":
		if ts, ok := s.ToRemoteTime23(l.Time); ok && l.Bits == 23 {
			l.TS = uint32(ts)
		}
		if ts, ok := s.ToRemoteTime16(l.Time); ok && l.Bits == 16 {
			l.TS = uint32(ts)
		}
	case "read":
		if l.Bits == 23 {
			l.Time = timesync.FromLocalTime23(l.Now, timesync.Counter23(l.TS))
		} else {
			l.Time = timesync.FromLocalTime16(l.Now, timesync.Counter16(l.TS))
		}
	case "bytes":
		if l.Bits == 23 {
			l.Hex = hex.EncodeToString(link.AppendTime23(nil, timesync.Counter23(l.TS), l.Flag))
		} else {
			b, _ := timesync.Counter16(l.TS).AppendBinary(nil)
			l.Hex = hex.EncodeToString(b)
		}
	}
	return l
}

// payloadLines returns payload.jsonl without the results.
func payloadLines() (lines []payloadTime) {
	rng := rand.New(rand.NewPCG(48_850_000, 0))
	kinds := []struct {
		bits, shift int
		past        int64 // units that a time may lie back; it may lie ahead by a third of that, less one
	}{{23, 3, 3 << 21}, {16, 9, 3 << 14}}
	for _, k := range kinds {
		ring, unit := uint64(1)<<k.bits, uint64(1)<<k.shift
		times := []uint64{0, 1, 2, 3, 4, 5, 11, 12, 255, 256, 257, 767, 768, 1<<64 - 1, 1<<64 - 4, 1<<64 - 5, 1<<64 - 256, 1<<64 - 257}
		for i := range uint64(4) { // about each side of a wrap
			times = append(times, ring*unit*(i+1)-unit/2, ring*unit*(i+1)-unit/2-1)
		}
		for range 40 {
			times = append(times, rng.Uint64())
		}
		for _, t := range times {
			lines = append(lines, payloadTime{Event: "write", Bits: k.bits, Time: t})
			ts := uint32((t + unit/2) / unit % ring)
			for _, back := range []int64{0, 1, k.past - 1, k.past, k.past + 1, -1, 1 - k.past/3, -k.past / 3, rng.Int64N(1 << k.bits)} {
				lines = append(lines, payloadTime{Event: "read", Bits: k.bits, Now: t + uint64(back)*unit, TS: ts})
			}
			lines = append(lines, payloadTime{Event: "bytes", Bits: k.bits, TS: ts, Flag: k.bits == 23 && rng.Uint64()%2 == 0})
		}
	}
	return lines
}

// TestWirePayload: payload times are written, read and put into bytes as the vectors say.
func TestWirePayload(t *testing.T) {
	// Both clocks show the same: 8 us of delay each way.
	var s timesync.TimeSynchronizer
	s.OnAuthenticatedDatagramTimestamp(1<<23-1, 1<<26)
	s.OnPeerMinDeltaTS24(1, 1<<26)
	s.Anchor(1<<26, 1<<26)
	lines := payloadLines()
	for i, l := range lines {
		if remote, ok := s.RemoteTime(l.Time); !ok || remote != l.Time {
			t.Fatalf("the remote clock shows %d at %d", remote, l.Time)
		}
		lines[i] = l.calculate(&s)
	}
	if *update {
		writeWire(t, "payload.jsonl", lines)
	}
	checkWire(t, "payload.jsonl", func(l payloadTime) payloadTime { return l.calculate(&s) })
}
