// These tests prove that a flag counts before -long, and -long before the default.
package long

import (
	"flag"
	"testing"
)

func TestCount(t *testing.T) {
	worlds := Count("worlds", "worlds of this test", 1, 2, 3)
	if want := map[bool]int{true: 1, false: 2}[testing.Short()]; worlds() != want {
		t.Errorf("%d worlds, want %d", worlds(), want)
	}
	flag.Set("long", "true")
	if want := map[bool]int{true: 1, false: 3}[testing.Short()]; worlds() != want {
		t.Errorf("with -long %d worlds, want %d", worlds(), want)
	}
	flag.Set("worlds", "7")
	if worlds() != 7 {
		t.Errorf("with -worlds 7: %d", worlds())
	}
}
