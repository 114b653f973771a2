// These tests prove that the committed report is what comes out, and that each of its claims has
// a reason.

package main

import (
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"timesync"
	"timesync/internal/sim"
	"timesync/internal/testkit"
	"timesync/lab/play"
	"timesync/lab/results"
	"timesync/record"
)

// The program runs in the folder of the module.
func init() { os.Chdir("..") }

// all are the figures, played once for all tests.
var all = sync.OnceValues(func() (*figures, error) { return collect("") })

// pages are made of them, also once: some pictures play worlds of their own.
var pages = sync.OnceValue(func() []results.Page { return must(all()).pages() })

func figuresOf(t *testing.T) *figures {
	t.Helper()
	if !testkit.Long() {
		t.Skip("plays all worlds, which takes a minute: -args -long")
	}
	return must(all())
}

var numbers = regexp.MustCompile(`\d+(\.\d+)?`)

// alike reports whether two words say the same: their numbers within a tenth or 3, for
// processors round sums differently, and small changes of the estimator are not worth a new
// report each.
func alike(a, b string) bool {
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

// words are those of a document, without bold.
func words(markdown string) []string {
	return strings.Fields(strings.ReplaceAll(markdown, "**", ""))
}

// TestCommitted holds the documents that are part of the project to what comes out, but for the
// lists of who wins where: that is a matter of a few microseconds, and the figures behind it are
// in the other parts.
func TestCommitted(t *testing.T) {
	figuresOf(t)
	for _, page := range pages() {
		parts := maps.Clone(page.Parts)
		delete(parts, "wins")
		delete(parts, "core")
		text := read(filepath.Join(results.Project, page.Path))
		want, got := words(text), words(must(results.Fill(text, parts)))
		for i := range max(len(want), len(got)) {
			if i >= min(len(want), len(got)) || !alike(got[i], want[i]) {
				t.Errorf("%s is not what comes out: if that is right, run go run ./report. "+
					"It says\n\t%s\nbut this comes out:\n\t%s",
					page.Path, around(want, i), around(got, i))
				break
			}
		}
	}
}

// around are some words about a place.
func around(words []string, i int) string {
	return strings.Join(words[min(max(i-10, 0), len(words)):min(i+10, len(words))], " ")
}

// must returns what is to be had without an error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func read(path string) string { return string(must(os.ReadFile(path))) }

// TestCSV: report.csv has as many rows as comes out, and the geometric mean of each column over
// the simulated worlds, too.
func TestCSV(t *testing.T) {
	type row struct {
		Set    string  `csv:"set"`
		Method string  `csv:"method"`
		P99    float64 `csv:"p99_us,omitempty"`
	}
	path := filepath.Join(t.TempDir(), "report.csv")
	must(path, figuresOf(t).writeCSV(path))
	rows := 0
	by := map[string]float64{} // by how much the logarithms of the means differ
	committed := filepath.Join(results.Folder, "report.csv")
	for sign, path := range map[int]string{1: committed, -1: path} {
		for _, r := range must(results.ReadCSV[row](path)) {
			rows += sign
			if r.Set == play.Simulated && r.P99 != 0 {
				by[r.Method] += float64(sign) * math.Log(r.P99) / float64(len(sim.Scenarios()))
			}
		}
	}
	if rows != 0 || len(by) != len(play.Methods)+2 {
		t.Errorf("lab/results/report.csv has %d rows too many; %d columns", rows, len(by))
	}
	for column, x := range by {
		if math.Abs(x) > math.Log(1.045) {
			t.Errorf("lab/results/report.csv: the mean of %s is %.2f times what it is now",
				column, math.Exp(x))
		}
	}
}

// TestPictures: all pictures are part of the project, and show something.
func TestPictures(t *testing.T) {
	figuresOf(t)
	for _, page := range pages() {
		for name, charts := range page.Pictures {
			for _, theme := range results.Themes {
				read(filepath.Join(results.Folder, "pictures", name+"-"+theme.Name+".png"))
			}
			for _, c := range charts {
				if len(c.Curves) == 0 || len(c.Curves[0].Parts) == 0 {
					t.Errorf("%s, %s: no curve, or an empty one", name, c.Title)
				}
			}
		}
	}
}

// TestReasons: where another method wins by a quarter or more, REPORT.md says why.
func TestReasons(t *testing.T) {
	f := figuresOf(t)
	_, why, _ := strings.Cut(read(filepath.Join(results.Folder, "REPORT.md")), "<!-- end core -->")
	why, _, _ = strings.Cut(why, "\n## ")
	for _, w := range append(f.of(play.Simulated), f.of(play.Skewed)...) {
		mine := w.value(play.Ours)
		winner, us := w.winner()
		said := strings.Contains(why, "`"+w.short()+"`")
		if winner != "" && us < 0.8*mine && !said {
			t.Errorf("%s, %s: %s wins (%.1f us against %.1f), and REPORT.md does not say why, "+
				"below the lists of worlds", w.Set, w.Name, winner, us, mine)
		}
	}
}

// TestLimit: the oracle is a limit where nothing is forged. In no simulated world is a method
// better than it by more than the rounding of a stamp, but in three: where one way slows down for
// 100 s, or queues for 150 s, and the rates of the clocks change meanwhile, the oracle's straight
// line is further from the truth than who heeds both ways.
func TestLimit(t *testing.T) {
	for _, w := range figuresOf(t).of(play.Simulated) {
		limit := w.value(play.OracleName)
		least := limit - 8
		if slices.Contains([]string{"delayramp", "delayramp-100ppm", "standingqueue"}, w.Name) {
			least = 0
		}
		for _, m := range play.Methods {
			if v := w.value(m.Name); v < least {
				t.Errorf("%s: %s %.0f us, the oracle %.0f us", w.Name, m.Name, v, limit)
			}
		}
		if r := w.results[play.OracleName]; r.Missed > 0 {
			t.Errorf("%s: the oracle has no answer to %d questions", w.Name, r.Missed)
		}
	}
}

// TestWorld: one world is drawn, and the recordings of it hold what its ends know.
func TestWorld(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "world-clockstep-1")
	must(path, plotWorld("clockstep", "", 1, 95, 125, dir))
	if err := plotWorld("clockstep", "", 1, 1000, 1001, dir); err == nil {
		t.Error("nothing is asked then, and no error")
	}
	if picture := read(path + ".png"); len(picture) < 20_000 {
		t.Errorf("a picture of %d bytes", len(picture))
	}
	var last timesync.Snapshot
	a, b := strings.NewReader(read(path+"-a.tsr")), strings.NewReader(read(path+"-b.tsr"))
	for m, err := range record.Replay(a, b) {
		last, _ = must(m, err).Ends[0].Snapshot(m.AtUsec[0])
	}
	trip := last.MinimumOneWayDelay + last.MinimumDelayToPeer
	if math.Abs(math.Abs(last.Skew)-40) > 5 {
		t.Errorf("skew %.1f ppm in a world of 40", last.Skew)
	}
	if trip < 50*time.Millisecond || trip > 70*time.Millisecond {
		t.Errorf("a round trip of %v, want 50 to 70 ms", trip)
	}
	if last.Steps != 1 {
		t.Errorf("%d steps in a world of one", last.Steps)
	}
}
