// These tests prove what the repository promises about its own shape: that the top folder is
// the package and nothing else, that it can be vendored in each of the ways that the
// documents name, and that its exported names change only on purpose.
package repotest

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// packages are what users import.
var packages = []string{
	".", "clock", "clock/rtptime", "clock/rxtime", "jitter", "jitter/playout", "js", "link", "ping",
	"record", "session", "tick",
}

// oldestGo is what the files need that are copied: ranges over integers.
const oldestGo = "1.22"

// sources returns the Go files of a folder, without tests.
func sources(t *testing.T, dir string) (names []string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil || len(all) == 0 {
		t.Fatalf("%s: %d files, %v", dir, len(all), err)
	}
	for _, name := range all {
		if !strings.HasSuffix(name, "_test.go") {
			names = append(names, name)
		}
	}
	return names
}

// must ends the test if something fails that is to work.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	must(t, err)
	return text
}

// module returns the path of the module.
func module(t *testing.T) string {
	t.Helper()
	path, _ := between(t, string(read(t, root+"/go.mod")), "module ", "\n")
	return path
}

func TestTopFolder(t *testing.T) {
	const want = "counter.go doc.go example_test.go fuzz_test.go go.mod " +
		"synchronizer.go synchronizer_test.go ts16.go ts23.go ts24.go"
	names, err := filepath.Glob(root + "/*go*")
	must(t, err)
	for i, name := range names {
		names[i] = filepath.Base(name)
	}
	if got := strings.Join(names, " "); got != want {
		t.Errorf("Go files at the top:\n%s, want\n%s", got, want)
	}
	if mod, want := string(read(t, root+"/go.mod")), "module "+module(t)+"\n\ngo 1.25\n"; mod != want {
		t.Errorf("go.mod is %q, want %q: nothing is required", mod, want)
	}
}

// TestLicenses: a file that is copied alone says what its license is.
func TestLicenses(t *testing.T) {
	for _, dir := range append([]string{"examples/*", "examples/*/*"}, packages...) {
		for _, name := range sources(t, dir) {
			if !bytes.HasPrefix(read(t, name), []byte("// SPDX-License-Identifier: BSD-3-Clause\n\n")) {
				t.Errorf("%s does not begin with an SPDX line", name)
			}
		}
	}
}

// TestImports: the core imports next to nothing: errors and strconv for the counters, math and
// math/bits for the line under the datagrams, sync/atomic for the readers, time for durations, fmt
// and log/slog for logs, encoding/binary for snapshots that travel. None of these reads a clock
// but time, and none a file, a socket or a random number.
func TestImports(t *testing.T) {
	allowed := []string{"encoding/binary", "errors", "fmt", "log/slog", "math", "math/bits",
		"strconv", "sync/atomic", "time"}
	for _, path := range strings.Fields(string(goCommand(t, root, "list", "-f",
		`{{join .Imports " "}}`, "."))) {
		if !slices.Contains(allowed, path) {
			t.Errorf("the core imports %s", path)
		}
	}
}

// TestNoWallClock: nothing in ping and tick reads the wall clock, but for the number of a server's
// epoch. So a step of it has nothing to act on; see also TestRestart in tick.
func TestNoWallClock(t *testing.T) {
	reads := regexp.MustCompile(`time\.(Now|Since|Until|NewTimer|NewTicker|Tick|Sleep)\b`)
	epoch := regexp.MustCompile(`(?s)\nfunc [^\n]*nextEpoch\(.*?\n}\n|//[^\n]*`)
	for _, name := range append(sources(t, "ping"), sources(t, "tick")...) {
		if found := reads.Find(epoch.ReplaceAll(read(t, name), nil)); found != nil {
			t.Errorf("%s uses %s", name, found)
		}
	}
}

// goCommand runs a go command without a network, where there is one.
func goCommand(t *testing.T, dir string, args ...string) []byte {
	t.Helper()
	out, err := tryGo(t, dir, args...)
	if err != nil {
		t.Fatalf("go %v: %v\n%s", args, err, out)
	}
	return out
}

// tryGo is goCommand for a command that may fail.
func tryGo(t *testing.T, dir string, args ...string) ([]byte, error) {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil || runtime.GOOS == "js" || runtime.GOOS == "wasip1" {
		t.Skip("no go command")
	}
	command := exec.Command("go", args...)
	command.Dir = dir
	command.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "GOPROXY=off")
	return command.CombinedOutput()
}

// consumer is a scratch module.
type consumer struct {
	t   *testing.T
	dir string
}

func newConsumer(t *testing.T, mod, main string) *consumer {
	c := &consumer{t, filepath.Join(t.TempDir(), "game")}
	c.write("go.mod", "module example.com/game\n\n"+mod)
	c.write("main.go", fmt.Sprintf(`package main

import timesync %q

func main() {
	var s timesync.TimeSynchronizer
	println(s.IsSynchronized())
}
`, main))
	return c
}

func (c *consumer) write(name, content string) {
	c.t.Helper()
	name = filepath.Join(c.dir, name)
	must(c.t, os.MkdirAll(filepath.Dir(name), 0o777))
	must(c.t, os.WriteFile(name, []byte(content), 0o666))
}

// copy copies the files of a folder that are not tests, what they embed, and the license, and
// replaces texts in them.
func (c *consumer) copy(from, to string, replace ...string) {
	embed := regexp.MustCompile(`(?m)^//go:embed (\S+)$`)
	for _, name := range append(sources(c.t, from), root+"/LICENSE") {
		text := read(c.t, name)
		c.write(filepath.Join(to, filepath.Base(name)),
			strings.NewReplacer(replace...).Replace(string(text)))
		for _, found := range embed.FindAllSubmatch(text, -1) {
			embedded := string(found[1])
			c.write(filepath.Join(to, embedded), string(read(c.t, filepath.Join(root, from, embedded))))
		}
	}
}

