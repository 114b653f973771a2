// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"timesync/internal/sim"
)

// linkRow is a datagram of a live run. Times are microseconds after the start.
type linkRow struct {
	sent     uint64
	owd      int64 // until the kernel received it, or -1 if it did not arrive
	read     int64 // until the program had read it, or -1
	asked    uint64
	reported bool // it carried a report, which the estimator was asked for at asked
}

// linkColumns are those of internal/sim's recorded series, and three more, which it skips.
const linkColumns = "send_time_us,owd_us,direction,read_us,report,asked_us"

// The directions of a series: to B is up.
var linkDirections = [2]string{"down", "up"}

// writeTrace saves what was sent to A and to B, in order of the times of sending.
func writeTrace(path string, trace [2][]linkRow) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	z := gzip.NewWriter(f)
	fmt.Fprintln(z, linkColumns)
	type line struct {
		sent uint64
		text string
	}
	var lines []line
	for to, rows := range trace {
		for _, r := range rows {
			report := 0
			if r.reported {
				report = 1
			}
			lines = append(lines, line{r.sent, fmt.Sprintf("%d,%d,%s,%d,%d,%d", r.sent, r.owd, linkDirections[to], r.read, report, r.asked)})
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.sent, b.sent) })
	for _, l := range lines {
		fmt.Fprintln(z, l.text)
	}
	return z.Close()
}

// readTrace reads what writeTrace wrote.
func readTrace(path string) (trace [2][]linkRow, err error) {
	err = sim.ReadTable(path, func(n int, line string) error {
		if n == 0 {
			if line != strings.ReplaceAll(linkColumns, ",", " ") {
				return errors.New("the columns are not " + linkColumns)
			}
			return nil
		}
		var r linkRow
		var direction string
		var report int
		if _, err := fmt.Sscan(line, &r.sent, &r.owd, &direction, &r.read, &report, &r.asked); err != nil {
			return err
		}
		r.reported = report != 0
		to := slices.Index(linkDirections[:], direction)
		if to < 0 {
			return fmt.Errorf("direction %q", direction)
		}
		trace[to] = append(trace[to], r)
		return nil
	})
	return trace, err
}
