// SPDX-License-Identifier: BSD-3-Clause

// These tests prove the server and package client without a browser: a page in Go connects
// by the same WebSocket and WebTransport. They need no built page.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/webtransport-go"

	"timesync/clock"
	"timesync/examples/browser/client"
	"timesync/examples/internal/exampletest"
)

// nativePage is a page in Go.
type nativePage struct {
	t        *testing.T
	client   *client.Client
	ws       *websocket.Conn
	session  *webtransport.Session
	greeting greeting
	arrivals chan func() // each hands over what has come
}

// rawUsec is a clock as of another machine.
func rawUsec() uint64 { return clock.Now() + 1<<45 }

// startBare starts a server without a page.
func startBare(t *testing.T) *server {
	t.Helper()
	s, err := serve("127.0.0.1:0", nil, "")
	exampletest.Must(t, err)
	t.Cleanup(s.close)
	return s
}

// connect connects a page in Go.
func connect(t *testing.T, s *server, stamped bool) *nativePage {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTime)
	t.Cleanup(cancel)
	p := &nativePage{t: t, arrivals: make(chan func(), 1000)}
	var err error
	p.ws, _, err = websocket.Dial(ctx, strings.Replace(s.address(), "http", "ws", 1)+"game", nil)
	exampletest.Must(t, err)
	t.Cleanup(func() { p.ws.CloseNow() })
	exampletest.Must(t, wsjson.Read(ctx, p.ws, &p.greeting))
	p.client = client.New(rawUsec, client.Page{
		Datagram: func(b []byte) { _ = p.session.SendDatagram(b) }, // a loss is a loss
		Message:  func(b []byte) { _ = p.ws.Write(ctx, websocket.MessageBinary, b) },
		Event:    func(line string) { t.Log(line) },
	})
	go p.read(p.client.OnMessage, func() ([]byte, error) { _, b, err := p.ws.Read(ctx); return b, err })
	if stamped {
		p.session, err = dialStamps(t, p.greeting)
		exampletest.Must(t, err)
		t.Cleanup(func() { p.session.CloseWithError(0, "") })
		go p.read(p.client.OnDatagram, func() ([]byte, error) { return p.session.ReceiveDatagram(ctx) })
	}
	p.client.Connect(p.greeting.Greeting, stamped)
	return p
}

// dialStamps opens the WebTransport session of a greeting, as a browser does: it trusts the
// certificate by its hash.
func dialStamps(t *testing.T, g greeting) (*webtransport.Session, error) {
	verify := func(raw [][]byte, _ [][]*x509.Certificate) error {
		if hash := sha256.Sum256(raw[0]); !bytes.Equal(hash[:], g.Hash) {
			t.Error("another certificate")
		}
		cert, err := x509.ParseCertificate(raw[0])
		if err == nil && cert.NotAfter.Sub(cert.NotBefore) >= 14*24*time.Hour {
			t.Error("no browser takes a certificate of 14 days")
		}
		return err
	}
	dialer := &webtransport.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h3"}, VerifyPeerCertificate: verify},
		QUICConfig:      &quic.Config{EnableDatagrams: true, EnableStreamResetPartialDelivery: true},
	}
	t.Cleanup(func() { dialer.Close() })
	_, session, err := dialer.Dial(t.Context(), g.URL, nil)
	return session, err
}

// read hands over what comes, with the time.
func (p *nativePage) read(take func([]byte, uint64), next func() ([]byte, error)) {
	for b, err := next(); err == nil; b, err = next() {
		now := rawUsec()
		p.arrivals <- func() { take(b, now) }
	}
}

// play lets the page run until done, and reports whether that came in time.
func (p *nativePage) play(atMost time.Duration, done func() bool) bool {
	work := time.NewTicker(5 * time.Millisecond)
	defer work.Stop()
	for end := time.Now().Add(atMost); time.Now().Before(end); {
		select {
		case take := <-p.arrivals:
			take()
		case <-work.C:
			p.client.Advance(rawUsec())
			if done() {
				return true
			}
		}
	}
	return false
}

func (p *nativePage) sample() (stamps, pings client.Reading) {
	return p.client.Sample(rawUsec(), float64(time.Now().UnixMicro()))
}

// within reports whether a reading is known, and wrong by less than a millisecond and its
// bound. (Both are read on one machine, 100 us apart at most.)
func within(r client.Reading) bool {
	return r.Bound > 0 && math.Abs(r.Error) < 1000 && math.Abs(r.Error) < r.Bound+100
}

