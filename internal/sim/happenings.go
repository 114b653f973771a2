package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Happenings describe a world, for reports.
type Happenings []Happening

// Happening is something that happens in a world.
type Happening struct {
	At         time.Duration
	Kind, Text string
}

// Happens adds a line.
func (h *Happenings) Happens(at time.Duration, kind, format string, args ...any) {
	*h = append(*h, Happening{at, kind, fmt.Sprintf(format, args...)})
}

// InOrder returns the lines in the order of time.
func (h Happenings) InOrder() Happenings {
	return slices.SortedStableFunc(slices.Values(h), func(a, b Happening) int {
		return cmp.Compare(a.At, b.At)
	})
}
