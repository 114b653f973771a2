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

// What a camera sends with a frame, before the picture: when it was captured, by the camera's clock. A
// forwarder puts its view of that clock in front: a relay that serves thousands does not touch the
// frame, and a viewer that comes later has all it needs.
const (
	captureLen = 8
	viewLen    = 55 // of timesync.Snapshot.AppendBinary
)

// appendFrame appends a frame.
func appendFrame(b []byte, captureUsec uint64, picture []byte) []byte {
	return append(binary.LittleEndian.AppendUint64(b, captureUsec), picture...)
}

// forward returns the payload for a viewer: what the forwarder knows of the camera's clock when it
// forwards, at nowUsec, and the frame.
func forward(camera *seal.End, frame []byte, nowUsec uint64) []byte {
	view, _ := camera.Link.Snapshot(nowUsec) // else it is the zero value, and says so
	b, _ := view.AppendBinary(nil)           // which never fails
	return append(b, frame...)
}

const (
	// tolerable is by how much a figure may be off, at most.
	tolerable = 200 * time.Millisecond
	// onWay is more than a frame takes from the forwarder.
	onWay = time.Second
	// proof is how much later than a frame a report must come to prove that no clock was set before
	// the frame. Reports come every 2 s, and the first after that may come too soon to tell.
	proof = 3 * time.Second
)

// figure says how long a frame was under way, on the viewer's clock.
type figure struct {
	picture     []byte // of the frame
	arrivedUsec uint64
	delay       time.Duration // from its capture to its arrival
	bound       time.Duration // how far off that may be
}

// viewer knows how old frames are when they arrive.
type viewer struct {
	pending []figure // not yet certain
	why     error    // why there is no figure of the last frame
	// void counts the figures that a clock that was set has made void.
	void int
}

// take takes what the forwarder sent, whose clock a link knows, and returns the figures that have become certain.
func (v *viewer) take(forwarder *link.Link, d seal.Datagram) (certain []figure) {
	var view timesync.Snapshot
	if len(d.Payload) < viewLen+captureLen || view.UnmarshalBinary(d.Payload[:viewLen]) != nil {
		return nil
	}
	frame := d.Payload[viewLen:]
	relay, _ := forwarder.Snapshot(d.RecvUsec)
	// From our clock to the relay's, and from that to the camera's.
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

// confirm returns the figures that have become certain. A clock that was set shows with the next
// reports, so a figure waits for one that comes later. It is void if by then a clock was noticed
// to be set after it, if one of the three has started anew, or if the ends have come to doubt.
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
