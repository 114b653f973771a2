// SPDX-License-Identifier: BSD-3-Clause

// Package page writes parts of documents. A document is Markdown that people edit; between two lines
//
//	<!-- begin NAME: who writes it -->
//	<!-- end NAME -->
//
// stands a part that a program writes. Package page also draws the documents' pictures, and makes a
// page for browsers of one.
package page

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
	render "github.com/yuin/goldmark/renderer/html"
	"golang.org/x/sync/errgroup"

	"timesync/lab/graph"
)

// Text is a paragraph, formatted as fmt.Sprintf does.
func Text(format string, args ...any) string {
	return wordwrap.WrapString(fmt.Sprintf(format, args...), 95) + "\n\n"
}

// Table is a table whose first row is the head. All columns but the first are numbers.
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

// Fill puts the marked parts of a document into it, by their names.
func Fill(text string, parts map[string]string) (string, error) {
	for name, part := range parts {
		head, rest, begun := strings.Cut(text, "<!-- begin "+name+":")
		comment, rest, closed := strings.Cut(rest, "-->\n")
		_, tail, ended := strings.Cut(rest, "<!-- end "+name+" -->\n")
		if !begun || !closed || !ended {
			return "", fmt.Errorf("no part is marked as %q", name)
		}
		text = head + "<!-- begin " + name + ":" + comment + "-->\n\n" + part + "<!-- end " + name + " -->\n" + tail
	}
	return text, nil
}

// Write fills a document, and writes it into a folder.
func Write(document, folder string, parts map[string]string) error {
	old, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	text, err := Fill(string(old), parts)
	if err != nil {
		return fmt.Errorf("%s: %w", document, err)
	}
	return errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(filepath.Join(folder, filepath.Base(document)), []byte(text), 0o644))
}

// Draw draws pictures in all themes into the folder pictures of a folder, by their names. The
// documents there show them.
func Draw(folder string, pictures map[string][]*graph.Chart) error {
	folder = filepath.Join(folder, "pictures")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	var all errgroup.Group
	for name, charts := range pictures {
		for _, t := range graph.Themes {
			all.Go(func() error { return graph.Charts(filepath.Join(folder, name+"-"+t.Name+".png"), t, charts...) })
		}
	}
	return all.Wait()
}

// page is the frame of the HTML; it follows the reader's choice of light or dark.
//
//go:embed page.html
var page string

// HTML makes a page for browsers of a document.
func HTML(document, path, title string) error {
	text, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	markdown := goldmark.New(goldmark.WithExtensions(extension.Table), goldmark.WithParserOptions(parser.WithAutoHeadingID()),
		goldmark.WithRendererOptions(render.WithUnsafe())) // pictures are HTML
	if err := markdown.Convert(text, &b); err != nil {
		return err
	}
	return os.WriteFile(path, fmt.Appendf(nil, page, title, b.String()), 0o644)
}
