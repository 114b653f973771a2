// These tests prove that git tracks only what people wrote or recorded: no programs, nothing
// large, and nothing that is true on one machine only.
package repotest

import (
	"bytes"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// largestFile is more than the largest file of test data has, in bytes.
const largestFile = 1_000_000

// machinePath matches the beginning of an absolute path in the folders where people keep their
// work. A letter, a dot or a closing bracket before it would make it part of a URL or of another
// path.
var machinePath = regexp.MustCompile(
	`(?:^|[^\w.~/)}-])` +
		`(?:/(?:home|Users)/[\w.]+/|/(?:work|root|tmp|private/tmp|var/folders)/\w|[A-Za-z]:\\Users\\)` +
		`[\w./-]*`,
)

// programs are the first bytes of what compilers and linkers write.
var programs = map[string]string{
	"\x7fELF":          "an ELF program or library",
	"\xfe\xed\xfa\xce": "a Mach-O program",
	"\xfe\xed\xfa\xcf": "a Mach-O program",
	"\xce\xfa\xed\xfe": "a Mach-O program",
	"\xcf\xfa\xed\xfe": "a Mach-O program",
	"\xca\xfe\xba\xbe": "a Mach-O program for several processors",
	"\xca\xfe\xba\xbf": "a Mach-O program for several processors",
	"\x00asm":          "a WebAssembly program",
	"!<arch>\n":        "a library",
}

// objections returns what is wrong with tracking a file of that content.
func objections(content []byte) (all []string) {
	for start, what := range programs {
		if bytes.HasPrefix(content, []byte(start)) {
			all = append(all, what)
		}
	}
	// Text may begin with these two letters, but has no zero bytes.
	if bytes.HasPrefix(content, []byte("MZ")) && bytes.IndexByte(content, 0) >= 0 {
		all = append(all, "a Windows program")
	}
	if len(content) > largestFile {
		all = append(all, "too large")
	}
	if found := machinePath.Find(content); found != nil {
		all = append(all, "a path that exists on one machine only: "+strings.TrimSpace(string(found)))
	}
	return all
}

// git runs a command of git at the top, where there is git and the repository that it made, and
// returns the lines of its output.
func git(t *testing.T, stdin string, args ...string) []string {
	t.Helper()
	command := exec.Command("git", args...)
	command.Dir = root
	command.Stdin = strings.NewReader(stdin)
	out, err := command.Output()
	if exit, ok := err.(*exec.ExitError); ok && exit.ExitCode() == 1 {
		return nil // check-ignore found none
	}
	if err != nil {
		t.Skipf("git %v: %v", args, err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

// trackedFiles returns their names, relative to the top, with slashes.
func trackedFiles(t *testing.T) []string {
	t.Helper()
	names := git(t, "", "ls-files", "-z")
	if !slices.Contains(names, "go.mod") {
		t.Skip("this is not the repository")
	}
	// The go command takes the result of an earlier run unless a file changed that the test looked at.
	index := strings.TrimSpace(git(t, "", "rev-parse", "--git-path", "index")[0])
	if !filepath.IsAbs(index) {
		index = filepath.Join(root, index)
	}
	_, err := os.Stat(index)
	must(t, err)
	return names
}

// TestTracked: no tracked file is a program or larger than 1 MB, or names a path of a machine.
func TestTracked(t *testing.T) {
	for _, name := range trackedFiles(t) {
		content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if os.IsNotExist(err) {
			continue // deleted, but not committed
		}
		must(t, err)
		for _, objection := range objections(content) {
			t.Errorf("%s: %s", name, objection)
		}
	}
}

// TestObjections: each kind of file that TestTracked refuses, and some that look like one.
func TestObjections(t *testing.T) {
	for _, c := range []struct {
		content string
		refused bool
	}{
		{"\x7fELF\x02\x01\x01", true},
		{"\xcf\xfa\xed\xfe\x07", true},
		{"\xca\xfe\xba\xbe\x00\x00\x00\x02", true},
		{"MZ\x90\x00\x03", true},
		{"MZ is where a Windows program begins", false},
		{"\x00asm\x01\x00\x00\x00", true},
		{strings.Repeat("1,2,3\n", largestFile/6), false},
		{strings.Repeat("1,2,3\n", largestFile/6+1), true},
		{"see /" + "work/main/doc.go", true},
		{`const file = "/` + `home/ann/go.mod"`, true},
		{"`/" + "tmp/report.csv`", true},
		{`C:` + `\Users\ann\go.mod`, true},
		{"https://example.com/" + "work/main/doc.go", false},
		{"$dir/" + "tmp/report.csv and ${dir}/" + "tmp/report.csv", false},
		{"#!/usr/bin/env bash", false},
	} {
		if got := objections([]byte(c.content)); len(got) > 0 != c.refused {
			t.Errorf("%.40q: %q", c.content, got)
		}
	}
}

// TestIgnored: git ignores what go build writes into the folder of each program, or into the top
// folder if it is built from there, and what tests, profilers and browsers leave behind. It ignores
// no file that is tracked.
func TestIgnored(t *testing.T) {
	tracked := trackedFiles(t)
	built := []string{
		"link.test",
		"link/link.test.exe",
		"link/cpu.prof",
		"cover.out",
		"clock/clock.wasm",
		"js/node_modules/playwright/index.js",
		"js/timesync-0.1.0.tgz",
		"js/test-results/trace.zip",
		"js/playwright-report/index.html",
	}
	for _, name := range tracked {
		folder := path.Dir(name)
		program := path.Join(folder, path.Base(folder))
		if isMain(t, name) && !slices.Contains(built, program) {
			built = append(built, program, program+".exe", path.Base(folder), path.Base(folder)+".exe")
		}
	}
	ignored := git(t, strings.Join(built, "\x00"), "check-ignore", "--no-index", "-z", "--stdin")
	for _, name := range built {
		if !slices.Contains(ignored, name) {
			t.Errorf(".gitignore lacks %s", name)
		}
	}
	lost := git(t, strings.Join(tracked, "\x00"), "check-ignore", "--no-index", "-z", "--stdin")
	if len(lost) > 0 {
		t.Errorf(".gitignore has files that are tracked: %q", lost)
	}
}

// isMain reports whether a file is a part of a program.
func isMain(t *testing.T, name string) bool {
	t.Helper()
	if path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
		return false
	}
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, filepath.FromSlash(name)),
		nil, parser.PackageClauseOnly)
	if os.IsNotExist(err) {
		return false // deleted, but not committed
	}
	must(t, err)
	return file.Name.Name == "main"
}
