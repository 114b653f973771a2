// These tests prove that a part of a document is replaced and nothing else, and that a page for
// browsers leads to its own headings.

package page

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestFill(t *testing.T) {
	text := "before\n\n<!-- begin x: by hand -->\nold\n<!-- end x -->\n\nafter\n"
	want := "before\n\n<!-- begin x: by hand -->\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n<!-- end x -->\n\nafter\n"
	parts := map[string]string{"x": Table([][]string{{"a", "b"}, {"1", "2"}})}
	for range 2 { // the second time nothing changes
		var err error
		if text, err = Fill(text, parts); err != nil || text != want {
			t.Errorf("%q, want %q, %v", text, want, err)
		}
	}
	for _, bad := range []string{"", "<!-- begin x: -->\n", "<!-- end x -->\n", "<!-- begin y: -->\n<!-- end y -->\n"} {
		if _, err := Fill(bad, parts); err == nil {
			t.Errorf("%q has no part of that name, and no error", bad)
		}
	}
}

func TestHTML(t *testing.T) {
	text := "# A title\n\nsee [below](#what-each-does-and-costs), and `a < b`\n\n## What each does, and costs\n\n" +
		Table([][]string{{"a", "b"}, {"1", "**2**"}})
	document, path := filepath.Join(t.TempDir(), "x.md"), filepath.Join(t.TempDir(), "index.html")
	err := errors.Join(os.WriteFile(document, []byte(text), 0o600), HTML(document, path, "A title"))
	page, bad := os.ReadFile(path)
	if err = errors.Join(err, bad); err != nil {
		t.Fatal(err)
	}
	wants := []string{"<title>A title</title>", "<code>a &lt; b</code>", "<strong>2</strong></td>"}
	for _, to := range regexp.MustCompile(`href="#([^"]*)"`).FindAllStringSubmatch(string(page), -1) {
		wants = append(wants, `id="`+to[1]+`"`) // a link leads somewhere
	}
	for _, want := range wants {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}
