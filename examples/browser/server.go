// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/webtransport-go"

	"timesync/internal/program"
	"timesync/js"
)

//go:embed static
var files embed.FS

// server serves the page, and the game to it.
type server struct {
	clock    program.Clock // starts anywhere, as that of another machine
	greeting greeting
	room     *room
	// isolated sends the headers that make the page's clock finer: it steps by 5 us, not by 100. A
	// test changes it.
	isolated bool
	record   string // the folder for recordings of connections; empty: none

	wt       *webtransport.Server
	udp      net.PacketConn
	http     *http.Server
	listener net.Listener
	stop     context.CancelFunc
	ctx      context.Context
	visits   sync.WaitGroup // of pages
}

// greeting is what a page must know before it connects.
type greeting struct {
	World world  `json:"world"`
	Hash  []byte `json:"hash"` // of the certificate of WebTransport, SHA-256
	// UnixAtZero is for the graph alone: the time of day when the server's clock was 0, us since
	// 1970. A page on the same machine reads the same time of day, and so knows the true offset.
	UnixAtZero int64 `json:"unixAtZero"`
}

// serve starts a server at an address, of which the port may be 0.
func serve(addr, record string) (*server, error) {
	s := &server{
		clock:    program.Clock{Start: mathrand.Uint64N(1 << 50)},
		isolated: true,
		record:   record,
	}
	var err error
	if s.listener, s.udp, err = listen(addr); err != nil {
		return nil, err
	}
	cert, _ := program.Certificate()
	hash := sha256.Sum256(cert.Certificate[0])
	s.greeting = greeting{
		World:      theWorld,
		Hash:       hash[:],
		UnixAtZero: s.unixAtZero(),
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.room = newRoom(s.clock.Now)
	go program.Every(s.ctx.Done(), time.Millisecond, s.room.advance)
	s.serveWebTransport(cert)
	s.http = &http.Server{Handler: s.routes(), ReadHeaderTimeout: 10 * time.Second}
	go s.http.Serve(s.listener)
	return s, nil
}

// unixAtZero returns the time of day when the server's clock was 0, us since 1970, to 0.1 ms.
func (s *server) unixAtZero() int64 {
	for {
		before := s.clock.Now()
		unix := time.Now().UnixMicro()
		after := s.clock.Now()
		const longest = 100 // us: between readings that are further apart the program was stopped
		if after-before < longest {
			return unix - int64(after)
		}
	}
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

// close ends everything that serve started. Recordings are whole then.
func (s *server) close() {
	s.stop()
	s.http.Close()
	s.wt.Close()
	s.udp.Close()
	s.visits.Wait()
}

// routes says what is where.
func (s *server) routes() http.Handler {
	static, _ := fs.Sub(files, "static") // which is there
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(static))
	mux.HandleFunc("GET /timesync.mjs", func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "timesync.mjs", time.Time{}, bytes.NewReader(js.Timesync))
	})
	mux.HandleFunc("GET /greeting", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s.greeting) // the page sees what is wrong
	})
	mux.HandleFunc("GET /play", s.onWebSocket)
	mux.Handle("GET /events", &events{s.clock.Now, s.clock.Received, s.ctx})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store") // the page and the server belong together
		h.Set("Content-Security-Policy", fmt.Sprintf(
			"default-src 'self'; connect-src 'self' https://%[1]s ws://%[1]s", r.Host))
		if s.isolated {
			h.Set("Cross-Origin-Opener-Policy", "same-origin")
			h.Set("Cross-Origin-Embedder-Policy", "require-corp")
		}
		mux.ServeHTTP(w, r)
	})
}

// accept opens a WebSocket with a page of ours. If it is not ok, the request has been answered.
func accept(w http.ResponseWriter, r *http.Request) (ws *websocket.Conn, ok bool) {
	ws, err := websocket.Accept(w, r, nil) // which checks the origin
	if err != nil {
		return nil, false
	}
	ws.SetReadLimit(readLimit)
	return ws, true
}

// onWebSocket lets a page in that has no WebTransport. A text is a wish, all else is of the game.
func (s *server) onWebSocket(w http.ResponseWriter, r *http.Request) {
	ws, ok := accept(w, r)
	if !ok {
		return
	}
	defer ws.CloseNow()
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	v := s.enter(ctx, r.FormValue("wish"), true, func(b []byte) error {
		return ws.Write(ctx, websocket.MessageBinary, b)
	})
	defer v.leave()
	for {
		kind, b, err := ws.Read(ctx)
		switch {
		case err != nil:
			return
		case kind == websocket.MessageText:
			v.wish(b)
		default:
			v.receive(b)
		}
	}
}

// onSession lets a page in over WebTransport. A stream is a wish, datagrams are of the game.
func (s *server) onSession(w http.ResponseWriter, r *http.Request) {
	session, err := s.wt.Upgrade(w, r) // which checks the origin
	if err != nil {
		http.Error(w, "this is for WebTransport", http.StatusBadRequest)
		return
	}
	defer session.CloseWithError(0, "")
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	v := s.enter(ctx, r.FormValue("wish"), false, session.SendDatagram)
	defer v.leave()
	go func() {
		for {
			stream, err := session.AcceptUniStream(ctx)
			if err != nil {
				return
			}
			b, _ := io.ReadAll(io.LimitReader(stream, readLimit)) // half a wish is none
			v.wish(b)
		}
	}()
	for {
		b, err := session.ReceiveDatagram(ctx)
		if err != nil {
			return
		}
		v.receive(b)
	}
}
