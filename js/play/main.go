// SPDX-License-Identifier: BSD-3-Clause

// Command play is a small game with numbered ticks for pages without WebAssembly, over a WebSocket: players walk
// along a line. It is complete, to copy from; docs/BROWSER.md says what its parts are for. play.mjs is the client.
//
//	cd js/play && go run .  # until you stop it
package main

import (
	"context"
	"embed"
	"encoding/binary"
	"flag"
	"log"
	"maps"
	"net/http"
	"sync/atomic"
	"time"

	"timesync/clock"
	"timesync/ping"
	"timesync/tick"

	"github.com/coder/websocket"
)

// The game's own messages. 1 and 2 are tick's, 0x70 and 0x71 ping's.
const (
	kindInput = 0x10 // epoch 8, tick 8, direction 1: -1, 0 or 1
	kindState = 0x11 // epoch 8, tick 8, and for each player: its number 4, where it is 2
)

// game is all that the server knows. Only the goroutine of run touches it, so that no input slips in between a tick
// and the question whether it is in time.
type game struct {
	server  *tick.Server
	players map[uint64]*player
	do      chan func() // what that goroutine is to do
	count   atomic.Uint64
}

type player struct {
	id     uint64
	out    chan []byte        // what is to be sent
	drop   func()             // ends the connection
	inputs map[tick.Tick]int8 // of ticks to come
	x      int16
	// tell: an input was late, so a Welcome goes with the next state.
	tell bool

	inTime, late, refused int // inputs, for the log
}

func newGame() *game {
	g := &game{players: map[uint64]*player{}, do: make(chan func())}
	// It fails for a wrong configuration only.
	g.server, _ = tick.NewServer(tick.ServerConfig{
		Config: tick.Config{Rate: tick.Hz(60)},
		Handlers: tick.Handlers{
			Tick:  g.tick,
			Event: func(e tick.Event) { log.Print(e) },
		},
	})
	return g
}

// run runs the game for ever.
func (g *game) run() {
	g.server.Start(clock.Now())
	often, second := time.NewTicker(2*time.Millisecond), time.NewTicker(time.Second)
	for {
		select {
		case f := <-g.do:
			f()
		case <-often.C:
		case <-second.C:
			for _, p := range g.players {
				g.announce(p)
			}
		}
		g.server.Advance(clock.Now())
	}
}

// tick plays a tick, and sends its state to all players.
func (g *game) tick(i tick.Update) {
	epoch, _ := g.server.Epoch()
	state := binary.LittleEndian.AppendUint64([]byte{kindState}, epoch)
	state = binary.LittleEndian.AppendUint64(state, uint64(i.Tick))
	for _, p := range g.players {
		p.x = min(max(p.x+3*int16(p.inputs[i.Tick]), 0), 600) // without an input it stands
		maps.DeleteFunc(p.inputs, func(n tick.Tick, _ int8) bool { return n <= i.Tick })
		state = binary.LittleEndian.AppendUint32(state, uint32(p.id))
		state = binary.LittleEndian.AppendUint16(state, uint16(p.x))
	}
	for _, p := range g.players {
		p.send(state)
		if welcome, _ := g.server.Announce(p.id, clock.Now()); p.tell || welcome.Debt > 0 {
			g.announce(p)
		}
	}
}

// announce tells a player the time of the game, and when its inputs came: when it comes, after a Hello, once a second,
// once with the next state after inputs that came too late, and with each state while the server is behind.
func (g *game) announce(p *player) {
	if welcome, ok := g.server.Announce(p.id, clock.Now()); ok {
		b, _ := welcome.AppendBinary(nil)
		p.send(b)
	}
	p.tell = false
}

// send queues a message. Who does not read is dropped.
func (p *player) send(b []byte) {
	select {
	case p.out <- b:
	default:
		p.drop()
	}
}

// take takes a message of a player, which arrived at now.
func (g *game) take(p *player, b []byte, now uint64) {
	var hello tick.Hello
	switch {
	case hello.UnmarshalBinary(b) == nil:
		_ = g.server.OnHello(p.id, hello) // of another epoch: the Welcome says which
		g.announce(p)
	case len(b) == 18 && b[0] == kindInput:
		epoch, n := binary.LittleEndian.Uint64(b[1:]), tick.Tick(binary.LittleEndian.Uint64(b[9:]))
		_, twice := p.inputs[n]
		switch ok, late := g.server.AcceptInput(p.id, epoch, n, now); {
		case ok && !twice:
			p.inputs[n] = min(max(int8(b[17]), -1), 1)
			p.inTime++
		case late:
			p.tell = true
			p.late++
		default:
			p.refused++
		}
	default:
		p.drop()
	}
}

// serve is one connection.
func (g *game) serve(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, nil) // refuses pages of other origins
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer c.CloseNow()
	p := &player{id: g.count.Add(1), out: make(chan []byte, 256), drop: cancel, inputs: map[tick.Tick]int8{}, x: 300}
	go func() {
		defer cancel()
		for b := range p.out {
			if c.Write(ctx, websocket.MessageBinary, b) != nil {
				return
			}
		}
	}()
	g.do <- func() {
		g.players[p.id] = p
		g.announce(p)
	}
	defer func() {
		g.do <- func() {
			delete(g.players, p.id)
			g.server.Forget(p.id)
			close(p.out)
			log.Printf("player %d has left: inputs %d in time, %d late, %d refused", p.id, p.inTime, p.late, p.refused)
		}
	}()
	for {
		_, b, err := c.Read(ctx)
		now := clock.Received() // before anything else
		if err != nil {
			return
		}
		// A request is answered at once. 0 is the session of a client that says new Ping().
		if reply, ok := ping.AppendReply(nil, b, 0, now, clock.Now()); ok {
			_ = c.Write(ctx, websocket.MessageBinary, reply) // the next Read says what is wrong
		} else {
			g.do <- func() { g.take(p, b, now) }
		}
	}
}

// page is what the browser loads; in a program of your own timesync.mjs, too.
//
//go:embed index.html play.mjs
var page embed.FS

func (g *game) handler() http.Handler {
	mux, files := http.NewServeMux(), http.FileServerFS(page)
	mux.HandleFunc("/play", g.serve)
	mux.HandleFunc("/timesync.mjs", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, "../timesync.mjs")
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		// An isolated page has a finer clock.
		w.Header().Set("Cross-Origin-Opener-Policy", "same-origin")
		w.Header().Set("Cross-Origin-Embedder-Policy", "require-corp")
		files.ServeHTTP(w, r)
	})
	return mux
}

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address")
	flag.Parse()
	g := newGame()
	go g.run()
	log.Print("http://", *listen)
	log.Fatal(http.ListenAndServe(*listen, g.handler()))
}
