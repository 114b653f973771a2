// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/coder/websocket"

	"timesync/ping"
)

// eventEvery is how often something happens that the dashboard is told of.
const eventEvery = 3 * time.Second

// events tells dashboard.html when something has happened, by the server's clock, and answers its
// questions for the time. This file needs no other one of the folder.
type events struct {
	now, received func() uint64   // clock.Now and clock.Received of package timesync/clock
	ctx           context.Context // until the server ends
}

// ServeHTTP serves /events.
func (e *events) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ws, err := websocket.Accept(w, r, nil) // which checks the origin
	if err != nil {
		return // it has been answered
	}
	defer ws.CloseNow()
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	go e.tell(ctx, ws)
	for {
		_, b, err := ws.Read(ctx)
		received := e.received() // before anything else
		if err != nil {
			return
		}
		if reply, ok := ping.AppendReply(nil, b, 0, received, e.now()); ok {
			_ = ws.Write(ctx, websocket.MessageBinary, reply) // the next Read says what is wrong
		}
	}
}

// tell sends the time of each event as text.
func (e *events) tell(ctx context.Context, ws *websocket.Conn) {
	for ctx.Err() == nil {
		happened := e.now()
		text := strconv.FormatUint(happened, 10)
		_ = ws.Write(ctx, websocket.MessageText, []byte(text))
		select {
		case <-ctx.Done():
		case <-time.After(eventEvery):
		}
	}
}
