// SPDX-License-Identifier: BSD-3-Clause

// Package program has what the example programs share: their flags, the key of both ends, clocks
// that disagree by a known amount, and an exact wait.
package program

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Run runs a program with the arguments args until it is done or ctx ends. It returns the exit
// status: 0 if all went well, 1 if the program failed or found something wrong, 2 for wrong flags.
type Run func(ctx context.Context, args []string, stdout, stderr io.Writer) (code int)

// New makes a program with a configuration C. flags adds the flags and sets their defaults, check
// returns an error for wrong values, and do runs the program. Errors are printed on stderr.
func New[C any](
	name, usage string,
	flags func(*C, *flag.FlagSet),
	check func(*C, *flag.FlagSet) error,
	do func(ctx context.Context, c C, stdout, stderr io.Writer) error,
) Run {
	return func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
		var c C
		f := flag.NewFlagSet(name, flag.ContinueOnError)
		flags(&c, f)
		f.SetOutput(io.Discard) // the error is printed below
		err := f.Parse(args)
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(stderr, usage)
			f.SetOutput(stderr)
			f.PrintDefaults()
			return 0
		}
		if err == nil {
			err = check(&c, f)
		}
		if err != nil {
			fmt.Fprintf(stderr, "%s -h explains the flags\n%s: %v\n", name, name, err)
			return 2
		}
		if err := do(ctx, c, stdout, stderr); err != nil {
			fmt.Fprintf(stderr, "%s: %v\n", name, err)
			return 1
		}
		return 0
	}
}

// Main runs a program until it ends or is interrupted, and exits with its status.
func Main(run Run) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Given reports whether a flag was given.
func Given(f *flag.FlagSet, name string) (given bool) {
	f.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	return given
}

// Arguments returns an error if more than most arguments follow the flags. The error does not
// repeat them: one may be a key, and what a program prints ends up in logs.
func Arguments(f *flag.FlagSet, most int) error {
	if f.NArg() > most {
		return fmt.Errorf("%d arguments after the flags, want %d; pass a key in $%s",
			f.NArg(), most, KeyVariable)
	}
	return nil
}
