// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"timesync/internal/testkit"
)

// The code of docs/BROWSER.md is that of the page, so the other tests run it.
func TestDocument(t *testing.T) {
	document, err := os.ReadFile("../../docs/BROWSER.md")
	testkit.Must(t, err)
	var page strings.Builder
	for _, name := range []string{"dashboard.mjs", "game.mjs"} {
		b, err := files.ReadFile("static/" + name)
		testkit.Must(t, err)
		page.Write(b)
	}
	blocks := regexp.MustCompile("(?s)```js\n(.*?)```").FindAllStringSubmatch(string(document), -1)
	if len(blocks) < 2 {
		t.Errorf("it has %d pieces of code", len(blocks))
	}
	indent := regexp.MustCompile(`(?m)^(.)`)
	for _, block := range blocks {
		code := block[1]
		indented := indent.ReplaceAllString(code, "\t$1")
		if !strings.Contains(page.String(), code) && !strings.Contains(page.String(), indented) {
			t.Errorf("this is in neither file:\n%s", code)
		}
	}
}
