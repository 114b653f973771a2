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

	"timesync/examples/internal/program"
	"timesync/internal/stat"
)

// Series are measurements, in microseconds; of errors the size. As text it is its median and its 99th
// percentile.
type Series []int64

// Quantile returns a quantile.
func (s Series) Quantile(q float64) int64 { return stat.Quantile(s, q) }

// String implements fmt.Stringer.
func (s Series) String() string { return fmt.Sprintf("%d / %d", s.Quantile(0.5), s.Quantile(0.99)) }

// Result is what one row found.
type Result struct {
	Load      string
	LimitUsec int64 // on the 99th percentile of both offsets
	// BulkMBps are the megabytes (10^6) of bulk received each second, of all connections.
	BulkMBps       float64
	Client, Server Found // the ends of all connections together
}

// Found is what the ends of one side found.
type Found struct {
	Datagrams        int
	OffsetError      Series // of RemoteTime
	OneWayDelay      Series // as it was in truth
	OneWayDelayError Series // of what the link says of it
	TS23Error        Series // of a timestamp in the payload
	ErrorBound       Series // of the offset, as the link says
	Outside          int    // offsets whose error exceeds their bound
}

func (r *Run) result(took time.Duration) (Result, error) {
	// A datagram may still be on its way through the transport.
	r.mu.Lock()
	defer r.mu.Unlock()
	out := Result{
		Load: r.Name, LimitUsec: r.limit(), Client: r.client, Server: r.server,
		BulkMBps: float64(r.bulk.Load()) / 1e6 / took.Seconds(),
	}
	if (r.Up || r.Down) && out.BulkMBps == 0 {
		return Result{}, fmt.Errorf("%s: no bulk arrived", r.Name)
	}
	return out, nil
}

// Check returns an error if the offset of an end is too wrong.
func (r Result) Check() error {
	client, server := r.Client.OffsetError.Quantile(0.99), r.Server.OffsetError.Quantile(0.99)
	if worst := max(client, server); worst > r.LimitUsec {
		return fmt.Errorf("%s: the 99th percentile of the offset error is %d us, want at most %d", r.Load, worst, r.LimitUsec)
	}
	return nil
}

// CheckBounds returns an error if an end knows less well than it says. That holds on any
// machine, however busy.
func (r Result) CheckBounds() error {
	for name, f := range map[string]Found{"client": r.Client, "server": r.Server} {
		if f.Outside > 0 {
			return fmt.Errorf("%s, %s: %d of %d offsets are worse than their bound says", r.Load, name, f.Outside, f.Datagrams)
		}
	}
	return nil
}

// The columns of the table.
const row = "%-24s %-6s %9s %14s %15s %12s %18s %17s %7s\n"

// table measures each load for length, and prints a line for each side as soon as it is known. The
// error says which limits were exceeded.
func table(ctx context.Context, out io.Writer, loads []Load, length time.Duration, connect Connect) error {
	fmt.Fprintf(out, "Microseconds, median / 99th percentile; %v each, after %v; %d clients, a datagram each way every %v.\n\n",
		length, settle, len(ClientClocks), every)
	fmt.Fprintf(out, row, "load", "end", "bulk MB/s", "offset error", "one-way delay", "its error", "TS23 error", "error bound", "outside")
	var failed []error
	for _, load := range loads {
		r, err := Measure(ctx, load, length, connect)
		if err != nil {
			return err
		}
		r.print(out)
		failed = append(failed, r.Check())
	}
	return errors.Join(failed...)
}

func (r Result) print(out io.Writer) {
	line := func(load, end, bulk string, f Found) {
		fmt.Fprintf(out, row, load, end, bulk, f.OffsetError, f.OneWayDelay, f.OneWayDelayError, f.TS23Error, f.ErrorBound,
			fmt.Sprintf("%.1f %%", 100*float64(f.Outside)/float64(f.Datagrams)))
	}
	line(r.Load, "client", fmt.Sprintf("%.0f", r.BulkMBps), r.Client)
	line("", "server", "", r.Server)
}

// Main is the main of an example: it prints the table, and exits with 1 if a limit was
// exceeded. name is that of the program; bulk is what the transport calls the place of a bulk
// transfer.
func Main(name, bulk string, connect Connect) {
	flags := func(length *time.Duration, f *flag.FlagSet) {
		f.DurationVar(length, "for", 10*time.Second, "how long to measure under each load, above 0")
	}
	check := func(length *time.Duration, f *flag.FlagSet) error {
		if *length <= 0 {
			return fmt.Errorf("-for %v: must be above 0", *length)
		}
		return program.Arguments(f, 0)
	}
	measure := func(ctx context.Context, length time.Duration, stdout, _ io.Writer) error {
		runtime.GOMAXPROCS(cores)
		return table(ctx, stdout, Loads(bulk), length, connect)
	}
	program.Main(program.New(name, "usage: "+name+" [flags]", flags, check, measure))
}
