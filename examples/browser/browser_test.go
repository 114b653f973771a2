// SPDX-License-Identifier: BSD-3-Clause

// These tests prove what the page does in a real Chromium, without a window. Where there is
// none they are skipped, and say so.
package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdpinput "github.com/chromedp/cdproto/input"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"timesync/internal/program/programtest"
	"timesync/internal/testkit"
)

var (
	measureFor = flag.Duration("measure.for", 3*time.Second,
		"how long a page settles, and is measured then")
	screenshots = flag.String("screenshots", "",
		"`folder` for browser-light.png, browser-dark.png and browser-phone.png")
)

const (
	// testTime bounds a test.
	testTime = 90 * time.Second
	// patience is for what takes a second, and longer where the machine has no time for it.
	patience = 30 * time.Second
	// perfect takes everything off the path.
	perfect = "up-delay=0&up-jitter=0&up-loss=0&down-delay=0&down-jitter=0&down-loss=0"
	// What a page says of itself.
	timeKnown = "demo.samples.at(-1)?.bound"
	gameRuns  = "demo.view"
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

// startServer starts a server that ends with the test.
func startServer(t *testing.T, record string) *server {
	t.Helper()
	s, err := serve("127.0.0.1:0", record)
	testkit.Must(t, err)
	t.Cleanup(s.close)
	return s
}

// startBrowser starts a Chromium that ends with the test.
func startBrowser(t *testing.T) context.Context {
	t.Helper()
	path := installed(t, "Chromium (apt-get install chromium, or set CHROMIUM)",
		os.Getenv("CHROMIUM"), "chromium", "chromium-browser", "chromium-headless-shell",
		"google-chrome")
	ctx, cancel := context.WithTimeout(t.Context(), testTime)
	t.Cleanup(cancel)
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.UserDataDir(t.TempDir()),
		chromedp.WindowSize(1100, 1250),
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

// open opens an address in a new tab, and fails the test if the page throws an exception that it
// does not catch.
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
			w.t.Fatalf("not within %v: %s\nstatus: %s\nsaid: %v", atMost, what,
				eval[string](w, "document.getElementById('status').textContent"),
				eval[[]string](w, "demo.said"))
		}
		time.Sleep(50 * time.Millisecond)
	}
	return time.Since(start)
}

// sample is what the page knew of the server's clock at a moment. The last four are missing, and
// the bound 0, while it knew nothing.
type sample struct {
	At              float64 // ms since the page began
	Error, Bound    float64 // us
	To, From, Steps float64 // us, us, and a count
}

// samples returns those from a time of the page on, in ms.
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

// tolerance is how far the truth may be off, us: page and server compare their clocks by the time
// of day of one machine. A page read it when it began, and later only to 1 ms.
const tolerance = 300.0

// errorSizes returns the absolute errors, in us. It fails the test if one is above its bound by
// more than the tolerance.
func errorSizes(t *testing.T, samples []sample, tolerance float64) (sizes []float64) {
	t.Helper()
	for _, s := range samples {
		if s.Bound == 0 {
			continue
		}
		size := math.Abs(s.Error)
		sizes = append(sizes, size)
		if size > s.Bound+tolerance {
			t.Fatalf("at %.0f ms the error is %.0f us and the bound %.0f us", s.At, size, s.Bound)
		}
	}
	return sizes
}

// usable returns the absolute errors as errorSizes does, and fails the test unless the median is
// below most, in us.
func usable(t *testing.T, samples []sample, tolerance, most float64) {
	t.Helper()
	e := errorSizes(t, samples, tolerance)
	t.Log("error:", summary(e))
	if !(testkit.OrNaN(e, .5) < most) {
		t.Errorf("not synchronized to %.0f us", most)
	}
}

// besideOthers is what the median error may be where another browser runs at the same time, in us.
// On a quiet machine it is below 100: docs/BROWSER.md.
const besideOthers = 20_000.0

// summary is about errors in us.
func summary(e []float64) string {
	median, most := testkit.OrNaN(e, .5), testkit.OrNaN(e, .99)
	return fmt.Sprintf("median %.0f us, 99 %% %.0f us of %d", median, most, len(e))
}

// click clicks a button as a mouse does, in the middle of what is seen of it.
func (w *tab) click(selector string) {
	w.t.Helper()
	w.do(chromedp.ScrollIntoView(chromedp.CSS(selector)), chromedp.Click(chromedp.CSS(selector)))
}

