// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"bytes"
	"encoding/binary"
	"time"

	"timesync"
	"timesync/examples/seal"
	"timesync/link"
)

// A camera sends the capture time, on its own clock, in front of the picture. A forwarder puts its
// view of that clock in front of both. So a relay that serves thousands does not touch the frame,
// and a viewer that joins later has all it needs.
const (
	captureLen = 8
	viewLen    = 63 // bytes that timesync.Snapshot.AppendBinary appends
)

// appendFrame appends a frame to b.
func appendFrame(b []byte, captureUsec uint64, picture []byte) []byte {
	return append(binary.LittleEndian.AppendUint64(b, captureUsec), picture...)
}

// forward returns the payload for a viewer: the forwarder's view of the camera's clock at nowUsec,
// and the frame.
func forward(camera *seal.End, frame []byte, nowUsec uint64) []byte {
	view, _ := camera.Link.Snapshot(nowUsec) // while unknown, the zero value, which says so
	b, _ := view.AppendBinary(nil)           // it never fails
	return append(b, frame...)
}

const (
	// tolerable is the largest error bound of a figure.
	tolerable = 200 * time.Millisecond
	// onWay is more than a frame takes from the forwarder to the viewer.
	onWay = time.Second
	// proof is how long after a frame a report must arrive to prove that no clock was set before
	// the frame. Reports arrive every second, and the first one may be too early to tell.
	proof = 3 * time.Second
)

// figure is the age of a frame on arrival, on the viewer's clock.
type figure struct {
	picture     []byte
	arrivedUsec uint64
	delay       time.Duration // from capture to arrival
	bound       time.Duration // error bound of delay
}

// viewer computes how old frames are when they arrive.
type viewer struct {
	pending []figure // not yet certain
	why     error    // why the last frame has no figure
	// void counts the figures that a clock step has made void.
	void int
}

// take takes a datagram of the forwarder, whose clock the link forwarder knows. It returns the
// figures that have become certain.
func (v *viewer) take(forwarder *link.Link, d seal.Datagram) (certain []figure) {
	var view timesync.Snapshot
	if len(d.Payload) < viewLen+captureLen || view.UnmarshalBinary(d.Payload[:viewLen]) != nil {
		return nil
	}
	frame := d.Payload[viewLen:]
	relay, _ := forwarder.Snapshot(d.RecvUsec)
	// From the viewer's clock to the relay's, then from the relay's to the camera's.
	camera := relay.Then(view)
	if v.why = camera.Within(tolerable); v.why == nil {
		captured := camera.LocalTime(binary.LittleEndian.Uint64(frame))
		v.pending = append(v.pending, figure{
			picture:     bytes.Clone(frame[captureLen:]),
			arrivedUsec: d.RecvUsec,
			delay:       time.Duration(d.RecvUsec-captured) * time.Microsecond,
			bound:       camera.At(captured).ErrorBound,
		})
	}
	return v.confirm(camera, d.RecvUsec)
}

// confirm returns the figures that have become certain. The next reports reveal a clock step, so a
// figure waits for one that arrives later. The figure is void if, by then, a clock step was
// noticed, one of the three ends has restarted, or Within fails.
func (v *viewer) confirm(camera timesync.Snapshot, nowUsec uint64) (certain []figure) {
	for len(v.pending) > 0 {
		f := v.pending[0]
		age := time.Duration(nowUsec-f.arrivedUsec) * time.Microsecond
		if age < camera.Age+proof {
			break
		}
		v.pending = v.pending[1:]
		if camera.Within(tolerable) == nil && camera.SinceStep > age+onWay {
			certain = append(certain, f)
		} else {
			v.void++
		}
	}
	return certain
}
