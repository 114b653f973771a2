// SPDX-License-Identifier: BSD-3-Clause

// These tests hold what several documents say to one of them, which another test holds to
// what is measured: docs/REPORT.md to TestCommitted of folder compare.
package shape

import (
	"regexp"
	"strings"
	"testing"
)

// document returns a document without the line breaks of its paragraphs.
func document(t *testing.T, name string) string {
	t.Helper()
	return strings.Join(strings.Fields(string(read(t, root+"/"+name))), " ")
}

// say checks that a document says something.
func say(t *testing.T, name, what string) {
	t.Helper()
	if !strings.Contains(document(t, name), what) {
		t.Errorf("%s does not say: %s", name, what)
	}
}

func TestReadmeFigures(t *testing.T) {
	sum := regexp.MustCompile(`the error is (\d+ us) with this package. That is (\d+ times less) .* is within a factor of ([\d.]+) of that limit`)
	report := sum.FindStringSubmatch(document(t, "docs/REPORT.md"))
	if report == nil {
		t.Fatal("docs/REPORT.md has another first paragraph")
	}
	say(t, "README.md", "is "+report[1]+" in the geometric mean: "+report[2])
	say(t, "README.md", "within a factor of "+report[3]+" of an oracle")

	queue := regexp.MustCompile(`\| all of it \| \d+ / (\d+) / \d+ \| \d+ / (\d+)\d{3} /`).FindStringSubmatch(document(t, "docs/LINK.md"))
	if queue == nil {
		t.Fatal("docs/LINK.md has another table")
	}
	say(t, "README.md", "it is "+queue[1]+" us, where the original is "+queue[2]+" ms off")
}

// TestAccuracyFigures: the first table of docs/ACCURACY.md has columns of those of the
// report: the median, which is in the report's second table, and the 99th percentiles.
func TestAccuracyFigures(t *testing.T) {
	_, report, _ := strings.Cut(string(read(t, root+"/docs/REPORT.md")), "\n## The offset\n")
	percentiles, medians, found := strings.Cut(report, "The same table with the median")
	if !found {
		t.Fatal("docs/REPORT.md has no table of medians")
	}
	_, table, _ := strings.Cut(string(read(t, root+"/docs/ACCURACY.md")), "\n|---|")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")[1:]
	if len(rows) < 8 {
		t.Fatalf("docs/ACCURACY.md has another first table: %q", rows)
	}
	for _, row := range rows {
		cells := cellsOf(row)
		name, _, _ := strings.Cut(cells[0], ",")
		want := append(rowOf(medians, name)[:1:1], rowOf(percentiles, name)[:6]...)
		if got := cells[1:]; strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("docs/ACCURACY.md says %s: %q; docs/REPORT.md %q", name, got, want)
		}
	}
}

// rowOf returns the cells of the first row of that name, without the name.
func rowOf(text, name string) []string {
	_, row, _ := strings.Cut(text, "\n| "+name+" |")
	row, _, _ = strings.Cut(row, "\n")
	return cellsOf("|" + row)
}

// cellsOf returns the cells of a row of a table, without bold.
func cellsOf(row string) []string {
	cells := strings.Split(strings.ReplaceAll(strings.Trim(row, "|"), "*", ""), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}
