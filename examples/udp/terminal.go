// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
)

// screen shows lines: on a terminal in place of those before, cut to its width; elsewhere
// below each other.
type screen struct {
	out     io.Writer
	columns func() int // nil: not a terminal
	shown   int        // lines
}

func newScreen(out io.Writer) *screen {
	s := &screen{out: out}
	f, ok := out.(*os.File)
	if !ok {
		return s
	}
	if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		s.columns = func() int { return columns(f) }
	}
	return s
}

// columns is how wide a terminal is: what it says itself, else what the shell says.
func columns(f *os.File) int {
	if n := terminalColumns(f); n > 0 {
		return n
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	return 80
}

func (s *screen) show(lines []string) {
	if s.columns == nil {
		for _, line := range lines {
			fmt.Fprintln(s.out, line)
		}
		return
	}
	if s.shown > 0 {
		// To the left, where ^C may have been echoed, and so many lines up.
		fmt.Fprintf(s.out, "\r\x1b[%dA", s.shown)
	}
	width := s.columns()
	for _, line := range lines {
		// A line that wraps could not be overwritten. They are ASCII.
		fmt.Fprintf(s.out, "\x1b[K%s\n", line[:min(len(line), width)])
	}
	fmt.Fprint(s.out, "\x1b[J") // clear what is left below
	s.shown = len(lines)
}

// watch shows lines now and then, and once more at the end.
func (s *screen) watch(ctx context.Context, lines func() []string) {
	every := time.Second
	if s.columns != nil {
		every = 100 * time.Millisecond
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			if time.Since(last) > every/10 {
				s.show(lines())
			}
			return
		case last = <-tick.C:
			s.show(lines())
		}
	}
}
