// SPDX-License-Identifier: BSD-3-Clause

//go:build linux

// Command lab measures beside other programs, as they are. Scripts beside it set them up:
//
//	queue.sh       beside chronyd and ptp4l, on a real queue between network namespaces: QUEUE.md
//	chronyd.sh     the real chronyd in simulated worlds: kept/chronyd.csv
//	original.sh    the C++ original, live: ORIGINAL.md
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"timesync/compare/play"
)

// options say what is measured, and how.
type options struct {
	link, clknetsim, original string // which of them, and where it is
	only, record, out         string
	lasting                   time.Duration // 0 is the usual time
	seed                      uint64
}

func main() {
	var o options
	flag.StringVar(&o.link, "link", "", "measure between the network namespaces `A,B`; see queue.sh")
	flag.StringVar(&o.clknetsim, "chronyd", "", "play the real chronyd in simulated worlds by the clknetsim of this `folder`; see chronyd.sh")
	flag.StringVar(&o.original, "original", "", "measure live beside the C++ original, of which this `program` is a peer; see original.sh")
	flag.StringVar(&o.only, "only", "", "only what has this in its name, such as cross90, LAN or frames")
	flag.StringVar(&o.record, "record", "", "with -link: `folder` for the delays of each kind of datagrams; go run ./report -traces plays them again")
	flag.DurationVar(&o.lasting, "lasting", 0, "how long each load of -link (90s) or row of -original (60s) lasts")
	flag.StringVar(&o.out, "out", "measured", "`folder` for what comes out; ../docs is that of the project's documents")
	flag.Uint64Var(&o.seed, "seed", play.FirstSeed, "seed of the random traffic of -link and -original")
	flag.Parse()
	var err error
	switch {
	case o.link != "":
		err = measureLink(o)
	case o.clknetsim != "":
		err = measureChronyd(o)
	case o.original != "":
		err = measureOriginal(o)
	default:
		err = errors.New("nothing to measure: see -help")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}
