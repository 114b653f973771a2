// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	tests []tested
	tmp   string
	limit time.Duration // for each of them
}

// tested is a package whose tests run.
type tested struct{ ImportPath, Dir string }

// newTester runs the tests once without a mistake: they must pass. Further packages are
// patterns of the go command, separated by commas.
func newTester(p *pkg, further string, limit time.Duration) (*tester, error) {
	tests := []tested{{p.path, p.dir}}
	if further != "" {
		out, err := goCommand(append([]string{"list", "-json=ImportPath,Dir"}, strings.Split(further, ",")...)...)
		if err != nil {
			return nil, err
		}
		for list := json.NewDecoder(bytes.NewReader(out)); list.More(); {
			var one tested
			if err := list.Decode(&one); err != nil {
				return nil, err
			}
			tests = append(tests, one)
		}
	}
	tmp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return nil, err
	}
	t := &tester{p: p, tests: tests, tmp: tmp, limit: 10 * time.Minute}
	start := time.Now()
	if f := t.run(-1, mutant{file: p.files[0]}); f != survived {
		t.close()
		return nil, errors.New("the tests do not pass as they are")
	}
	if t.limit = limit; limit == 0 {
		t.limit = max(10*time.Second, 10*time.Since(start))
	}
	return t, nil
}

func (t *tester) close() { os.RemoveAll(t.tmp) }

// run returns the fate of a mutant; i is a number of its own.
func (t *tester) run(i int, m mutant) fate {
	dir := filepath.Join(t.tmp, fmt.Sprint(i))
	defer os.RemoveAll(dir)
	overlay, err := t.overlay(dir, m)
	for _, one := range t.tests {
		binary := filepath.Join(dir, "tests")
		if err == nil {
			err = build(binary, overlay, one.ImportPath)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "%v: %v\n", m, err)
			return broken
		}
		if f := t.execute(binary, one.Dir); f != survived {
			return f
		}
	}
	return survived
}

// execute runs a test binary.
func (t *tester) execute(binary, dir string) fate {
	ctx, cancel := context.WithTimeout(context.Background(), t.limit)
	defer cancel()
	// A mistake can fill the memory faster than the time limit ends it: 4 GB at most.
	cmd := exec.CommandContext(ctx, "sh", "-c", `ulimit -v 4000000; exec "$0" -test.short -test.failfast`, binary)
	cmd.Dir = dir // as go test does
	switch err := cmd.Run(); {
	case ctx.Err() != nil:
		return timedOut
	case err != nil:
		return killed
	}
	return survived
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
