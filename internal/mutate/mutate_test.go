// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that each operator makes the mistakes that it should, that what tests do
// to a mutant is told right, and that the list of equivalents can be read.
package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// write makes a module of its own in a temporary folder, and makes it the current one.
func write(t *testing.T, files map[string]string) {
	t.Helper()
	if _, err := goCommand("version"); err != nil {
		t.Skip("no go command: ", err)
	}
	dir := t.TempDir()
	files["go.mod"] = "module example\n\ngo 1.25\n"
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

const clamp = `package example

import "errors"

// limit is the largest value.
const limit = 100

var errNegative = errors.New("negative")

// Clamp returns v, at most limit.
func Clamp(v int) (int, error) {
	if v < 0 { // never
		return 0, errNegative
	}
	calls++
	return min(v, limit), nil
}

var calls int
`

// TestMistakes: each operator does what it says, once for each place, and what does not
// compile is not there.
func TestMistakes(t *testing.T) {
	write(t, map[string]string{"clamp.go": clamp})
	p, err := load(".")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range p.mutants() {
		got = append(got, m.String())
		if m.apply() == m.file.text {
			t.Errorf("%v: nothing changed", m)
		}
	}
	want := []string{
		"clamp.go:6: const limit = 100: 100 becomes 200",
		"clamp.go:12: if v < 0 {: < becomes <=",
		"clamp.go:12: if v < 0 {: 0 becomes 1",
		"clamp.go:12: if v < 0 {: negated: v < 0",
		"clamp.go:12: if v < 0 {: removed: if v < 0 { // never ...",
		"clamp.go:13: return 0, errNegative: 0 becomes 1",
		"clamp.go:13: return 0, errNegative: removed: return 0, errNegative",
		"clamp.go:15: calls++: ++ becomes --",
		"clamp.go:15: calls++: removed: calls++",
		"clamp.go:16: return min(v, limit), nil: min becomes max",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestFates: tests that look kill, tests that do not let survive, and what never ends
// is ended. The files stay as they are.
func TestFates(t *testing.T) {
	if testing.Short() {
		t.Skip("builds twenty test binaries and waits for two that never end: 20 s")
	}
	write(t, map[string]string{"sum.go": `package example

// Sum returns 1+...+n.
func Sum(n int) (sum int) {
	for n > 0 {
		sum += n
		n--
	}
	return sum
}

// Two is tested by another package.
func Two() int { return 2 }

// Three is not tested.
func Three() int { return 3 }
`, "sum_test.go": `package example

import "testing"

func TestSum(t *testing.T) {
	if Sum(3) != 6 || Sum(0) != 0 {
		t.Fail()
	}
}
`, "further/two_test.go": `package further

import (
	"testing"

	"example"
)

func TestTwo(t *testing.T) {
	if example.Two() != 2 {
		t.Fail()
	}
}
`, "apart/apart_test.go": `package apart

import "testing"

func TestApart(t *testing.T) { t.Fail() }
`})
	p, err := load(".")
	if err != nil {
		t.Fatal(err)
	}
	s, err := newTester(p, "./...", 3*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if len(s.tests) != 2 { // a package that does not use it is not asked
		t.Errorf("tests of %v", s.tests)
	}
	want := map[string]fate{
		"for n > 0 {: > becomes >=":                  survived, // adds 0
		"for n > 0 {: negated: n > 0":                killed,
		"for n > 0 {: 0 becomes 1":                   killed,
		"sum += n: += becomes -=":                    killed,
		"sum += n: removed: sum += n":                killed,
		"n--: -- becomes ++":                         killed, // or timedOut: until n is negative
		"n--: removed: n--":                          timedOut,
		"func Two() int { return 2 }: 2 becomes 3":   killed,
		"func Three() int { return 3 }: 3 becomes 4": survived,
	}
	for i, m := range p.mutants() {
		name := m.code + ": " + m.what
		f, ok := want[name]
		if !ok {
			t.Errorf("unexpected: %v", m)
		}
		delete(want, name)
		got := s.run(i, m)
		if got.fate != f && (f != killed || got.fate != timedOut) {
			t.Errorf("%v: fate %d, want %d", m, got.fate, f)
		}
		if own := f != survived && !strings.Contains(name, "Two"); got.own != own {
			t.Errorf("%v: decided by its own tests: %v, want %v", m, got.own, own)
		}
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

// possibleKeys returns the keys of all mistakes in a package, of those that do not compile, too.
func possibleKeys(t *testing.T, path string) map[string]bool {
	p, err := load(path)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	for _, f := range p.files {
		for _, m := range p.mistakes(f) {
			keys[m.key()] = true
		}
	}
	return keys
}

// TestEquivalents: every line of the list can be read, has a reason, and names a mistake that
// can still be made.
func TestEquivalents(t *testing.T) {
	possible := map[string]map[string]bool{} // keys, by package
	n := 0
	for line := range strings.Lines(equivalentText) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		n++
		path, rest, _ := strings.Cut(line, " | ")
		known, err := equivalents(path)
		if err != nil {
			t.Fatal(err)
		}
		key := rest[:strings.LastIndex(rest, " | ")]
		if known[key] == "" {
			t.Errorf("%q has no reason", line)
		}
		if possible[path] == nil {
			possible[path] = possibleKeys(t, path)
		}
		if !possible[path][key] {
			t.Errorf("%q: the package has no such line, or no such mistake is made in it", line)
		}
	}
	t.Logf("%d equivalents", n)
}
