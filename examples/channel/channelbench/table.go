// SPDX-License-Identifier: BSD-3-Clause

package channelbench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
	"time"

	"timesync/internal/program"
	"timesync/internal/testkit"
)

// Series are measurements, in microseconds; of errors the size. As text it is its median and its
// 99th percentile.
type Series []int64

// String implements fmt.Stringer.
func (s Series) String() string {
	return fmt.Sprintf("%d / %d", testkit.Quantile(s, 0.5), testkit.Quantile(s, 0.99))
}

// Found is what the ends of one side found.
type Found struct {
	OffsetError      Series // of RemoteTime
	OneWayDelay      Series // as it was in truth
	OneWayDelayError Series // of what the link says of it
	TS23Error        Series // of a timestamp in the payload
	ErrorBound       Series // of the offset, as the link says
	Outside          int    // offsets whose error exceeds their bound
}

// Check returns an error if the offset of an end is too wrong.
func (r *Run) Check() error {
	client := testkit.Quantile(r.client.OffsetError, 0.99)
	server := testkit.Quantile(r.server.OffsetError, 0.99)
	if worst := max(client, server); worst > r.limit {
		return fmt.Errorf("%s: the 99th percentile of the offset error is %d us, want at most %d",
			r.name, worst, r.limit)
	}
	return nil
}

// Outside counts the offsets whose error exceeds their bound: none on any machine, however busy.
func (r *Run) Outside() int { return r.client.Outside + r.server.Outside }

// The columns of the table.
const row = "%-24s %-6s %9s %14s %15s %12s %18s %17s %7s\n"

func header() string {
	return fmt.Sprintf(row, "load", "end", "bulk MB/s", "offset error",
		"one-way delay", "its error", "TS23 error", "error bound", "outside")
}

// line is that of one side.
func (f Found) line(load, end, bulk string) string {
	outside := 100 * float64(f.Outside) / float64(len(f.OffsetError))
	return fmt.Sprintf(row, load, end, bulk, f.OffsetError, f.OneWayDelay, f.OneWayDelayError,
		f.TS23Error, f.ErrorBound, fmt.Sprintf("%.1f %%", outside))
}

// String returns both lines.
func (r *Run) String() string {
	bulk := fmt.Sprintf("%.0f", r.mbps)
	return r.client.line(r.name, "client", bulk) + r.server.line("", "server", "")
}

type config struct {
	length time.Duration // of each row
}

func (c *config) flags(f *flag.FlagSet) {
	f.DurationVar(&c.length, "for", 10*time.Second, "how long to measure under each load, above 0")
}

func (c *config) check(f *flag.FlagSet) error {
	if c.length <= 0 {
		return fmt.Errorf("-for %v: must be above 0", c.length)
	}
	return program.Arguments(f, 0)
}

// Main is the main of an example: under each load it measures, and prints a line for each side as
// soon as it is known. It exits with 1 if a limit was exceeded, and says which. name is that of
// the program; bulk is what the transport calls the place of a bulk transfer.
func Main(name, bulk string, connect Connect) {
	measure := func(ctx context.Context, c config, out, _ io.Writer) error {
		return printTable(ctx, c.length, bulk, connect, out)
	}
	usage := "usage: " + name + " [flags]"
	program.Main(program.New(name, usage, (*config).flags, (*config).check, measure))
}

// printTable measures under each load and prints the lines. The error says which limits were
// exceeded.
func printTable(
	ctx context.Context, length time.Duration, bulk string, connect Connect, out io.Writer,
) (failed error) {
	runtime.GOMAXPROCS(cores)
	fmt.Fprintf(out, "Microseconds, median / 99th percentile; %v each, after %v; ", length, settle)
	fmt.Fprintf(out, "%d clients, a datagram each way every %v.\n\n", len(ClientClocks), every)
	fmt.Fprint(out, header())
	for _, load := range Loads(bulk) {
		r, err := Measure(ctx, load, length, connect)
		if err != nil {
			return err
		}
		fmt.Fprint(out, r)
		failed = errors.Join(failed, r.Check())
	}
	return failed
}
