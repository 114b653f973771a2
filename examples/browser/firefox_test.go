// SPDX-License-Identifier: BSD-3-Clause

// This test proves that the page keeps time in Firefox, whose clock advances by 1 ms at a time where
// a page is not isolated. It drives a Firefox without a window by WebDriver BiDi.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
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
	path := ""
	for _, name := range []string{os.Getenv("FIREFOX"), "firefox-esr", "firefox"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("NOT TESTED in Firefox: there is none (apt-get install firefox-esr, or set FIREFOX)")
	}
	ctx, cancel := context.WithTimeout(t.Context(), testTime)
	t.Cleanup(cancel)
	command := exec.CommandContext(ctx, path, "--headless", "--no-remote", "--profile", t.TempDir(), "--remote-debugging-port", "0", "about:blank")
	command.Env = append(os.Environ(), "HOME="+t.TempDir())
	said, err := command.StderrPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
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
	if f.conn, _, err = websocket.Dial(ctx, address+"/session", nil); err != nil {
		t.Fatal(err)
	}
	f.conn.SetReadLimit(-1)
	t.Cleanup(func() { f.conn.CloseNow() })
	f.call("session.new", map[string]any{"capabilities": map[string]any{}}, nil)
	var tree struct{ Contexts []struct{ Context string } }
	f.call("browsingContext.getTree", map[string]any{}, &tree)
	f.tab = tree.Contexts[0].Context
	return f
}

// call calls a command of WebDriver BiDi.
func (f *firefox) call(method string, params, result any) {
	f.t.Helper()
	f.n++
	err := wsjson.Write(f.ctx, f.conn, map[string]any{"id": f.n, "method": method, "params": params})
	for err == nil {
		var answer struct {
			ID      int
			Error   string
			Message string
			Result  json.RawMessage
		}
		if err = wsjson.Read(f.ctx, f.conn, &answer); err == nil && answer.ID == f.n { // others are events
			if answer.Error != "" {
				err = errors.New(answer.Error + ": " + answer.Message)
			} else if result == nil {
				return
			} else if err = json.Unmarshal(answer.Result, result); err == nil {
				return
			}
		}
	}
	f.t.Fatalf("%s: %v", method, err)
}

// eval puts what an expression is in the page into result.
func (f *firefox) eval(expression string, result any) {
	f.t.Helper()
	var answer struct {
		Result           struct{ Value string }
		ExceptionDetails struct{ Text string }
	}
	f.call("script.evaluate", map[string]any{
		"expression": "JSON.stringify(" + expression + ")", "awaitPromise": false, "target": map[string]any{"context": f.tab},
	}, &answer)
	if err := json.Unmarshal([]byte(answer.Result.Value), result); err != nil {
		f.t.Fatalf("%s: %v %s", expression, err, answer.ExceptionDetails.Text)
	}
}

func TestFirefox(t *testing.T) {
	t.Parallel()
	for _, isolated := range []bool{true, false} {
		t.Run(map[bool]string{true: "isolated", false: "not isolated"}[isolated], func(t *testing.T) {
			s := startServer(t, options{isolated: isolated, webTransport: true})
			f := startFirefox(t)
			f.call("browsingContext.navigate", map[string]any{"context": f.tab, "url": s.address() + "?" + perfect, "wait": "complete"}, nil)
			start, known := time.Now(), false
			for f.eval("!!"+stampsKnown, &known); !known; f.eval("!!"+stampsKnown, &known) {
				if time.Since(start) > patience {
					var status string
					f.eval("document.getElementById('status').textContent + ' ' + demo.transport", &status)
					t.Fatalf("stamps are not synchronized within %v: %s", patience, status)
				}
				time.Sleep(50 * time.Millisecond)
			}
			time.Sleep(*isolationFor)
			var from, step float64
			var is bool
			f.eval("performance.now()", &from)
			time.Sleep(*isolationFor)
			var got []sample
			f.eval(fmt.Sprintf("demo.samples.filter(s => s.at >= %f)", from), &got)
			f.eval("timesyncPage.step", &step)
			f.eval("crossOriginIsolated", &is)
			t.Logf("readings lag behind by up to %v ms", step)
			if is != isolated || isolated && step > 0.2 || !isolated && (step < 0.9 || step > 2.1) {
				t.Errorf("isolated %v, readings lag behind by up to %v ms", is, step)
			}
			usable(t, got, stamps, 1300) // the time of day at which a page began is rounded to 1 ms
		})
	}
}
