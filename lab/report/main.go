// SPDX-License-Identifier: BSD-3-Clause

// Command report plays every method that the project knows of on identical packets, and writes how
// far apart they are into the project's documents: the marked parts of REPORT, CHRONYD, INPUTS,
// ACCURACY and README, report.csv, and the pictures.
//
//	go run ./report                               45 s of processor time
//	go run ./report -out FOLDER                   the same elsewhere, with index.html
//	go run ./report -traces FOLDER                with recorded series of delays
//	go run ./report -world clockstep -seed 3      the error in one world, and recordings of both ends: 5 s
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"timesync/lab/page"
	"timesync/lab/play"
)

func main() {
	var (
		out    = flag.String("out", "", "`folder` for everything; if there is none, the project's documents are brought up to date, and what -world makes goes into lab/pictures")
		traces = flag.String("traces", "", "folder with recorded series, *.csv.gz")
		name   = flag.String("world", "", "plot this world only")
		seed   = flag.Uint64("seed", play.FirstSeed, "seed of -world")
		from   = flag.Int("from", 0, "`second` at which the plot of -world begins")
		to     = flag.Int("to", 0, "`second` at which it ends; 0 is the end of the world")
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

// writeReport plays everything, and writes documents and pictures where they stand, or into a folder.
func writeReport(folder, traces string) error {
	f, err := collect(traces)
	if err != nil {
		return err
	}
	for name, parts := range f.documents() {
		path := filepath.Join(root, name)
		err = errors.Join(err, page.Write(path, cmp.Or(folder, filepath.Dir(path)), parts))
	}
	out := cmp.Or(folder, "results")
	err = errors.Join(err, page.Draw(out, f.pictures()), f.writeCSV(filepath.Join(out, "report.csv")))
	if err == nil && folder != "" {
		err = page.HTML(filepath.Join(folder, "REPORT.md"), filepath.Join(folder, "index.html"), "Every method on identical packets")
	}
	fmt.Printf("%d worlds, %d methods\n", len(f.worlds), len(play.Methods)+2)
	return err
}

// root is the folder of the project, seen from that of the module.
const root = ".."
