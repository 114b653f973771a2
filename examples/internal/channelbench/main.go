// SPDX-License-Identifier: BSD-3-Clause

package channelbench

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
	flags := func(c *program.Flags, f *flag.FlagSet) {
		f.DurationVar(&c.For, "for", 10*time.Second, "how long to measure under each load, above 0")
		f.BoolVar(&c.JSON, "json", false, "print JSON")
	}
	check := func(c *program.Flags, f *flag.FlagSet) error {
		if c.For <= 0 {
			return fmt.Errorf("-for %v: must be above 0", c.For)
		}
		return program.Arguments(f, 0)
	}
	measure := func(ctx context.Context, c program.Flags, stdout, _ io.Writer) error {
		runtime.GOMAXPROCS(cores)
		return Table(ctx, stdout, c.JSON, Loads(bulk), c.For, connect)
	}
	program.Main(program.New(name, "usage: "+name+" [flags]", flags, check, measure))
}
