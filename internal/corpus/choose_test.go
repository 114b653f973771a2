// These tests prove that the inputs that are kept cover what all of them cover, as far as there is
// room.

package main

import (
	"fmt"
	"maps"
	"slices"
	"testing"
)

func TestChoose(t *testing.T) {
	name := func(n int) string { return fmt.Sprintf("%016x", n) }
	many := map[string][]string{}
	for i := range 2 * most {
		many[name(i)] = []string{fmt.Sprint(i)}
	}
	for what, c := range map[string]struct {
		covers map[string][]string
		want   []string
	}{
		"nothing": {map[string][]string{}, nil},
		"all in one": {
			map[string][]string{name(1): {"a"}, name(2): {"a", "b"}, name(3): {"b"}},
			[]string{name(2)},
		},
		"two are needed": {
			map[string][]string{name(1): {"a", "b"}, name(2): {"b", "c"}, name(3): {"b"}},
			[]string{name(1), name(2)},
		},
		"a person's":          {map[string][]string{"steps": {"a"}, name(1): {"a"}}, []string{"steps"}},
		"one of equal length": {map[string][]string{name(1): {"a"}, name(2): {"a"}}, []string{name(1)}},
	} {
		got := slices.Sorted(maps.Keys(choose(c.covers, nil)))
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", what, got, c.want)
		}
	}
	text := map[string][]byte{name(1): make([]byte, 9), name(2): make([]byte, 3)}
	short := choose(map[string][]string{name(1): {"a"}, name(2): {"a"}}, text)
	if !short[name(2)] {
		t.Errorf("the longer one of two is kept: %v", short)
	}
	if n := len(choose(many, nil)); n != most {
		t.Errorf("%d are kept, want %d", n, most)
	}
}

func TestFeatures(t *testing.T) {
	profile := "mode: count\nx.go:1.2,3.4 2 0\nx.go:5.2,6.4 1 1\nx.go:7.2,8.4 1 5\n"
	got := features([]byte(profile))
	want := []string{"x.go:5.2,6.40", "x.go:7.2,8.40", "x.go:7.2,8.41", "x.go:7.2,8.42"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
