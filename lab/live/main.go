// SPDX-License-Identifier: BSD-3-Clause

//go:build linux

// Command live measures this package beside other programs, as they are. The scripts beside it
// set those up, and run it:
//
//	queue.sh     beside chronyd and ptp4l, on a real queue between network namespaces: QUEUE.md
//	chronyd.sh   the real chronyd in simulated worlds: chronyd.csv and chronyd-seconds.csv
//	original.sh  beside the C++ original, over UDP on the loopback interface: ORIGINAL.md
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"timesync/lab/play"
)

// options say what is measured, and how.
type options struct {
	where             string // two network namespaces, a folder of clknetsim, or a peer
	only, record, out string
	lasting           time.Duration
	seed              uint64
}

func main() {
	var o options
	flag.StringVar(&o.only, "only", "",
		"only what has this in its name, such as cross90, LAN or frames")
	flag.StringVar(&o.record, "record", "",
		"with queue: `folder` for the delays of each kind of datagrams; "+
			"go run ./report -traces plays them again")
	flag.DurationVar(&o.lasting, "lasting", 90*time.Second,
		"how long each load of queue or row of original lasts")
	flag.StringVar(&o.out, "out", "measured",
		"`folder` for what comes out; results is that of the project's documents")
	flag.Uint64Var(&o.seed, "seed", play.FirstSeed, "seed of the random traffic of queue and original")
	flag.Parse()
	measure := map[string]func(options){
		"queue": measureLink, "chronyd": measureChronyd, "original": measureOriginal}[flag.Arg(0)]
	if o.where = flag.Arg(1); measure == nil || o.where == "" {
		check(errors.New("what to measure is queue, chronyd or original, and where: see the scripts"))
	}
	measure(o)
}

// check says what err is and ends the program, unless err is nil. The scripts end what it has
// started.
func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "live:", err)
		os.Exit(1)
	}
}

// must returns what is to be had without an error.
func must[T any](v T, err error) T {
	check(err)
	return v
}
