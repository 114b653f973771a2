// What the tests of the report share: the figures, played once.

package main

import (
	"os"
	"sync"
	"testing"
)

// The program runs in the folder of the module.
func init() { os.Chdir("..") }

// all are the figures, played once for all tests.
var all = sync.OnceValues(func() (*figures, error) { return collect("") })

func figuresOf(t *testing.T) *figures {
	t.Helper()
	if testing.Short() {
		t.Skip("plays all worlds")
	}
	f, err := all()
	if err != nil {
		t.Fatal(err)
	}
	return f
}