// slide moves a slider by the keyboard: to its least, and so many steps up.
func (w *tab) slide(id string, steps int) {
	w.t.Helper()
	w.do(chromedp.Focus(chromedp.CSS("#"+id)), chromedp.KeyEvent(kb.Home))
	for range steps {
		w.do(chromedp.KeyEvent(kb.ArrowRight))
	}
}

// TestSynchronizes: the page knows the time over WebTransport, and nearly as well where it is not
// isolated, and so its clock advances by 100 us; without WebTransport over a WebSocket.
func TestSynchronizes(t *testing.T) {
	for _, c := range []struct {
		name, query, transport string
	}{
		{"isolated", "", "WebTransport"}, // these two alone, to be compared; the others at once
		{"not isolated", "", "WebTransport"},
		{"no UDP", "", "WebSocket"},
		{"no WebTransport in the browser", "&transport=websocket", "WebSocket"},
	} {
		t.Run(c.name, func(t *testing.T) {
			alone := c.transport == "WebTransport"
			if !alone {
				t.Parallel()
			}
			s := startServer(t, "")
			s.isolated = c.name != "not isolated"
			if c.name == "no UDP" {
				s.wt.Close()
			}
			w := ready(t, s, perfect+c.query, gameRuns+" && "+timeKnown)
			kind := eval[string](w, "demo.game.connection.kind")
			isolated := eval[bool](w, "crossOriginIsolated")
			if kind != c.transport || isolated != s.isolated {
				t.Errorf("over %s, isolated %v; want %s, %v",
					kind, isolated, c.transport, s.isolated)
			}
			first := eval[float64](w, "demo.samples.find(s => s.bound).at")
			t.Logf("synchronized %.2f s after the page began", first/1000)
			time.Sleep(*measureFor)
			got := w.measure(*measureFor)
			if !alone {
				usable(t, got, tolerance, besideOthers)
				return
			}
			e := errorSizes(t, got, tolerance)
			t.Log("error:", summary(e))
			if first > 5000 || !(testkit.OrNaN(e, .99) < 1000) {
				t.Errorf("not synchronized within 5 s to 1 ms: %s", summary(e))
			}
		})
	}
}

// Two tabs are two players that see each other and walk by keyboard, and their clocks of the server
// agree within the sum of their bounds, also where their networks differ.
func TestTwoTabs(t *testing.T) {
	t.Parallel()
	s := startServer(t, "")
	browser := startBrowser(t)
	a := open(t, browser, s.address()+"?up-delay=120&down-delay=20&up-jitter=1&down-jitter=1")
	a.wait("the first tab plays", gameRuns, patience)
	b := open(t, browser, s.address()+"?"+perfect)
	const three = "demo.view?.figures.length === 3" // two players and the server's figure
	b.wait("the second sees the first", three, patience)
	a.toFront()
	a.wait("the first sees the second", three, patience)

	for range 20 {
		time.Sleep(150 * time.Millisecond)
		at, bt := eval[reading](a, readNow), eval[reading](b, readNow)
		apart := math.Abs((at.Remote - at.Wall) - (bt.Remote - bt.Wall))
		if apart > at.Bound+bt.Bound+tolerance {
			t.Errorf("the tabs are %.0f us apart, and their bounds %.0f and %.0f us",
				apart, at.Bound, bt.Bound)
		}
		if apart < 30_000 || apart > 70_000 { // half of the difference of the ways of the first
			t.Errorf("the tabs are %.0f us apart, not about 50 ms", apart)
		}
	}
	// The page says so itself.
	a.wait("the first compares itself with the second", "demo.others.size === 1", patience)
	const agrees = "[...demo.others.values()].every(({apart, allowed}) => apart <= allowed + 300)"
	if !eval[bool](a, agrees) {
		t.Error("the page says that the tabs are further apart than their bounds: ",
			eval[string](a, "apart.textContent"))
	}
	if eval[string](a, "apart.textContent") == "\u2013" {
		t.Error("the page does not show how far the tabs are apart")
	}

	const otherX = "demo.view.figures.find(f => !f.own && f.number !== 0).x"
	const ownX = "demo.view.figures.find(f => f.own).x"
	b.toFront()
	before := eval[float64](b, ownX)
	b.press("keyDown")
	b.wait("the player walks", fmt.Sprintf("%s > %f", ownX, before+0.3), patience)
	b.press("keyUp")
	after := eval[float64](b, ownX)
	a.toFront()
	a.wait("the other tab sees it", fmt.Sprintf("%s >= %f - 0.2", otherX, after), patience)

	a.standsInTime()
}

