// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// fate is what became of a mutant.
type fate uint8

const (
	killed     fate = iota // a test failed
	timedOut               // the tests did not end in time
	survived               // all tests passed
	equivalent             // all tests passed, and equivalent.txt says why that is right
	broken                 // it did not build
	fates_
)

// tester builds and runs the tests of a package, and then those of further ones.
type tester struct {
	p     *pkg
	tests []tested // its own first
	tmp   string
}

// tested is a package whose tests run.
type tested struct {
	path, dir string
	limit     time.Duration
}

// newTester runs the tests once without a mistake: they must pass. Further packages are
// patterns of the go command, separated by commas. A limit of 0 is ten times what the tests of
// a package take.
func newTester(p *pkg, further string, limit time.Duration) (*tester, error) {
	others, err := users(p, further)
	if err != nil {
		return nil, err
	}
	t := &tester{p: p}
	if t.tmp, err = os.MkdirTemp("", "mutate"); err != nil {
		return nil, err
	}
	whole := mutant{file: p.files[0]}
	for i, one := range slices.Concat([]tested{{path: p.path, dir: p.dir}}, others) {
		one.limit = 10 * time.Minute
		start := time.Now()
		alone := tester{p: p, tests: []tested{one}, tmp: t.tmp}
		if alone.run(-1-i, whole).fate != survived {
			t.close()
			return nil, fmt.Errorf("the tests of %s do not pass as they are", one.path)
		}
		one.limit = cmp.Or(limit, max(10*time.Second, 10*time.Since(start)))
		t.tests = append(t.tests, one)
	}
	slices.SortStableFunc(t.tests[1:], func(a, b tested) int { return cmp.Compare(a.limit, b.limit) })
	return t, nil
}

// users returns the packages that have tests which use the package, without itself.
func users(p *pkg, patterns string) (list []tested, err error) {
	if patterns == "" {
		return nil, nil
	}
	out, err := goCommand(append([]string{"list", "-test", "-json=ImportPath,Dir,Deps"}, strings.Split(patterns, ",")...)...)
	if err != nil {
		return nil, err
	}
	for packages := json.NewDecoder(bytes.NewReader(out)); packages.More(); {
		var one struct {
			ImportPath, Dir string
			Deps            []string
		}
		if err := packages.Decode(&one); err != nil {
			return nil, err
		}
		path, isTest := strings.CutSuffix(one.ImportPath, ".test")
		if isTest && path != p.path && slices.Contains(one.Deps, p.path) {
			list = append(list, tested{path: path, dir: one.Dir})
		}
	}
	return list, nil
}

func (t *tester) close() { os.RemoveAll(t.tmp) }

// run returns what becomes of a mutant; i is a number of its own.
func (t *tester) run(i int, m mutant) result {
	dir := filepath.Join(t.tmp, fmt.Sprint(i))
	defer os.RemoveAll(dir)
	overlay, err := t.overlay(dir, m)
	for k, one := range t.tests {
		binary := filepath.Join(dir, "tests")
		if err == nil {
			err = build(binary, overlay, one.path)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "%v: %v\n", m, err)
			return result{m, broken, k == 0}
		}
		if f := one.execute(binary); f != survived {
			return result{m, f, k == 0}
		}
	}
	return result{m, survived, false}
}

// execute runs a test binary. What counts against the limit is processor time, which does not
// depend on how busy the machine is; only who waits for ever is ended by the clock.
func (one tested) execute(binary string) fate {
	ctx, cancel := context.WithTimeout(context.Background(), 4*one.limit)
	defer cancel()
	// A mistake can fill the memory faster than the time limit ends it: 4 GB at most.
	cmd := exec.CommandContext(ctx, "sh", "-c", `ulimit -v 4000000; ulimit -t "$1"; exec "$0" -test.short -test.failfast`,
		binary, fmt.Sprint(math.Ceil(one.limit.Seconds())))
	cmd.Dir = one.dir // as go test does
	switch err := cmd.Run(); {
	case err == nil:
		return survived
	case cmd.ProcessState != nil && cmd.ProcessState.ExitCode() < 0: // it was killed
		return timedOut
	}
	return killed
}

// overlay writes what puts the mutant in place of the original, for the go command.
func (t *tester) overlay(dir string, m mutant) (name string, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(t.p.dir, m.file.name): changed}})
	if err != nil {
		return "", err
	}
	return overlay, errors.Join(os.WriteFile(changed, []byte(m.apply()), 0o600), os.WriteFile(overlay, list, 0o600))
}

// build makes the test binary of a package.
func build(binary, overlay, path string) error {
	out, err := exec.Command("go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o", binary, path).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

//go:embed equivalent.txt
var equivalentText string

// equivalents returns the reasons of a package's known equivalents by their keys. A
// line of the file is "package | file | line of code | mistake | reason", or a comment
// that begins with #.
func equivalents(path string) (map[string]string, error) {
	reasons := map[string]string{}
	for line := range strings.Lines(equivalentText) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		begin, end := strings.Index(line, " | "), strings.LastIndex(line, " | ")
		if strings.Count(line, " | ") < 4 {
			return nil, fmt.Errorf("equivalent.txt: %q has too few fields", line)
		}
		if line[:begin] == path {
			reasons[line[begin+3:end]] = line[end+3:]
		}
	}
	return reasons, nil
}
