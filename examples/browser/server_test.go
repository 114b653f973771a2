// SPDX-License-Identifier: BSD-3-Clause

// These tests prove the server without a browser, by the same WebSocket and WebTransport.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/webtransport-go"

	"timesync/examples/browser/client"
	"timesync/examples/browser/game"
	"timesync/internal/testkit"
	"timesync/tick"
)

// gamePath is where the WebSocket is.
func gamePath(s *server) string { return strings.Replace(s.address(), "http", "ws", 1) + "game" }

// player is a page that only listens.
type player struct {
	t        *testing.T
	ctx      context.Context
	ws       *websocket.Conn
	greeting client.Greeting
}

// connect connects one.
func connect(t *testing.T, s *server) *player {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	ws, _, err := websocket.Dial(ctx, gamePath(s), nil)
	testkit.Must(t, err)
	t.Cleanup(func() { ws.CloseNow() })
	p := &player{t: t, ctx: ctx, ws: ws}
	testkit.Must(t, wsjson.Read(ctx, ws, &p.greeting))
	return p
}

// wait waits until so many are on the platform, the server's figure among them, at so many ticks a second.
func (p *player) wait(players int, hz uint32) {
	p.t.Helper()
	for welcome := (tick.Welcome{}); ; {
		_, b, err := p.ws.Read(p.ctx)
		if err != nil {
			p.t.Fatalf("no %d players at %d ticks a second: %v", players, hz, err)
		}
		if b[0] == game.KindWelcome {
			testkit.Must(p.t, welcome.UnmarshalBinary(b[1:]))
		}
		if state, ok := game.ReadState(b); ok && len(state.Players) == players && welcome.Rate == tick.Hz(hz) {
			return
		}
	}
}

// dialStamps opens the WebTransport session of a greeting. That the certificate is one that a browser takes by its
// hash, the tests in Chromium prove.
func dialStamps(t *testing.T, g client.Greeting) (*webtransport.Session, error) {
	dialer := &webtransport.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h3"}},
		QUICConfig:      &quic.Config{EnableDatagrams: true, EnableStreamResetPartialDelivery: true},
	}
	t.Cleanup(func() { dialer.Close() })
	_, session, err := dialer.Dial(t.Context(), g.URL, nil)
	return session, err
}

// The tick rate is that of all players, and who leaves is gone.
func TestPlayers(t *testing.T) {
	s := startServer(t, "")
	a, b := connect(t, s), connect(t, s)
	a.wait(3, defaultRate)
	testkit.Must(t, b.ws.Write(b.ctx, websocket.MessageText, []byte(`{"rate":30,"latency":20}`)))
	a.wait(3, 30)
	b.ws.CloseNow()
	a.wait(2, 30)
}

// Nothing that a page sends does harm.
func TestBadInput(t *testing.T) {
	s := startServer(t, "")
	p := connect(t, s)
	session, err := dialStamps(t, p.greeting)
	testkit.Must(t, err)
	defer session.CloseWithError(0, "")
	for _, text := range []string{"", "{", `{"rate":-1}`, `{"rate":4000000000}`, `{"latency":1e300}`, `{"loss":-5}`, `[]`} {
		testkit.Must(t, p.ws.Write(p.ctx, websocket.MessageText, []byte(text)))
	}
	for first := range 256 {
		for _, n := range []int{0, 1, 12, 13, 17, 25, 60} {
			b := bytes.Repeat([]byte{byte(first)}, n)
			testkit.Must(t, p.ws.Write(p.ctx, websocket.MessageBinary, b))
			_ = session.SendDatagram(b) // some are too many
		}
	}
	connect(t, s).wait(3, defaultRate)
}

// Only the page that was given the key opens a session, and only pages of this server a
// WebSocket. A browser is told to load nothing from elsewhere.
func TestStrangers(t *testing.T) {
	s := startServer(t, "")
	wrong := connect(t, s).greeting
	wrong.URL = strings.Replace(wrong.URL, "key=", "key=x", 1)
	if _, err := dialStamps(t, wrong); err == nil {
		t.Error("a wrong key opens a session")
	}
	_, _, err := websocket.Dial(t.Context(), gamePath(s), &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {"http://example.com"}}})
	if err == nil {
		t.Error("a page from elsewhere opens a WebSocket")
	}
	r, err := http.Get(s.address() + "plain.html")
	testkit.Must(t, err)
	r.Body.Close()
	if policy := r.Header.Get("Content-Security-Policy"); r.StatusCode != http.StatusOK || !strings.HasPrefix(policy, "default-src 'self';") {
		t.Errorf("%s: %q", r.Status, policy)
	}
}
