// These tests prove that two views of the elevator agree, and what a wrong clock does to
// them.

package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"timesync/tick"
)

// The program finds what the document says, each time the same.
func TestElevator(t *testing.T) {
	var a, b bytes.Buffer
	if !run(&a, rules) {
		t.Error("it does not hold")
	}
	t.Log(a.String())
	run(&b, rules)
	if a.String() != b.String() {
		t.Errorf("another run printed\n%s", b.String())
	}
	for _, want := range []string{
		"Platform in server time (client authority)\n                    client        host\nown player         aligned     aligned\nother player         250ms       250ms\nNPC                aligned     aligned\n",
		"Platform in predicted time (client authority)\n                    client        host\nown player         aligned     aligned\nother player         250ms     aligned\nNPC                  250ms     aligned\n",
	} {
		if !strings.Contains(a.String(), want) {
			t.Errorf("not printed:\n%s", want)
		}
	}
}

// The check is one: a platform in another time than the document's is found out.
func TestWrongClock(t *testing.T) {
	wrong := slices.Clone(rules[:1])
	wrong[0].own = func(c tick.Clocks) tick.Time { return c.SharedTime }
	var out bytes.Buffer
	if run(&out, wrong) || !strings.Contains(out.String(), "WRONG") {
		t.Errorf("the shared clock passes for the server clock:\n%s", out.String())
	}
}
