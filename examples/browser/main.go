// SPDX-License-Identifier: BSD-3-Clause

// Browser serves a page that shows all of timesync, live: the elevator problem on three clocks, and
// how well the page knows the server's clock, over a network that sliders make worse. It prints the
// address; open it in two windows.
//
//	cd examples/browser && go run .  # until you stop it
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address of the page; port 0 takes a free one")
	record := flag.String("record", "",
		"record what the clocks are told into files in this `folder`, one for each connection")
	flag.Parse()

	s, err := serve(*addr, *record)
	if err != nil {
		log.Fatal(err)
	}
	defer s.close()
	const what = "open %s in a browser, and once more in another window; Ctrl+C ends it\n"
	fmt.Printf(what, s.address())
	interrupt := make(chan os.Signal, 1)
	signal.Notify(interrupt, os.Interrupt)
	<-interrupt
}
