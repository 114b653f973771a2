// SPDX-License-Identifier: BSD-3-Clause

package testkit

import (
	"strings"
	"sync"
	"testing"
	"time"
)

// Must ends the test if something fails that is to work.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// patience is how long Eventually waits: much longer than anything takes on a busy machine.
const patience = time.Minute

// Eventually waits until something is so, for a minute at most. It logs how long that took.
func Eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	began := time.Now()
	for !is() {
		if time.Since(began) > patience {
			t.Fatalf("%s: not in %v", what, patience)
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Logf("%s: after %v", what, time.Since(began).Round(10*time.Millisecond))
}

// Output is what a program has printed that may still be running. The zero value is empty. All
// methods may be called from any goroutine.
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
