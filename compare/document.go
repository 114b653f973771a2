// SPDX-License-Identifier: BSD-3-Clause

package main

import (
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
	draw func(path string) error
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
	return strings.ReplaceAll(strings.ReplaceAll(strings.ToLower(heading), "'", ""), " ", "-")
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

// details writes what is folded away.
func (d *document) details(summary string, body func()) {
	fmt.Fprintf(&d.md, "<details><summary>%s</summary>\n\n", summary)
	fmt.Fprintf(&d.html, "<details><summary>%s</summary>\n", html.EscapeString(summary))
	body()
	d.md.WriteString("</details>\n\n")
	d.html.WriteString("</details>\n")
}

// picture shows a plot with a sentence that says what to see.
func (d *document) picture(name, see string, draw func(path string) error) {
	fmt.Fprintf(&d.md, "![%s](%s/%s.png)\n\n%s\n\n", see, pictureFolder, name, wrap(see, 95))
	fmt.Fprintf(&d.html, "<figure><img src=\"%s/%s.png\" alt=\"%s\"><figcaption>%s</figcaption></figure>\n",
		pictureFolder, name, html.EscapeString(see), markup(see))
	d.pictures = append(d.pictures, picture{name, draw})
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

// write writes REPORT.md and the pictures into a folder, and index.html if web is set.
func (d *document) write(folder string, web bool) error {
	if err := os.MkdirAll(filepath.Join(folder, pictureFolder), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "REPORT.md"), []byte(d.markdown()), 0o644); err != nil {
		return err
	}
	if web {
		if err := os.WriteFile(filepath.Join(folder, "index.html"), fmt.Appendf(nil, page, d.html.String()), 0o644); err != nil {
			return err
		}
	}
	errs := make([]error, len(d.pictures))
	each(len(d.pictures), func(i int) {
		errs[i] = d.pictures[i].draw(filepath.Join(folder, pictureFolder, d.pictures[i].name+".png"))
	})
	for i, err := range errs {
		if err != nil {
			return fmt.Errorf("picture %s: %w", d.pictures[i].name, err)
		}
	}
	return nil
}

func (d *document) markdown() string { return strings.TrimRight(d.md.String(), "\n") + "\n" }
