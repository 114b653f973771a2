// SPDX-License-Identifier: BSD-3-Clause

// Package exampletest is what the tests of the examples have in common, those of the nested
// modules included.
package exampletest

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
	"time"

	"timesync/internal/badnet"
	"timesync/internal/channelbench"
	"timesync/internal/program"
	"timesync/record"
)

// Must ends the test if something fails that is to work.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Output is what a program that still runs has printed.
type Output struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write adds to it.
func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

// String returns what there is so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Flags runs the program of that name with wrong flags, each of which it must refuse: with exit status 2, and
// with a line of what is wrong, which contains the words given, behind the line that names its
// help. Then with -h, which must print the help. The context has ended, so that a program that
// takes wrong flags ends at once.
func Flags(t *testing.T, name string, run program.Run, wrong map[string]string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for args, want := range wrong {
		var stdout, stderr Output
		code := run(ctx, strings.Fields(args), &stdout, &stderr)
		help, reason, _ := strings.Cut(strings.TrimSuffix(stderr.String(), "\n"), "\n")
		if code != 2 || stdout.String() != "" || !strings.Contains(help, name+" -h") || !strings.Contains(reason, want) || strings.Contains(reason, "\n") {
			t.Errorf("%s: exit status %d, stdout %q, stderr\n%s\nwant 2, a line of help, and %q last", args, code, stdout.String(), stderr.String(), want)
		}
	}
	var stdout, stderr Output
	if code := run(ctx, []string{"-h"}, &stdout, &stderr); code != 0 || stdout.String() != "" || !strings.Contains(stderr.String(), "usage: "+name) {
		t.Errorf("-h: exit status %d\n%s%s", code, stdout.String(), stderr.String())
	}
}

// Config returns what a program makes of flags that it must not refuse.
func Config[C any](t *testing.T, flags func(*C, *flag.FlagSet), check func(*C, *flag.FlagSet) error, args string) (c C) {
	t.Helper()
	f := flag.NewFlagSet("", flag.ContinueOnError)
	flags(&c, f)
	if err := errors.Join(f.Parse(strings.Fields(args)), check(&c, f)); err != nil {
		t.Fatal(err)
	}
	return c
}

// Eventually waits until something is so, for a minute at most.
func Eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	from := time.Now()
	for ; !is(); time.Sleep(5 * time.Millisecond) {
		if time.Since(from) > time.Minute {
			t.Fatalf("%s: not in a minute", what)
		}
	}
	t.Logf("%s: after %v", what, time.Since(from).Round(10*time.Millisecond))
}

// Bench tests the program in the folder of the test, which channelbench.Main makes: its table, briefly,
// idle and with bulk both ways. The table's limit holds on any machine however
// busy: what each end says of its own error.
func Bench(t *testing.T, connect channelbench.Connect) {
	t.Helper()
	loads := channelbench.Loads("bulk")
	for _, load := range []channelbench.Load{loads[0], loads[2]} {
		r, err := channelbench.Measure(t.Context(), load, time.Second, connect)
		Must(t, err)
		t.Logf("%+v", r)
		if n := r.Outside(); n > 0 {
			t.Errorf("%d offsets are worse than their bound says", n)
		}
	}
}

// Recording replays a recording, whose last block may be cut off, and returns how many
// datagrams it has.
func Recording(t *testing.T, name string) (datagrams int) {
	t.Helper()
	file, err := os.Open(name)
	Must(t, err)
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

// Together runs processes of a program at once that have to know each other's addresses. processes is
// given some, and returns the arguments of each. They are free then; where somebody else takes one
// before the process does, all is done again with others. No process may fail for another reason.
// It returns what each printed.
func Together(t *testing.T, run program.Run, processes func(at []string) []string) (printed []Output) {
	t.Helper()
	const tries = 5
	for try := 1; ; try++ {
		ctx, cancel := context.WithCancel(t.Context())
		at := make([]string, 4)
		for i := range at {
			conn := badnet.Loopback()
			at[i] = badnet.Addr(conn).String()
			conn.Close()
		}
		all := processes(at)
		printed, codes := make([]Output, len(all)), make([]int, len(all))
		var running sync.WaitGroup
		for i, args := range all {
			running.Go(func() {
				if codes[i] = run(ctx, strings.Fields(args), &printed[i], &printed[i]); codes[i] != 0 {
					cancel()
				}
			})
		}
		running.Wait()
		cancel()
		said := ""
		for i := range all {
			said += fmt.Sprintf("process %d: %s\n", i, printed[i].String())
		}
		if strings.Contains(said, ": bind: ") && try < tries {
			continue
		}
		if t.Log(said); slices.Max(codes) != 0 {
			t.Errorf("exit statuses %v", codes)
		}
		return printed
	}
}
