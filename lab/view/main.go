// SPDX-License-Identifier: BSD-3-Clause

// Command view draws a recording of package record, and says in words what happened:
//
//	cd lab
//	go run ./view FILE       one end
//	go run ./view FILE FILE  both ends of one connection
//
// It writes a picture and a table into the folder measured, or into that of -out.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	out := flag.String("out", "measured", "`folder` for the picture and the table")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "view [-out FOLDER] FILE [FILE]: "+
			"recordings of one end, or of both ends of one connection")
		flag.PrintDefaults()
	}
	flag.Parse()
	if n := flag.NArg(); n < 1 || n > 2 {
		flag.Usage()
		os.Exit(2)
	}
	if err := drawRecording(*out, os.Stdout, flag.Args()...); err != nil {
		fmt.Fprintln(os.Stderr, "view:", err)
		os.Exit(1)
	}
}
