// SPDX-License-Identifier: BSD-3-Clause

// Command report plays every method that the project knows of on identical packets, and writes
// how far apart they are into the project's documents: REPORT.md, CHRONYD.md, INPUTS.md,
// report.csv, pictures, and the marked parts of README.md, ACCURACY.md and DESIGN.md.
//
//	go run ./report                               1 min
//	go run ./report -out FOLDER                   the same elsewhere, with index.html; the marked parts stay
//	go run ./report -traces FOLDER                with recorded series of delays
//	go run ./report -world clockstep -seed 3      a picture of one world: the error, and what the estimator knew
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"timesync/compare/play"
)

func main() {
	var (
		out    = flag.String("out", "", "`folder` for everything; if there is none, the project's documents are brought up to date, and a picture of -world goes into compare/pictures")
		traces = flag.String("traces", "", "folder with recorded series, *.csv.gz")
		name   = flag.String("world", "", "plot this world only")
		seed   = flag.Uint64("seed", play.FirstSeed, "seed of -world")
		from   = flag.Float64("from", 0, "`second` at which the plot of -world begins")
		to     = flag.Float64("to", 0, "`second` at which it ends; 0 is the end of the world")
	)
	flag.Parse()
	var err error
	if *name != "" {
		err = plotWorld(*name, *traces, *seed, *from, *to, cmp.Or(*out, "pictures"))
	} else {
		err = writeReport(*out, *traces)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// committed is the folder of the documents that are part of the project.
const committed = "../docs"

// writeReport writes the report and the figures behind it.
func writeReport(out, traces string) error {
	start, folder := time.Now(), cmp.Or(out, committed)
	f, err := collect(traces)
	if err != nil {
		return err
	}
	d := f.report(measureCosts())
	err = errors.Join(d.Write(folder, "REPORT.md"), f.chronyDocument().Write(folder, "CHRONYD.md"),
		inputDocument().Write(folder, "INPUTS.md"), f.writeCSV(filepath.Join(folder, "report.csv")))
	if out == "" {
		err = errors.Join(err, f.writeBlocks())
	} else {
		err = errors.Join(err, d.WritePage(filepath.Join(out, "index.html"), "Every method on identical packets"))
	}
	fmt.Printf("%s: %d worlds, %d methods, %.1f s\n", folder, len(f.worlds), len(play.Methods)+2, time.Since(start).Seconds())
	return err
}
