// SPDX-License-Identifier: BSD-3-Clause

// Package page writes documents: Markdown, the pictures in it, and a page for browsers.
package page

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	render "github.com/yuin/goldmark/renderer/html"

	"timesync/compare/graph"
)

// Document is a page of Markdown, or a part of one, and the pictures in it.
type Document struct {
	md       strings.Builder
	pictures []picture
}

// picture is a plot that goes into a file of its own.
type picture struct {
	name string // of the file, without its end
	draw func(path string, t graph.Theme) error
}

// pictureFolder is where pictures are, seen from the document.
const pictureFolder = "pictures"

// Heading writes a heading, of level 1 for the page.
func (d *Document) Heading(level int, text string) {
	fmt.Fprintf(&d.md, "%s %s\n\n", strings.Repeat("#", level), text)
}

// Text writes a paragraph, formatted as fmt.Sprintf does.
func (d *Document) Text(format string, args ...any) {
	fmt.Fprintf(&d.md, "%s\n\n", wrap(fmt.Sprintf(format, args...), 95))
}

// List writes items, a paragraph each.
func (d *Document) List(items []string) {
	for _, item := range items {
		fmt.Fprintf(&d.md, "- %s\n", strings.ReplaceAll(wrap(item, 93), "\n", "\n  "))
	}
	d.md.WriteByte('\n')
}

// Code writes lines as they are.
func (d *Document) Code(text string) {
	fmt.Fprintf(&d.md, "    %s\n\n", strings.ReplaceAll(text, "\n", "\n    "))
}

// Table writes a table whose first row is the head. All columns but the first are numbers.
func (d *Document) Table(rows [][]string) { d.aligned(strings.Repeat("--:|", len(rows[0])-1), rows) }

// Words writes a table of words.
func (d *Document) Words(rows [][]string) { d.aligned(strings.Repeat("---|", len(rows[0])-1), rows) }

func (d *Document) aligned(marks string, rows [][]string) {
	for i, row := range rows {
		fmt.Fprintf(&d.md, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(&d.md, "|---|%s\n", marks)
		}
	}
	d.md.WriteByte('\n')
}

// Picture shows a plot: alt says what is drawn, for who does not see it, and the caption what
// to see. Pages choose the light or the dark one.
func (d *Document) Picture(name, alt, caption string, draw func(path string, t graph.Theme) error) {
	fmt.Fprintf(&d.md, `<picture><source media="(prefers-color-scheme: dark)" srcset="%[1]s/%[2]s-dark.png"><img src="%[1]s/%[2]s-light.png" width="560" alt="%[3]s"></picture>`,
		pictureFolder, name, html.EscapeString(alt))
	if caption != "" {
		fmt.Fprintf(&d.md, "<br>\n%s", wrap(caption, 95))
	}
	d.md.WriteString("\n\n")
	d.pictures = append(d.pictures, picture{name, draw})
}

// drawPictures draws all pictures in all themes.
func (d *Document) drawPictures(folder string) error {
	if len(d.pictures) == 0 {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(folder, pictureFolder), 0o755); err != nil {
		return err
	}
	errs := make([]error, len(d.pictures)*len(graph.Themes))
	var all sync.WaitGroup
	for i := range errs {
		p, t := d.pictures[i/len(graph.Themes)], graph.Themes[i%len(graph.Themes)]
		all.Go(func() {
			if err := p.draw(p.path(folder, t), t); err != nil {
				errs[i] = fmt.Errorf("picture %s: %w", p.name, err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// path is where a picture is, for pages of a theme.
func (p *picture) path(folder string, t graph.Theme) string {
	return filepath.Join(folder, pictureFolder, p.name+"-"+t.Name+".png")
}

// wrap breaks a text into lines of at most width bytes, where words allow.
func wrap(text string, width int) string {
	var b strings.Builder
	n := 0
	for i, word := range strings.Fields(text) {
		if i > 0 && n+1+len(word) > width {
			b.WriteByte('\n')
			n = 0
		} else if i > 0 {
			b.WriteByte(' ')
			n++
		}
		b.WriteString(word)
		n += len(word)
	}
	return b.String()
}

// page is the frame of the HTML; it follows the reader's choice of light or dark.
const page = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>%s</title>
<style>
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; font-size: 0.85rem; display: block; }
table, pre { overflow-x: auto; }
th, td { padding: 0.15rem 0.6rem; border-bottom: 1px solid #8886; white-space: nowrap; }
img { max-width: 100%%; border-radius: 6px; }
</style></head><body>
%s</body></html>
`

// Write writes a document of that name into a folder, with its pictures.
func (d *Document) Write(folder, name string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, name), []byte(d.Markdown()), 0o644); err != nil {
		return err
	}
	return d.drawPictures(folder)
}

// WritePage writes it as a page for browsers.
func (d *Document) WritePage(path, title string) error {
	var b bytes.Buffer
	markdown := goldmark.New(goldmark.WithExtensions(extension.Table), goldmark.WithParserOptions(parser.WithAutoHeadingID()),
		goldmark.WithRendererOptions(render.WithUnsafe())) // pictures are HTML
	if err := markdown.Convert([]byte(d.Markdown()), &b); err != nil {
		return err
	}
	return os.WriteFile(path, fmt.Appendf(nil, page, title, b.String()), 0o644)
}

// Markdown returns the document.
func (d *Document) Markdown() string { return strings.TrimRight(d.md.String(), "\n") + "\n" }

// Block puts a document between the two lines that mark a part of another document, which stands
// in the file path. The pictures go beside it.
func (d *Document) Block(path, name string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text, err := ReplaceBlock(string(old), name, d.Markdown())
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if text != string(old) {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	return errors.Join(err, d.drawPictures(filepath.Dir(path)))
}

// blockBegin and blockEnd are the two lines. What stands behind the name says who writes it.
const blockBegin, blockEnd = "<!-- begin %s:", "<!-- end %s -->\n"

// ReplaceBlock replaces what stands between the two lines.
func ReplaceBlock(text, name, by string) (string, error) {
	head, rest, begun := strings.Cut(text, fmt.Sprintf(blockBegin, name))
	comment, rest, closed := strings.Cut(rest, "-->\n")
	_, tail, ended := strings.Cut(rest, fmt.Sprintf(blockEnd, name))
	if !begun || !closed || !ended {
		return "", fmt.Errorf("no block %q", name)
	}
	return head + fmt.Sprintf(blockBegin, name) + comment + "-->\n\n" + by + "\n" + fmt.Sprintf(blockEnd, name) + tail, nil
}
