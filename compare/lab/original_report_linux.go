// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
	"timesync/compare/page"
	"timesync/internal/stat"
)

// measureOriginal plays all cases live and writes ORIGINAL.md. It fails if the port of the
// original in internal/rivals is not equal to it in every bit.
func measureOriginal(o options) error {
	o.lasting = cmp.Or(o.lasting, time.Minute)
	if o.lasting <= liveWarmup {
		return fmt.Errorf("-lasting has to be more than %v", liveWarmup)
	}
	rows := [][]string{{"datagrams", "two of ours", "ours beside C++", "C++ beside ours", "two C++"}}
	var worse []string // rows in which two of ours are
	compared, mismatches := 0, 0
	for i := range liveCases {
		c := &liveCases[i]
		if !strings.Contains(c.name, o.only) {
			continue
		}
		ends, err := c.play(o)
		if err != nil {
			return err
		}
		row, tails := []string{c.name}, []float64{}
		for _, e := range [][]*liveEnd{ends[0][:], {ends[1][0]}, {ends[1][1]}, ends[2][:]} {
			var errs []float64
			for _, end := range e {
				errs = append(errs, end.errs...)
				compared, mismatches = compared+end.compared, mismatches+end.mismatches
			}
			row, tails = append(row, cell(errs)), append(tails, stat.OrNaN(errs, 0.99)) // cell sorts them
		}
		if tails[0] > tails[3] {
			worse = append(worse, fmt.Sprintf("%s (%.0f us; ours %.0f us)", c.name, tails[3], tails[0]))
		}
		fmt.Fprintln(os.Stderr, "lab:", strings.Join(row, " | "))
		rows = append(rows, row)
	}
	part := page.Text("Seed %d, %.0f s each row, from %.0f s on:", o.seed, o.lasting.Seconds(), liveWarmup.Seconds()) + page.Table(rows)
	if len(worse) > 0 {
		part += page.Text("**The 99th percentile of two C++ ends is below that of two of ours in:** %s.", strings.Join(worse, ", "))
	} else {
		part += page.Text("In no row is the 99th percentile of two C++ ends below that of two of ours.")
	}
	part += page.Text("The port of the original in `internal/rivals`, with which other tables compare, was given what the C++ ends were given: of %d delays, reports and readings of the remote clock, %d differ.", compared, mismatches)
	fmt.Print(part)
	if mismatches > 0 {
		return errors.New("the port in internal/rivals is not equal to the original")
	}
	return page.Write("../docs/ORIGINAL.md", o.out, map[string]string{"live": part})
}

// play plays all pairs of a case at the same time.
func (c *liveCase) play(o options) ([][2]*liveEnd, error) {
	const ports = 4 // of a session: two ends, and the relay's two
	ends, errs := make([][2]*liveEnd, len(livePairs)), make([]error, len(livePairs))
	var all sync.WaitGroup
	for i, p := range livePairs {
		all.Go(func() {
			ends[i], errs[i] = c.session(context.Background(), o.original, p.cpp, livePort+ports*i, o.lasting, o.seed)
		})
	}
	all.Wait()
	return ends, errors.Join(errs...)
}
