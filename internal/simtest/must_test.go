// What each method must reach in the worlds of the accuracy tests.

package simtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
)

// musts are figures with their limits, printed one a line at the end of the test. A figure above
// its must fails the test; its aim is only printed. What fails in single worlds is printed, too, at
// most a few lines of each kind.
type musts struct {
	t      *testing.T
	lines  strings.Builder
	mu     sync.Mutex
	failed map[string][]string
}

func newMusts(t *testing.T) *musts {
	m := &musts{t: t, failed: map[string][]string{}}
	t.Cleanup(m.log)
	return m
}

// fail fails the test. It may be called from any goroutine.
func (m *musts) fail(kind, format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failed[kind] = append(m.failed[kind], fmt.Sprintf(format, args...))
}

// judge takes a figure of which less is better. NaN fails.
func (m *musts) judge(what string, got, must, aim float64) {
	verdict := "aim"
	switch {
	case !(got <= must):
		verdict = "FAILS"
		m.t.Errorf("%s: %.3f, must %.3f", what, got, must)
	case got > aim:
		verdict = "must"
	}
	fmt.Fprintf(&m.lines, "%-72s %10.3f  must %8.3f aim %8.3f  %s\n", what, got, must, aim, verdict)
}

// misses takes a figure that is known to be above its must. It fails above limit, where it
// stands today.
func (m *musts) misses(what string, got, must, limit float64) {
	if !(got <= limit) {
		m.t.Errorf("%s: %.3f, today %.3f", what, got, limit)
	}
	verdict := "MISSES"
	if got <= must {
		verdict = "must"
	}
	fmt.Fprintf(&m.lines, "%-72s %10.3f  must %8.3f now %8.3f  %s\n", what, got, must, limit, verdict)
}

// note adds a line without limits.
func (m *musts) note(what string, got float64) { fmt.Fprintf(&m.lines, "%-72s %10.3f\n", what, got) }

func (m *musts) log() {
	if m.lines.Len() > 0 {
		m.t.Logf("musts and aims, -seed.first %d\n%s", *seedFirst, m.lines.String())
	}
	for _, kind := range slices.Sorted(maps.Keys(m.failed)) {
		l := m.failed[kind]
		m.t.Errorf("%s: %d\n\t%s", kind, len(l), strings.Join(l[:min(len(l), 8)], "\n\t"))
	}
}
