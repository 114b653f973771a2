// These tests prove that the committed report is what comes out, that each of its claims has
// a reason, and that its figures are worked out right.

package main

import (
	"bytes"
	"image/color"
	"image/png"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"timesync/internal/sim"
)

// all are the figures, played once for all tests.
var all = sync.OnceValues(func() (*figures, error) { return collect("") })

func figuresOf(t *testing.T) *figures {
	t.Helper()
	if testing.Short() {
		t.Skip("plays all worlds")
	}
	f, err := all()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// settled returns the paragraphs, items and rows of a report that small changes of the
// estimator move a little only. What costs depend on is the machine, and who wins where is a
// matter of a few microseconds; the figures behind that are in the other parts.
func settled(t *testing.T, markdown string) (parts []string) {
	t.Helper()
	for _, section := range [][2]string{{costBegin, costEnd}, {winsBegin, winsEnd}} {
		i, j := strings.Index(markdown, section[0]), strings.Index(markdown, section[1])
		if i < 0 || j < i {
			t.Fatalf("no %q before %q", section[0], section[1])
		}
		markdown = markdown[:i] + markdown[j:]
	}
	return paragraphs(markdown)
}

// paragraphs returns a document's paragraphs and rows, without their line breaks and bold.
func paragraphs(markdown string) (parts []string) {
	for _, part := range strings.Split(strings.ReplaceAll(markdown, "**", ""), "\n\n") {
		if strings.HasPrefix(part, "|") {
			parts = append(parts, strings.Split(part, "\n")...)
		} else {
			parts = append(parts, strings.Join(strings.Fields(part), " "))
		}
	}
	return parts
}

var numbers = regexp.MustCompile(`\d+(\.\d+)?`)

// alike reports whether two texts say the same: their numbers within a tenth or 3, for
// processors round sums differently, and small changes of the estimator are not worth a new
// report each.
func alike(a, b string) bool {
	if a == b {
		return true
	}
	if numbers.ReplaceAllString(a, "#") != numbers.ReplaceAllString(b, "#") {
		return false
	}
	x, y := numbers.FindAllString(a, -1), numbers.FindAllString(b, -1)
	for i := range x {
		v, _ := strconv.ParseFloat(x[i], 64)
		w, _ := strconv.ParseFloat(y[i], 64)
		if math.Abs(v-w) > max(3, 0.1*v) {
			return false
		}
	}
	return true
}

// differ reports how a committed document differs from what comes out.
func differ(t *testing.T, name string, want, got []string) {
	t.Helper()
	bad := 0
	for i := range min(len(got), len(want)) {
		if !alike(got[i], want[i]) {
			if bad++; bad < 10 {
				t.Errorf("docs/%s says\n\t%s\nbut this comes out:\n\t%s", name, want[i], got[i])
			}
		}
	}
	if bad > 0 || len(got) != len(want) {
		t.Errorf("docs/%s: %d parts differ, %d instead of %d: if that is right, run go run . -out ../docs", name, bad, len(got), len(want))
	}
}

// TestCommitted holds the documents that are part of the project to what comes out.
func TestCommitted(t *testing.T) {
	f := figuresOf(t)
	d, err := f.report(nil)
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(committed, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, to := range regexp.MustCompile(`href="#([^"]*)"`).FindAllStringSubmatch(d.html.String(), -1) {
		if !strings.Contains(d.html.String(), `id="`+to[1]+`"`) {
			t.Errorf("a link leads to #%s, which is nowhere", to[1])
		}
	}
	differ(t, "REPORT.md", settled(t, read("REPORT.md")), settled(t, d.markdown()))
	differ(t, "CHRONYD.md", paragraphs(read("CHRONYD.md")), paragraphs(f.chronyDocument().markdown()))
	differ(t, "INPUTS.md", paragraphs(read("INPUTS.md")), paragraphs(inputDocument().markdown()))
	if n := strings.Count(read("REPORT.md"), "\n"); n > 280 {
		t.Errorf("docs/REPORT.md has %d lines; nobody reads more than 280", n)
	}
	for _, p := range d.pictures {
		for _, th := range themes {
			if _, err := os.Stat(p.path(committed, th)); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestCSV: report.csv has a row for each world and method, and the geometric mean of each
// method over the simulated worlds is what comes out.
func TestCSV(t *testing.T) {
	f := figuresOf(t)
	rows, err := readCSV(filepath.Join(committed, "report.csv"))
	if err != nil || len(rows) == 0 || !slices.Equal(rows[0], csvHead) {
		t.Fatalf("docs/report.csv: %d rows, %v", len(rows), err)
	}
	values := map[string][]float64{}
	for _, row := range rows[1:] {
		if v, err := strconv.ParseFloat(row[5], 64); row[0] == simulated && err == nil {
			values[row[2]] = append(values[row[2]], v)
		}
	}
	want := len(f.worlds)*len(columns()) + len(f.of(simulated)) - 2 // chronyd's worlds, of which two are missing
	if len(rows)-1 != want {
		t.Errorf("docs/report.csv has %d rows, want %d", len(rows)-1, want)
	}
	for column, name := range columns() {
		if got, want := geometric(values[name]), f.mean(simulated, column, 0.99); math.Abs(got-want) > 0.05*want {
			t.Errorf("docs/report.csv: %s %.1f us in the mean; now %.1f", name, got, want)
		}
	}
}

// TestFollow: what README.md and ACCURACY.md say is what comes out, and figures that are wrong
// are made right.
func TestFollow(t *testing.T) {
	f := figuresOf(t)
	for _, doc := range []struct {
		path   string
		follow func(string) (string, error)
	}{{"../README.md", f.followReadme}, {"../docs/ACCURACY.md", f.followAccuracy}} {
		text, err := os.ReadFile(doc.path)
		if err != nil {
			t.Fatal(err)
		}
		right, err := doc.follow(string(text))
		if err != nil {
			t.Fatal(err)
		}
		differ(t, doc.path, paragraphs(string(text)), paragraphs(right))
		wrong := strings.NewReplacer(" 4", " 5", " 1", " 7", "*1", "*8").Replace(right)
		if again, err := doc.follow(wrong); err != nil || again == wrong {
			t.Errorf("%s: wrong figures stay, %v", doc.path, err)
		}
		if _, err := doc.follow("nothing of that kind\n"); err == nil {
			t.Errorf("%s: a document without figures passes", doc.path)
		}
	}
}

// TestReasons: where another method wins by a quarter or more, the text says why.
func TestReasons(t *testing.T) {
	f := figuresOf(t)
	for i, w := range f.worlds {
		q := 0.99
		if w.set == skewed {
			q = 0.95
		} else if w.set != simulated {
			continue
		}
		if winner, us := f.winner(i, q); winner != "" && us < 0.8*f.value(i, ours, q) && reason(w.name) == unexplained {
			t.Errorf("%s, %s: %s wins (%.1f us against %.1f), and nothing says why", w.set, w.name, winner, us, f.value(i, ours, q))
		}
	}
}

// TestLimit: the oracle is a limit where nothing is forged. In no simulated world is a
// method better than it by more than the rounding of a stamp; where one way slows down for 100 s,
// and the rates of the clocks change meanwhile, a straight line is the limit to a fifth only.
func TestLimit(t *testing.T) {
	f := figuresOf(t)
	for _, i := range f.of(simulated) {
		limit := f.value(i, len(methods), 0.99)
		least := limit - 8
		if f.worlds[i].name == "delayramp" {
			least -= limit / 5
		}
		for column, m := range methods {
			if v := f.value(i, column, 0.99); v < least {
				t.Errorf("%s: %s %.0f us, the oracle %.0f us", f.worlds[i].name, m.name, v, limit)
			}
		}
		if r := f.results[i][len(methods)]; r.missed > 0 {
			t.Errorf("%s: the oracle has no answer to %d questions", f.worlds[i].name, r.missed)
		}
	}
}

// TestOracle: without jitter the oracle errs by the rounding of stamps, although one clock
// is set by 3 s, runs 100 ppm fast and 2^26 us wrap meanwhile.
func TestOracle(t *testing.T) {
	sc := sim.Scenario{
		Name: "step", Duration: 2 * time.Minute,
		A: func(uint64) sim.ClockSpec {
			return sim.ClockSpec{SkewPPM: 100, Events: []sim.ClockEvent{{At: time.Minute, Step: 3 * time.Second}}}
		},
		B:  func(uint64) sim.ClockSpec { return sim.ClockSpec{OffsetUsec: 1 << 63} },
		AB: func(uint64) *sim.Link { return &sim.Link{Base: sim.Fixed(30 * time.Millisecond)} },
		BA: func(uint64) *sim.Link { return &sim.Link{Base: sim.Fixed(30 * time.Millisecond)} },
	}
	results := make([]result, len(methods)+1)
	playSeed(simWorld(sc, simulated, 1), 1, results, nil)
	r := results[len(methods)]
	if len(r.errs) < 2000 || r.missed > 0 {
		t.Fatalf("%d answers, %d missed", len(r.errs), r.missed)
	}
	for _, err := range r.errs {
		if err > 8 {
			t.Fatalf("error %.0f us", err)
		}
	}
}

// TestHull: no point is below the hull, and its slopes rise.
func TestHull(t *testing.T) {
	var ps []point
	for i := range 200 {
		ps = append(ps, point{at: time.Duration(i) * time.Second, delta: math.Abs(float64(i)-90) + 40*math.Abs(math.Sin(float64(i*i)))})
	}
	h := hull(ps)
	if len(h) < 3 || h[0] != ps[0] || h[len(h)-1] != ps[len(ps)-1] {
		t.Fatalf("%v", h)
	}
	slope := func(a, b point) float64 { return (b.delta - a.delta) / (b.at - a.at).Seconds() }
	for i := 2; i < len(h); i++ {
		if slope(h[i-2], h[i-1]) >= slope(h[i-1], h[i]) {
			t.Errorf("not convex at %v", h[i-1].at)
		}
	}
	for i := 1; i < len(h); i++ {
		for _, p := range ps {
			if p.at > h[i-1].at && p.at < h[i].at && slope(h[i-1], p) < slope(h[i-1], h[i])-1e-9 {
				t.Errorf("%v is below the hull", p)
			}
		}
	}
}

// TestInside: the fields that the plot of one world shows exist, and mean what it says.
func TestInside(t *testing.T) {
	w, err := find("clockstep", "")
	if err != nil {
		t.Fatal(err)
	}
	d := keep(w, 1)
	last := d.moments[len(d.moments)-1]
	if math.Abs(math.Abs(last.in.skew)-40) > 5 {
		t.Errorf("skew %.1f ppm in a world of 40", last.in.skew)
	}
	if trip := circle(last.in.own+last.in.peer, 27); trip < 50e3 || trip > 70e3 || math.Abs(trip-last.in.trip) > 200 {
		t.Errorf("round trip %.0f us, trusted %.0f us", trip, last.in.trip)
	}
	if len(d.seen) != 1 || last.in.gate < 100 || last.in.noise <= 0 {
		t.Errorf("steps at %v, gate %.0f us, noise %.0f us", d.seen, last.in.gate, last.in.noise)
	}
	if err := d.draw(filepath.Join(t.TempDir(), "world.png"), "clockstep"); err != nil {
		t.Error(err)
	}
}

// TestPictures draws one of each kind, for light and dark pages: as wide as a telephone with
// letters that are legible there, in the theme's colours.
func TestPictures(t *testing.T) {
	dir := t.TempDir()
	curves := []curve{curveOf(ours, parts([]float64{3, 5e3, math.NaN(), 2})...)}
	kinds := map[string]func(path string, th theme) error{
		"lines": func(path string, th theme) error {
			return drawCharts(path, th, &chart{title: "title", x: axis{max: 4}, y: errorAxis("error", 1, 1e4), curves: curves, events: []event{{1, 1, "set"}, {2, 3, "full"}}})
		},
		"strips": func(path string, th theme) error {
			return drawStrips(path, th, "title", errorAxis("error", 1, 1e4), []strip{{"x", screen.ink, []float64{3, 1e9}, 5}})
		},
	}
	for kind, draw := range kinds {
		for _, th := range themes {
			path := filepath.Join(dir, kind+th.name+".png")
			if err := draw(path, th); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			img, err := png.Decode(bytes.NewReader(b))
			if err != nil {
				t.Fatal(err)
			}
			if got, want := color.NRGBAModel.Convert(img.At(0, 0)), th.paper; got != want {
				t.Errorf("%s: the corner is %v, want %v", path, got, want)
			}
			const phone = 375
			if letters := textSize * phone / pictureWidth; letters < 10 || img.Bounds().Dx() < 2*phone {
				t.Errorf("%s: letters of %d pixels, %d pixels wide", path, letters, img.Bounds().Dx())
			}
		}
	}
}

// TestTone: the colours of all methods stand out against both backgrounds.
func TestTone(t *testing.T) {
	bright := func(c color.Color) float64 { // relative luminance, as in WCAG
		r, g, b, _ := c.RGBA()
		linear := func(v uint32) float64 {
			x := float64(v) / 0xffff
			if x <= 0.04045 {
				return x / 12.92
			}
			return math.Pow((x+0.055)/1.055, 2.4)
		}
		return 0.2126*linear(r) + 0.7152*linear(g) + 0.0722*linear(b)
	}
	for _, th := range themes {
		tones := []color.Color{rgb(chronyColor)}
		for column := range columns() {
			tones = append(tones, colorOf(column))
		}
		for _, c := range tones {
			x, y := bright(th.tone(c)), bright(th.paper)
			if contrast := (max(x, y) + 0.05) / (min(x, y) + 0.05); contrast < 2.5 {
				t.Errorf("%s: %v has a contrast of %.1f", th.name, c, contrast)
			}
		}
	}
}

// TestRealLink measures a real queue for some seconds, where the machine lets it.
func TestRealLink(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 6 s")
	}
	out := t.TempDir()
	log, err := exec.Command("reallink/run.sh", out, "-lasting", "6s", "-only", "tcp", "-record", out).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	if strings.Contains(string(log), "does not run here") {
		t.Skip(strings.TrimSpace(string(log)))
	}
	text, err := os.ReadFile(filepath.Join(out, "link.md"))
	if err != nil || !strings.Contains(string(text), "| all of it |") {
		t.Errorf("%v\n%s", err, log)
	}
	trace, err := readTrace(filepath.Join(out, "tcp-60singles.csv.gz"))
	if err != nil || len(trace[sim.A]) < 100 || len(trace[sim.B]) < 100 {
		t.Errorf("the trace has %d and %d datagrams, %v", len(trace[sim.A]), len(trace[sim.B]), err)
	}
}