// readNow is what a tab reads of the server's clock at a moment, us.
const readNow = `(() => {
	const at = performance.now();
	return {
		wall: (demo.timeOrigin() + at) * 1000 - demo.game.greeting.unixAtZero,
		remote: Number(demo.remoteAt(at)),
		bound: demo.game.link.errorBound(demo.clock.now()),
	};
})()`

type reading struct{ Wall, Remote, Bound float64 }

// press presses the right arrow key, or lets it go.
func (w *tab) press(event cdpinput.DispatchKeyEventType) {
	w.t.Helper()
	_, err := chromedp.Call(w.ctx, cdpinput.DispatchKeyEvent, cdpinput.DispatchKeyEventParams{
		Type: event, Key: "ArrowRight", Code: "ArrowRight", WindowsVirtualKeyCode: 39,
	})
	testkit.Must(w.t, err)
}

// standsInTime fails the test unless everybody stands on the platform of their own time, in most
// frames: where the machine has no time for the page, states come too late for some.
func (w *tab) standsInTime() {
	w.t.Helper()
	var seen [3][]float64
	for range 30 {
		time.Sleep(100 * time.Millisecond)
		for i, x := range eval[[]float64](w, `(({figures, times}) => {
			const off = f => Math.abs(f.height - demo.game.platform(f.at));
			const own = figures.find(f => f.own), npc = figures.find(f => f.number === 0);
			return [off(own), off(npc), (times.predicted - times.server) / 1e6];
		})(demo.view)`) {
			seen[i] = append(seen[i], x)
		}
	}
	own, npc := testkit.OrNaN(seen[0], .5), testkit.OrNaN(seen[1], .5)
	lead := testkit.OrNaN(seen[2], .5)
	const what = "predicted time leads by %.3f s; feet are off by %.3f and %.3f m (medians)"
	w.t.Logf(what, lead, own, npc)
	if own > 0.01 || npc > 0.1 || lead < 0.1 {
		w.t.Error("not on the platform of their time")
	}
}

// A way that is 30 ms longer than the other shows as an error of half of it, which the bound
// contains.
func TestUnequalWays(t *testing.T) {
	t.Parallel()
	const unequal = "up-delay=40&up-jitter=0&up-loss=0&down-delay=10&down-jitter=0&down-loss=0"
	w := ready(t, startServer(t, ""), unequal, timeKnown)
	time.Sleep(2 * time.Second)
	m := testkit.OrNaN(errorSizes(t, w.measure(2*time.Second), tolerance), .5)
	if !(m > 10_000 && m < 20_000) { // less or more of it is the machine's
		t.Errorf("the median error is %.0f us, want 15 ms", m)
	}
}

// The sliders, moved by the keyboard, change the network, and so does a preset. The bound holds
// meanwhile.
func TestSliders(t *testing.T) {
	t.Parallel()
	w := ready(t, startServer(t, ""), perfect, timeKnown)
	from := w.now()
	slow := func(way string, ms int) string {
		const count = "demo.delays.filter(d => d.way === '%s').slice(-30)" +
			".filter(d => d.us > %d).length === 30"
		return fmt.Sprintf(count, way, ms*1000)
	}
	w.slide("up-delay", 40)
	w.wait("the way to the server is longer", slow("to", 38), patience)
	w.wait("the page says so", "asymmetry.textContent.includes('differ by 40 ms')", patience)
	w.slide("down-delay", 50)
	w.wait("the way from the server is longer", slow("from", 28), patience)
	w.click("[data-preset=unequal]")
	const shown = "document.getElementById('up-delay-value').value"
	w.wait("the slider says so", shown+" === '150 ms'", patience)
	w.wait("the server does what the preset says", slow("to", 100), patience)
	errorSizes(t, w.samples(from), tolerance)
}

// The buttons walk while they are held, as a thumb holds them.
func TestWalkButtons(t *testing.T) {
	t.Parallel()
	w := ready(t, startServer(t, ""), perfect, gameRuns)
	const ownX = "demo.view.figures.find(f => f.own).x"
	start := eval[float64](w, ownX)
	w.do(chromedp.ScrollIntoView(chromedp.CSS("[data-walk='1']")))
	at := eval[[]float64](w, `(({x, y, width, height}) => [x + width / 2, y + height / 2])
		(document.querySelector("[data-walk='1']").getBoundingClientRect())`)
	w.do(chromedp.MouseEvent(chromedp.MousePressed, at[0], at[1], chromedp.Button("left")))
	w.wait("the player walks", fmt.Sprintf("%s > %f", ownX, start+0.3), patience)
	w.do(chromedp.MouseEvent(chromedp.MouseReleased, at[0], at[1], chromedp.Button("left")))
	if eval[float64](w, "demo.game.walk") != 0 {
		t.Error("the player walks on")
	}
}

