// SPDX-License-Identifier: BSD-3-Clause

// These tests prove the server without a browser, over the same WebSocket and WebTransport.

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/webtransport-go"

	"timesync/clock"
	"timesync/internal/testkit"
	"timesync/js"
	"timesync/link"
	"timesync/ping"
)

// page is an end without a page. It sends stamps, and reads what comes.
type page struct {
	t    *testing.T
	ctx  context.Context
	link link.Link
	send func(b []byte) error
	read func() ([]byte, error)
	wish func(text string) error
}

func newPage(t *testing.T) *page {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return &page{t: t, ctx: ctx}
}

// webSocketAt is where a WebSocket of the server is.
func webSocketAt(s *server, path string) string {
	return strings.Replace(s.address(), "http", "ws", 1) + path
}

// overWebSocket connects one over a WebSocket.
func overWebSocket(t *testing.T, s *server) *page {
	t.Helper()
	p := newPage(t)
	ws, _, err := websocket.Dial(p.ctx, webSocketAt(s, "play"), nil)
	testkit.Must(t, err)
	t.Cleanup(func() { ws.CloseNow() })
	p.send = func(b []byte) error { return ws.Write(p.ctx, websocket.MessageBinary, b) }
	p.read = func() ([]byte, error) {
		_, b, err := ws.Read(p.ctx)
		return b, err
	}
	p.wish = func(text string) error { return ws.Write(p.ctx, websocket.MessageText, []byte(text)) }
	return p
}

// overWebTransport connects one over WebTransport. That the certificate is one that a browser takes
// by its hash, the tests in Chromium prove.
func overWebTransport(t *testing.T, s *server) *page {
	t.Helper()
	p := newPage(t)
	dialer := &webtransport.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h3"}},
		QUICConfig: &quic.Config{
			EnableDatagrams:                  true,
			EnableStreamResetPartialDelivery: true,
		},
	}
	t.Cleanup(func() { dialer.Close() })
	address := strings.Replace(s.address(), "http", "https", 1) + "play"
	_, session, err := dialer.Dial(p.ctx, address, nil)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = session.CloseWithError(0, "") })
	p.send = session.SendDatagram
	p.read = func() ([]byte, error) { return session.ReceiveDatagram(p.ctx) }
	p.wish = func(text string) error {
		stream, err := session.OpenUniStreamSync(p.ctx)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(stream, text); err != nil {
			return err
		}
		return stream.Close()
	}
	return p
}

var transports = map[string]func(*testing.T, *server) *page{
	"WebSocket":    overWebSocket,
	"WebTransport": overWebTransport,
}

// state is what a page reads of one.
type state struct {
	stateHead
	players int
}

// next stamps, and returns the next state.
func (p *page) next() state {
	p.t.Helper()
	for {
		testkit.Must(p.t, p.send(p.link.AppendHeader(nil, clock.Now())))
		b, err := p.read()
		testkit.Must(p.t, err)
		payload, _, _, err := p.link.ReadHeader(b, clock.Received())
		testkit.Must(p.t, err)
		if payload[0] != kindState {
			continue
		}
		var got state
		n, err := binary.Decode(payload[1:], binary.LittleEndian, &got.stateHead)
		testkit.Must(p.t, err)
		got.players = len(payload[1+n:]) / binary.Size(player{})
		return got
	}
}

// wait waits for a state that is so.
func (p *page) wait(what string, is func(state) bool) {
	p.t.Helper()
	for start := time.Now(); !is(p.next()); {
		if time.Since(start) > patience {
			p.t.Fatal("never: ", what)
		}
	}
}

func players(n int) func(state) bool { return func(s state) bool { return s.players == n } }

// Pages see each other over either transport, are told how long their datagrams take, and who
// leaves is gone.
func TestPlayers(t *testing.T) {
	for name, connect := range transports {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, "")
			p := connect(t, s)
			ws, _, err := websocket.Dial(p.ctx, webSocketAt(s, "play"), nil)
			testkit.Must(t, err)
			p.wait("two and the server's figure", players(3))
			testkit.Must(t, ws.CloseNow())
			p.wait("one has left", players(2))
			p.wait("the delay is known", func(s state) bool {
				return s.Delay >= 0 && s.Delay < 1e6
			})
			testkit.Must(t, p.wish(`{"up":{"delay":700},"down":{"delay":100}}`))
			p.wait("the delay is what was wished", func(s state) bool { return s.Delay >= 600_000 })
		})
	}
}

