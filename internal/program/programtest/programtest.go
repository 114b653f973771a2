// SPDX-License-Identifier: BSD-3-Clause

// Package programtest tests programs made with package program: their flags, processes that run
// together, and recordings.
package programtest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"timesync/internal/badnet"
	"timesync/internal/program"
	"timesync/internal/testkit"
	"timesync/record"
)

// Flags runs a program with wrong flags, and then with -h, which must print the help. wrong maps
// arguments to words of the error. For each, the program must exit with status 2 and print two
// lines: one names its help, the other contains the words.
//
// The context has ended already, so a program that accepts wrong flags ends at once.
func Flags(t *testing.T, name string, run program.Run, wrong map[string]string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for args, want := range wrong {
		var stdout, stderr testkit.Output
		code := run(ctx, strings.Fields(args), &stdout, &stderr)
		help, reason, _ := strings.Cut(strings.TrimSuffix(stderr.String(), "\n"), "\n")
		refused := code == 2 && stdout.String() == "" && strings.Contains(help, name+" -h")
		if !refused || !strings.Contains(reason, want) || strings.Contains(reason, "\n") {
			t.Errorf("%s: exit status %d, stdout %q, stderr\n%s",
				args, code, stdout.String(), stderr.String())
			t.Errorf("want 2, a line of help, and %q last", want)
		}
	}
	var stdout, stderr testkit.Output
	code := run(ctx, []string{"-h"}, &stdout, &stderr)
	if code != 0 || stdout.String() != "" || !strings.Contains(stderr.String(), "usage: "+name) {
		t.Errorf("-h: exit status %d\n%s%s", code, stdout.String(), stderr.String())
	}
}

// Config returns the configuration that a program makes of right flags.
func Config[C any](
	t *testing.T, flags func(*C, *flag.FlagSet), check func(*C, *flag.FlagSet) error, args string,
) (c C) {
	t.Helper()
	f := flag.NewFlagSet("", flag.ContinueOnError)
	flags(&c, f)
	testkit.Must(t, f.Parse(strings.Fields(args)))
	testkit.Must(t, check(&c, f))
	return c
}

// Recording replays a recording and returns how many datagrams it contains. Its last block may be
// cut off. It fails the test if the replay differs from the recorded answers.
func Recording(t *testing.T, name string) (datagrams int) {
	t.Helper()
	file, err := os.Open(name)
	testkit.Must(t, err)
	defer file.Close()
	for m, err := range record.Replay(file) {
		switch {
		case errors.Is(err, record.ErrTruncated):
		case err != nil:
			t.Fatalf("%s: %v", name, err)
		case m.Kind == record.Datagram:
			datagrams++
		case m.Kind == record.Answered && m.Answer != record.Ask(m.Ends[0], m.LocalUsec):
			t.Fatalf("%s: the replay answers otherwise at %d", name, m.LocalUsec)
		}
	}
	return datagrams
}

// Together runs several processes of a program that need each other's addresses, and returns what
// each printed. processes gets free addresses and returns the arguments of each process.
//
// If another program takes an address first, Together starts over with others. Any other failure
// of a process fails the test.
func Together(
	t *testing.T, run program.Run, processes func(at []string) []string,
) (printed []testkit.Output) {
	t.Helper()
	const tries = 5
	for try := 1; ; try++ {
		printed, codes := runAll(t.Context(), run, processes(freeAddresses(4)))
		said := ""
		for i := range printed {
			said += fmt.Sprintf("process %d: %s\n", i, printed[i].String())
		}
		if strings.Contains(said, ": bind: ") && try < tries {
			continue
		}
		t.Log(said)
		if slices.Max(codes) != 0 {
			t.Errorf("exit statuses %v", codes)
		}
		return printed
	}
}

// freeAddresses returns n addresses of this machine at which nobody listens.
func freeAddresses(n int) (at []string) {
	for range n {
		conn := badnet.Loopback()
		defer conn.Close() // only then, so that no two are the same
		at = append(at, badnet.Addr(conn).String())
	}
	return at
}

// runAll runs processes until all have ended. If one fails, it stops the others.
func runAll(
	ctx context.Context, run program.Run, processes []string,
) (printed []testkit.Output, codes []int) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	printed = make([]testkit.Output, len(processes))
	codes = make([]int, len(processes))
	var running sync.WaitGroup
	for i, args := range processes {
		running.Go(func() {
			codes[i] = run(ctx, strings.Fields(args), &printed[i], &printed[i])
			if codes[i] != 0 {
				cancel()
			}
		})
	}
	running.Wait()
	return printed, codes
}
