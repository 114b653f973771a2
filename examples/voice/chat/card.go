// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"encoding/binary"
	"io"
	"os"
	"time"
)

// output is what plays sound.
type output interface {
	io.Writer
	// queued returns how many samples wait that were written.
	queued() int
}

// pipe is a player behind a pipe.
type pipe struct {
	file *os.File
	ends time.Time // when all that was written has been played, by the clock
}

// Write gives sound to the player.
func (p *pipe) Write(sound []byte) (int, error) {
	length := time.Duration(len(sound)/2) * time.Second / rate
	p.ends = later(p.ends, time.Now()).Add(length)
	return p.file.Write(sound)
}

// queued implements output. Where the system cannot say what is in the pipe, the player is taken
// to run as fast as the clock: then the latency grows or shrinks with the card's error.
func (p *pipe) queued() int {
	if bytes, ok := unread(p.file); ok {
		return bytes / 2
	}
	return int(max(time.Until(p.ends), 0) * rate / time.Second)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// stretch makes so many samples of a frame: each lies on a straight line between two of the
// frame. Without a frame it is silence.
func stretch(sound []byte, samples int) []byte {
	out := make([]byte, 0, 2*samples)
	last := len(sound)/2 - 1
	for i := range samples {
		if last < 0 {
			out = append(out, 0, 0)
			continue
		}
		place := float64(i) * float64(last) / float64(max(samples-1, 1))
		before := int(place)
		after := min(before+1, last)
		part := place - float64(before)
		value := (1-part)*float64(sample(sound, before)) + part*float64(sample(sound, after))
		out = binary.LittleEndian.AppendUint16(out, uint16(int16(value)))
	}
	return out
}

func sample(sound []byte, i int) int16 { return int16(binary.LittleEndian.Uint16(sound[2*i:])) }
