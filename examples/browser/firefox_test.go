// SPDX-License-Identifier: BSD-3-Clause

// This test proves that the page works in Firefox, whose clock advances by 1 ms at a time where a
// page is not isolated. It speaks WebDriver BiDi to a Firefox without a window.

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"timesync/internal/testkit"
)

// firefox is a page in a Firefox.
type firefox struct {
	t       *testing.T
	ctx     context.Context
	ws      *websocket.Conn
	sent    int
	context string // BiDi's name for the tab
}

// startFirefox starts a Firefox that ends with the test, or skips the test.
func startFirefox(t *testing.T) *firefox {
	t.Helper()
	path := installed(t, "Firefox (apt-get install firefox-esr, or set FIREFOX)",
		os.Getenv("FIREFOX"), "firefox-esr", "firefox")
	ctx, cancel := context.WithTimeout(t.Context(), testTime)
	t.Cleanup(cancel)
	profile := t.TempDir()
	const quiet = `user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("browser.aboutwelcome.enabled", false);
`
	testkit.Must(t, os.WriteFile(filepath.Join(profile, "user.js"), []byte(quiet), 0o600))
	command := exec.CommandContext(ctx, path,
		"--headless", "--no-remote", "--profile", profile, "--remote-debugging-port", "0")
	command.Env = append(os.Environ(), "HOME="+profile)
	says, err := command.StderrPipe()
	testkit.Must(t, err)
	testkit.Must(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait() // killed
	})
	lines := bufio.NewScanner(says)
	address := ""
	for address == "" && lines.Scan() {
		_, address, _ = strings.Cut(lines.Text(), "WebDriver BiDi listening on ")
	}
	if address == "" {
		t.Fatal("Firefox says no address")
	}
	go func() {
		for lines.Scan() { // or it would wait
		}
	}()
	f := &firefox{t: t, ctx: ctx}
	f.ws, _, err = websocket.Dial(ctx, address+"/session", nil)
	testkit.Must(t, err)
	f.ws.SetReadLimit(1 << 24)
	t.Cleanup(func() { f.ws.CloseNow() })
	f.call("session.new", map[string]any{"capabilities": map[string]any{}}, nil)
	var tree struct{ Contexts []struct{ Context string } }
	f.call("browsingContext.getTree", map[string]any{}, &tree)
	f.context = tree.Contexts[0].Context
	return f
}

// call calls a method and waits for what it returns.
func (f *firefox) call(method string, params map[string]any, result any) {
	f.t.Helper()
	f.sent++
	asked := map[string]any{"id": f.sent, "method": method, "params": params}
	testkit.Must(f.t, wsjson.Write(f.ctx, f.ws, asked))
	for {
		var answer struct {
			ID     int
			Type   string
			Result json.RawMessage
			Error  string
			// Message explains the error.
			Message string
		}
		testkit.Must(f.t, wsjson.Read(f.ctx, f.ws, &answer))
		if answer.ID != f.sent {
			continue // an event
		}
		if answer.Type != "success" {
			f.t.Fatalf("%s: %s: %s", method, answer.Error, answer.Message)
		}
		if result != nil {
			testkit.Must(f.t, json.Unmarshal(answer.Result, result))
		}
		return
	}
}

// open opens an address.
func (f *firefox) open(address string) {
	f.t.Helper()
	params := map[string]any{"context": f.context, "url": address, "wait": "complete"}
	f.call("browsingContext.navigate", params, nil)
}

// read reads what an expression is in the page.
func (f *firefox) read(expression string, into any) {
	f.t.Helper()
	var answer struct {
		Type   string
		Result struct{ Value string }
	}
	f.call("script.evaluate", map[string]any{
		"expression":   "JSON.stringify(" + expression + ")",
		"target":       map[string]any{"context": f.context},
		"awaitPromise": false,
	}, &answer)
	if answer.Type != "success" {
		f.t.Fatalf("%s: %s", expression, answer.Type)
	}
	testkit.Must(f.t, json.Unmarshal([]byte(answer.Result.Value), into))
}

// wait waits until an expression is true.
func (f *firefox) wait(what, expression string) {
	f.t.Helper()
	testkit.Eventually(f.t, what, func() (is bool) {
		f.read("!!("+expression+")", &is)
		return is
	})
}

// click clicks the middle of an element with the mouse.
func (f *firefox) click(selector string) {
	f.t.Helper()
	var at struct{ X, Y float64 }
	f.read(`(e => {
		e.scrollIntoView({block: 'center'});
		const {x, y, width, height} = e.getBoundingClientRect();
		return {x: Math.round(x + width / 2), y: Math.round(y + height / 2)};
	})(document.querySelector('`+selector+`'))`, &at)
	f.call("input.performActions", map[string]any{
		"context": f.context,
		"actions": []any{map[string]any{
			"type": "pointer",
			"id":   "mouse",
			"actions": []any{
				map[string]any{"type": "pointerMove", "x": at.X, "y": at.Y},
				map[string]any{"type": "pointerDown", "button": 0},
				map[string]any{"type": "pointerUp", "button": 0},
			},
		}},
	}, nil)
}

func TestFirefox(t *testing.T) {
	t.Parallel()
	for name, isolated := range map[string]bool{"isolated": true, "not isolated": false} {
		t.Run(name, func(t *testing.T) {
			f := startFirefox(t)
			s := startServer(t, "")
			s.isolated = isolated
			f.open(s.address() + "?" + perfect)
			f.wait("the page plays", timeKnown+" && "+gameRuns)
			var kind string
			f.read("demo.game.connection.kind", &kind)
			var step float64 // by how much readings of the clock may lag behind, us
			f.read("demo.clock.step", &step)
			t.Logf("over %s, readings lag behind by up to %.0f us", kind, step)
			if isolated && step > 200 || !isolated && (step < 900 || step > 2100) {
				t.Errorf("readings lag behind by up to %v us", step)
			}
			time.Sleep(*measureFor)
			var from float64
			f.read("performance.now()", &from)
			time.Sleep(*measureFor)
			var samples []sample
			f.read(fmt.Sprintf("demo.samples.filter(s => s.at >= %f)", from), &samples)
			// The time of day at which a page began is rounded to 1 ms.
			usable(t, samples, 1300, besideOthers)
			f.click("#step")
			f.wait("the step is counted", "demo.game.link.steps > 0")
		})
	}
}
