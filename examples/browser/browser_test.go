// SPDX-License-Identifier: BSD-3-Clause

// These tests prove what the page does in a real Chromium, without a window. Where there is
// none they are skipped, and say so.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"timesync/internal/program/programtest"
	"timesync/internal/testkit"
)

var (
	measureFor  = flag.Duration("measure.for", 3*time.Second, "how long a page settles, and is measured then")
	screenshots = flag.String("screenshots", "", "folder for browser-light.png and browser-dark.png")
)

const (
	// testTime bounds a test.
	testTime = 90 * time.Second
	// patience is for what takes a second, and longer where the machine has no time for it.
	patience = 30 * time.Second
	// perfect takes everything off the path.
	perfect = "latency=0&uphill=0&jitter=0&loss=0"
	// What a page says of itself.
	stampsKnown = "demo.samples.at(-1)?.stamps"
	pingKnown   = "demo.samples.at(-1)?.ping"
	gameRuns    = "demo.frame"
)

// installed returns the first of these programs that this machine has, or skips the test.
func installed(t *testing.T, what string, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("NOT TESTED in a browser: there is no ", what)
	return ""
}

// built is the page, for all tests.
var built page

func TestMain(m *testing.M) {
	dir, _ := os.MkdirTemp("", "timesync")
	var err error
	if built, err = buildPage(dir); err != nil {
		log.Fatal(err)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// startServer starts a server that ends with the test.
func startServer(t *testing.T, record string) *server {
	t.Helper()
	s, err := serve("127.0.0.1:0", built, record)
	testkit.Must(t, err)
	t.Cleanup(s.close)
	return s
}

// startBrowser starts a Chromium that ends with the test.
func startBrowser(t *testing.T) context.Context {
	t.Helper()
	path := installed(t, "Chromium (apt-get install chromium, or set CHROMIUM)",
		os.Getenv("CHROMIUM"), "chromium", "chromium-browser", "chromium-headless-shell", "google-chrome")
	ctx, cancel := context.WithTimeout(t.Context(), testTime)
	t.Cleanup(cancel)
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.UserDataDir(t.TempDir()),
		chromedp.WindowSize(1000, 1150),
		// Tabs in the background are throttled as they are for everybody.
		chromedp.Flag("disable-background-timer-throttling", false),
		chromedp.Flag("disable-backgrounding-occluded-windows", false),
		chromedp.Flag("disable-renderer-backgrounding", false),
	)
	if os.Geteuid() == 0 {
		opts = append(opts, chromedp.NoSandbox) // Chromium's sandbox refuses root
	}
	ctx, cancel = chromedp.NewExecAllocator(ctx, opts...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	testkit.Must(t, chromedp.Do(ctx))
	return ctx
}

// tab is a page of the server.
type tab struct {
	t   *testing.T
	ctx context.Context
}

// ready opens the page of a server in a Chromium of its own, and waits until an expression is true.
func ready(t *testing.T, s *server, query, expression string) *tab {
	t.Helper()
	w := open(t, startBrowser(t), s.address()+"?"+query)
	w.wait("the page is ready", expression, patience)
	return w
}

// open opens an address in a new tab, and fails the test if the page throws an exception that it does
// not catch.
func open(t *testing.T, browser context.Context, address string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	w := &tab{t, ctx}
	w.do(chromedp.Steps()) // so that the tab is there
	testkit.Must(t, chromedp.Listen(ctx, func(ev any) {
		if e, ok := ev.(*runtime.EventExceptionThrown); ok {
			t.Errorf("%s: %s", e.ExceptionDetails.Text, e.ExceptionDetails.Exception.Description)
		}
	}))
	w.do(chromedp.Navigate(address))
	return w
}

func (w *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	w.t.Helper()
	testkit.Must(w.t, chromedp.Do(w.ctx, steps...))
}

// eval returns what an expression is in the page.
func eval[T any](w *tab, expression string) T {
	w.t.Helper()
	v, err := chromedp.Run(w.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		w.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// wait waits until an expression is true and returns how long that took.
func (w *tab) wait(what, expression string, atMost time.Duration) time.Duration {
	w.t.Helper()
	start := time.Now()
	for !eval[bool](w, "!!("+expression+")") {
		if time.Since(start) > atMost {
			w.t.Fatalf("not within %v: %s\nstatus: %s\nevents: %v", atMost, what,
				eval[string](w, "document.getElementById('status').textContent"), eval[[]string](w, "demo.events"))
		}
		time.Sleep(50 * time.Millisecond)
	}
	return time.Since(start)
}

// reading is that of package client, as JSON.
type reading struct {
	Error, Bound, Delay, Steps float64 // us, and a count
}

type sample struct {
	At           float64 // ms since the page began
	Stamps, Ping *reading
}

func stamps(s sample) *reading { return s.Stamps }
func pings(s sample) *reading  { return s.Ping }

// samples returns the graph from a time of the page on, in ms.
func (w *tab) samples(from float64) []sample {
	w.t.Helper()
	return eval[[]sample](w, fmt.Sprintf("demo.samples.filter(s => s.at >= %f)", from))
}

func (w *tab) now() float64 {
	w.t.Helper()
	return eval[float64](w, "performance.now()")
}

// measure lets a page run and returns what it measured.
func (w *tab) measure(d time.Duration) []sample {
	w.t.Helper()
	from := w.now()
	time.Sleep(d)
	return w.samples(from)
}

// errorSizes returns the absolute errors of a series, in us. It fails the test if an error is above its bound by more
// than the tolerance in us, which is for the truth: the two clocks of one machine are compared by the time of day.
func errorSizes(t *testing.T, samples []sample, series func(sample) *reading, tolerance float64) (sizes []float64) {
	t.Helper()
	for _, s := range samples {
		if r := series(s); r != nil {
			size := math.Abs(r.Error)
			if sizes = append(sizes, size); size > r.Bound+tolerance {
				t.Fatalf("at %.0f ms the error is %.0f us and the bound %.0f us", s.At, r.Error, r.Bound)
			}
		}
	}
	return sizes
}

// usable returns the absolute errors as errorSizes does, and fails the test unless the median is below most, in us.
func usable(t *testing.T, samples []sample, series func(sample) *reading, tolerance, most float64) {
	t.Helper()
	e := errorSizes(t, samples, series, tolerance)
	t.Log("error:", summary(e))
	if !(testkit.OrNaN(e, .5) < most) {
		t.Errorf("not synchronized to %.0f us", most)
	}
}

// besideOthers is what the median error may be where another browser runs at the same time,
// in us. On a quiet machine it is below 100: docs/BROWSER.md.
const besideOthers = 20_000.0

// summary is about errors in us.
func summary(e []float64) string {
	return fmt.Sprintf("median %.0f us, 99 %% %.0f us of %d", testkit.OrNaN(e, .5), testkit.OrNaN(e, .99), len(e))
}

// over fails the test unless the page is connected like that.
func (w *tab) over(transport string, isolated bool) {
	w.t.Helper()
	got, is := eval[string](w, "demo.transport"), eval[bool](w, "crossOriginIsolated")
	if got != transport || is != isolated {
		w.t.Errorf("over %s, isolated %v; want %s, %v", got, is, transport, isolated)
	}
}

// beganLate is by how much later performance.timeOrigin says that the page began than Date.now does,
// whose milliseconds Chromium begins within 5 us, ms. Where the page is not isolated that is up to
// 0.1: too coarse for the truth.
const beganLate = `(() => {
	const began = [];
	while (began.length < 101) {
		const before = Date.now();
		let after;
		do after = Date.now(); while (after === before);
		began.push(after - performance.now());
	}
	const middle = began.sort((a, b) => a - b).slice(25, 76); // it was interrupted in between, or not
	return performance.timeOrigin - middle.reduce((a, b) => a + b) / middle.length;
})()`

// TestSynchronizes: the page knows the time by stamps over WebTransport, and nearly as well where it is not isolated,
// and so its clock advances by 100 us; without WebTransport by ping over the WebSocket.
func TestSynchronizes(t *testing.T) {
	for _, c := range []struct {
		name, query, transport string
		series                 func(sample) *reading
	}{
		{"isolated", "", "WebTransport", stamps}, // these two alone, to be compared; the others at once
		{"not isolated", "", "WebTransport", stamps},
		{"no UDP", "", "WebSocket", pings},
		{"no WebTransport in the browser", "&transport=websocket", "WebSocket", pings},
	} {
		t.Run(c.name, func(t *testing.T) {
			alone, known := c.transport == "WebTransport", stampsKnown
			if !alone {
				t.Parallel()
			}
			if c.transport == "WebSocket" {
				known = pingKnown
			}
			s := startServer(t, "")
			if s.isolated = c.name != "not isolated"; c.name == "no UDP" {
				s.wt.Close()
			}
			w := ready(t, s, perfect+c.query, gameRuns+" && "+known+" && demo.firstFrame")
			w.over(c.transport, s.isolated)
			first := eval[float64](w, "demo.samples.find(s => s.stamps ?? s.ping).at")
			t.Logf("synchronized %.2f s and the first frame %.2f s after the page began", first/1000, eval[float64](w, "demo.firstFrame")/1000)
			time.Sleep(*measureFor)
			got := w.measure(*measureFor)
			late := 1000 * eval[float64](w, beganLate)
			var right []float64
			for _, s := range got {
				if r := c.series(s); r != nil {
					right = append(right, math.Abs(r.Error+late))
				}
			}
			t.Logf("readings lag behind by up to %v ms; error %s", eval[float64](w, "timesyncPage.step"), summary(right))
			t.Log("by the time of day of the page's begin:")
			tolerance := 300.0
			if alone && s.isolated {
				tolerance = 100
			}
			if !alone {
				usable(t, got, c.series, tolerance, besideOthers)
				return
			}
			t.Log("ping:", summary(errorSizes(t, got, pings, tolerance)))
			if e := errorSizes(t, got, stamps, tolerance); first > 5000 || !(testkit.OrNaN(e, .99) < 1000) {
				t.Errorf("not synchronized within 5 s to 1 ms: %s", summary(e))
			}
		})
	}
}

// The page without WebAssembly knows the time by timesync.mjs alone, over WebTransport and over a
// WebSocket, and follows the game: judged as the first page is.
func TestPlainPage(t *testing.T) {
	t.Parallel()
	s := startServer(t, "")
	browser := startBrowser(t)
	for _, c := range []struct {
		query, transport, known string
		series                  func(sample) *reading
	}{
		{"", "WebTransport", stampsKnown, stamps},
		{"?transport=websocket", "WebSocket", pingKnown, pings},
	} {
		t.Run(c.transport, func(t *testing.T) {
			w := open(t, browser, s.address()+"plain.html"+c.query)
			w.wait("the game is known, and the server has heard Hello", c.known+" && demo.game && demo.heard", patience)
			w.over(c.transport, true)
			time.Sleep(2 * time.Second)
			usable(t, w.measure(4*time.Second), c.series, 100, besideOthers)
			if !eval[bool](w, "demo.game.predicted > demo.game.shared && demo.game.shared > demo.game.server") {
				t.Error("the three clocks are not in order")
			}
		})
	}
}

// Two tabs are two players that see each other, walk by keyboard, and have one tick rate.
func TestTwoTabs(t *testing.T) {
	t.Parallel()
	s := startServer(t, "")
	browser := startBrowser(t)
	a := open(t, browser, s.address())
	b := open(t, browser, s.address())
	const three = "demo.frame?.drawn.length === 3" // two players and the server's figure
	b.wait("the second sees the first", three, patience)
	a.wait("the first sees the second", three, patience)

	const otherX = "demo.frame.drawn.find(f => !f.own && f.player !== 0).x"
	before := eval[float64](b, otherX)
	press := func(event string) { // of the right arrow
		eval[bool](a, fmt.Sprintf("elevator.dispatchEvent(new KeyboardEvent('%s', {key: 'ArrowRight', bubbles: true}))", event))
	}
	press("keydown")
	b.wait("the other walks", fmt.Sprintf("Math.abs(%s - %f) > 0.3", otherX, before), patience)
	press("keyup")

	// Everybody stands on the platform of their own time, in most frames: where the machine
	// has no time for the page, states come too late for some.
	for _, w := range []*tab{a, b} {
		var seen [3][]float64
		for range 30 {
			time.Sleep(100 * time.Millisecond)
			for i, x := range eval[[]float64](w, `(f => [
				Math.abs(f.drawn.find(d => d.own).height - f.levels[2]),
				Math.abs(f.drawn.find(d => d.player === 0).height - f.levels[0]),
				f.times[2] - f.times[0],
			])(demo.frame)`) {
				seen[i] = append(seen[i], x)
			}
		}
		own, npc, lead := testkit.OrNaN(seen[0], .5), testkit.OrNaN(seen[1], .5), testkit.OrNaN(seen[2], .5)
		t.Logf("predicted time leads by %.3f s; feet are off by %.3f and %.3f m (medians)", lead, own, npc)
		if own > 0.01 || npc > 0.1 || lead < 0.1 {
			t.Error("not on the platform of their time")
		}
	}

	eval[bool](a, "(r => { r.value = 30; return r.dispatchEvent(new Event('input')); })(controls.elements.rate)")
	b.wait("the tick rate is that of both", "demo.frame?.rate === 30", patience)
}

// The sliders make the path longer: a longer way up shows as an error of half of it, which the bound contains.
func TestSliders(t *testing.T) {
	t.Parallel()
	w := ready(t, startServer(t, ""), "latency=10&uphill=30&jitter=0&loss=0", stampsKnown+" && "+pingKnown)
	time.Sleep(2 * time.Second)
	got := w.measure(2 * time.Second)
	errorSizes(t, got, pings, 300)
	m := testkit.OrNaN(errorSizes(t, got, stamps, 300), .5)
	if !(m > 10_000 && m < 20_000) { // less or more of it is the machine's
		t.Errorf("the median error of stamps is %.0f us, want 15 ms", m)
	}
}

// After a restart of the server, which then has another clock and another game, the page is
// in step again by itself. What both servers recorded can be replayed.
func TestServerRestart(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := startServer(t, folder)
	w := ready(t, s, perfect, gameRuns+" && "+stampsKnown)
	addr := s.listener.Addr().String()
	s.close()
	w.wait("the loss is noticed", "demo.transport === ''", 15*time.Second)
	testkit.Eventually(t, "another server has the port", func() bool {
		again, err := serve(addr, built, folder)
		if err == nil {
			s = again
			t.Cleanup(s.close)
		}
		return err == nil
	})
	took := w.wait("connected again", "demo.connections === 2 && demo.samples.at(-1).stamps", 15*time.Second)
	t.Logf("synchronized %.1f s after the restart", took.Seconds())
	time.Sleep(2 * time.Second)
	usable(t, w.measure(2*time.Second), stamps, math.Inf(1), 2000)
	w.wait("the game goes on", "demo.events.some(e => e.includes('epoch'))", 5*time.Second)
	s.close()
	names, _ := filepath.Glob(filepath.Join(folder, "*.tsr"))
	datagrams := 0
	for _, name := range names {
		datagrams = max(datagrams, programtest.Recording(t, name))
	}
	if len(names) < 2 || datagrams < 30 {
		t.Errorf("%q, of at most %d datagrams", names, datagrams)
	}
}

// The clock is right again after it was set and after a suspend, and that it was set is counted. Where the machine has no
// time for the page, no exchange is right to 1 ms, and the bound says so.
func TestClockEvents(t *testing.T) {
	t.Parallel()
	w := ready(t, startServer(t, ""), perfect, stampsKnown+" && "+pingKnown)
	time.Sleep(3 * time.Second)
	for _, button := range []string{"step", "suspend"} { // which takes 5 s
		from, steps := w.now(), eval[int](w, stampsKnown+".steps")
		w.do(chromedp.Focus(chromedp.CSS("#"+button)), chromedp.KeyEvent(kb.Enter))
		time.Sleep(11 * time.Second)
		if eval[int](w, stampsKnown+".steps") == steps {
			t.Errorf("%s: no clock was set", button)
		}
		samples := w.samples(from)
		for name, series := range map[string]func(sample) *reading{"stamps": stamps, "ping": pings} {
			var wrong, unaware float64 // for so long, ms: by more than 1 ms, and by more than the bound, too
			for i, s := range samples[1:] {
				if r := series(s); r != nil && math.Abs(r.Error) > 1000 {
					wrong += s.At - samples[i].At
					if math.Abs(r.Error) > r.Bound {
						unaware += s.At - samples[i].At
					}
				}
			}
			if t.Logf("%s, %s: wrong for %.0f ms, %.0f unaware", button, name, wrong, unaware); unaware > 4000 {
				t.Error("not right again")
			}
		}
	}
}

// A tab that was frozen, and is then hidden, where timers run once a second, is right again
// within 2 s and stays so.
func TestBackground(t *testing.T) {
	t.Parallel()
	w := ready(t, startServer(t, ""), perfect, gameRuns+" && "+stampsKnown)
	eval[bool](w, "window.beats = [], setInterval(() => beats.push(performance.now()), 10), true")
	for _, state := range []cdppage.SetWebLifecycleStateState{"frozen", "active"} { // but still hidden
		time.Sleep(3 * time.Second)
		_, err := chromedp.Call(w.ctx, cdppage.SetWebLifecycleState, cdppage.SetWebLifecycleStateParams{State: state})
		testkit.Must(t, err)
		time.Sleep(3 * time.Second)
	}
	back := w.now()
	time.Sleep(4 * time.Second)
	e := errorSizes(t, w.samples(back-1000), stamps, math.Inf(1))
	beats := eval[int](w, fmt.Sprintf("beats.filter(at => at > %f).length", back-3000))
	if !(testkit.OrNaN(e, .99) < 1000) || len(e) < 20 {
		t.Error("not right again: ", summary(e))
	}
	if beats > 20 {
		t.Error("the tab was not throttled, so this shows nothing")
	}
}

// The page fits its window, and is legible in light and dark.
func TestSizesAndColours(t *testing.T) {
	t.Parallel()
	w := ready(t, startServer(t, ""), "", gameRuns)
	for _, width := range []int64{1400, 800, 400} {
		w.do(chromedp.EmulateViewport(width, 900))
		w.wait("the canvas follows", fmt.Sprintf("innerWidth === %d && elevator.width === Math.round(elevator.clientWidth * devicePixelRatio)", width), 5*time.Second)
		if over := eval[float64](w, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
			t.Errorf("%.0f px are beyond a width of %d", over, width)
		}
	}
	for _, scheme := range []string{"light", "dark"} {
		setScheme(w, scheme)
		for _, element := range []string{"body", "#status", "button", "caption", "thead th", ".stamps", ".ping", "figcaption"} {
			if c := eval[float64](w, fmt.Sprintf(contrast, element)); c < 4.5 {
				t.Errorf("%s: the contrast of %s is %.1f, want 4.5 (WCAG)", scheme, element, c)
			}
		}
	}
	// Every control can be reached by keyboard.
	if n := eval[int](w, "[...document.querySelectorAll('input, button, #elevator')].filter(e => e.tabIndex < 0).length"); n != 0 {
		t.Errorf("%d controls cannot be focused", n)
	}
}

// contrast is the contrast of the text of an element with what is behind it, by WCAG 2.
const contrast = `(element => {
	const parse = c => c.match(/[\d.]+/g).map(Number);
	const light = c => {
		const [r, g, b] = parse(c).map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	let behind = element;
	while (behind.parentElement && parse(getComputedStyle(behind).backgroundColor)[3] === 0) behind = behind.parentElement;
	const pair = [light(getComputedStyle(element).color), light(getComputedStyle(behind).backgroundColor)].sort((a, b) => b - a);
	return (pair[0] + 0.05) / (pair[1] + 0.05);
})(document.querySelector('%s'))`

func setScheme(w *tab, scheme string) {
	w.t.Helper()
	_, err := chromedp.Call(w.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	testkit.Must(w.t, err)
}

// The pictures of the documents: go test -run TestScreenshots -screenshots ../../docs
func TestScreenshots(t *testing.T) {
	if *screenshots == "" {
		t.Skip("only with -screenshots")
	}
	s := startServer(t, "")
	w := ready(t, s, "", gameRuns)
	ready(t, s, "", gameRuns)
	time.Sleep(15 * time.Second)
	eval[bool](w, "document.getElementById('step').click() ?? true")
	time.Sleep(15 * time.Second)
	for _, scheme := range []string{"light", "dark"} {
		setScheme(w, scheme)
		w.do(chromedp.EmulateViewport(960, 1240))
		w.wait("it goes up", "demo.frame.levels.every((l, i, all) => l > 1 && l < 2 && (i === 0 || l > all[i-1]))", patience)
		png, err := chromedp.Run(w.ctx, chromedp.CaptureScreenshot())
		testkit.Must(t, err)
		testkit.Must(t, os.WriteFile(strings.TrimSuffix(*screenshots, "/")+"/browser-"+scheme+".png", png, 0o644))
	}
}
