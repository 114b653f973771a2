// SPDX-License-Identifier: BSD-3-Clause

// Corpus fuzzes the targets of packages and keeps the few inputs in testdata/fuzz that cover most:
//
//	go run ./internal/corpus -for 1m ./link ./ping
//
// It takes what is kept so far, and what Go's fuzzing has found on this machine at any time, and
// chooses anew. Inputs that a person named always stay, so give one that failed a name. The others
// are named by their content, as Go does.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

const (
	most    = 30   // inputs that are kept of a target, so that go test runs them in no time
	largest = 2048 // bytes of one
)

// hash matches the name that Go gives an input.
var hash = regexp.MustCompile(`^[0-9a-f]{16}$`)

// target is a fuzz test of a package.
type target struct {
	name   string
	folder string // of the package
	cache  string // where Go keeps what it found
}

// kept returns the folder with the inputs that are kept.
func (t target) kept() string { return filepath.Join(t.folder, "testdata", "fuzz", t.name) }

func main() {
	log.SetFlags(0)
	lasting := flag.Duration("for", 0,
		"fuzz each target for this long; 0 only chooses among what was found before")
	flag.Parse()
	targets, err := find(flag.Args())
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range targets {
		if *lasting > 0 {
			if err := t.fuzz(*lasting); err != nil {
				log.Fatalf("%s: %v", t.name, err)
			}
		}
		if err := t.choose(); err != nil {
			log.Fatalf("%s: %v", t.name, err)
		}
	}
}

// run runs a command of Go and returns what it prints.
func run(args ...string) (string, error) {
	out, err := exec.Command("go", args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// find lists the targets of packages.
func find(packages []string) (all []target, err error) {
	const format = "{{.Dir}}\t{{.ImportPath}}"
	list, err := run(append([]string{"list", "-f", format}, packages...)...)
	if err != nil {
		return nil, err
	}
	cache, err := run("env", "GOCACHE")
	if err != nil {
		return nil, err
	}
	declared := regexp.MustCompile(`(?m)^func (Fuzz\w*)\(`)
	for _, line := range strings.Split(list, "\n") {
		folder, path, _ := strings.Cut(line, "\t")
		tests, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		if err != nil {
			return nil, err
		}
		for _, file := range tests {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			for _, found := range declared.FindAllSubmatch(text, -1) {
				name := string(found[1])
				all = append(all, target{name, folder, filepath.Join(cache, "fuzz", path, name)})
			}
		}
	}
	return all, nil
}

// fuzz lets Go look for inputs. One that fails ends it; Go keeps that one.
func (t target) fuzz(lasting time.Duration) error {
	_, err := run("test", "-run", "^$", "-fuzz", "^"+t.name+"$", "-fuzztime", lasting.String(),
		"-fuzzminimizetime", "100x", t.folder)
	// Before Go 1.27 the end of the time is sometimes taken for a failure (golang/go#75804).
	if err != nil && strings.Contains(err.Error(), "context deadline exceeded") {
		return nil
	}
	return err
}

// inputs returns the content of all that is known, by name.
func (t target) inputs() (map[string][]byte, error) {
	all := map[string][]byte{}
	for _, folder := range []string{t.cache, t.kept()} {
		entries, err := os.ReadDir(folder)
		if err != nil && !os.IsNotExist(err) {
			return nil, err
		}
		for _, e := range entries {
			text, err := os.ReadFile(filepath.Join(folder, e.Name()))
			if err != nil {
				return nil, err
			}
			if !hash.MatchString(e.Name()) || len(text) <= largest {
				all[e.Name()] = text
			}
		}
	}
	return all, nil
}

// choose keeps the inputs that cover most, and removes the others.
func (t target) choose() error {
	known, err := t.inputs()
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "corpus")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	// What an input does is done by the package and by what it imports of this module.
	ours, err := run("list", "-deps", "-f", "{{if .Module}}{{.ImportPath}}{{end}}", t.folder)
	if err != nil {
		return err
	}
	covered := strings.Join(strings.Fields(ours), ",")
	program := filepath.Join(work, "test")
	_, err = run("test", "-c", "-covermode", "count", "-coverpkg", covered, "-o", program, t.folder)
	if err != nil {
		return err
	}
	if err := t.lay(work, known); err != nil {
		return err
	}
	covers := map[string][]string{}
	for name := range known {
		covers[name], err = t.covers(work, program, name)
		if err != nil {
			return err
		}
	}
	chosen := choose(covers, known)
	for name, text := range known {
		file := filepath.Join(t.kept(), name)
		if !chosen[name] {
			if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
				return err
			}
			continue
		}
		if err := os.MkdirAll(t.kept(), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(file, text, 0o666); err != nil {
			return err
		}
	}
	fmt.Printf("%s: %d of %d inputs kept\n", t.name, len(chosen), len(known))
	return nil
}

// lay makes a folder that looks like the package's, with all inputs.
func (t target) lay(work string, known map[string][]byte) error {
	inputs := filepath.Join(work, "testdata", "fuzz", t.name)
	if err := os.MkdirAll(inputs, 0o777); err != nil {
		return err
	}
	for name, text := range known {
		if err := os.WriteFile(filepath.Join(inputs, name), text, 0o666); err != nil {
			return err
		}
	}
	// Some targets read test data of their package for their seeds.
	others, err := os.ReadDir(filepath.Join(t.folder, "testdata"))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for _, e := range others {
		if e.Name() == "fuzz" {
			continue
		}
		to := filepath.Join(work, "testdata", e.Name())
		if err := os.Symlink(filepath.Join(t.folder, "testdata", e.Name()), to); err != nil {
			return err
		}
	}
	return nil
}

// covers returns what an input covers: statements, and about how often.
func (t target) covers(work, program, name string) ([]string, error) {
	profile := filepath.Join(work, "profile")
	only := "^" + t.name + "$/^" + regexp.QuoteMeta(name) + "$"
	test := exec.Command(program, "-test.run", only, "-test.coverprofile", profile)
	test.Dir = work
	if out, err := test.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		return nil, err
	}
	return features(text), nil
}
