// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that timesync.mjs is a peer as docs/WIRE.md describes one: it does what the
// vectors say, and beside a Go end both know the time as well as two Go ends. They need Node, and
// say so where there is none.
package js

import (
	"bufio"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"timesync/internal/testkit"
	"timesync/link"
)

var (
	seeds = flag.Uint64("js.seeds", 1, "sessions of TestBesideGo and TestStranger for each world")
	first = flag.Uint64("js.first", 48_000_000, "the first seed")
)

// node returns Node, or skips the test. It looks at what Node will read, so that go test does not
// take an old result from its cache.
func node(t *testing.T) string {
	t.Helper()
	for _, name := range []string{
		"timesync.mjs", "vectors.mjs", "mutations.mjs", "link.mjs", "client.mjs", "games.mjs",
		"page.mjs", "sleep.mjs", "flood.mjs", "end.mjs", "stranger.mjs", "testing.mjs",
	} {
		_, err := os.ReadFile(name)
		testkit.Must(t, err)
	}
	path, err := exec.LookPath("node")
	if err != nil {
		t.Skip("NOT TESTED in JavaScript: there is no Node")
	}
	return path
}

// TestScripts runs scripts in Node, each of which fails if something is wrong:
//
//	vectors.mjs    timesync.mjs does what testdata/wire says, and what testdata says of counters
//	mutations.mjs  for each rule of docs/WIRE.md that vectors can decide, one of them notices that
//	               it is broken
//	link.mjs       a peer that restarts with another clock
//	client.mjs     trust, and a TickClient that follows late inputs and states
//	games.mjs      a server that stops, a queue, rare states, a slow page, a start in a hang, a page
//	               that was suspended
//	page.mjs       coarse clocks, pages without a clock, frozen and throttled ones
//	sleep.mjs      nobody trusts a wrong time after one machine slept: half of the worlds, and all
//	               with -long
//	flood.mjs      a datagram costs the same however many come
func TestScripts(t *testing.T) {
	for script, takes := range map[string]time.Duration{
		"vectors.mjs":   0,
		"link.mjs":      0,
		"mutations.mjs": 20 * time.Second,
		"client.mjs":    11 * time.Second,
		"games.mjs":     3 * time.Second,
		"page.mjs":      0,
		"sleep.mjs":     5 * time.Second,
		"flood.mjs":     0,
	} {
		t.Run(script, func(t *testing.T) {
			if takes > 0 && testing.Short() {
				t.Skip("it takes ", takes)
			}
			if takes > 0 {
				t.Parallel() // the others, one of which compares times, run before these
			}
			command := exec.CommandContext(t.Context(), node(t), script)
			if script == "sleep.mjs" && testkit.Long() {
				command.Args = append(command.Args, "--all")
			}
			out, err := command.CombinedOutput()
			if t.Logf("%s", out); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOneFile: timesync.mjs imports nothing, so it can be copied alone.
func TestOneFile(t *testing.T) {
	source, err := os.ReadFile("timesync.mjs")
	testkit.Must(t, err)
	if strings.Contains(string(source), "import") {
		t.Error("timesync.mjs has the word import")
	}
}

// end is one end of a link, in either language.
type end interface {
	anew()
	send(now uint64) (header []byte)
	open(datagram []byte, now uint64)
	read(now uint64) (remote uint64, bound float64, ok bool) // us
	trusts(now uint64) bool                                  // the time is right, within its bound
}

type goEnd struct{ link *link.Link }

func (e *goEnd) anew()                     { e.link = new(link.Link) }
func (e *goEnd) send(now uint64) []byte    { return e.link.AppendHeader(nil, now) }
func (e *goEnd) open(b []byte, now uint64) { e.link.ReadHeader(b, now) }
func (e *goEnd) read(now uint64) (remote uint64, bound float64, ok bool) {
	s, ok := e.link.Snapshot(now)
	return s.RemoteUsec, float64(s.ErrorBound.Microseconds()), ok
}

func (e *goEnd) trusts(now uint64) bool {
	s, _ := e.link.Snapshot(now)
	return s.Within(time.Hour) == nil
}

// jsEnd is a link in a process of Node's.
type jsEnd struct {
	t   *testing.T
	in  *bufio.Writer
	out *bufio.Scanner
}

func newJSEnd(t *testing.T) *jsEnd {
	cmd := exec.Command(node(t), "end.mjs")
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	cmd.Stderr = os.Stderr
	testkit.Must(t, errors.Join(err1, err2, cmd.Start()))
	t.Cleanup(func() {
		in.Close() // which ends it
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	return &jsEnd{t, bufio.NewWriter(in), bufio.NewScanner(out)}
}

// tell tells something that has no answer. It arrives with the next call.
func (e *jsEnd) tell(format string, args ...any) {
	if _, err := fmt.Fprintf(e.in, format+"\n", args...); err != nil {
		e.t.Error("Node has stopped: ", err)
	}
}

func (e *jsEnd) call(format string, args ...any) string {
	e.tell(format, args...)
	if err := e.in.Flush(); err != nil {
		e.t.Fatal("Node has stopped: ", err)
	}
	if !e.out.Scan() {
		e.t.Fatal("Node has stopped: ", e.out.Err())
	}
	return e.out.Text()
}

func (e *jsEnd) anew() { e.tell("new") }
func (e *jsEnd) send(now uint64) []byte {
	b, err := hex.DecodeString(e.call("send %d", now))
	testkit.Must(e.t, err)
	return b
}
func (e *jsEnd) open(b []byte, now uint64) { e.tell("open %d %x", now, b) }
func (e *jsEnd) read(now uint64) (remote uint64, bound float64, ok bool) {
	n, _ := fmt.Sscan(e.call("read %d", now), &remote, &bound)
	return remote, bound, n == 2
}

func (e *jsEnd) trusts(now uint64) bool { return e.call("trusts %d", now) == "true" }
