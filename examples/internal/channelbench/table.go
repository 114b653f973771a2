// SPDX-License-Identifier: BSD-3-Clause

package channelbench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"timesync/examples/internal/program"
	"timesync/internal/stat"
)

// Spread is the median and the 99th percentile of something, in microseconds.
type Spread struct{ P50, P99 int64 }

// Result is what one row found. It is written as JSON.
type Result struct {
	Load           string
	LimitUsec      int64   // on the 99th percentile of both offsets
	BulkMBps       float64 // megabytes (10^6) of bulk received each second, of all connections
	Client, Server Found   // the ends of all connections together
}

// Found is what the ends of one side found. Errors are sizes.
type Found struct {
	Datagrams        int
	OffsetError      Spread // of RemoteTime
	OneWayDelay      Spread // as it was in truth
	OneWayDelayError Spread // of what the link says of it
	TS23Error        Spread // of a timestamp in the payload
	ErrorBound       Spread // of the offset, as the link says
	Outside          int    // offsets whose error exceeds their bound
}

func (r *Run) result(took time.Duration) (Result, error) {
	out := Result{
		Load: r.Name, LimitUsec: r.limit(),
		BulkMBps: float64(r.bulk.Load()) / 1e6 / took.Seconds(),
	}
	if (r.Up || r.Down) && out.BulkMBps == 0 {
		return Result{}, fmt.Errorf("%s: no bulk arrived", r.Name)
	}
	r.mu.Lock() // a datagram may still be on its way through the transport
	defer r.mu.Unlock()
	out.Client, out.Server = r.client.spreads(), r.server.spreads()
	return out, nil
}

func (s *samples) spreads() Found {
	return Found{
		Datagrams: len(s.offset), Outside: s.outside,
		OffsetError: spread(s.offset), OneWayDelay: spread(s.delay), OneWayDelayError: spread(s.owd),
		TS23Error: spread(s.payload), ErrorBound: spread(s.bound),
	}
}

func spread(v []int64) Spread {
	return Spread{P50: stat.Quantile(v, 0.5), P99: stat.Quantile(v, 0.99)}
}

func (s Spread) String() string { return fmt.Sprintf("%d / %d", s.P50, s.P99) }

// Check returns an error if the offset of an end is too wrong.
func (r Result) Check() error {
	if worst := max(r.Client.OffsetError.P99, r.Server.OffsetError.P99); worst > r.LimitUsec {
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

// Table measures each load for length, and prints a line for each side as soon as it is
// known, or all as JSON at the end. The error says which limits were exceeded.
func Table(ctx context.Context, out io.Writer, asJSON bool, loads []Load, length time.Duration, connect Connect) error {
	if !asJSON {
		fmt.Fprintf(out, "Microseconds, median / 99th percentile; %v each, after %v; %d clients, a datagram each way every %v.\n\n",
			length, settle, len(ClientClocks), every)
		fmt.Fprintf(out, row, "load", "end", "bulk MB/s", "offset error", "one-way delay", "its error", "TS23 error", "error bound", "outside")
	}
	var results []Result
	var failed []error
	for _, load := range loads {
		r, err := Measure(ctx, load, length, connect)
		if err != nil {
			return err
		}
		if !asJSON {
			r.print(out)
		}
		results = append(results, r)
		failed = append(failed, r.Check())
	}
	if asJSON {
		failed = append(failed, program.JSON(out, results))
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
