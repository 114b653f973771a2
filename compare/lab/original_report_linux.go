// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"timesync/compare/page"
	"timesync/internal/stat"

	"golang.org/x/sync/errgroup"
)

// liveColumns are the ends of pairs, each with its peer: true is the C++ original.
var liveColumns = []struct {
	name string
	ends [2]bool
}{
	{"two of ours", [2]bool{false, false}}, {"ours beside C++", [2]bool{false, true}},
	{"C++ beside ours", [2]bool{true, false}}, {"two C++", [2]bool{true, true}},
}

// live is what came out: errors by column, of one case, and how the port did in all.
type live struct {
	errs                 map[[2]bool][]float64
	compared, mismatches int
}

// measureOriginal plays all cases live and writes ORIGINAL.md. It fails if the port of the
// original in internal/rivals is not equal to it in every bit.
func measureOriginal(o options) error {
	o.lasting = cmp.Or(o.lasting, time.Minute)
	if o.lasting <= liveWarmup {
		return fmt.Errorf("-lasting has to be more than %v", liveWarmup)
	}
	rows := [][]string{{"datagrams"}}
	for _, c := range liveColumns {
		rows[0] = append(rows[0], c.name)
	}
	var l live
	var worse []string // rows in which two of ours are
	for i := range liveCases {
		c := &liveCases[i]
		if !strings.Contains(c.name, o.only) {
			continue
		}
		if err := l.play(c, o); err != nil {
			return err
		}
		row := []string{c.name}
		for _, column := range liveColumns {
			row = append(row, cell(l.errs[column.ends]))
		}
		ours, theirs := stat.OrNaN(l.errs[[2]bool{false, false}], 0.99), stat.OrNaN(l.errs[[2]bool{true, true}], 0.99)
		if ours > theirs {
			worse = append(worse, fmt.Sprintf("%s (%.0f us; ours %.0f us)", c.name, theirs, ours))
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
	part += page.Text("The port of the original in `internal/rivals`, with which other tables compare, was given what the C++ ends were given: of %d delays, reports and readings of the remote clock, %d differ.", l.compared, l.mismatches)
	fmt.Print(part)
	if l.mismatches > 0 {
		return errors.New("the port in internal/rivals is not equal to the original")
	}
	return page.Write("../docs/ORIGINAL.md", o.out, map[string]string{"live": part})
}

// play plays all pairs of a case at the same time.
func (l *live) play(c *liveCase, o options) error {
	l.errs = map[[2]bool][]float64{}
	const ports = 4 // of a session: two ends, and the relay's two
	played := make([][2]*liveEnd, len(livePairs))
	var all errgroup.Group
	for i, cpp := range livePairs {
		all.Go(func() (err error) {
			played[i], err = c.session(context.Background(), o.original, cpp, livePort+ports*i, o.lasting, o.seed)
			return err
		})
	}
	err := all.Wait()
	for i, cpp := range livePairs {
		for side, e := range played[i] {
			column := [2]bool{cpp[side], cpp[1-side]}
			l.errs[column] = append(l.errs[column], e.errs...)
			l.compared, l.mismatches = l.compared+e.compared, l.mismatches+e.mismatches
		}
	}
	return err
}
