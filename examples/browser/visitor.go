// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"encoding/json"
	"log"
	"sync/atomic"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/quic-go/webtransport-go"

	"timesync/examples/browser/game"
	"timesync/examples/channel"
	"timesync/internal/program"
	"timesync/ping"
	"timesync/tick"
)

// readLimit is how long a message of a page may be, in bytes: ten times the longest, and
// little enough for a queue of them.
const readLimit = 2048

// A visitor is one page. It has a WebSocket, and a WebTransport session if its browser can
// and wants.
type visitor struct {
	server *server
	// By key its WebTransport session proves to be its.
	key      string
	ctx      context.Context
	ws       *websocket.Conn
	up, down *path
	stamped  atomic.Pointer[channel.Peer] // over the WebTransport session
	out      queue                        // what is to be sent of the game

	// These are the room's.
	player uint32
	figure game.Figure
	inputs map[tick.Tick]game.Figure // by the tick for which they were sent
}

// greet sends the greeting.
func (v *visitor) greet() {
	g := v.server.greeting
	g.Player = v.player
	g.URL += v.key
	_ = wsjson.Write(v.ctx, v.ws, g) // the reader sees what is wrong
}

// send sends a message of the game, some day.
func (v *visitor) send(b []byte) {
	v.out.add(func() {
		if peer := v.stamped.Load(); peer != nil {
			_ = peer.Send(b, v.server.clock.Now()) // it never fails, see readDatagrams
		} else {
			v.message(b)
		}
	})
}

// message sends a message over the WebSocket.
func (v *visitor) message(b []byte) {
	v.down.message(func() {
		_ = v.ws.Write(v.ctx, websocket.MessageBinary, b) // the reader sees what is wrong
	})
}

// readMessages reads the WebSocket until it ends.
func (v *visitor) readMessages() {
	v.ws.SetReadLimit(readLimit)
	for {
		kind, b, err := v.ws.Read(v.ctx)
		if err != nil {
			return
		}
		if kind == websocket.MessageBinary {
			v.up.message(func() { v.onMessage(b) })
			continue
		}
		var c conditions
		if json.Unmarshal(b, &c) == nil {
			v.up.is.Store(&c)
			v.down.is.Store(&c)
			v.server.room.setRate(c.Rate)
		}
	}
}

// onMessage takes a binary message of the WebSocket that has arrived.
func (v *visitor) onMessage(b []byte) {
	received := v.server.clock.Received()
	if reply, ok := ping.AppendReply(nil, b, 0, received, v.server.clock.Now()); ok {
		v.message(reply)
	} else {
		v.server.room.receive(v, b)
	}
}

// readDatagrams reads the session until it ends.
func (v *visitor) readDatagrams(session *webtransport.Session) {
	peer := &channel.Peer{ReceivedUsec: v.server.clock.Received, Write: func(b []byte) error {
		// It may fail when the page is gone, which readers see.
		v.down.datagram(func() { _ = session.SendDatagram(b) })
		return nil
	}}
	recorded, err := program.Record(&peer.Link, v.server.record, "browser-*.tsr")
	if err != nil {
		log.Print("not recorded: ", err)
	}
	defer func() {
		if err := recorded(); err != nil {
			log.Print("recording: ", err)
		}
	}()
	v.stamped.Store(peer)
	for {
		b, err := session.ReceiveDatagram(v.ctx)
		if err != nil {
			return
		}
		v.up.datagram(func() {
			if r, err := peer.Take(b); err == nil {
				v.server.room.receive(v, r.Payload)
			}
		})
	}
}
