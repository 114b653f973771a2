// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that the documents can be read to the end: they are short, their links lead
// somewhere, and seeds stand on one page only.
package shape

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// documents returns the texts of README.md and of all pages of docs, by path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	pages, err := filepath.Glob(root + "/docs/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	texts := map[string]string{}
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		texts[filepath.ToSlash(page)] = string(read(t, page))
	}
	return texts
}

// TestLengths: who has read a page has read all of it.
func TestLengths(t *testing.T) {
	for name, most := range map[string]int{
		"README.md": 120, "docs/ACCURACY.md": 90, "docs/BROWSER.md": 70, "docs/DESIGN.md": 420, "docs/MIGRATING.md": 90,
	} {
		text := string(read(t, filepath.Join(root, name)))
		if n := strings.Count(text, "\n"); n > most {
			t.Errorf("%s has %d lines, more than %d", name, n, most)
		}
		for i, line := range strings.Split(text, "\n") {
			if len(line) > 120 && !strings.HasPrefix(line, "|") && !strings.Contains(line, "](") && !strings.HasPrefix(line, "fmt.") {
				t.Errorf("%s:%d is %d bytes long", name, i+1, len(line))
			}
		}
	}
}

var (
	links    = regexp.MustCompile(`\]\(([^)\s]*)\)|(?:src|srcset)="([^"]*)"`)
	headings = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fenced   = regexp.MustCompile("(?s)```.*?```")
	unlinked = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors returns what the headings of a page are called in links.
func anchors(text string) map[string]bool {
	names := map[string]bool{}
	for _, h := range headings.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		names[strings.ReplaceAll(unlinked.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-")] = true
	}
	return names
}

// TestLinks: links of one page to another, to a heading, or to a file lead somewhere.
func TestLinks(t *testing.T) {
	for page, text := range documents(t) {
		for _, link := range links.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			to, heading, _ := strings.Cut(link[1]+link[2], "#")
			if strings.Contains(to, "://") {
				continue
			}
			target := page
			if to != "" {
				target = filepath.Join(filepath.Dir(page), to)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %v", page, err)
			} else if heading != "" && !anchors(string(read(t, target)))[heading] {
				t.Errorf("%s: no heading of %s is called %s", page, target, heading)
			}
		}
	}
}

// TestSeeds: seeds and their bases stand in docs/CONTRIBUTING.md only.
func TestSeeds(t *testing.T) {
	seeds := regexp.MustCompile(`-seed\.first|seed bases? \d|-seed \d`)
	for page, text := range documents(t) {
		if found := seeds.FindString(text); found != "" && filepath.Base(page) != "CONTRIBUTING.md" {
			t.Errorf("%s says %q", page, found)
		}
	}
}

// TestWorkflow: what runs on each system is the command of README.md.
func TestWorkflow(t *testing.T) {
	const command = "go test ./..."
	for _, name := range []string{"README.md", ".ci/run", ".github/workflows/ci.yml"} {
		if !strings.Contains(string(read(t, filepath.Join(root, name))), command) {
			t.Errorf("%s does not run %s", name, command)
		}
	}
}

// TestWords: the words at the head of synchronizer.go are those of DESIGN's table, and mean the same.
func TestWords(t *testing.T) {
	row := regexp.MustCompile(`(?m)^\| ([^|]+) \| ([^|]+) \| [^|]*\|$`)
	design, code := string(read(t, root+"/docs/DESIGN.md")), string(read(t, root+"/synchronizer.go"))
	words := 0
	for _, r := range row.FindAllStringSubmatch(design, -1) {
		if word, means := r[1], strings.ReplaceAll(r[2], "*", ""); word != "word" {
			words++
			if want := "//\t" + word + ": " + means + "\n"; !strings.Contains(code, want) {
				t.Errorf("synchronizer.go lacks %q", want)
			}
		}
	}
	if words < 30 || strings.Count(code[:strings.Index(code, "\n// ----")], ": ") < words {
		t.Errorf("%d words in DESIGN.md", words)
	}
}
