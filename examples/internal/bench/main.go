// SPDX-License-Identifier: BSD-3-Clause

package bench

import (
	"context"
	"flag"
	"fmt"
	"io"
	"runtime"
	"time"

	"timesync/examples/internal/program"
)

// Main is the main of an example: it prints the table, and exits with 1 if a limit was
// exceeded. name is that of the program; bulk is what the transport calls the place of a bulk
// transfer.
func Main(name, bulk string, connect Connect) {
	program.Main(func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
		f := flag.NewFlagSet(name, flag.ContinueOnError)
		length := f.Duration("for", 10*time.Second, "how long to measure under each load, above 0")
		asJSON := f.Bool("json", false, "print JSON")
		_, err := program.Parse(f, "usage: "+name+" [flags]", args, stderr)
		if err == nil && *length <= 0 {
			err = fmt.Errorf("-for %v: must be above 0", *length)
		}
		if err != nil {
			return program.Status(name, err, stderr)
		}
		runtime.GOMAXPROCS(cores)
		if err := Table(ctx, stdout, *asJSON, Loads(bulk), *length, connect); err != nil {
			fmt.Fprintf(stderr, "%s: %v\n", name, err)
			return 1
		}
		return 0
	})
}
