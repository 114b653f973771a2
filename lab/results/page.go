// SPDX-License-Identifier: BSD-3-Clause

package results

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/mitchellh/go-wordwrap"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"golang.org/x/sync/errgroup"
)

// Page is a Markdown document that people edit, with parts and pictures that a program makes. A
// part stands between two lines:
//
//	<!-- begin NAME: "COMMAND" writes this part -->
//	<!-- end NAME -->
type Page struct {
	Path     string              // seen from the project's top folder
	Parts    map[string]string   // Markdown by NAME
	Pictures map[string][]*Chart // by the beginning of the files' names, in the folder pictures
}

// Write writes the page and its pictures. If folder is Folder, the page is written where it
// stands; any other folder gets a copy of it.
func (p Page) Write(folder string) error {
	err := drawAll(filepath.Join(folder, "pictures"), p.Pictures)
	if len(p.Parts) == 0 {
		return err
	}
	from := filepath.Join(Project, p.Path)
	to := filepath.Join(folder, filepath.Base(p.Path))
	if filepath.Clean(folder) == Folder {
		to = from
	}
	old, bad := os.ReadFile(from)
	if err = errors.Join(err, bad); err != nil {
		return err
	}
	text, err := Fill(string(old), p.Parts)
	if err != nil {
		return fmt.Errorf("%s: %w", p.Path, err)
	}
	return errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(to, []byte(text), 0o644))
}

// drawAll draws pictures in all themes.
func drawAll(folder string, pictures map[string][]*Chart) error {
	if len(pictures) == 0 {
		return nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	var all errgroup.Group
	for name, charts := range pictures {
		for _, t := range Themes {
			path := filepath.Join(folder, name+"-"+t.Name+".png")
			all.Go(func() error { return Draw(path, t, charts...) })
		}
	}
	return all.Wait()
}

// Fill replaces the named parts of a document. It fails if the document has no part of that name.
func Fill(text string, parts map[string]string) (string, error) {
	for name, part := range parts {
		begin, end := "<!-- begin "+name+":", "<!-- end "+name+" -->\n"
		head, rest, begun := strings.Cut(text, begin)
		comment, rest, closed := strings.Cut(rest, "-->\n")
		_, tail, ended := strings.Cut(rest, end)
		if !begun || !closed || !ended {
			return "", fmt.Errorf("no part is marked as %q", name)
		}
		text = head + begin + comment + "-->\n\n" + part + end + tail
	}
	return text, nil
}

// Text makes a paragraph of what fmt.Sprintf makes of its arguments.
func Text(format string, args ...any) string {
	return wordwrap.WrapString(fmt.Sprintf(format, args...), 95) + "\n\n"
}

// Table makes a table, whose first row is the head. All columns but the first are numbers.
func Table(rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(&b, "|---|%s\n", strings.Repeat("--:|", len(row)-1))
		}
	}
	return b.String() + "\n"
}

// browserPage is the frame of WriteHTML's page. It follows the reader's choice of light or dark.
//
//go:embed page.html
var browserPage string

// WriteHTML makes a page for browsers of a document.
func WriteHTML(document, path, title string) error {
	text, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	markdown := goldmark.New(
		goldmark.WithExtensions(extension.Table),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()),
		goldmark.WithRendererOptions(html.WithUnsafe()), // pictures are HTML
	)
	var b bytes.Buffer
	if err := markdown.Convert(text, &b); err != nil {
		return err
	}
	return os.WriteFile(path, fmt.Appendf(nil, browserPage, title, b.String()), 0o644)
}
