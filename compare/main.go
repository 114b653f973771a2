// SPDX-License-Identifier: BSD-3-Clause

// Command compare plays every method that the project knows of on identical packets, and
// draws how far apart they are.
//
//	go run .                            report/index.html, REPORT.md, accuracy.csv, pictures
//	go run . -traces FOLDER             with recorded series of delays
//	go run . -world clockstep -seed 3   one world, with the estimator's state below the error
//
// reallink/run.sh measures a real queue between network namespaces.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	var (
		out     = flag.String("out", "report", "folder for the report; ../docs is the committed one, without HTML and CSV")
		traces  = flag.String("traces", "", "folder with recorded series, *.csv.gz")
		name    = flag.String("world", "", "plot this world only")
		seed    = flag.Uint64("seed", firstSeed, "seed of -world")
		from    = flag.Float64("from", 0, "`second` at which the plot of -world begins")
		to      = flag.Float64("to", 0, "`second` at which it ends; 0 is the end of the world")
		link    = flag.String("link", "", "measure between the network namespaces `A,B`; see reallink/run.sh")
		lasting = flag.Duration("lasting", 90*time.Second, "how long -link measures")
	)
	flag.Parse()
	var err error
	switch a, b, real := strings.Cut(*link, ","); {
	case real:
		err = measureLink(a, b, *lasting, *out)
	case *name != "":
		err = plotWorld(*name, *traces, *seed, *from, *to, *out)
	default:
		err = writeReport(*out, *traces)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

// committed is the folder of the report that is part of the project.
const committed = "../docs"

func writeReport(out, traces string) error {
	start := time.Now()
	f, err := collect(traces)
	if err != nil {
		return err
	}
	web := filepath.Clean(out) != filepath.Clean(committed)
	d := f.report(measureCosts())
	if err := d.write(out, web); err != nil {
		return err
	}
	if web {
		if err := f.writeCSV(filepath.Join(out, "accuracy.csv")); err != nil {
			return err
		}
	}
	fmt.Printf("%s: %d worlds, %d methods, %d pictures, %.1f s\n", out, len(f.worlds), len(methods)+1, len(d.pictures), time.Since(start).Seconds())
	return nil
}