// runs runs the program.
func (c *consumer) runs(args ...string) {
	c.t.Helper()
	if got := goCommand(c.t, c.dir, append([]string{"run"}, args...)...); string(got) != "false\n" {
		c.t.Errorf("the program says %q", got)
	}
}

// TestCopies: the files can be copied into any module of the oldest Go, and the other packages',
// seal.go and the voice chat after the lines that import the core and its packages are changed.
func TestCopies(t *testing.T) {
	const copied = "example.com/game/net"
	c := newConsumer(t, "go "+oldestGo+"\n", copied)
	for _, dir := range append([]string{"examples/seal", "examples/voice/chat"}, packages...) {
		c.copy(dir, filepath.Join("net", dir), `"`+module(t)+`"`, `"`+copied+`"`, `"`+module(t)+`/`,
			`"`+copied+`/`)
	}
	goCommand(t, c.dir, "vet", "./...")
	c.runs(".")
}

// TestInstall: the command of README.md, run as it stands there, makes the packages available
// from a folder beside the module; and go mod vendor takes the core alone.
func TestInstall(t *testing.T) {
	command, _ := between(t, string(read(t, root+"/README.md")), "\ngo mod edit ", "\n")
	c := newConsumer(t, "go 1.25\n", module(t))
	c.write("../timesync/go.mod", string(read(t, root+"/go.mod")))
	for _, dir := range packages {
		c.copy(dir, filepath.Join("../timesync", dir))
	}
	goCommand(t, c.dir, append([]string{"mod", "edit"}, strings.Fields(command)...)...)
	goCommand(t, c.dir, "mod", "tidy")
	goCommand(t, c.dir, "vet", ".")
	goCommand(t, c.dir, "mod", "vendor")
	c.runs("-mod=vendor", ".")
	modules := string(read(t, c.dir+"/vendor/modules.txt"))
	_, vendored, _ := strings.Cut(modules, "## explicit; go 1.25\n")
	if vendored, _, _ = strings.Cut(vendored, "#"); vendored != module(t)+"\n" {
		t.Errorf("what is vendored:\n%s", modules)
	}
	if _, err := os.Stat(c.dir + "/vendor/" + module(t) + "/LICENSE"); err != nil {
		t.Error("without the license:", err)
	}
}

var update = flag.Bool("update", false, "write testdata/api.txt anew")

// TestAPI: the exported names are those of testdata/api.txt. Where a change is meant, run
// go test ./internal/repotest -update.
func TestAPI(t *testing.T) {
	var all strings.Builder
	for _, dir := range packages {
		fmt.Fprintf(&all, "package %s\n\n%s\n", filepath.ToSlash(dir), exported(t, dir))
	}
	if *update {
		must(t, os.WriteFile("testdata/api.txt", []byte(all.String()), 0o666))
	}
	got := strings.Split(all.String(), "\n")
	want := strings.Split(string(read(t, "testdata/api.txt")), "\n")
	for _, line := range slices.Concat(got, want) {
		if here, there := slices.Contains(got, line), slices.Contains(want, line); here != there {
			t.Errorf("exported: %v, in testdata/api.txt, which -update writes: %v: %s", here, there, line)
		}
	}
}

// exported lists the exported names of a package, one in a line, with their types. It
// complains about those without a comment.
func exported(t *testing.T, dir string) string {
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range sources(t, dir) {
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		must(t, err)
		files = append(files, file)
	}
	p, err := doc.NewFromFiles(fset, files, dir)
	must(t, err)
	// Parameters with a line each must read like those in one line.
	joined := strings.NewReplacer("( ", "(", ", )", ")")
	var lines []string
	add := func(node any, prefix, comment string) {
		var b bytes.Buffer
		must(t, format.Node(&b, fset, node))
		line := prefix + joined.Replace(strings.Join(strings.Fields(b.String()), " "))
		lines = append(lines, line)
		if strings.TrimSpace(comment) == "" {
			t.Errorf("package %s: no comment: %s", dir, line)
		}
	}
	top := &doc.Type{Consts: p.Consts, Vars: p.Vars, Funcs: p.Funcs}
	for _, typ := range append([]*doc.Type{top}, p.Types...) {
		if typ != top {
			spec := typ.Decl.Specs[0].(*ast.TypeSpec)
			add(spec.Name, "type ", typ.Doc)
			if s, ok := spec.Type.(*ast.StructType); ok {
				for _, field := range s.Fields.List {
					comment := field.Doc.Text() + field.Comment.Text()
					field.Doc, field.Comment = nil, nil
					for _, name := range field.Names {
						add(field.Type, "field "+typ.Name+"."+name.Name+" ", comment)
					}
				}
			}
		}
		for _, v := range slices.Concat(typ.Consts, typ.Vars) {
			for _, spec := range v.Decl.Specs {
				spec := spec.(*ast.ValueSpec)
				for _, name := range spec.Names {
					add(name, v.Decl.Tok.String()+" ", v.Doc+spec.Doc.Text()+spec.Comment.Text())
				}
			}
		}
		for _, f := range slices.Concat(typ.Funcs, typ.Methods) {
			f.Decl.Body, f.Decl.Doc = nil, nil
			add(f.Decl, "", f.Doc)
		}
	}
	return strings.Join(lines, "\n")
}
