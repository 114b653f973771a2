package repotest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestFuzzersAreBuilt: the script for OSS-Fuzz and ClusterFuzzLite builds each fuzz target once,
// under a name of its own. What it calls there to build one is here a program that notes what it
// was told.
func TestFuzzersAreBuilt(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil || runtime.GOOS == "windows" {
		t.Skip("no bash")
	}
	bin, out := t.TempDir(), t.TempDir()
	const note = "#!/usr/bin/env bash\necho \"$@\" >>\"$OUT/built\"\n"
	must(t, os.WriteFile(filepath.Join(bin, "compile_native_go_fuzzer_v2"), []byte(note), 0o777))
	build := exec.Command("bash", ".clusterfuzzlite/build.sh")
	build.Dir = root
	path := bin + string(os.PathListSeparator) + os.Getenv("PATH")
	build.Env = append(os.Environ(), "OUT="+out, "PATH="+path)
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var built, names []string
	for line := range strings.Lines(string(read(t, filepath.Join(out, "built")))) {
		words := strings.Fields(line)
		folder := strings.TrimPrefix(strings.TrimPrefix(words[0], module(t)), "/")
		built = append(built, filepath.Join(root, folder)+" "+words[1])
		names = append(names, words[2])
	}
	want := everyFuzzTarget(t)
	if slices.Sort(built); !slices.Equal(built, want) {
		t.Errorf("built:\n%s\nwant:\n%s", strings.Join(built, "\n"), strings.Join(want, "\n"))
	}
	slices.Sort(names)
	if different := slices.Compact(slices.Clone(names)); len(different) != len(names) {
		t.Errorf("two targets have one name: %q", names)
	}
}

// TestCorpora: each fuzz target has inputs in testdata/fuzz, so that go test runs some of them.
func TestCorpora(t *testing.T) {
	for _, target := range everyFuzzTarget(t) {
		folder, name, _ := strings.Cut(target, " ")
		inputs, err := os.ReadDir(filepath.Join(folder, "testdata", "fuzz", name))
		if err != nil || len(inputs) == 0 {
			t.Errorf("%s: %d inputs, %v: run go run ./internal/corpus -for 1m %s",
				target, len(inputs), err, folder)
		}
	}
}

// everyFuzzTarget lists all of them, each with its folder.
func everyFuzzTarget(t *testing.T) (all []string) {
	t.Helper()
	for _, name := range git(t, "", "ls-files", "-z", "--", "*_test.go") {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, 0)
		must(t, err)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Fuzz") {
				all = append(all, filepath.Join(root, filepath.Dir(name))+" "+f.Name.Name)
			}
		}
	}
	slices.Sort(all)
	return all
}
