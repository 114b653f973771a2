// SPDX-License-Identifier: BSD-3-Clause

// This test proves that main.go and play.mjs work together, in Node: an input comes in time for nearly every tick,
// the client knows the server's game time, and it goes on when the server is another one.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"timesync/clock"
	"timesync/examples/internal/exampletest"
)

// bot is a client without a page. Every 50 ms it says what it knows.
const bot = `
import {Play} from './play.mjs';
const often = setInterval, slowest = Number(process.argv[3]);
globalThis.setInterval = (f, ms) => often(f, Math.max(ms, slowest));
const play = new Play(process.argv[2], tick => Number(tick / 30n % 3n) - 1);
const asked = slowest ? Object.create(play, {work: {value() {}}}) : play; // a hidden page draws nothing
const wall = () => (performance.timeOrigin + performance.now()) * 1000;
often(() => {
	const before = wall(), {doubt, clocks, players} = asked.look(), after = wall();
	const bound = clocks ? Math.ceil(clocks.bounds.shared + after - before) : 0; // it looked in between
	console.log(Math.floor(after), doubt.replace(' ', '-') || 'sure', Math.floor(clocks?.shared ?? 0), bound,
		String(clocks?.epoch ?? 0), players.size);
}, 50);
process.stdin.on('end', () => process.exit()).resume();
`

// said is a line of it: times in us.
type said struct {
	wall          int64
	doubt         string
	shared, bound int64
	epoch         uint64
	players       int
}

// client runs it in Node until the test is over, with timers of at least so many ms.
func client(t *testing.T, url string, timers int) *bufio.Scanner {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("NOT TESTED in JavaScript: there is no Node")
	}
	dir := t.TempDir()
	module, err1 := os.ReadFile("../timesync.mjs")
	err2 := os.CopyFS(dir, page)
	err3 := os.WriteFile(filepath.Join(dir, "timesync.mjs"), module, 0o666)
	err4 := os.WriteFile(filepath.Join(dir, "bot.mjs"), []byte(bot), 0o666)
	exampletest.Must(t, errors.Join(err1, err2, err3, err4))
	args := []string{filepath.Join(dir, "bot.mjs"), url, strconv.Itoa(timers)}
	if exec.CommandContext(t.Context(), node, "-e", "WebSocket").Run() != nil { // before Node 22
		args = append([]string{"--experimental-websocket"}, args...)
		if exec.CommandContext(t.Context(), node, args[0], "-e", "WebSocket").Run() != nil {
			t.Skip("NOT TESTED in JavaScript: this Node has no WebSocket")
		}
	}
	cmd := exec.Command(node, args...)
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := cmd.Start(); err1 != nil || err2 != nil || err != nil {
		t.Fatal(err1, err2, err)
	}
	t.Cleanup(func() {
		in.Close() // which ends it
		go io.Copy(io.Discard, out)
		cmd.Wait()
	})
	return bufio.NewScanner(out)
}

// listen serves a new game. stop ends it and its connections.
func listen(t *testing.T, address string) (g *game, at string, stop func()) {
	l, err := net.Listen("tcp", address)
	exampletest.Must(t, err)
	g = newGame()
	go g.run()
	ctx, cancel := context.WithCancel(context.Background())
	s := &http.Server{Handler: g.handler(), BaseContext: func(net.Listener) context.Context { return ctx }}
	go s.Serve(l)
	stop = func() {
		s.Close()
		g.call(func() {
			for _, p := range g.players {
				p.drop()
			}
		})
		cancel()
	}
	return g, l.Addr().String(), stop
}

// call calls f in the goroutine of the game.
func (g *game) call(f func()) {
	done := make(chan bool)
	g.do <- func() { f(); close(done) }
	<-done
}

// watch reads what the client says for a while, and then how many inputs came.
func watch(t *testing.T, g *game, client *bufio.Scanner, patience, length time.Duration) {
	t.Helper()
	var first time.Time
	var lines, unsure int
	var worst float64
	var before, after player
	count := func(to *player) {
		g.call(func() {
			for _, p := range g.players {
				*to = *p
			}
		})
	}
	count(&before) // so it has started
	epoch, _ := g.server.Epoch()
	for start := time.Now(); first.IsZero() || time.Since(first) < length+time.Second; {
		var s said
		if !client.Scan() {
			t.Fatal("Node has stopped")
		}
		if _, err := fmt.Sscan(client.Text(), &s.wall, &s.doubt, &s.shared, &s.bound, &s.epoch, &s.players); err != nil {
			t.Fatal(err, client.Text())
		}
		sure := s.doubt == "sure" && s.epoch == epoch && s.players == 1
		switch {
		case first.IsZero() && sure:
			first = time.Now()
			t.Logf("sure after %v", first.Sub(start))
		case first.IsZero() && time.Since(start) > patience:
			t.Fatalf("not sure after %v: %+v", patience, s)
		case first.IsZero():
		case time.Since(first) < time.Second:
			count(&before)
		default:
			lines++
			if !sure {
				unsure++
				continue
			}
			wall := time.Now()
			now := clock.At(wall) - uint64(wall.UnixMicro()-s.wall)
			c, _ := g.server.Snapshot(now)
			off := math.Abs(float64(c.SharedTime.Duration().Microseconds() - s.shared))
			if worst = max(worst, off); off > float64(s.bound)+5000 { // two processes read the time of day
				t.Errorf("off by %.0f us, more than %d", off, s.bound)
			}
		}
	}
	count(&after)
	in, late, refused := after.inTime-before.inTime, after.late-before.late, after.refused-before.refused
	t.Logf("%d inputs in time, %d late, %d refused; off by %.0f us at most; %d of %d times unsure", in, late, refused, worst, unsure, lines)
	if all := int(length.Seconds() * 60); in+late < all*9/10 || in+late > all*11/10 || late > all/5 || refused > 0 || unsure > lines/5 {
		t.Errorf("of %d ticks", all)
	}
}

func TestPlay(t *testing.T) {
	g, address, stop := listen(t, "127.0.0.1:0")
	c := client(t, "ws://"+address+"/play", 0)
	watch(t, g, c, 20*time.Second, 4*time.Second)
	stop()
	time.Sleep(100 * time.Millisecond)
	g, _, stop = listen(t, address)
	defer stop()
	watch(t, g, c, 20*time.Second, 3*time.Second)
}

// TestHidden: a hidden page, whose timers run once a second and which draws nothing, sends its inputs all the same.
func TestHidden(t *testing.T) {
	g, address, stop := listen(t, "127.0.0.1:0")
	defer stop()
	watch(t, g, client(t, "ws://"+address+"/play", 1000), 20*time.Second, 4*time.Second)
}

// TestFiles: what the page needs is served.
func TestFiles(t *testing.T) {
	_, address, stop := listen(t, "127.0.0.1:0")
	defer stop()
	for name, kind := range map[string]string{"": "text/html", "play.mjs": "text/javascript", "timesync.mjs": "text/javascript"} {
		r, err := http.Get("http://" + address + "/" + name)
		exampletest.Must(t, err)
		r.Body.Close()
		if got := r.Header.Get("Content-Type"); r.StatusCode != http.StatusOK || !strings.HasPrefix(got, kind) {
			t.Error(name, r.Status, got)
		}
	}
}
