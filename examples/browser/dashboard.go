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

// onDashboard tells dashboard.html when something has happened, by the server's clock, and answers
// its questions for the time.
func (s *server) onDashboard(w http.ResponseWriter, r *http.Request) {
	ws, ok := accept(w, r)
	if !ok {
		return
	}
	defer ws.CloseNow()
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	go s.tellEvents(ctx, ws)
	for {
		_, b, err := ws.Read(ctx)
		received := s.clock.Received() // before anything else
		if err != nil {
			return
		}
		if reply, ok := ping.AppendReply(nil, b, 0, received, s.clock.Now()); ok {
			_ = ws.Write(ctx, websocket.MessageBinary, reply) // the next Read says what is wrong
		}
	}
}

// tellEvents sends the time of each event as text.
func (s *server) tellEvents(ctx context.Context, ws *websocket.Conn) {
	for ctx.Err() == nil {
		happened := s.clock.Now()
		text := strconv.FormatUint(happened, 10)
		_ = ws.Write(ctx, websocket.MessageText, []byte(text))
		select {
		case <-ctx.Done():
		case <-time.After(eventEvery):
		}
	}
}
