// These tests prove that a part of a document is replaced and nothing else, and that a page for
// browsers leads to its own headings.

package results

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestFill(t *testing.T) {
	const before, after = "before\n\n<!-- begin x: by hand -->\n", "<!-- end x -->\n\nafter\n"
	text := before + "old\n" + after
	want := before + "\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n" + after
	parts := map[string]string{"x": Table([][]string{{"a", "b"}, {"1", "2"}})}
	for range 2 { // the second time nothing changes
		var err error
		if text, err = Fill(text, parts); err != nil || text != want {
			t.Errorf("%q, want %q, %v", text, want, err)
		}
	}
	for _, bad := range []string{
		"",
		"<!-- begin x: -->\n",
		"<!-- end x -->\n",
		"<!-- begin y: -->\n<!-- end y -->\n",
	} {
		if _, err := Fill(bad, parts); err == nil {
			t.Errorf("%q has no part of that name, and no error", bad)
		}
	}
}

// TestWrite: in the project's own folder a page is written where it stands. Any other folder gets
// a copy, and the page stays as it is. Pictures are drawn for light and dark pages.
func TestWrite(t *testing.T) {
	project := t.TempDir()
	if err := os.MkdirAll(filepath.Join(project, "lab", Folder), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(project, "lab"))
	const empty = "<!-- begin x: -->\n<!-- end x -->\n"
	const filled = "<!-- begin x: -->\n\nnew\n<!-- end x -->\n"
	page := Page{
		Path:     "README.md",
		Parts:    map[string]string{"x": "new\n"},
		Pictures: map[string][]*Chart{"dots": {{X: Axis{Max: 1}, Y: Axis{Max: 1}}}},
	}
	original := filepath.Join(Project, page.Path)
	for _, c := range []struct{ folder, page, want, stays string }{
		{"elsewhere", "elsewhere/README.md", filled, empty},
		{Folder, original, filled, filled},
	} {
		err := os.WriteFile(original, []byte(empty), 0o600)
		err = errors.Join(err, page.Write(c.folder))
		got, bad := os.ReadFile(c.page)
		stays, worse := os.ReadFile(original)
		if err = errors.Join(err, bad, worse); err != nil {
			t.Fatal(err)
		}
		if string(got) != c.want || string(stays) != c.stays {
			t.Errorf("%s: %q, want %q; the original is %q, want %q", c.folder, got, c.want, stays, c.stays)
		}
		pictures, _ := filepath.Glob(filepath.Join(c.folder, "pictures", "dots-*.png"))
		if len(pictures) != len(Themes) {
			t.Errorf("%s: pictures %q", c.folder, pictures)
		}
	}
	page.Parts["y"] = "of no such name"
	if err := page.Write("elsewhere"); err == nil {
		t.Error("the page has no part y, and no error")
	}
}

func TestHTML(t *testing.T) {
	text := "# A title\n\nsee [below](#what-each-does-and-costs), and `a < b`\n\n" +
		"## What each does, and costs\n\n" + Table([][]string{{"a", "b"}, {"1", "**2**"}})
	document := filepath.Join(t.TempDir(), "x.md")
	path := filepath.Join(t.TempDir(), "index.html")
	err := os.WriteFile(document, []byte(text), 0o600)
	err = errors.Join(err, WriteHTML(document, path, "A title"))
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
