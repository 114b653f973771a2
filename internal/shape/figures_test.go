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

	"timesync/link"
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
	want := figures(t, "docs/REPORT.md", `Two ends exchange datagrams in (\d+) kinds .* the error is (\d+) us with this package\. That is (\d+) times less than with the original .* is ([\d.]+) times better`)
	got := figures(t, "README.md", `over (\d+) simulated scenarios \| \*\*(\d+) us\*\*; the C\+\+ original's is (\d+) times .* in advance is ([\d.]+) times better`)
	// The real queue is another one each time it is measured; chronyd at its better rate.
	queue := figures(t, "docs/REPORT.md", `\| all of it \| \S+ / (\d+) / \S+ \| \S+ / (\d+)\d{3} / [^|]*\|[^|]*\|[^|]*\| \S+ / (\d+) / \S+ \| \S+ / (\d+) /`)
	want = append(want, queue[0], min(queue[2], queue[3]), queue[1], want[1], queue[0])
	got = append(got, figures(t, "README.md", `\*\*(\d+) us\*\*; chronyd (\d+) us, the original (\d+) ms`)...)
	got = append(got, figures(t, "README.md", `The (\d+) us are simulated; the (\d+) us are`)...)
	for i := range want {
		if !near(got[i], want[i]) {
			t.Errorf("README.md says %g; docs/REPORT.md %g", got[i], want[i])
		}
	}
}

// TestBytes: the bytes of a datagram that README.md names are those of package link, over ten
// minutes.
func TestBytes(t *testing.T) {
	const rate, seconds = 60, 600
	var ends [2]link.Link
	bytes, delay := 0, uint64(20_000)
	for i := range uint64(rate * seconds) {
		now := i*1e6/rate + 1e6
		there := ends[0].AppendHeader(nil, now)
		bytes += len(there)
		ends[1].Open(there, now+delay)
		ends[0].Open(ends[1].AppendHeader(nil, now), now+delay)
	}
	got, want := figures(t, "README.md", `at 60 a second \| \*\*([\d.]+) bytes\*\*`)[0], float64(bytes)/(rate*seconds)
	if math.Abs(got-want) > 0.05 {
		t.Errorf("README.md says %g bytes a datagram, link needs %.3f", got, want)
	}
}

// TestOneFigure: what a datagram costs and how many answers lie outside of their bound is said
// in docs/ACCURACY.md; README.md says the same.
func TestOneFigure(t *testing.T) {
	cost := figures(t, "docs/ACCURACY.md", `60/s, 3 ms of jitter \| \*\*[^|]* \| ([\d.]+) to ([\d.]+) \|`)
	said := figures(t, "README.md", `bytes\*\*; (\d+) to (\d+) ns`)
	covered := figures(t, "docs/ACCURACY.md", `\| 15 s \| [\d.]+ % \| ([\d.]+) % \|`)[0]
	outside := figures(t, "README.md", `\*\*1 in (\d+),000\*\*`)[0]
	if !near(cost[0], said[0]) || !near(cost[1], said[1]) || math.Abs(outside*1000*(100-covered)/100-1) > 0.05 {
		t.Errorf("README.md says %g ns, 1 in %g,000; docs/ACCURACY.md %g ns, %g %% covered", said, outside, cost, covered)
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
