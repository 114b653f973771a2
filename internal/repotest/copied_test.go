// These tests prove that the top folder can be copied: its files build, vet, test and fuzz in a
// folder of another module, as its owner is told to copy them.
package repotest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCopiedTests: what the commands of PRODUCTION.md copy into another module of the oldest Go
// vets there, and passes its tests and some fuzzing.
func TestCopiedTests(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no shell for the commands of PRODUCTION.md")
	}
	commands := copyCommands(t)
	c := newConsumer(t, "go "+oldestGo+"\n", "example.com/game/third_party/timesync")
	repository := filepath.Join(c.dir, "..", "timesync")
	must(t,
		os.CopyFS(filepath.Join(repository, "testdata"), os.DirFS(filepath.Join(root, "testdata"))))
	goFiles, err := filepath.Glob(filepath.Join(root, "*.go"))
	must(t, err)
	for _, name := range append(goFiles, filepath.Join(root, "LICENSE")) {
		c.write(filepath.Join("..", "timesync", filepath.Base(name)), string(read(t, name)))
	}

	copying := exec.Command(shell, "-e", "-c", commands)
	copying.Dir = c.dir
	if out, err := copying.CombinedOutput(); err != nil {
		t.Fatalf("%s\n%v: %s", commands, err, out)
	}
	// The rest must do without the folder that it was copied from.
	must(t, os.RemoveAll(repository))

	folder := filepath.Join(c.dir, "third_party", "timesync")
	if _, err := os.Stat(filepath.Join(folder, "LICENSE")); err != nil {
		t.Error("without the license:", err)
	}
	c.runs(".")
	goCommand(t, folder, "vet", ".")
	goCommand(t, folder, "test", "-short", ".")
	if !testing.Short() {
		fuzzTargets(t, folder)
	}
}

// copyCommands returns those of the section of PRODUCTION.md.
func copyCommands(t *testing.T) string {
	t.Helper()
	_, section, _ := strings.Cut(string(read(t, root+"/docs/PRODUCTION.md")),
		"\n## Copying the files\n")
	first, _ := between(t, section, "\n    mkdir ", "\n\n")
	return "mkdir " + first
}

// fuzzTargets fuzzes each target of a folder with a few new inputs: .ci/step fuzz tries many.
func fuzzTargets(t *testing.T, folder string) {
	t.Helper()
	source := string(read(t, filepath.Join(folder, "fuzz_test.go")))
	targets := regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`).FindAllStringSubmatch(source, -1)
	if len(targets) == 0 {
		t.Fatal("no fuzz targets")
	}
	seeds, err := filepath.Glob(filepath.Join(folder, "testdata", "fuzz", "Fuzz*", "*"))
	if err != nil || len(seeds) == 0 {
		t.Errorf("%d seeds of fuzz targets, %v", len(seeds), err)
	}
	for _, target := range targets {
		out, err := tryGo(t, folder, "test", "-run", "^$", "-fuzz", "^"+target[1]+"$",
			"-fuzztime", "100x", ".", "-args", "-test.fuzzcachedir="+t.TempDir())
		if err != nil {
			t.Errorf("%s: %v\n%s", target[1], err, out)
		}
		if !strings.Contains(string(out), "fuzz: elapsed") {
			t.Errorf("%s was not fuzzed:\n%s", target[1], out)
		}
	}
}

// TestPointers: the documents, folders and files that comments of the top folder name are in the
// repository. doc.go says that a copy lacks them.
func TestPointers(t *testing.T) {
	pointer := regexp.MustCompile(
		`\b(clock|docs|examples|internal|js|lab|link)/[\w./-]*\w|\b\w+_test\.go|\b[A-Z]+\.md`,
	)
	found := 0
	for _, name := range []string{
		"doc.go", "ts24.go", "ts23.go", "ts16.go", "counter.go",
		"synchronizer.go", "synchronizer_test.go", "fuzz_test.go",
	} {
		for _, line := range strings.Split(string(read(t, filepath.Join(root, name))), "\n") {
			_, comment, _ := strings.Cut(line, "//")
			for _, path := range pointer.FindAllString(comment, -1) {
				found++
				if _, err := os.Stat(filepath.Join(root, path)); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d pointers found", found)
	}
	doc := string(read(t, root+"/doc.go"))
	section, _ := between(t, doc, "\n// # Copying\n", "\npackage timesync\n")
	if !strings.Contains(strings.ReplaceAll(section, "\n//", ""), "are in the repository only") {
		t.Errorf("doc.go does not say where the documents are:\n%s", section)
	}
}
