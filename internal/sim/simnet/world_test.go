// This test proves that a world lets things happen in the order of time.

package simnet

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestWorldOrder(t *testing.T) {
	w := NewWorld(1)
	var got []string
	at := func(t time.Duration, what string) {
		w.At(t, func() { got = append(got, fmt.Sprint(w.Now(), what)) })
	}
	at(2*sec, "c")
	at(sec, "a")
	at(2*sec, "d")
	w.At(sec, func() { at(0, "b") }) // the past is now
	at(4*sec, "never")
	w.Run(3 * sec)
	if want := []string{"1sa", "1sb", "2sc", "2sd"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if w.Now() != 3*sec {
		t.Errorf("now %v", w.Now())
	}
}
