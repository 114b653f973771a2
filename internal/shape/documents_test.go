// SPDX-License-Identifier: BSD-3-Clause

// These tests prove what a reader of the documents and a server with a million peers count on: links lead
// somewhere, the snippets run, what runs on each system is the README's command, what costs less than a
// call is inlined, and a peer takes few cache lines.
package shape

import (
	"fmt"
	"math/bits"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"timesync"
	"timesync/link"
)

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
	pages, err := filepath.Glob(root + "/docs/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range append(pages, root+"/README.md") {
		text := string(read(t, page))
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

// TestREADME: the first snippet is the body of link's Example, and what it prints stands below.
func TestREADME(t *testing.T) {
	snippet, rest := between(t, string(read(t, root+"/README.md")), "```go\n", "```\n")
	prints, _ := between(t, rest, "```\n", "\n```\n")
	body, output := example(t, root+"/link/example_test.go")
	if strings.TrimSpace(snippet) != body || prints != output {
		t.Errorf("the snippet and what it prints are not those of Example:\n%s\n%s\nwant\n%s\n%s", snippet, prints, body, output)
	}
}

// between returns what is between two strings in a text, and what follows.
func between(t *testing.T, text, from, to string) (part, rest string) {
	t.Helper()
	_, text, found := strings.Cut(text, from)
	part, rest, closed := strings.Cut(text, to)
	if !found || !closed {
		t.Fatalf("nothing stands between %q and %q", from, to)
	}
	return part, rest
}

// TestQuickStart: the code of tick's quick start is the body of its Example.
func TestQuickStart(t *testing.T) {
	body, _ := example(t, root+"/tick/example_quick_test.go")
	doc := strings.ReplaceAll(string(read(t, root+"/tick/doc.go")), "//\t", "\t")
	doc = strings.ReplaceAll(doc, "\n//\n", "\n\n")
	for _, part := range strings.Split(body, "\n\n") {
		want := "\t" + strings.ReplaceAll(part, "\n", "\n\t")
		if !strings.Contains(doc, want) {
			t.Errorf("tick/doc.go lacks\n%s", want)
		}
	}
}

// TestPlayout: the code of the recipe for sound is that of the program that it names.
func TestPlayout(t *testing.T) {
	recipe, _ := between(t, string(read(t, root+"/docs/USES.md")), "\n## Capture and playout\n", "\n## ")
	snippets := strings.Split(recipe, "```go\n")[1:]
	program := string(read(t, root+"/examples/voice/chat/main.go"))
	if len(snippets) != 3 {
		t.Fatalf("%d Go snippets", len(snippets))
	}
	for _, snippet := range snippets {
		snippet, _, _ = strings.Cut(snippet, "```\n")
		for line := range strings.Lines(snippet) {
			if line = strings.TrimSpace(line); !strings.Contains(program, "\t"+line+"\n") {
				t.Errorf("the program lacks %s", line)
			}
		}
	}
}

// example returns the body of a file's Example, and what it prints.
func example(t *testing.T, file string) (body, output string) {
	t.Helper()
	body, rest := between(t, string(read(t, file)), "\nfunc Example() {\n", "\n\t// Output:")
	output, _, _ = strings.Cut(rest, "\n}\n")
	body = strings.ReplaceAll("\n"+body, "\n\t", "\n")
	return strings.TrimSpace(body), strings.TrimSpace(strings.ReplaceAll(output, "\n\t// ", "\n"))
}

// TestBytes: the bytes of a datagram that README.md names are those of package link, over ten
// minutes.
func TestBytes(t *testing.T) {
	const rate, seconds = 60, 600
	var ends [2]link.Link
	bytes, delay := 0, uint64(20_000)
	for i := range uint64(rate * seconds) {
		now := i*1e6/rate + 1e6
		there := ends[0].AppendHeader(nil, now)
		bytes += len(there)
		ends[1].Open(there, now+delay)
		ends[0].Open(ends[1].AppendHeader(nil, now), now+delay)
	}
	want := fmt.Sprintf("at 60 a second | **%.1f bytes**", float64(bytes)/(rate*seconds))
	if !strings.Contains(string(read(t, root+"/README.md")), want) {
		t.Errorf("README.md does not say %q", want)
	}
}

// TestInlined: what costs less than a call is inlined.
func TestInlined(t *testing.T) {
	tool, err := exec.LookPath("go")
	if err != nil || runtime.GOOS == "js" || runtime.GOOS == "wasip1" {
		t.Skip("no go command")
	}
	build := exec.Command(tool, "build", "-gcflags=-m", root)
	build.Env = append(os.Environ(), "GOFLAGS=")
	out, err := build.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	inlined := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		if _, name, found := strings.Cut(line, ": can inline "); found {
			inlined[strings.Fields(name)[0]] = true
		}
	}
	names := []string{"LocalTimeToDatagramTS24", "FromLocalTime23", "FromLocalTime16", "(*TimeSynchronizer).IsSynchronized"}
	for _, counter := range []string{"Counter16", "Counter23", "Counter24"} {
		names = append(names, "New"+counter, "Read"+counter)
		for _, method := range []string{"Add", "Sub", "Inc", "Dec", "Distance", "Compare", "Less", "Expand", "ExpandBiased", "Put", "AppendBinary"} {
			names = append(names, counter+"."+method)
		}
	}
	for _, name := range names {
		if !inlined[name] {
			t.Errorf("%s is not inlined", name)
		}
	}
}

// TestSize: a server may have a million. The fields that a datagram needs are
// together, and the words that readers need are apart from them.
func TestSize(t *testing.T) {
	size := reflect.TypeFor[timesync.TimeSynchronizer]().Size()
	if size > 512 {
		t.Errorf("%d bytes, more than 512", size)
	}
	if bits.UintSize < 64 {
		return
	}
	// What a datagram without news needs is the first field, and that is within the first cache
	// line. Neighbours in a slice share none.
	hot := reflect.TypeFor[timesync.TimeSynchronizer]().Field(0)
	if hot.Type.Size() > 64 || size%64 != 0 {
		t.Errorf("the first field, %s, has %d of %d bytes", hot.Name, hot.Type.Size(), size)
	}
}
