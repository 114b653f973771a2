// SPDX-License-Identifier: BSD-3-Clause

package js

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"timesync/internal/testkit"
)

// run runs a command in a folder, and returns what it printed. It must succeed.
func run(t *testing.T, folder, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = folder
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// compiler returns the TypeScript compiler that package.json names, or another one, or skips the
// test.
func compiler(t *testing.T) string {
	t.Helper()
	own, err := filepath.Abs("node_modules/.bin/tsc")
	testkit.Must(t, err)
	for _, name := range []string{own, "tsc"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("NOT TESTED: the types of timesync.mjs: " +
		"there is no TypeScript (npm install --prefix js)")
	return ""
}

// read returns a file.
func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	testkit.Must(t, err)
	return b
}

// write writes a file of a test's own folder.
func write(t *testing.T, folder, name, content string) {
	t.Helper()
	testkit.Must(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o666))
}

// TestTypes: TypeScript finds nothing wrong with timesync.mjs, and its declarations are those that
// are in the package.
func TestTypes(t *testing.T) {
	out := t.TempDir()
	run(t, ".", compiler(t), "-p", ".", "--outDir", out)
	if !bytes.Equal(read(t, filepath.Join(out, "timesync.d.mts")), read(t, "timesync.d.mts")) {
		t.Error("timesync.d.mts is not that of timesync.mjs: run tsc -p js")
	}
}

// consumer is a program that uses the package, in JavaScript and in TypeScript.
const consumer = `
import {Link, nowUsec, receivedUsec} from 'timesync-mjs';

const here = new Link();
const there = new Link();
for (let i = 0; i < 3; i++) {
	there.open(here.header(nowUsec()), receivedUsec());
	here.open(there.header(nowUsec()), receivedUsec());
}
const remote = here.remoteTime(nowUsec());
const bound = here.errorBound(nowUsec());
if (remote === null || bound === null) {
	throw new Error('the time is not known');
}
console.log(here.within(1e6, nowUsec()) === '' && bound < 1e6);
`

// TestPackage: the package that npm publishes can be installed elsewhere, has its license, and its
// types.
func TestPackage(t *testing.T) {
	if testing.Short() {
		t.Skip("npm takes 3 s")
	}
	node := node(t)
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("NOT TESTED: the package for npm: there is no npm")
	}
	elsewhere := t.TempDir()
	said := run(t, ".", npm, "pack", "--silent", "--pack-destination", elsewhere)
	tarball := strings.TrimSpace(said)
	write(t, elsewhere, "package.json", `{"private": true, "type": "module"}`)
	run(t, elsewhere, npm, "install", "--offline", "--no-audit", "--no-fund", "./"+tarball)
	write(t, elsewhere, "main.mjs", consumer)
	if said := run(t, elsewhere, node, "main.mjs"); said != "true\n" {
		t.Error("the program printed ", said)
	}
	installed := filepath.Join(elsewhere, "node_modules", "timesync-mjs")
	if !bytes.Equal(read(t, filepath.Join(installed, "LICENSE")), read(t, "../LICENSE")) {
		t.Error("the license of the package is not that of the repository")
	}
	files, err := os.ReadDir(installed)
	testkit.Must(t, err)
	if len(files) != 5 {
		const what = "not just package.json, LICENSE, README.md and timesync are in the package: "
		t.Error(what, files)
	}
	write(t, elsewhere, "main.mts", consumer)
	const wrongConsumer = "import {Link} from 'timesync-mjs';\nnew Link().remoteTime(1);\n"
	write(t, elsewhere, "wrong.mts", wrongConsumer)
	tsc := compiler(t)
	programs := map[string]string{"right.json": "main.mts", "wrong.json": "wrong.mts"}
	for name, program := range programs {
		write(t, elsewhere, name, `{
			"compilerOptions": {
				"noEmit": true,
				"strict": true,
				"types": [],
				"target": "es2022",
				"module": "nodenext",
				"lib": ["es2022", "dom"]
			},
			"files": ["`+program+`"]
		}`)
	}
	run(t, elsewhere, tsc, "-p", "right.json")
	wrong := exec.CommandContext(t.Context(), tsc, "-p", "wrong.json")
	wrong.Dir = elsewhere
	if out, err := wrong.CombinedOutput(); err == nil || !strings.Contains(string(out), "bigint") {
		t.Errorf("a Number for a time should be refused: %s", out)
	}
}
