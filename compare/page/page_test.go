// These tests prove that a part of a document is replaced and nothing else, and that a page for
// browsers leads to its own headings.

package page

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestBlock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.md")
	text := "before\n\n<!-- begin x: by hand -->\nold\n<!-- end x -->\n\nafter\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d := new(Document)
	d.Table([][]string{{"a", "b"}, {"1", "2"}})
	for range 2 { // the second time nothing changes
		if err := d.Block(path, "x"); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if want := "before\n\n<!-- begin x: by hand -->\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n<!-- end x -->\n\nafter\n"; err != nil || string(got) != want {
			t.Errorf("%q, want %q, %v", got, want, err)
		}
	}
	for _, bad := range []string{"", "<!-- begin x: -->\n", "<!-- end x -->\n", "<!-- begin y: -->\n<!-- end y -->\n"} {
		if _, err := ReplaceBlock(bad, "x", "new"); err == nil {
			t.Errorf("%q has no block, and no error", bad)
		}
	}
}

func TestPage(t *testing.T) {
	d := new(Document)
	d.Heading(1, "A title")
	d.Text("see [below](#what-each-does-and-costs), and `a < b`")
	d.Heading(2, "What each does, and costs")
	d.Table([][]string{{"a", "b"}, {"1", "**2**"}})
	path := filepath.Join(t.TempDir(), "index.html")
	if err := d.WritePage(path, "A title"); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range regexp.MustCompile(`href="#([^"]*)"`).FindAllStringSubmatch(string(page), -1) {
		if !strings.Contains(string(page), `id="`+to[1]+`"`) {
			t.Errorf("a link leads to #%s, which is nowhere", to[1])
		}
	}
	for _, want := range []string{"<title>A title</title>", "<code>a &lt; b</code>", "<strong>2</strong></td>"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}