// A page knows the server's time, plays, and is right again after its clock was set.
func TestNativePage(t *testing.T) {
	for _, stamped := range []bool{true, false} {
		p := connect(t, startBare(t), stamped)
		right := func() bool {
			stamps, pings := p.sample()
			return within(pings) && (!stamped || within(stamps)) && p.client.Frame(rawUsec()).Ready
		}
		if !p.play(10*time.Second, right) {
			stamps, pings := p.sample()
			t.Fatalf("stamped %v: not synchronized: %+v, %+v", stamped, stamps, pings)
		}
		p.client.StepClock(100 * time.Second)
		p.play(1100*time.Millisecond, func() bool { return false })
		if !p.play(10*time.Second, right) {
			t.Errorf("stamped %v: not right after a step", stamped)
		}
	}
}

// Two pages see each other, the tick rate is that of both, and who leaves is gone.
func TestNativePlayers(t *testing.T) {
	s := startBare(t)
	a, b := connect(t, s, true), connect(t, s, false)
	sees := func(n int) bool {
		return a.play(10*time.Second, func() bool { return len(a.client.Frame(rawUsec()).Drawn) == n })
	}
	if !sees(3) {
		t.Fatalf("player %d does not see player %d", a.greeting.Player, b.greeting.Player)
	}
	exampletest.Must(t, a.ws.Write(t.Context(), websocket.MessageText, []byte(`{"rate":30,"latency":20}`)))
	if !a.play(10*time.Second, func() bool { return a.client.Frame(rawUsec()).Rate == 30 }) {
		t.Error("the tick rate does not change")
	}
	b.ws.CloseNow()
	if !sees(2) {
		t.Error("who has left is still there")
	}
}

// Nothing that a page sends does harm.
func TestBadInput(t *testing.T) {
	s := startBare(t)
	p := connect(t, s, true)
	for _, text := range []string{"", "{", `{"rate":-1}`, `{"rate":4000000000}`, `{"latency":1e300}`, `{"loss":-5}`, `[]`} {
		exampletest.Must(t, p.ws.Write(t.Context(), websocket.MessageText, []byte(text)))
	}
	for first := range 256 {
		for _, n := range []int{0, 1, 12, 13, 17, 25, 60} {
			b := bytes.Repeat([]byte{byte(first)}, n)
			exampletest.Must(t, p.ws.Write(t.Context(), websocket.MessageBinary, b))
			_ = p.session.SendDatagram(b) // some are too many
			p.client.OnDatagram(b, rawUsec())
			p.client.OnMessage(b, rawUsec())
		}
	}
	if !p.play(10*time.Second, func() bool { return p.client.Frame(rawUsec()).Rate == defaultRate }) {
		t.Error("the game is over")
	}
}

// Only the page that was given the key opens a session, and only pages of this server a
// WebSocket.
func TestStrangers(t *testing.T) {
	s := startBare(t)
	p := connect(t, s, false)
	wrong := p.greeting
	wrong.URL = strings.Replace(wrong.URL, "key=", "key=x", 1)
	if _, err := dialStamps(t, wrong); err == nil {
		t.Error("a wrong key opens a session")
	}
	address := strings.Replace(s.address(), "http", "ws", 1) + "game"
	_, _, err := websocket.Dial(t.Context(), address, &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {"http://example.com"}}})
	if err == nil {
		t.Error("a page from elsewhere opens a WebSocket")
	}
}

// The files of the page are there, and a browser is told to load none from elsewhere.
func TestFiles(t *testing.T) {
	s := startBare(t)
	for path, kind := range map[string]string{
		"": "text/html", "plain.html": "text/html", "page.js": "text/javascript", "plain.js": "text/javascript",
		"style.css": "text/css", "icon.svg": "image/svg+xml",
	} {
		r, err := http.Get(s.address() + path)
		exampletest.Must(t, err)
		r.Body.Close()
		policy := r.Header.Get("Content-Security-Policy")
		if r.StatusCode != http.StatusOK || !strings.HasPrefix(r.Header.Get("Content-Type"), kind) || !strings.HasPrefix(policy, "default-src 'self';") {
			t.Errorf("/%s: %s, %v", path, r.Status, r.Header)
		}
	}
}
