// These tests prove that the committed report is what comes out, and that each of its claims has
// a reason.

package main

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"timesync"
	"timesync/compare/page"
	"timesync/compare/play"
	"timesync/compare/table"
	"timesync/record"
)

// The program runs in the folder of the module.
func init() { os.Chdir("..") }

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
				t.Errorf("%s says\n\t%s\nbut this comes out:\n\t%s", name, want[i], got[i])
			}
		}
	}
	if bad > 0 || len(got) != len(want) {
		t.Errorf("%s: %d parts differ, %d instead of %d: if that is right, run go run ./report", name, bad, len(got), len(want))
	}
}

// TestCommitted holds the documents that are part of the project to what comes out, but for the list of
// who wins where: that is a matter of a few microseconds, and the figures behind it are in the other
// parts.
func TestCommitted(t *testing.T) {
	documents, err := figuresOf(t).documents()
	if err != nil {
		t.Fatal(err)
	}
	for name, parts := range documents {
		delete(parts, "wins")
		text := read(t, filepath.Join(root, name))
		right, err := page.Fill(text, parts)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		differ(t, name, paragraphs(text), paragraphs(right))
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestCSV: report.csv has a row for each world and each column that has figures there, and the
// geometric mean of each over the simulated worlds is what comes out.
func TestCSV(t *testing.T) {
	f := figuresOf(t)
	rows, err := table.Read[struct {
		Set    string  `csv:"set"`
		Method string  `csv:"method"`
		P99    float64 `csv:"p99_us,omitempty"`
	}](os.DirFS(filepath.Join(root, "docs")), "report.csv")
	if err != nil {
		t.Fatal(err)
	}
	values := map[string][]float64{}
	for _, row := range rows {
		if row.Set == play.Simulated && row.P99 != 0 {
			values[row.Method] = append(values[row.Method], row.P99)
		}
	}
	want := len(f.worlds) * len(play.Columns())
	for i := range f.worlds {
		if !math.IsNaN(f.value(i, play.Chronyd, 0.99)) {
			want++
		}
	}
	if len(rows) != want {
		t.Errorf("docs/report.csv has %d rows, want %d", len(rows), want)
	}
	for _, column := range append(play.Columns(), play.Chronyd) {
		if got, want := play.Geometric(values[column]), f.mean(play.Simulated, column, 0.99); !(math.Abs(got-want) < 0.05*want) {
			t.Errorf("docs/report.csv: %s %.1f us in the mean; now %.1f", column, got, want)
		}
	}
}

// TestReasons: where another method wins by a quarter or more, the text says why.
func TestReasons(t *testing.T) {
	f := figuresOf(t)
	for i, w := range f.worlds {
		q := 0.99
		if w.Set == play.Skewed {
			q = 0.95
		} else if w.Set != play.Simulated {
			continue
		}
		if winner, us := f.winner(i, q); winner != "" && us < 0.8*f.value(i, play.Ours, q) && reason(w.Name) == unexplained {
			t.Errorf("%s, %s: %s wins (%.1f us against %.1f), and nothing says why", w.Set, w.Name, winner, us, f.value(i, play.Ours, q))
		}
	}
}

// TestLimit: the oracle is a limit where nothing is forged. In no simulated world is a
// method better than it by more than the rounding of a stamp, but in three: where one way slows down
// for 100 s, or queues for 150 s, and the rates of the clocks change meanwhile, the oracle's straight
// line is further from the truth than who heeds both ways.
func TestLimit(t *testing.T) {
	f := figuresOf(t)
	for _, i := range f.of(play.Simulated) {
		limit := f.value(i, play.OracleName, 0.99)
		least := limit - 8
		switch f.worlds[i].Name {
		case "delayramp", "delayramp-100ppm", "standingqueue":
			least = 0
		}
		for _, m := range play.Methods {
			if v := f.value(i, m.Name, 0.99); v < least {
				t.Errorf("%s: %s %.0f us, the oracle %.0f us", f.worlds[i].Name, m.Name, v, limit)
			}
		}
		if r := f.results[i][play.OracleName]; r.Missed > 0 {
			t.Errorf("%s: the oracle has no answer to %d questions", f.worlds[i].Name, r.Missed)
		}
	}
}

// TestWorld: one world is drawn, and the recordings of it hold what its ends know.
func TestWorld(t *testing.T) {
	dir := t.TempDir()
	if err := plotWorld("clockstep", "", 1, 95, 125, dir); err != nil {
		t.Fatal(err)
	}
	if err := plotWorld("clockstep", "", 1, 1000, 1001, dir); err == nil {
		t.Error("nothing is asked then, and no error")
	}
	if picture := read(t, filepath.Join(dir, "world-clockstep-1.png")); len(picture) < 20_000 {
		t.Errorf("a picture of %d bytes", len(picture))
	}
	var files []io.Reader
	for _, end := range []string{"a", "b"} {
		files = append(files, strings.NewReader(read(t, filepath.Join(dir, "world-clockstep-1-"+end+".tsr"))))
	}
	var last timesync.Snapshot
	for m, err := range record.Replay(files...) {
		if err != nil {
			t.Fatal(err)
		}
		last, _ = m.Ends[0].Snapshot(m.AtUsec[0])
	}
	trip := last.MinimumOneWayDelay + last.MinimumDelayToPeer
	if math.Abs(math.Abs(last.Skew)-40) > 5 || trip < 50*time.Millisecond || trip > 70*time.Millisecond || last.Steps != 1 {
		t.Errorf("skew %.1f ppm in a world of 40, round trip %v, %d steps", last.Skew, trip, last.Steps)
	}
}