// Nothing that a page sends does harm.
func TestBadInput(t *testing.T) {
	for name, connect := range transports {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t, "")
			p := connect(t, s)
			for _, text := range []string{
				"", "{", "[]", `{}`, `{"up":5}`, `{"up":null}`,
				`{"up":{"delay":1e300}}`, `{"down":{"loss":-5}}`,
			} {
				testkit.Must(t, p.wish(text))
			}
			for first := range 256 {
				for _, n := range []int{0, 1, 12, 13, 17, 25, 60} {
					b := bytes.Repeat([]byte{byte(first)}, n)
					_ = p.send(b) // some are too many
					_ = p.send(append(p.link.AppendHeader(nil, clock.Now()), b...))
				}
			}
			overWebSocket(t, s).wait("the game goes on", players(3))
		})
	}
}

// Only pages of this server open a WebSocket, and a browser is told to load nothing from elsewhere.
func TestStrangers(t *testing.T) {
	s := startServer(t, "")
	elsewhere := &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {"http://example.com"}}}
	for _, path := range []string{"play", "events"} {
		if _, _, err := websocket.Dial(t.Context(), webSocketAt(s, path), elsewhere); err == nil {
			t.Errorf("a page from elsewhere opens a WebSocket to %s", path)
		}
	}
	for _, name := range []string{"", "page.mjs", "timesync.mjs", "greeting"} {
		r, err := http.Get(s.address() + name)
		testkit.Must(t, err)
		r.Body.Close()
		policy := r.Header.Get("Content-Security-Policy")
		if r.StatusCode != http.StatusOK || !strings.HasPrefix(policy, "default-src 'self';") {
			t.Errorf("%q: %s, %q", name, r.Status, policy)
		}
	}
}

// The greeting says what the page needs, and the dashboard is told of events by the server's clock.
func TestGreetingAndEvents(t *testing.T) {
	s := startServer(t, "")
	r, err := http.Get(s.address() + "greeting")
	testkit.Must(t, err)
	defer r.Body.Close()
	var g greeting
	testkit.Must(t, json.NewDecoder(r.Body).Decode(&g))
	if g.World != theWorld || len(g.Hash) != 32 {
		t.Errorf("%+v", g)
	}
	p := newPage(t)
	ws, _, err := websocket.Dial(p.ctx, webSocketAt(s, "events"), nil)
	testkit.Must(t, err)
	defer ws.CloseNow()
	kind, b, err := ws.Read(p.ctx)
	testkit.Must(t, err)
	var happened uint64
	_, err = fmt.Sscan(string(b), &happened)
	testkit.Must(t, err)
	age := s.clock.Now() - happened
	if kind != websocket.MessageText || age > uint64(patience.Microseconds()) {
		t.Errorf("an event of an age of %d us: %q", age, b)
	}
	var asks ping.Clock
	testkit.Must(t, ws.Write(p.ctx, websocket.MessageBinary, asks.AppendRequest(nil, clock.Now())))
	_, b, err = ws.Read(p.ctx)
	testkit.Must(t, err)
	asks.HandleReply(b, clock.Received())
	remote, known := asks.RemoteTime(clock.Now())
	if off := int64(s.clock.Now() - remote); !known || off < -1e6 || off > patience.Microseconds() {
		t.Errorf("known %v, off by %d us", known, off)
	}
}

// The page weighs little beside timesync.mjs.
func TestWeight(t *testing.T) {
	const most = 18_000 // bytes
	own := 0
	for _, name := range []string{
		"index.html", "style.css", "icon.svg", "page.mjs", "game.mjs", "draw.mjs", "transport.mjs",
	} {
		b, err := files.ReadFile("static/" + name)
		testkit.Must(t, err)
		own += gzipped(t, b)
	}
	t.Logf("with gzip the page has %d bytes, and timesync.mjs %d", own, gzipped(t, js.Timesync))
	if own > most {
		t.Errorf("%d bytes are too many", own)
	}
}

func gzipped(t *testing.T, b []byte) int {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	testkit.Must(t, err)
	_, err = w.Write(b)
	testkit.Must(t, err)
	testkit.Must(t, w.Close())
	return out.Len()
}
