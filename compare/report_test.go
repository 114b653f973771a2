// These tests prove that the committed report is what comes out, and that each of its claims has
// a reason.

package main

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

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
	if n := strings.Count(read("REPORT.md"), "\n"); n > 310 {
		t.Errorf("docs/REPORT.md has %d lines; nobody reads more than 310", n)
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
