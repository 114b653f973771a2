// These tests prove that the checksums are those of the files, and that the bill of materials has
// each module that a nested module needs.

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"timesync/internal/testkit"
)

// repository is one with the files of that content, of which git tracks all.
func repository(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o777))
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o666))
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}} {
		git := exec.Command("git", args...)
		git.Dir = root
		if out, err := git.CombinedOutput(); err != nil {
			t.Skipf("git: %v\n%s", err, out)
		}
	}
	return root
}

func TestWrite(t *testing.T) {
	files := map[string]string{
		"go.mod": "module example.com/top\n\ngo 1.25\n",
		"top.go": "package top\n",
		"cmd/go.mod": "module example.com/top/cmd\n\ngo 1.25\n\n" +
			"require example.com/top v0.0.0\n\nreplace example.com/top => ../\n",
		"cmd/main.go": "package main\n\nimport _ \"example.com/top\"\n\nfunc main() {}\n",
	}
	root, folder := repository(t, files), t.TempDir()
	testkit.Must(t, write(root, "v0.1.0", folder))
	sums, err := os.ReadFile(filepath.Join(folder, "SHA256SUMS"))
	testkit.Must(t, err)
	for name, text := range files {
		line := fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(text)), name)
		if !strings.Contains(string(sums), line) {
			t.Errorf("SHA256SUMS lacks %q:\n%s", line, sums)
		}
	}
	if lines := bytes.Count(sums, []byte("\n")); lines != len(files) {
		t.Errorf("%d lines for %d files", lines, len(files))
	}
	var got bill
	text, err := os.ReadFile(filepath.Join(folder, "sbom.cdx.json"))
	testkit.Must(t, err)
	testkit.Must(t, json.Unmarshal(text, &got))
	own := got.Metadata.Component
	const purl, bsd = "pkg:golang/example.com/top@v0.1.0", "BSD-3-Clause"
	if own.PURL != purl || own.Licenses[0].License.ID != bsd {
		t.Errorf("the component is %+v", own)
	}
	if len(got.Components) > 0 {
		t.Errorf("a module without requirements has components: %+v", got.Components)
	}
	if again := t.TempDir(); write(root, "v0.1.0", again) != nil || !same(t, folder, again) {
		t.Error("written again, the files differ")
	}
}

func same(t *testing.T, a, b string) bool {
	t.Helper()
	for _, name := range []string{"SHA256SUMS", "sbom.cdx.json"} {
		first, err := os.ReadFile(filepath.Join(a, name))
		testkit.Must(t, err)
		second, err := os.ReadFile(filepath.Join(b, name))
		testkit.Must(t, err)
		if !bytes.Equal(first, second) {
			return false
		}
	}
	return true
}

// TestMaterials: what a nested module of this repository requires directly is in the bill, with
// its checksum.
func TestMaterials(t *testing.T) {
	const nested = "examples/dtls"
	found := map[string]*component{}
	if err := gather(found, "../..", nested+"/"); err != nil {
		t.Skip("the modules are not in the cache: ", err)
	}
	mod, err := os.ReadFile("../../" + nested + "/go.mod")
	testkit.Must(t, err)
	_, direct, _ := strings.Cut(string(mod), "require (")
	direct, _, _ = strings.Cut(direct, ")")
	for line := range strings.Lines(strings.TrimSpace(direct)) {
		module := strings.TrimSpace(line)
		if strings.HasPrefix(module, "timesync ") {
			continue
		}
		c := found[module]
		if c == nil {
			t.Errorf("%s is not in the bill", module)
			continue
		}
		hasHash := len(c.Hashes) == 1 && len(c.Hashes[0].Content) == 64
		if !hasHash || c.Properties[0].Value != nested {
			t.Errorf("%s: %+v", module, c)
		}
	}
}
