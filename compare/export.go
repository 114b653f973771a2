// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// csvHead is the first line of report.csv. Times are in microseconds or seconds, as their
// names say; what is empty was not measured, or never came.
var csvHead = []string{"set", "world", "method", "p50_us", "p95_us", "p99_us", "max_us", "unanswered",
	"first_answer_s", "to_1ms_s", "to_100us_s", "p95_first_1s_us", "p95_first_3s_us", "p95_first_10s_us", "bound_held", "bound_median_us", "judged_us"}

// writeCSV writes all figures of all worlds: judged is that of the tables, which in the
// author's benchmark is his.
func (f *figures) writeCSV(path string) error {
	rows := [][]string{csvHead}
	for i, world := range f.worlds {
		for column := range columns() {
			rows = append(rows, f.csvRow(i, column))
		}
		if c := f.chronyd.find(world.set, world.name, 1); c != nil {
			row := make([]string, len(csvHead))
			copy(row, []string{world.set, world.name, chronyName})
			for k, v := range c.best {
				row[3+k] = csvNumber(v)
			}
			row[len(row)-1] = csvNumber(at(c.best, 0.99))
			rows = append(rows, row)
		}
	}
	return writeCSV(path, rows)
}

func (f *figures) csvRow(i, column int) []string {
	world, r := f.worlds[i], &f.results[i][column]
	row := []string{world.set, world.name, columns()[column]}
	for _, q := range kept {
		row = append(row, csvNumber(quantile(r.errs, q)))
	}
	row = append(row, fmt.Sprint(r.missed), csvNumber(medianOf(r.first)), csvNumber(medianOf(r.within[0])), csvNumber(medianOf(r.within[1])))
	for _, v := range r.start {
		row = append(row, csvNumber(quantileOf(v, 0.95)))
	}
	return append(row, csvNumber(float64(r.held)/float64(len(r.bounds))), csvNumber(quantile(r.bounds, 0.5)), csvNumber(f.value(i, column, 0.99)))
}

// follow brings the figures of other documents up to date: the first rows of the table of
// README.md, and the table of ACCURACY.md.
func (f *figures) follow() error {
	return errors.Join(
		rewrite("../README.md", f.followReadme),
		rewrite(filepath.Join(committed, "ACCURACY.md"), f.followAccuracy),
	)
}

// rewrite changes a file, if there is something to change.
func rewrite(path string, change func(text string) (string, error)) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text, err := change(string(old))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if text == string(old) {
		return nil
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// linkFigures are those of the real queue that README.md repeats: this package, the original,
// and chronyd at 1/s and at 16/s.
var linkFigures = regexp.MustCompile(`\| all of it \| \S+ / (\d+) / \S+ \| \S+ / (\d+)\d{3} / [^|]*\|[^|]*\|[^|]*\| \S+ / (\d+) / \S+ \| \S+ / (\d+) /`)

// followReadme brings the figures of README.md up to date.
func (f *figures) followReadme(text string) (string, error) {
	link, err := measuredLink()
	if err != nil {
		return "", err
	}
	queue := linkFigures.FindStringSubmatch(link)
	if queue == nil {
		return "", fmt.Errorf("%s has another table", linkMeasured)
	}
	chronyd := queue[3] // at the rate that suits it better
	if len(queue[4]) < len(chronyd) || len(queue[4]) == len(chronyd) && queue[4] < chronyd {
		chronyd = queue[4]
	}
	mine, orig, limit := f.means(simulated, 0.99)
	for _, r := range []struct{ from, to string }{
		{`over \d+ simulated scenarios \| \*\*[\d.]+ [um]s\*\*; the C\+\+ original's is \d+ times`, fmt.Sprintf("over %d simulated scenarios | **%s**; the C++ original's is %.0f times", len(f.of(simulated)), micros(mine), orig/mine)},
		{`once a second, [\d.]+ [um]s; an oracle that knows each series in advance is [\d.]+ times`, fmt.Sprintf("once a second, %s; an oracle that knows each series in advance is %.1f times", micros(f.over(chronyColumn, f.of(simulated), 0.99)), mine/limit)},
		{`\*\*\d+ us\*\*; chronyd \d+ us, the original \d+ ms`, fmt.Sprintf("**%s us**; chronyd %s us, the original %s ms", queue[1], chronyd, queue[2])},
		{`The [\d.]+ [um]s are simulated; the \d+ us are`, fmt.Sprintf("The %s are simulated; the %s us are", micros(mine), queue[1])},
	} {
		// A sentence may be broken into lines anywhere.
		re := regexp.MustCompile(strings.ReplaceAll(r.from, " ", `\s+`))
		where := re.FindStringIndex(text)
		if where == nil {
			return "", fmt.Errorf("nothing is like %q", r.from)
		}
		if old := text[where[0]:where[1]]; strings.Join(strings.Fields(old), " ") != r.to {
			text = text[:where[0]] + r.to + text[where[1]:]
		}
	}
	return text, nil
}

// accuracyColumns are those of the first table of ACCURACY.md, after the median of ours.
var accuracyColumns = []int{ours, original, ntp, ntp + 1, ntp + 2, ntp + 3}

func (f *figures) followAccuracy(text string) (string, error) {
	before, rest, found := strings.Cut(text, "\n|---|")
	table, after, ended := strings.Cut(rest, "\n\n")
	if !found || !ended {
		return "", fmt.Errorf("there is no table")
	}
	lines := strings.Split(table, "\n")
	for n, line := range lines[1:] {
		title := strings.TrimSpace(strings.Split(line, "|")[1])
		name, _, _ := strings.Cut(title, ",")
		i := slices.IndexFunc(f.worlds, func(w world) bool { return w.set == simulated && w.name == name })
		if i < 0 {
			return "", fmt.Errorf("the first table has a world %q", name)
		}
		row := []string{title, number(f.value(i, ours, 0.5), false)}
		for k, column := range accuracyColumns {
			row = append(row, number(f.value(i, column, 0.99), k == 0))
		}
		lines[n+1] = "| " + strings.Join(row, " | ") + " |"
	}
	return before + "\n|---|" + strings.Join(lines, "\n") + "\n\n" + after, nil
}
