// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that the links of the documents lead somewhere, and that what runs on each
// system is the README's command.
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

// TestWorkflow: what runs on each system is the command of README.md.
func TestWorkflow(t *testing.T) {
	const command = "go test ./..."
	for _, name := range []string{"README.md", ".ci/run", ".github/workflows/ci.yml"} {
		if !strings.Contains(string(read(t, filepath.Join(root, name))), command) {
			t.Errorf("%s does not run %s", name, command)
		}
	}
}
