// SPDX-License-Identifier: BSD-3-Clause

// This test proves that main.go and play.mjs work together, in Node: an input comes in time for nearly every tick,
// the client knows the server's game time, and it goes on when the server is another one.
package main

import (
	"bufio"
	"errors"
	"fmt"
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
	"timesync/internal/testkit"
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
`

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
	testkit.Must(t, errors.Join(err1, err2, err3, err4))
	const flag = "--experimental-websocket" // before Node 22
	if exec.CommandContext(t.Context(), node, flag, "-e", "WebSocket").Run() != nil {
		t.Skip("NOT TESTED in JavaScript: this Node has no WebSocket")
	}
	cmd := exec.CommandContext(t.Context(), node, flag, filepath.Join(dir, "bot.mjs"), url, strconv.Itoa(timers))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	testkit.Must(t, errors.Join(err, cmd.Start()))
	t.Cleanup(func() { _ = cmd.Wait() }) // it was killed
	return bufio.NewScanner(out)
}

// listen serves a new game. stop ends it and its connections.
func listen(t *testing.T, address string) (g *game, at string, stop func()) {
	l, err := net.Listen("tcp", address)
	testkit.Must(t, err)
	g = newGame()
	go g.run()
	s := &http.Server{Handler: g.handler()}
	go s.Serve(l)
	return g, l.Addr().String(), func() {
		s.Close()
		g.call(func(p *player) { p.drop() })
	}
}

// call calls f with each player, in the goroutine of the game.
func (g *game) call(f func(p *player)) {
	done := make(chan bool)
	g.do <- func() {
		for _, p := range g.players {
			f(p)
		}
		close(done)
	}
	<-done
}

// read reads a line of the client, and says whether it is sure of the time, and right.
func (g *game) read(t *testing.T, client *bufio.Scanner) (sure bool) {
	var wall, shared, bound int64 // us
	var doubt string
	var epoch uint64
	var players int
	if !client.Scan() {
		t.Fatal("Node has stopped")
	}
	_, err := fmt.Sscan(client.Text(), &wall, &doubt, &shared, &bound, &epoch, &players)
	testkit.Must(t, err)
	if is, _ := g.server.Epoch(); doubt != "sure" || epoch != is || players != 1 {
		return false
	}
	at := time.Now()
	c, _ := g.server.Snapshot(clock.At(at) - uint64(at.UnixMicro()-wall))
	if off := c.SharedTime.Duration().Microseconds() - shared; max(off, -off) > bound+5000 { // two processes read the time of day
		t.Errorf("off by %d us, more than %d", off, bound)
	}
	return true
}

// watch reads what the client says until it is sure, for 1 s more, and for a while, and how many inputs came in that.
func watch(t *testing.T, g *game, client *bufio.Scanner, length time.Duration) {
	t.Helper()
	for start := time.Now(); !g.read(t, client); {
		if time.Since(start) > 20*time.Second {
			t.Fatal("not sure: ", client.Text())
		}
	}
	during := func(d time.Duration) (lines, unsure int, then player) {
		for start := time.Now(); time.Since(start) < d; lines++ {
			if !g.read(t, client) {
				unsure++
			}
		}
		g.call(func(p *player) { then = *p })
		return lines, unsure, then
	}
	_, _, before := during(time.Second)
	lines, unsure, after := during(length)
	in, late, refused := after.inTime-before.inTime, after.late-before.late, after.refused-before.refused
	t.Logf("inputs: %d in time, %d late, %d refused; %d of %d times unsure", in, late, refused, unsure, lines)
	n := int(length.Seconds() * 60)
	if all := in + late; all < n*9/10 || all > n*11/10 || late > n/5 || refused > 0 || unsure > lines/5 {
		t.Errorf("of %d ticks", n)
	}
}

func TestPlay(t *testing.T) {
	g, address, stop := listen(t, "127.0.0.1:0")
	c := client(t, "ws://"+address+"/play", 0)
	watch(t, g, c, 4*time.Second)
	stop()
	time.Sleep(100 * time.Millisecond)
	g, _, stop = listen(t, address)
	defer stop()
	watch(t, g, c, 3*time.Second)
}

// TestHidden: a hidden page, whose timers run once a second and which draws nothing, sends its inputs all the same.
func TestHidden(t *testing.T) {
	g, address, stop := listen(t, "127.0.0.1:0")
	defer stop()
	watch(t, g, client(t, "ws://"+address+"/play", 1000), 4*time.Second)
}

// TestFiles: what the page needs is served.
func TestFiles(t *testing.T) {
	_, address, stop := listen(t, "127.0.0.1:0")
	defer stop()
	for name, kind := range map[string]string{"": "text/html", "play.mjs": "text/javascript", "timesync.mjs": "text/javascript"} {
		r, err := http.Get("http://" + address + "/" + name)
		testkit.Must(t, err)
		r.Body.Close()
		if got := r.Header.Get("Content-Type"); r.StatusCode != http.StatusOK || !strings.HasPrefix(got, kind) {
			t.Error(name, r.Status, got)
		}
	}
}
