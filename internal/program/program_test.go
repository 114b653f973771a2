// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that no program prints its key, that wrong flags are said to be wrong, and
// that clocks are right to a microsecond.
package program_test

import (
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"io"
	"strings"
	"testing"
	"time"

	"timesync/internal/badnet"
	"timesync/internal/program"
	"timesync/internal/program/programtest"
)

// TestKey: it comes from the command line or the environment.
func TestKey(t *testing.T) {
	want := [32]byte{1, 2, 3}
	digits := hex.EncodeToString(want[:])
	for _, c := range []struct{ text, environment string }{
		{digits, ""},
		{"", digits},
		{digits, "wrong"},
	} {
		t.Setenv(program.KeyVariable, c.environment)
		if got, err := program.Key(c.text); err != nil || got != want {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, wrong := range []string{"", digits[1:], digits + "00", "x" + digits[1:]} {
		t.Setenv(program.KeyVariable, "")
		got, err := program.Key(wrong)
		if err == nil || got != [32]byte{} ||
			len(wrong) > 60 && strings.Contains(err.Error(), wrong[1:]) {
			t.Errorf("%q: %x, %v", wrong, got, err)
		}
	}
}

// TestFlags: what cannot be meant is refused, and says why. What can be meant is completed, and a
// program that fails says so. The help keeps a key in the environment to itself.
func TestFlags(t *testing.T) {
	t.Setenv(program.KeyVariable, strings.Repeat("5e", 32))
	var c program.Flags
	run := program.New("test", "usage: test", func(c *program.Flags, f *flag.FlagSet) {
		c.Add(f, 1)
		f.Bool("demo", false, "")
		f.Bool("alone", false, "")
	}, func(c *program.Flags, f *flag.FlagSet) error {
		return c.Check(f, []string{"demo"}, []string{"alone"})
	}, func(_ context.Context, flags program.Flags, _, _ io.Writer) error {
		c = flags
		return errors.New("done")
	})
	programtest.Flags(t, "test", run, map[string]string{
		"-listen :1 -dial :2": "exclude each other",
		"-listen=":            "the address is empty",
		"-for 0":              "-for 0s: must be positive",
		"-skew NaN":           "-skew NaN",
		"-skew 1001":          "-1000 to 1000 ppm",
		"-loss NaN":           "0 to 100 percent",
		"-loss -1":            "0 to 100 percent",
		"-loss 101":           "0 to 100 percent",
		"-jitter -1ns":        "-jitter -1ns",
		"-jitter 1h":          "-jitter 1h",
		"-seed -1":            "invalid value",
		"-key 12":             "-key: only with -listen or -dial",
		"-alone":              "-alone: only with -listen or -dial",
		"-listen :1 -demo":    "-demo: only without",
		"-listen :1 -loss 1":  "-loss: only without",
		"-listen :1 -key 12":  "64 hex digits",
		"-nonsense":           "not defined",
		"what":                "1 arguments after the flags, want 0",
		"-listen :1 -for 1x":  "invalid value",
	})
	printed := func(args ...string) string {
		var stderr strings.Builder
		run(t.Context(), args, io.Discard, &stderr)
		return stderr.String()
	}
	if help := printed("-h"); !strings.Contains(help, program.KeyVariable) ||
		strings.Contains(help, "5e5e") {
		t.Errorf("-h prints the key, or no help:\n%s", help)
	}
	said := printed("-listen", ":1")
	if said != "test: done\n" || c.Key[0] != 0x5e || c.For != 0 || c.Skew != 0 || !c.Alone() {
		t.Errorf("%s%+v", said, c)
	}
	given := c.Key
	said = printed("-demo", "-down", "4ms@1s", "-loss", "3")
	down := badnet.Extra{By: 4 * time.Millisecond, From: time.Second}
	drawn := c.Key != [32]byte{} && c.Key != given && c.Network.Seed != 0 &&
		c.Network.Down == down && c.Network.Loss == 3 && c.Network.Jitter == 10*time.Millisecond
	if said != "test: done\n" || !drawn || c.For != 1 || c.Skew != 50 || c.Alone() {
		t.Errorf("%s%+v", said, c)
	}
}

func TestClock(t *testing.T) {
	const hour = 3_600_000_000
	for _, c := range []struct {
		in   program.Clock
		at   int64
		want uint64
	}{
		{program.Clock{5, 0}, hour, hour + 5},
		{program.Clock{0, 50}, hour, hour + 180_000},
		{program.Clock{0, -50}, hour, hour - 180_000},
		{program.Clock{1<<64 - 1, 0}, 1, 0}, // wraps
		{program.Clock{1 << 63, 1000}, -hour, 1<<63 - hour - hour/1000},
	} {
		got := c.in.At(c.at)
		if d := int64(got - c.want); d < -1 || d > 1 {
			t.Errorf("%+v at %v: %d, want %d", c.in, c.at, got, c.want)
		}
		if d := c.in.True(got) - c.at; d < -1 || d > 1 {
			t.Errorf("%+v reads %d at %d, want %d", c.in, got, c.in.True(got), c.at)
		}
	}
}

func TestWait(t *testing.T) {
	for _, wait := range []time.Duration{
		-time.Second, 0, 100 * time.Microsecond, 5 * time.Millisecond,
	} {
		at := time.Now().Add(wait)
		if !program.Wait(func() time.Duration { return time.Until(at) }, nil) || time.Now().Before(at) {
			t.Errorf("a wait for %v ends %v early", wait, time.Until(at))
		}
	}
	hours := []time.Duration{time.Hour, time.Hour, 0} // at the third look the instant is moved to now
	program.Wait(func() (left time.Duration) {
		left, hours = hours[0], hours[1:]
		return left
	}, nil)
	stop := make(chan struct{})
	close(stop)
	if program.Wait(func() time.Duration { return time.Hour }, stop) {
		t.Error("a wait that was ended says that the instant came")
	}
}
