// SPDX-License-Identifier: BSD-3-Clause

// Command compare plays every method that the project knows of on identical packets, and
// draws how far apart they are.
//
//	go run . -out ../docs               the documents of the project: REPORT.md, CHRONYD.md, INPUTS.md, report.csv,
//	                                    pictures, and the figures in README.md and ACCURACY.md
//	go run .                            the same into report/, and index.html
//	go run . -traces FOLDER             with recorded series of delays
//	go run . -world clockstep -seed 3   one world, with the estimator's state below the error
//	go run . -recording FILE            a recording of package record: pictures, CSV and words
//	go run . -recording A -other B      of both ends
//
// reallink/run.sh measures a real queue between network namespaces, chronyd/run.sh the real
// chronyd in simulated worlds, and original/run.sh the C++ original live.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// options are those of what needs other programs: the real link, chronyd, the original.
type options struct {
	link, clknetsim, original string // which of them, and where it is
	only, record, keep, out   string
	lasting                   time.Duration // 0 is the usual time
	seed                      uint64
}

func (o *options) define() {
	flag.StringVar(&o.link, "link", "", "measure between the network namespaces `A,B`; see reallink/run.sh")
	flag.StringVar(&o.clknetsim, "chronyd", "", "play the real chronyd in simulated worlds by the clknetsim of this `folder`; see chronyd/run.sh")
	flag.StringVar(&o.original, "original", "", "measure live beside the C++ original, of which this `program` is a peer; see original/run.sh")
	flag.StringVar(&o.only, "only", "", "with -link, -chronyd and -original: only what has this in its name, such as cross90, LAN or frames")
	flag.StringVar(&o.record, "record", "", "with -link: `folder` for a trace of each kind of datagrams, to be replayed")
	flag.StringVar(&o.keep, "keep", "", "with -link and -only: record what both ends of this package are told into files of this `name`, with -a.tsr and -b.tsr behind it")
	flag.DurationVar(&o.lasting, "lasting", 0, "how long each load of -link (90s) or row of -original (60s) lasts")
	flag.StringVar(&o.out, "out", "report", "folder for the report; ../docs is that of the committed one")
	flag.Uint64Var(&o.seed, "seed", firstSeed, "seed of -world, and of the random traffic of -link and -original")
}

func main() {
	var (
		traces = flag.String("traces", "", "folder with recorded series, *.csv.gz")
		name   = flag.String("world", "", "plot this world only")
		from   = flag.Float64("from", 0, "`second` at which the plot of -world begins")
		to     = flag.Float64("to", 0, "`second` at which it ends; 0 is the end of the world")
		first  = flag.String("recording", "", "draw this `file` of package record, and say what happened")
		second = flag.String("other", "", "the recording of the other end, with -recording")
		replay = flag.String("replay", "", "replay a trace `file` that -record has written")
		o      options
	)
	o.define()
	flag.Parse()
	var err error
	switch {
	case o.link != "":
		err = measureLink(o)
	case o.clknetsim != "":
		err = measureChronyd(o)
	case o.original != "":
		err = measureOriginal(o)
	case *replay != "":
		err = replayLink(*replay)
	case *first == "" && *second != "":
		err = errors.New("-other is the other end of -recording")
	case *first != "":
		err = drawRecording(*first, *second, o.out, os.Stdout)
	case *name != "":
		err = plotWorld(*name, *traces, o.seed, *from, *to, o.out)
	default:
		err = writeReport(o.out, *traces)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

// committed is the folder of the documents that are part of the project.
const committed = "../docs"

// writeReport writes the report and the figures behind it. If it goes where the committed one
// is, other documents that name its figures follow.
func writeReport(out, traces string) error {
	start := time.Now()
	f, err := collect(traces)
	if err != nil {
		return err
	}
	d, err := f.report(measureCosts())
	if err != nil {
		return err
	}
	err = errors.Join(d.write(out, "REPORT.md"), f.chronyDocument().write(out, "CHRONYD.md"),
		inputDocument().write(out, "INPUTS.md"), f.writeCSV(filepath.Join(out, "report.csv")))
	if err != nil {
		return err
	}
	if filepath.Clean(out) == filepath.Clean(committed) {
		err = f.follow()
	} else {
		err = d.writePage(filepath.Join(out, "index.html"))
	}
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d worlds, %d methods, %d pictures, %.1f s\n", out, len(f.worlds), len(methods)+2, len(d.pictures)*len(themes), time.Since(start).Seconds())
	return nil
}
