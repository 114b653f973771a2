// SPDX-License-Identifier: BSD-3-Clause

package bench

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

// Main is the main of an example: it prints the table, and exits with 1 if a limit was
// exceeded. bulk is what the transport calls the place of a bulk transfer.
func Main(bulk string, connect Connect) {
	length := flag.Duration("for", 10*time.Second, "how long to measure under each load, above 0")
	asJSON := flag.Bool("json", false, "print JSON")
	flag.Parse()
	if *length <= 0 || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := Table(ctx, os.Stdout, *asJSON, Loads(bulk), *length, connect); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