// After a restart of the server, which then has another clock and another game, the page is
// in step again by itself. What both servers recorded can be replayed.
func TestServerRestart(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := startServer(t, folder)
	w := ready(t, s, perfect, gameRuns+" && "+timeKnown)
	addr := s.listener.Addr().String()
	s.close()
	w.wait("the loss is noticed", "demo.game.connection === null", 15*time.Second)
	testkit.Eventually(t, "another server has the port", func() bool {
		again, err := serve(addr, folder)
		if err == nil {
			s = again
			t.Cleanup(s.close)
		}
		return err == nil
	})
	const again = "demo.game.connections === 2 && " + timeKnown + " && " + gameRuns
	took := w.wait("connected again", again, 15*time.Second)
	t.Logf("synchronized %.1f s after the restart", took.Seconds())
	time.Sleep(2 * time.Second)
	usable(t, w.measure(2*time.Second), math.Inf(1), 2000)
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

// The clock is right again after it was stepped and after a sleep, by the buttons of the page, and
// that it was set is counted.
func TestClockEvents(t *testing.T) {
	t.Parallel()
	w := ready(t, startServer(t, ""), perfect, timeKnown)
	time.Sleep(3 * time.Second)
	for _, button := range []string{"step", "sleep"} { // which takes 5 s
		from, steps := w.now(), eval[int](w, "demo.game.link.steps")
		w.click("#" + button)
		time.Sleep(11 * time.Second)
		if eval[int](w, "demo.game.link.steps") == steps {
			t.Errorf("%s: no clock was set", button)
		}
		var wrong float64   // ms: for how long by more than 1 ms
		var unaware float64 // ms: and for how long of it by more than the bound, too
		samples := w.samples(from)
		for i, s := range samples[1:] {
			if s.Bound == 0 || math.Abs(s.Error) < 1000 {
				continue
			}
			wrong += s.At - samples[i].At
			if math.Abs(s.Error) > s.Bound {
				unaware += s.At - samples[i].At
			}
		}
		t.Logf("%s: wrong for %.0f ms, %.0f unaware", button, wrong, unaware)
		if unaware > 4000 {
			t.Error("not right again")
		}
	}
}

// A tab that was frozen, and is then hidden, where timers run once a second, is right again
// within 2 s and stays so.
func TestBackground(t *testing.T) {
	t.Parallel()
	w := ready(t, startServer(t, ""), perfect, gameRuns+" && "+timeKnown)
	eval[bool](w, "window.beats = [], setInterval(() => beats.push(performance.now()), 10), true")
	// It is active again, but still hidden.
	for _, state := range []cdppage.SetWebLifecycleStateState{"frozen", "active"} {
		time.Sleep(3 * time.Second)
		params := cdppage.SetWebLifecycleStateParams{State: state}
		_, err := chromedp.Call(w.ctx, cdppage.SetWebLifecycleState, params)
		testkit.Must(t, err)
		time.Sleep(3 * time.Second)
	}
	back := w.now()
	time.Sleep(4 * time.Second)
	e := errorSizes(t, w.samples(back-1000), math.Inf(1))
	beats := eval[int](w, fmt.Sprintf("beats.filter(at => at > %f).length", back-3000))
	if !(testkit.OrNaN(e, .99) < 1000) || len(e) < 4 {
		t.Error("not right again: ", summary(e))
	}
	if beats > 20 {
		t.Error("the tab was not throttled, so this shows nothing")
	}
}

// The dashboard shows the age of the event, by the server's clock.
func TestDashboard(t *testing.T) {
	t.Parallel()
	s := startServer(t, "")
	w := open(t, startBrowser(t), s.address()+"dashboard.html")
	const shown = "parseFloat(age.value)" // NaN while unknown
	testkit.Eventually(t, "the age is known", func() bool { return eval[bool](w, shown+" >= 0") })
	youngest, oldest := math.Inf(1), math.Inf(-1)
	for start := time.Now(); time.Since(start) < eventEvery*3/2; time.Sleep(50 * time.Millisecond) {
		age := eval[float64](w, shown)
		youngest, oldest = min(youngest, age), max(oldest, age)
	}
	const late = 0.5 // s, where the machine has no time for the page
	if youngest < -late || youngest > late || math.Abs(oldest-eventEvery.Seconds()) > late {
		t.Errorf("ages are from %.2f to %.2f s, want 0 to %v", youngest, oldest, eventEvery)
	}
}

// The page fits its window, and is legible in light and dark.
func TestSizesAndColours(t *testing.T) {
	t.Parallel()
	w := ready(t, startServer(t, ""), "", gameRuns)
	for _, width := range []int64{1400, 800, 360} {
		w.do(chromedp.EmulateViewport(width, 900))
		const follows = `innerWidth === %d &&
			elevator.width === Math.round(elevator.clientWidth * devicePixelRatio)`
		w.wait("the canvas follows", fmt.Sprintf(follows, width), patience)
		if over := eval[float64](w, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
			t.Errorf("%.0f px are beyond a width of %d", over, width)
		}
	}
	// A thumb hits every button of the narrow page.
	const heights = "[...document.querySelectorAll('button')].map(b => b.offsetHeight)"
	if least := eval[float64](w, "Math.min(..."+heights+")"); least < 44 {
		t.Errorf("a button is %.0f px high", least)
	}
	for _, scheme := range []string{"light", "dark"} {
		setScheme(w, scheme)
		for _, element := range []string{
			"body", "header p", "#status", "button", ".note", "dt", "#log",
			"fieldset.to legend", "fieldset.from legend",
		} {
			if c := eval[float64](w, fmt.Sprintf(contrast, element)); c < 4.5 {
				t.Errorf("%s: the contrast of %s is %.1f, want 4.5 (WCAG)", scheme, element, c)
			}
		}
	}
	// Every control can be reached by keyboard, and every slider has a name.
	const controls = "[...document.querySelectorAll('input, button')]"
	if n := eval[int](w, controls+".filter(e => e.tabIndex < 0).length"); n != 0 {
		t.Errorf("%d controls cannot be focused", n)
	}
	const inputs = "[...document.querySelectorAll('input')]"
	if n := eval[int](w, inputs+".filter(e => e.labels.length !== 1).length"); n != 0 {
		t.Errorf("%d sliders have no label", n)
	}
}

// contrast is the contrast of the text of an element with what is behind it, by WCAG 2.
const contrast = `(element => {
	const parse = c => c.match(/[\d.]+/g).map(Number);
	const light = c => {
		const linear = v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
		const [r, g, b] = parse(c).map(v => linear(v / 255));
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	let behind = element;
	const back = () => getComputedStyle(behind).backgroundColor;
	while (behind.parentElement && parse(back())[3] === 0) behind = behind.parentElement;
	const pair = [light(getComputedStyle(element).color), light(back())].sort((a, b) => b - a);
	return (pair[0] + 0.05) / (pair[1] + 0.05);
})(document.querySelector('%s'))`

// The pictures of the documents: go test -run TestScreenshots -screenshots ../../docs
func TestScreenshots(t *testing.T) {
	if *screenshots == "" {
		t.Skip("only with -screenshots")
	}
	s := startServer(t, "")
	browser := startBrowser(t)
	w := open(t, browser, s.address())
	w.wait("the game runs", gameRuns, patience)
	other := open(t, browser, s.address())
	other.wait("the game runs", gameRuns, patience)
	w.toFront()
	time.Sleep(10 * time.Second)
	w.click("#step")
	time.Sleep(18 * time.Second)
	for _, shot := range []struct {
		name, scheme  string
		width, height int64
	}{
		{"light", "light", 1100, 1400},
		{"dark", "dark", 1100, 1400},
		{"phone", "light", 390, 1180},
	} {
		setScheme(w, shot.scheme)
		w.do(chromedp.EmulateViewport(shot.width, shot.height))
		const rises = `(({times}) => Object.values(times).map(t => demo.game.platform(t)).every(
			(l, i, all) => l > 0.5 && l < 2.5 && (i === 0 || l > all[i - 1])))(demo.view)`
		w.wait("it goes up", rises, patience)
		eval[bool](w, "(scrollTo(0, 0), true)") // the click had scrolled down
		png, err := chromedp.Run(w.ctx, chromedp.CaptureScreenshot())
		testkit.Must(t, err)
		name := strings.TrimSuffix(*screenshots, "/") + "/browser-" + shot.name + ".png"
		testkit.Must(t, os.WriteFile(name, png, 0o644))
	}
}

// toFront makes the tab the one that is seen.
func (w *tab) toFront() {
	w.t.Helper()
	_, err := chromedp.Call(w.ctx, cdppage.BringToFront, cdp.Empty{})
	testkit.Must(w.t, err)
}

func setScheme(w *tab, scheme string) {
	w.t.Helper()
	_, err := chromedp.Call(w.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	testkit.Must(w.t, err)
}
