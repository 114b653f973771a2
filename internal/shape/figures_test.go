// SPDX-License-Identifier: BSD-3-Clause

// These tests hold what several documents say to one of them, which another test holds to
// what is measured: docs/REPORT.md and docs/report.csv to TestCommitted of folder compare.
// Figures may differ by a twentieth: so much another processor, or a small change of the
// estimator, moves them. "cd compare && go run . -out ../docs" makes them equal again.
package shape

import (
	"encoding/csv"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// document returns a document without the line breaks of its paragraphs.
func document(t *testing.T, name string) string {
	t.Helper()
	return strings.Join(strings.Fields(string(read(t, root+"/"+name))), " ")
}

// figures returns the numbers in the part of a document that a pattern finds, one for each
// group.
func figures(t *testing.T, name, pattern string) (v []float64) {
	t.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(document(t, name))
	if found == nil {
		t.Fatalf("%s says nothing like %s", name, pattern)
	}
	for _, s := range found[1:] {
		x, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		v = append(v, x)
	}
	return v
}

// near reports whether two figures are the same to a twentieth, or to half of the last digit
// that whole microseconds have.
func near(a, b float64) bool { return math.Abs(a-b) <= max(1, 0.05*math.Abs(b)) }

func TestReadmeFigures(t *testing.T) {
	report := figures(t, "docs/REPORT.md", `Two ends exchange datagrams in (\d+) kinds .* the error is (\d+) us with this package\. That is (\d+) times less than with the original .* within a factor of ([\d.]+) of an oracle`)
	readme := figures(t, "README.md", `In (\d+) kinds of simulated worlds the 99th percentile of the offset's error is (\d+) us in the geometric mean: (\d+) times less .* within a factor of ([\d.]+) of an oracle`)
	// The queue of LINK.md is another one each time it is measured.
	link := figures(t, "docs/LINK.md", `\| all of it \| \S+ / (\d+) / \S+ \| \S+ / (\d+)\d{3} / [^|]*\|[^|]*\|[^|]*\| \S+ / (\d+) / \S+ \| \S+ / (\d+) /`)
	readme = append(readme, figures(t, "README.md", `it is (\d+) us, where chronyd's is (\d+) us and the original is (\d+) ms off`)...)
	link = []float64{link[0], min(link[2], link[3]), link[1]} // chronyd at its better rate
	for i, want := range append(report, link...) {
		if !near(readme[i], want) {
			t.Errorf("README.md says %g; docs/REPORT.md and docs/LINK.md %g", readme[i], want)
		}
	}
}

// TestAccuracyFigures: the first table of docs/ACCURACY.md has the median of this package, and
// the 99th percentiles of this and other methods, from report.csv.
func TestAccuracyFigures(t *testing.T) {
	columns := []string{"timesync", "timesync", "original", "NTP filter", "netfox", "Slot", "Sutphin"}
	known := reportCSV(t)
	_, table, _ := strings.Cut(string(read(t, root+"/docs/ACCURACY.md")), "\n|---|")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")[1:]
	if len(rows) < 8 {
		t.Fatalf("docs/ACCURACY.md has another first table: %q", rows)
	}
	for _, row := range rows {
		cells := cellsOf(row)
		name, _, _ := strings.Cut(cells[0], ",")
		if len(cells) != 1+len(columns) {
			t.Fatalf("%q has %d cells, want %d", row, len(cells), 1+len(columns))
		}
		for i, method := range columns {
			quantile := "p99_us"
			if i == 0 {
				quantile = "p50_us"
			}
			want := known["simulated "+name+" "+method+" "+quantile]
			if got, err := strconv.ParseFloat(cells[i+1], 64); err != nil || !near(got, want) {
				t.Errorf("docs/ACCURACY.md says of %s in %s: %s, report.csv %g", method, name, cells[i+1], want)
			}
		}
	}
}

// reportCSV returns the figures of docs/report.csv by set, world, method and quantile.
func reportCSV(t *testing.T) map[string]float64 {
	t.Helper()
	f, err := os.Open(root + "/docs/report.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]float64{}
	for _, row := range rows[1:] {
		for i, cell := range row[3:] {
			if v, err := strconv.ParseFloat(cell, 64); err == nil {
				known[strings.Join(row[:3], " ")+" "+rows[0][i+3]] = v
			}
		}
	}
	return known
}

// cellsOf returns the cells of a row of a table, without bold.
func cellsOf(row string) []string {
	cells := strings.Split(strings.ReplaceAll(strings.Trim(row, "|"), "*", ""), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}
