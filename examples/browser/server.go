// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"time"

	"github.com/coder/websocket"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/webtransport-go"

	"timesync/examples/browser/client"
	"timesync/examples/browser/game"
	"timesync/internal/program"
	"timesync/tick"
)

// server serves the page, and the game to it.
type server struct {
	clock    program.Clock   // starts anywhere, as that of another machine
	greeting client.Greeting // but for the player's number and key
	room     *room
	// isolated sends the headers that make the page's clock finer: it steps by 5 us, not by 100. A test changes it.
	isolated bool
	record   string // the folder for recordings of sessions; empty: none

	wt       *webtransport.Server
	udp      net.PacketConn
	http     *http.Server
	listener net.Listener
	stop     context.CancelFunc
	ctx      context.Context
}

// serve starts a server at an address, of which the port may be 0.
func serve(addr string, p page, record string) (*server, error) {
	s := &server{clock: program.Clock{Start: mathrand.Uint64N(1 << 50)}, isolated: true, record: record}
	var err error
	if s.listener, s.udp, err = listen(addr); err != nil {
		return nil, err
	}
	cert, _ := program.Certificate()
	hash := sha256.Sum256(cert.Certificate[0])
	s.greeting = client.Greeting{
		UnixAtZero: time.Now().UnixMicro() - int64(s.clock.Now()),
		URL:        fmt.Sprintf("https://%s/stamps?key=", s.listener.Addr()),
		Hash:       hash[:],
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.room = &room{clock: s.clock.Now, seats: map[string]*visitor{}}
	s.room.setRate(defaultRate)
	go program.Every(s.ctx.Done(), time.Millisecond, s.room.advance)
	s.serveWebTransport(cert)
	s.http = &http.Server{Handler: s.routes(p), ReadHeaderTimeout: 10 * time.Second}
	go s.http.Serve(s.listener)
	return s, nil
}

// listen listens at one port, by TCP and by UDP, so that both are one origin.
func listen(addr string) (l net.Listener, u net.PacketConn, err error) {
	const attempts = 10 // a free port of TCP is seldom taken for UDP
	for range attempts {
		if l, err = net.Listen("tcp", addr); err != nil {
			return nil, nil, err
		}
		if u, err = net.ListenPacket("udp", l.Addr().String()); err == nil {
			return l, u, nil
		}
		l.Close()
	}
	return nil, nil, err
}

// serveWebTransport starts the WebTransport server.
func (s *server) serveWebTransport(cert tls.Certificate) {
	s.wt = &webtransport.Server{H3: &http3.Server{
		TLSConfig: http3.ConfigureTLSConfig(&tls.Config{Certificates: []tls.Certificate{cert}}),
		// A page that is gone without a word is noticed after a few seconds.
		QUICConfig: &quic.Config{
			EnableDatagrams:                  true,
			EnableStreamResetPartialDelivery: true,
			MaxIdleTimeout:                   10 * time.Second,
			KeepAlivePeriod:                  2 * time.Second,
		},
		Handler: http.HandlerFunc(s.onSession),
	}}
	webtransport.ConfigureHTTP3Server(s.wt.H3)
	go s.wt.Serve(s.udp)
}

// address returns where the page is.
func (s *server) address() string { return "http://" + s.listener.Addr().String() + "/" }

// close ends everything that serve started.
func (s *server) close() {
	s.stop()
	s.http.Close()
	s.wt.Close()
	s.udp.Close()
}

// routes says what is where.
func (s *server) routes(p page) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir("static")))
	for name, file := range p {
		mux.HandleFunc("/"+name, func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) })
	}
	mux.HandleFunc("/game", s.onWebSocket)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store") // the page and the server belong together
		h.Set("Content-Security-Policy", fmt.Sprintf(
			"default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self' https://%[1]s ws://%[1]s", s.listener.Addr()))
		if s.isolated {
			h.Set("Cross-Origin-Opener-Policy", "same-origin")
			h.Set("Cross-Origin-Embedder-Policy", "require-corp")
		}
		mux.ServeHTTP(w, r)
	})
}

// onWebSocket lets a page in.
func (s *server) onWebSocket(w http.ResponseWriter, r *http.Request) {
	ws, err := websocket.Accept(w, r, nil) // which checks the origin
	if err != nil {
		return // and has answered
	}
	defer ws.CloseNow()
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	v := &visitor{
		server: s,
		key:    rand.Text(),
		ctx:    ctx,
		ws:     ws,
		up:     newPath(ctx, true),
		down:   newPath(ctx, false),
		out:    newQueue(ctx),
		inputs: map[tick.Tick]game.Figure{},
	}
	s.room.join(v)
	defer s.room.leave(v)
	v.readMessages()
}

// onSession lets the WebTransport session of a page in.
func (s *server) onSession(w http.ResponseWriter, r *http.Request) {
	v := s.room.visitor(r.FormValue("key"))
	if v == nil {
		http.Error(w, "no such player", http.StatusForbidden)
		return
	}
	session, err := s.wt.Upgrade(w, r) // which checks the origin
	if err != nil {
		http.Error(w, "this is for WebTransport", http.StatusBadRequest)
		return
	}
	v.readDatagrams(session)
	_ = session.CloseWithError(0, "")
	v.ws.CloseNow() // the page begins anew
}
