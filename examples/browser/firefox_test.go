// SPDX-License-Identifier: BSD-3-Clause

// This test proves that the page keeps time in Firefox, whose clock advances by 1 ms at a time where
// a page is not isolated. It drives a Firefox without a window by WebDriver BiDi.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"timesync/examples/internal/exampletest"
)

// firefox is a Firefox with one tab.
type firefox struct {
	t    *testing.T
	ctx  context.Context
	conn *websocket.Conn
	tab  string
	n    int
}

// startFirefox starts a Firefox that ends with the test, or skips the test.
func startFirefox(t *testing.T) *firefox {
	t.Helper()
	path := installed(t, "Firefox (apt-get install firefox-esr, or set FIREFOX)", os.Getenv("FIREFOX"), "firefox-esr", "firefox")
	ctx, cancel := context.WithTimeout(t.Context(), testTime)
	t.Cleanup(cancel)
	command := exec.CommandContext(ctx, path, "--headless", "--no-remote", "--profile", t.TempDir(), "--remote-debugging-port", "0", "about:blank")
	command.Env = append(os.Environ(), "HOME="+t.TempDir())
	said, err := command.StderrPipe()
	if err == nil {
		err = command.Start()
	}
	exampletest.Must(t, err)
	t.Cleanup(func() {
		cancel()
		_ = command.Wait() // killed
	})
	address := ""
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if _, after, found := strings.Cut(lines.Text(), "WebDriver BiDi listening on "); found {
			address = strings.TrimSpace(after)
			break
		}
	}
	if address == "" {
		t.Fatal("Firefox does not say where it listens")
	}
	go func() { // so that it never waits for a reader
		for lines.Scan() {
		}
	}()
	f := &firefox{t: t, ctx: ctx}
	f.conn, _, err = websocket.Dial(ctx, address+"/session", nil)
	exampletest.Must(t, err)
	f.conn.SetReadLimit(-1)
	t.Cleanup(func() { f.conn.CloseNow() })
	f.call("session.new", map[string]any{"capabilities": map[string]any{}}, new(any))
	var tree struct{ Contexts []struct{ Context string } }
	f.call("browsingContext.getTree", map[string]any{}, &tree)
	f.tab = tree.Contexts[0].Context
	return f
}

// call calls a command of WebDriver BiDi.
func (f *firefox) call(method string, params map[string]any, result any) {
	f.t.Helper()
	f.n++
	err := wsjson.Write(f.ctx, f.conn, map[string]any{"id": f.n, "method": method, "params": params})
	var answer struct {
		ID             int
		Error, Message string
		Result         json.RawMessage
	}
	for err == nil && answer.ID != f.n { // others are events
		answer.ID = 0
		err = wsjson.Read(f.ctx, f.conn, &answer)
	}
	if err == nil && answer.Error == "" {
		err = json.Unmarshal(answer.Result, result)
	}
	if err != nil || answer.Error != "" {
		f.t.Fatalf("%s: %v, %s: %s", method, err, answer.Error, answer.Message)
	}
}

// inFirefox returns what an expression is in the page.
func inFirefox[T any](f *firefox, expression string) (value T) {
	f.t.Helper()
	var answer struct {
		Result           struct{ Value string }
		ExceptionDetails struct{ Text string }
	}
	f.call("script.evaluate", map[string]any{
		"expression": "JSON.stringify(" + expression + ")", "awaitPromise": false, "target": map[string]any{"context": f.tab},
	}, &answer)
	if err := json.Unmarshal([]byte(answer.Result.Value), &value); err != nil {
		f.t.Fatalf("%s: %v %s", expression, err, answer.ExceptionDetails.Text)
	}
	return value
}

func TestFirefox(t *testing.T) {
	t.Parallel()
	for _, isolated := range []bool{true, false} {
		t.Run(map[bool]string{true: "isolated", false: "not isolated"}[isolated], func(t *testing.T) {
			s := startServer(t, options{isolated: isolated, webTransport: true})
			f := startFirefox(t)
			page := map[string]any{"context": f.tab, "url": s.address() + "?" + perfect, "wait": "complete"}
			f.call("browsingContext.navigate", page, new(any))
			for start := time.Now(); !inFirefox[bool](f, "!!"+stampsKnown); time.Sleep(50 * time.Millisecond) {
				if time.Since(start) > patience {
					status := inFirefox[string](f, "document.getElementById('status').textContent + ' ' + demo.transport")
					t.Fatalf("stamps are not synchronized within %v: %s", patience, status)
				}
			}
			time.Sleep(*measureFor)
			from := inFirefox[float64](f, "performance.now()")
			time.Sleep(*measureFor)
			got := inFirefox[[]sample](f, fmt.Sprintf("demo.samples.filter(s => s.at >= %f)", from))
			step := inFirefox[float64](f, "timesyncPage.step")
			is := inFirefox[bool](f, "crossOriginIsolated")
			t.Logf("readings lag behind by up to %v ms", step)
			if is != isolated || isolated && step > 0.2 || !isolated && (step < 0.9 || step > 2.1) {
				t.Errorf("isolated %v, readings lag behind by up to %v ms", is, step)
			}
			// The time of day at which a page began is rounded to 1 ms.
			usable(t, got, stamps, 1300, besideOthers)
		})
	}
}
