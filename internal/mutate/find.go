// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// pkg is the package under test, parsed.
type pkg struct {
	path, dir string
	fset      *token.FileSet
	files     []*source
	imports   types.Importer
}

// source is one of its files without tests.
type source struct {
	name string // within the package's directory
	text string
	tree *ast.File
}

// mutant is one small mistake: the text from begin to end of a file is another.
type mutant struct {
	file       *source
	begin, end int
	text       string
	line       int
	code       string // the line, without indentation
	what       string
}

func (m mutant) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", m.file.name, m.line, m.code, m.what)
}

// key is what equivalent.txt names a mutant by: it does not change when lines move.
func (m mutant) key() string { return m.file.name + " | " + m.code + " | " + m.what }

// apply returns the file with the mistake.
func (m mutant) apply() string { return m.file.text[:m.begin] + m.text + m.file.text[m.end:] }

// load parses a package with the files that the go command would compile here.
func load(pattern string) (*pkg, error) {
	out, err := goCommand("list", "-json=ImportPath,Dir,GoFiles", pattern)
	if err != nil {
		return nil, err
	}
	var listed struct {
		ImportPath, Dir string
		GoFiles         []string
	}
	if err := json.Unmarshal(out, &listed); err != nil {
		return nil, fmt.Errorf("%s is not one package: %w", pattern, err)
	}
	p := &pkg{path: listed.ImportPath, dir: listed.Dir, fset: token.NewFileSet()}
	for _, name := range listed.GoFiles {
		text, err := os.ReadFile(filepath.Join(p.dir, name))
		if err != nil {
			return nil, err
		}
		tree, err := parser.ParseFile(p.fset, name, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		p.files = append(p.files, &source{name, string(text), tree})
	}
	p.imports, err = importerOf(p.fset, pattern)
	return p, err
}

// importerOf returns an importer of what the package imports, from the build cache.
func importerOf(fset *token.FileSet, pattern string) (types.Importer, error) {
	out, err := goCommand("list", "-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}", pattern)
	if err != nil {
		return nil, err
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "=")
		exports[path] = file
	}
	return importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	}), nil
}

func goCommand(args ...string) ([]byte, error) {
	out, err := exec.Command("go", args...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil, fmt.Errorf("go %s: %s", args[0], exit.Stderr)
	}
	return out, err
}

// mutants returns all mistakes that compile, in the order of the text.
func (p *pkg) mutants() (all []mutant) {
	for _, f := range p.files {
		for _, m := range p.mistakes(f) {
			if p.compiles(m) {
				all = append(all, m)
			}
		}
	}
	return all
}

// mistakes returns all mistakes in a file.
func (p *pkg) mistakes(f *source) (all []mutant) {
	add := func(from, to token.Pos, text, what string) {
		begin, end := p.fset.Position(from), p.fset.Position(to)
		line, _, _ := strings.Cut(f.text[begin.Offset-begin.Column+1:], "\n")
		code, _, _ := strings.Cut(line, "//")
		all = append(all, mutant{f, begin.Offset, end.Offset, text, begin.Line, strings.TrimSpace(code), what})
	}
	source := func(n ast.Node) string {
		return f.text[p.fset.Position(n.Pos()).Offset:p.fset.Position(n.End()).Offset]
	}
	ast.Inspect(f.tree, func(n ast.Node) bool {
		if d, ok := n.(*ast.GenDecl); ok && d.Tok == token.IMPORT {
			return false
		}
		mistakesAt(n, source, add)
		return true
	})
	return all
}

// compiles reports whether the package with m has the right types.
func (p *pkg) compiles(m mutant) bool {
	var files []*ast.File
	for _, f := range p.files {
		tree := f.tree
		if f == m.file {
			var err error
			if tree, err = parser.ParseFile(p.fset, f.name, m.apply(), parser.SkipObjectResolution); err != nil {
				return false
			}
		}
		files = append(files, tree)
	}
	ok := true
	conf := types.Config{Importer: p.imports, Error: func(error) { ok = false }}
	_, err := conf.Check(p.path, p.fset, files, nil)
	return ok && err == nil
}
