// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/webtransport-go"

	"timesync/clock"
	"timesync/examples/internal/program"
)

//go:embed static
var static embed.FS

// options is what tests and the curious change.
type options struct {
	isolated     bool   // send the headers that make the page's clock finer
	webTransport bool   // listen for it
	record       string // folder for recordings of sessions; empty: none
}

// server serves the page, and the game to it.
type server struct {
	options
	clock       func() uint64 // us, from an arbitrary time on
	received    func() uint64 // the same for times of receipt
	unixAtZero  int64         // the time of day when clock was 0, us since 1970
	pingSession uint32        // of package ping: a later server is another
	room        *room
	page        page

	hash     [32]byte // of the certificate
	wt       *webtransport.Server
	udp      net.PacketConn
	http     *http.Server
	listener net.Listener
	stop     context.CancelFunc
	ctx      context.Context

	mu       sync.Mutex
	visitors map[uint32]*visitor
}

// serve starts a server at an address, of which the port may be 0.
func serve(addr string, p page, o options) (*server, error) {
	// The clock starts anywhere, as that of another machine.
	start := rand.Uint64N(1 << 50)
	s := &server{
		options:     o,
		clock:       func() uint64 { return clock.Now() + start },
		received:    func() uint64 { return clock.Received() + start },
		pingSession: rand.Uint32(),
		page:        p,
		visitors:    map[uint32]*visitor{},
	}
	s.unixAtZero = time.Now().UnixMicro() - int64(s.clock())
	var err error
	if s.listener, s.udp, err = listen(addr); err != nil {
		return nil, err
	}
	cert, _, err := program.Certificate()
	if err != nil {
		return nil, err
	}
	s.hash = sha256.Sum256(cert.Certificate[0])
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.room = newRoom(s.clock, func(to *seat, b []byte) { to.owner.send(b) })
	s.serveWebTransport(cert)
	s.http = &http.Server{Handler: s.routes(), ReadHeaderTimeout: 10 * time.Second}
	go s.http.Serve(s.listener)
	return s, nil
}

// listen listens at one port, by TCP and by UDP, so that both are one origin.
func listen(addr string) (net.Listener, net.PacketConn, error) {
	const attempts = 10 // a free port of TCP is seldom taken for UDP
	var errs error
	for range attempts {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return nil, nil, err
		}
		u, err := net.ListenPacket("udp", l.Addr().String())
		if err == nil {
			return l, u, nil
		}
		l.Close()
		errs = errors.Join(errs, err)
	}
	return nil, nil, errs
}

// serveWebTransport starts the WebTransport server.
func (s *server) serveWebTransport(cert tls.Certificate) {
	mux := http.NewServeMux()
	s.wt = &webtransport.Server{H3: &http3.Server{
		TLSConfig: http3.ConfigureTLSConfig(&tls.Config{Certificates: []tls.Certificate{cert}}),
		// A page that is gone without a word is noticed after a few seconds.
		QUICConfig: &quic.Config{
			EnableDatagrams:                  true,
			EnableStreamResetPartialDelivery: true,
			MaxIdleTimeout:                   10 * time.Second,
			KeepAlivePeriod:                  2 * time.Second,
		},
		Handler: mux,
	}}
	webtransport.ConfigureHTTP3Server(s.wt.H3)
	mux.HandleFunc("/stamps", s.onSession)
	if s.webTransport {
		go s.wt.Serve(s.udp)
	}
}

// address returns where the page is.
func (s *server) address() string { return "http://" + s.listener.Addr().String() + "/" }

// close ends everything that serve started.
func (s *server) close() {
	s.stop()
	s.room.close()
	s.http.Close()
	s.wt.Close()
	s.udp.Close()
}

// routes says what is where.
func (s *server) routes() http.Handler {
	files, _ := fs.Sub(static, "static") // it is embedded above
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServerFS(files))
	mux.HandleFunc("/page.wasm", serveBytes("application/wasm", s.page.wasm))
	mux.HandleFunc("/wasm_exec.js", serveBytes("text/javascript", s.page.glue))
	mux.HandleFunc("/timesync.mjs", serveBytes("text/javascript", s.page.module))
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

func serveBytes(contentType string, b []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Content-Length", strconv.Itoa(len(b)))
		_, _ = w.Write(b) // whoever goes away goes away
	}
}

// greeting is the first message of a WebSocket. It tells what the server knows better.
type greeting struct {
	Player      uint32 `json:"player"`
	PingSession uint32 `json:"pingSession"`
	URL         string `json:"url"`  // of the WebTransport session
	Hash        []byte `json:"hash"` // of its certificate
	// UnixAtZero is for the graph of the error alone: the time of day when the server's
	// clock was 0, us since 1970. A page on the same machine reads the same time of day.
	UnixAtZero int64  `json:"unixAtZero"`
	Rate       uint32 `json:"rate"`
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
	v := newVisitor(ctx, s, ws)
	s.mu.Lock()
	s.visitors[v.seat.player] = v
	s.mu.Unlock()
	defer s.forget(v)

	err = wsjson.Write(ctx, ws, greeting{
		Player:      v.seat.player,
		PingSession: s.pingSession,
		URL:         fmt.Sprintf("https://%s/stamps?player=%d&key=%s", s.listener.Addr(), v.seat.player, v.key),
		Hash:        s.hash[:],
		UnixAtZero:  s.unixAtZero,
		Rate:        s.room.rate(),
	})
	if err != nil {
		return
	}
	s.room.greet(v.seat)
	v.readMessages()
}

// forget takes leave of a visitor.
func (s *server) forget(v *visitor) {
	s.room.leave(v.seat)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.visitors, v.seat.player)
}

// onSession lets the WebTransport session of a page in.
func (s *server) onSession(w http.ResponseWriter, r *http.Request) {
	player, _ := strconv.ParseUint(r.FormValue("player"), 10, 32)
	s.mu.Lock()
	v := s.visitors[uint32(player)]
	s.mu.Unlock()
	if v == nil || v.key != r.FormValue("key") {
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
