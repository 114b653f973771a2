// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"errors"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// document is a report that is written as Markdown and as HTML at once. In texts, `code`,
// **bold** and [links](to) are as in Markdown.
type document struct {
	md, html strings.Builder
	pictures []picture
}

// picture is a plot that goes into a file of its own.
type picture struct {
	name string // of the file, without its end
	draw func(path string, t theme) error
}

// pictureFolder is where pictures are, seen from the document.
const pictureFolder = "pictures"

var inline = []struct {
	from *regexp.Regexp
	to   string
}{
	{regexp.MustCompile("`([^`]*)`"), "<code>$1</code>"},
	{regexp.MustCompile(`\*\*([^*]*)\*\*`), "<strong>$1</strong>"},
	{regexp.MustCompile(`\[([^]]*)\]\(([^)]*)\)`), `<a href="$2">$1</a>`},
}

// markup turns a text into HTML.
func markup(text string) string {
	text = html.EscapeString(text)
	for _, r := range inline {
		text = r.from.ReplaceAllString(text, r.to)
	}
	return text
}

func (d *document) heading(level int, text string) {
	fmt.Fprintf(&d.md, "%s %s\n\n", strings.Repeat("#", level), text)
	fmt.Fprintf(&d.html, "<h%d id=\"%s\">%s</h%d>\n", level, anchor(text), markup(text), level)
}

// anchor is the name of a heading in links, as in Markdown's pages.
func anchor(heading string) string {
	return strings.NewReplacer("'", "", ",", "", " ", "-").Replace(strings.ToLower(heading))
}

func (d *document) text(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	fmt.Fprintf(&d.md, "%s\n\n", wrap(text, 95))
	fmt.Fprintf(&d.html, "<p>%s</p>\n", markup(text))
}

func (d *document) list(items []string) {
	d.html.WriteString("<ul>\n")
	for _, item := range items {
		fmt.Fprintf(&d.md, "- %s\n", strings.ReplaceAll(wrap(item, 93), "\n", "\n  "))
		fmt.Fprintf(&d.html, "<li>%s</li>\n", markup(item))
	}
	d.md.WriteByte('\n')
	d.html.WriteString("</ul>\n")
}

func (d *document) code(text string) {
	fmt.Fprintf(&d.md, "    %s\n\n", strings.ReplaceAll(text, "\n", "\n    "))
	fmt.Fprintf(&d.html, "<pre>%s</pre>\n", html.EscapeString(text))
}

// table writes a table; all columns but the first are numbers.
func (d *document) table(rows [][]string) {
	d.html.WriteString("<div class=\"wide\"><table>\n")
	for i, row := range rows {
		fmt.Fprintf(&d.md, "| %s |\n", strings.Join(row, " | "))
		cell := "td"
		if i == 0 {
			cell = "th"
			fmt.Fprintf(&d.md, "|---|%s\n", strings.Repeat("--:|", len(row)-1))
		}
		d.html.WriteString("<tr>")
		for _, c := range row {
			fmt.Fprintf(&d.html, "<%s>%s</%s>", cell, markup(c), cell)
		}
		d.html.WriteString("</tr>\n")
	}
	d.md.WriteByte('\n')
	d.html.WriteString("</table></div>\n")
}

// picture shows a plot: alt says what is drawn, for who does not see it, and the caption what
// to see. Pages choose the light or the dark one.
func (d *document) picture(name, alt, caption string, draw func(path string, t theme) error) {
	element := fmt.Sprintf(`<picture><source media="(prefers-color-scheme: dark)" srcset="%[1]s/%[2]s-dark.png"><img src="%[1]s/%[2]s-light.png" width="560" alt="%[3]s"></picture>`,
		pictureFolder, name, html.EscapeString(alt))
	fmt.Fprintf(&d.md, "%s<br>\n%s\n\n", element, wrap(caption, 95))
	fmt.Fprintf(&d.html, "<figure>%s<figcaption>%s</figcaption></figure>\n", element, markup(caption))
	d.pictures = append(d.pictures, picture{name, draw})
}

// pictureBlock is a picture in Markdown, as picture writes it: name, alternative text, caption.
var pictureBlock = regexp.MustCompile(`(?s)^<picture>.*/(\S+)-light\.png".* alt="([^"]*)"></picture><br>\n(.*)$`)

// include takes over the Markdown of another document of this kind. Its pictures are those that
// are committed.
func (d *document) include(markdown string) {
	for _, block := range strings.Split(strings.TrimSpace(markdown), "\n\n") {
		level := len(block) - len(strings.TrimLeft(block, "#"))
		if p := pictureBlock.FindStringSubmatch(block); p != nil {
			d.picture(p[1], html.UnescapeString(p[2]), p[3], func(path string, t theme) error {
				from := filepath.Join(committed, pictureFolder, filepath.Base(path))
				picture, err := os.ReadFile(from)
				if err != nil || filepath.Clean(path) == from {
					return err
				}
				return os.WriteFile(path, picture, 0o644)
			})
		} else if level > 0 {
			d.heading(level, strings.TrimSpace(block[level:]))
		} else if strings.HasPrefix(block, "    ") {
			d.code(strings.ReplaceAll(block[4:], "\n    ", "\n"))
		} else if strings.HasPrefix(block, "|") {
			var rows [][]string
			for i, line := range strings.Split(block, "\n") {
				if i != 1 { // the line below the head
					rows = append(rows, strings.Split(strings.Trim(line, "| "), " | "))
				}
			}
			d.table(rows)
		} else {
			d.text("%s", block)
		}
	}
}

// drawPictures draws all pictures in all themes.
func (d *document) drawPictures(folder string) error {
	if err := os.MkdirAll(filepath.Join(folder, pictureFolder), 0o755); err != nil {
		return err
	}
	errs := make([]error, len(d.pictures)*len(themes))
	each(len(errs), func(i int) {
		p, t := d.pictures[i/len(themes)], themes[i%len(themes)]
		if err := p.draw(p.path(folder, t), t); err != nil {
			errs[i] = fmt.Errorf("picture %s: %w", p.name, err)
		}
	})
	return errors.Join(errs...)
}

// path is where a picture is, for pages of a theme.
func (p *picture) path(folder string, t theme) string {
	return filepath.Join(folder, pictureFolder, p.name+"-"+t.name+".png")
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
<title>Every method on identical packets</title>
<style>
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; font-size: 0.85rem; }
.wide, pre { overflow-x: auto; }
th, td { padding: 0.15rem 0.6rem; border-bottom: 1px solid #8886; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
img { max-width: 100%%; border-radius: 6px; }
figure { margin: 1.5rem 0; } figcaption { opacity: 0.85; }
</style></head><body>
%s</body></html>
`

// write writes a document of that name into a folder, with its pictures.
func (d *document) write(folder, name string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, name), []byte(d.markdown()), 0o644); err != nil {
		return err
	}
	return d.drawPictures(folder)
}

// writePage writes it as a page.
func (d *document) writePage(path string) error {
	return os.WriteFile(path, fmt.Appendf(nil, page, d.html.String()), 0o644)
}

func (d *document) markdown() string { return strings.TrimRight(d.md.String(), "\n") + "\n" }
