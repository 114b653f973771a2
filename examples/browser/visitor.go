// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"encoding/json"
	"log"

	"timesync/examples/channel"
	"timesync/internal/program"
	"timesync/tick"
)

// readLimit is how long a message of a page may be, in bytes: ten times the longest, and little
// enough for a queue of them.
const readLimit = 2048

// unknownDelay stands for the delay of a datagram while the page's clock is not known.
const unknownDelay = -1

// A visitor is one page, over a WebTransport session or a WebSocket.
type visitor struct {
	server   *server
	peer     channel.Peer // keeps time with the page
	up, down *path
	out      queue        // what is to be sent
	recorded func() error // ends the recording

	// These are the room's.
	number    uint32
	figure    figure
	inputs    map[tick.Tick]figure
	delayUsec int32 // of the last datagram
	late      bool  // an input was, since the last Welcome
}

// enter lets a page in whose messages write sends, until ctx ends. Call leave then. wish is what
// the sliders say at first.
func (s *server) enter(
	ctx context.Context, wish string, stream bool, write func(b []byte) error,
) *visitor {
	v := &visitor{
		server:    s,
		up:        newPath(ctx, stream),
		down:      newPath(ctx, stream),
		out:       newQueue(ctx),
		inputs:    map[tick.Tick]figure{},
		delayUsec: unknownDelay,
	}
	v.peer.ReceivedUsec = s.clock.Received
	v.peer.Write = func(b []byte) error {
		v.down.carry(func() { _ = write(b) }) // the reader sees what is wrong
		return nil
	}
	v.wish([]byte(wish))
	s.visits.Add(1)
	var err error
	v.recorded, err = program.Record(&v.peer.Link, s.record, "browser-*.tsr")
	if err != nil {
		log.Print("not recorded: ", err)
	}
	s.room.join(v)
	return v
}

// leave ends what enter began.
func (v *visitor) leave() {
	v.server.room.leave(v)
	if err := v.recorded(); err != nil {
		log.Print("recording: ", err)
	}
	v.server.visits.Done()
}

// send sends a message of the game, some day. The stamp is that of when it is on its way.
func (v *visitor) send(b []byte) {
	v.out.add(func() { _ = v.peer.Send(b, v.server.clock.Now()) }) // Write never fails
}

// receive takes a message of the page when the simulated network delivers it.
func (v *visitor) receive(b []byte) {
	v.up.carry(func() {
		received, err := v.peer.Take(b)
		if err != nil {
			return // no page of ours sent it
		}
		delay := int32(unknownDelay)
		if received.Known {
			delay = int32(received.Delay.Microseconds())
		}
		v.server.room.receive(v, received.Payload, delay)
	})
}

// wish takes what the sliders of the page say. It does not cross the simulated network.
func (v *visitor) wish(b []byte) {
	var wish struct{ Up, Down conditions }
	if json.Unmarshal(b, &wish) == nil {
		v.up.is.Store(&wish.Up)
		v.down.is.Store(&wish.Down)
	}
}
