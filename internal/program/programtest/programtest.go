// SPDX-License-Identifier: BSD-3-Clause

// Package programtest tests what package program makes: that a program refuses wrong flags, what
// it makes of right ones, processes that run together, and recordings.
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

// Flags runs the program of that name with wrong flags, each of which it must refuse: with exit
// status 2, and with a line of what is wrong, which contains the words given, behind the line that
// names its help. Then with -h, which must print the help. The context has ended, so that a
// program that takes wrong flags ends at once.
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
			t.Errorf("%s: exit status %d, stdout %q, stderr\n%s", args, code, stdout.String(), stderr.String())
			t.Errorf("want 2, a line of help, and %q last", want)
		}
	}
	var stdout, stderr testkit.Output
	code := run(ctx, []string{"-h"}, &stdout, &stderr)
	if code != 0 || stdout.String() != "" || !strings.Contains(stderr.String(), "usage: "+name) {
		t.Errorf("-h: exit status %d\n%s%s", code, stdout.String(), stderr.String())
	}
}

// Config returns what a program makes of flags that it must not refuse.
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

// Recording replays a recording, whose last block may be cut off, and returns how many
// datagrams it has.
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

// Together runs processes of a program at once that have to know each other's addresses. processes
// is given some, and returns the arguments of each. They are free then; where somebody else takes
// one before the process does, all is done again with others. No process may fail for another
// reason. It returns what each printed.
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

// freeAddresses returns addresses of this machine at which nobody listens now.
func freeAddresses(n int) (at []string) {
	for range n {
		conn := badnet.Loopback()
		defer conn.Close() // only then, so that no two are the same
		at = append(at, badnet.Addr(conn).String())
	}
	return at
}

// runAll runs processes until all have ended. One that fails ends the others.
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
