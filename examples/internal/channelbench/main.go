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

// flags are those of an example.
type flags struct {
	length time.Duration
	json   bool
}

func (c *flags) add(f *flag.FlagSet) {
	f.DurationVar(&c.length, "for", 10*time.Second, "how long to measure under each load, above 0")
	f.BoolVar(&c.json, "json", false, "print JSON")
}

func (c *flags) check(f *flag.FlagSet) error {
	if c.length <= 0 {
		return fmt.Errorf("-for %v: must be above 0", c.length)
	}
	return program.Arguments(f, 0)
}

// Main is the main of an example: it prints the table, and exits with 1 if a limit was
// exceeded. name is that of the program; bulk is what the transport calls the place of a bulk
// transfer.
func Main(name, bulk string, connect Connect) {
	measure := func(ctx context.Context, c flags, stdout, _ io.Writer) error {
		runtime.GOMAXPROCS(cores)
		return Table(ctx, stdout, c.json, Loads(bulk), c.length, connect)
	}
	program.Main(program.New(name, "usage: "+name+" [flags]", (*flags).add, (*flags).check, measure))
}
