// SPDX-License-Identifier: BSD-3-Clause

// Command report plays every method that the project knows of on identical packets, and writes how
// far apart they are: into the marked parts of REPORT, CHRONYD, INPUTS, PLAYOUT, ACCURACY and
// README, into report.csv, and as pictures.
//
//	cd lab
//	go run ./report                           45 s of processor time
//	go run ./report -out FOLDER               the same elsewhere, with index.html
//	go run ./report -traces FOLDER            with recorded series of delays
//	go run ./report -world clockstep -seed 3  the error in one world, and recordings of it: 5 s
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"timesync/lab/play"
	"timesync/lab/results"
)

func main() {
	const folders = "`folder` for what comes out; if there is none, the project's pages are " +
		"brought up to date, and what -world makes goes into measured"
	var (
		out    = flag.String("out", "", folders)
		traces = flag.String("traces", "", "`folder` with recorded series, *.csv.gz")
		name   = flag.String("world", "", "plot this world only")
		seed   = flag.Uint64("seed", play.FirstSeed, "seed of -world")
		from   = flag.Int("from", 0, "`second` at which the plot of -world begins")
		to     = flag.Int("to", 0, "`second` at which it ends; 0 is the end of the world")
	)
	flag.Parse()
	var err error
	if *name != "" {
		err = plotWorld(*name, *traces, *seed, *from, *to, cmp.Or(*out, "measured"))
	} else {
		err = writeReport(cmp.Or(*out, results.Folder), *traces)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// writeReport plays everything, and writes pages, pictures and report.csv into a folder.
func writeReport(folder, traces string) error {
	f, err := collect(traces)
	if err != nil {
		return err
	}
	for _, page := range f.pages() {
		err = errors.Join(err, page.Write(folder))
	}
	err = errors.Join(err, f.writeCSV(filepath.Join(folder, "report.csv")))
	if err == nil && filepath.Clean(folder) != results.Folder {
		page, html := filepath.Join(folder, "REPORT.md"), filepath.Join(folder, "index.html")
		err = results.WriteHTML(page, html, "Every method on identical packets")
	}
	fmt.Printf("%d worlds, %d methods\n", len(f.worlds), len(play.Methods)+2)
	return err
}
