// These tests prove what a reader of the documents and a server with a million peers count on:
// links lead somewhere, the snippets run, what runs on each system is the README's command, what
// costs less than a call is inlined, and a peer takes few cache lines.
package repotest

import (
	"fmt"
	"io/fs"
	"math/bits"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
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

// pages returns all Markdown files of the repository, nested modules' included.
func pages(t *testing.T) (names []string) {
	t.Helper()
	must(t, filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if filepath.Ext(name) == ".md" {
			names = append(names, name)
		}
		return nil
	}))
	return names
}

// TestLinks: links of one page to another, to a heading, or to a file lead somewhere.
func TestLinks(t *testing.T) {
	pages := pages(t)
	if len(pages) < 20 {
		t.Fatalf("only %d pages", len(pages))
	}
	for _, page := range pages {
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

// TestExamples: the index of the examples has each of them.
func TestExamples(t *testing.T) {
	index := string(read(t, root+"/examples/README.md"))
	entries, err := os.ReadDir(root + "/examples")
	must(t, err)
	for _, entry := range entries {
		if entry.IsDir() && !strings.Contains(index, "["+entry.Name()+"]("+entry.Name()) {
			t.Errorf("examples/README.md lacks %s", entry.Name())
		}
	}
}

// TestWorkflow: what runs on each system is the command of README.md. The other command there tests
// each nested module.
func TestWorkflow(t *testing.T) {
	nested, _ := between(t, string(read(t, root+"/README.md")), "\nfor dir in ",
		"; do\n\t(cd $dir && go test ./...)")
	want := nestedModules(t)
	if got := strings.Fields(nested); !slices.Equal(got, want) {
		t.Errorf("README.md tests the modules %q, want %q", got, want)
	}
	for _, name := range []string{"README.md", ".ci/run", ".github/workflows/ci.yml"} {
		if !strings.Contains(string(read(t, filepath.Join(root, name))), "go test ./...") {
			t.Errorf("%s does not run go test ./...", name)
		}
	}
}

// nestedModules returns the folders below the top that have a go.mod, in order.
func nestedModules(t *testing.T) (folders []string) {
	t.Helper()
	must(t, fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "node_modules") {
			return fs.SkipDir
		}
		if path.Base(name) == "go.mod" && name != "go.mod" {
			folders = append(folders, path.Dir(name))
		}
		return nil
	}))
	slices.Sort(folders)
	return folders
}

// TestSnippets: the code of documents is that of programs: README's is the Example of link, with
// what it prints, tick's quick start has all of its Example, and the program has each line of the
// recipe for sound.
func TestSnippets(t *testing.T) {
	readme, rest := between(t, string(read(t, root+"/README.md")), "```go\n", "```\n")
	prints, _ := between(t, rest, "```\n", "\n```\n")
	quick, _ := between(t, string(read(t, root+"/tick/example_quick_test.go")),
		"\nfunc Example() {\n", "\n\t// Output:")
	recipe, _ := between(t, string(read(t, root+"/docs/USES.md")), "\n## Capture and playout\n",
		"\n## ")
	sound := strings.Split(recipe, "```")
	if len(sound) != 7 {
		t.Fatalf("%d Go snippets in the recipe for sound", len(sound)/2)
	}
	plain := func(text string) string { // without comment signs and indentation
		return regexp.MustCompile(`(?m)^(//)?[\t ]*`).ReplaceAllString(text, "")
	}
	output := "\t// Output: " + strings.ReplaceAll(prints, "\n", "\n\t// ")
	soundCode := strings.ReplaceAll(sound[1]+sound[3]+sound[5], "go\n", "\n")
	for file, blocks := range map[string][]string{
		"/link/example_test.go":        {"func Example() {\n" + readme + output + "\n}"},
		"/tick/doc.go":                 strings.Split(quick, "\n\n"),
		"/examples/voice/chat/main.go": strings.Split(soundCode, "\n"),
	} {
		program := plain(string(read(t, root+file)))
		for _, block := range blocks {
			if want := "\n" + plain(block) + "\n"; !strings.Contains(program, want) {
				t.Errorf("%s lacks, unlike the document beside it:%s", file, want)
			}
		}
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
		ends[1].ReadHeader(there, now+delay)
		ends[0].ReadHeader(ends[1].AppendHeader(nil, now), now+delay)
	}
	want := fmt.Sprintf("at 60 a second | **%.1f bytes**", float64(bytes)/(rate*seconds))
	if !strings.Contains(string(read(t, root+"/README.md")), want) {
		t.Errorf("README.md does not say %q", want)
	}
}

// TestInlined: what costs less than a call is inlined.
func TestInlined(t *testing.T) {
	out := string(goCommand(t, ".", "build", "-gcflags=-m", root))
	names := []string{"LocalTimeToDatagramTS24", "FromLocalTime23", "FromLocalTime16",
		"(*TimeSynchronizer).IsSynchronized"}
	for _, counter := range []string{"Counter16", "Counter23", "Counter24"} {
		names = append(names, "New"+counter, "Read"+counter)
		for _, method := range []string{
			"Add", "Sub", "Inc", "Dec", "Distance", "Compare", "Less",
			"Expand", "ExpandBiased", "Put", "AppendBinary",
		} {
			names = append(names, counter+"."+method)
		}
	}
	for _, name := range names {
		if !strings.Contains(out+" ", ": can inline "+name+"\n") {
			t.Errorf("%s is not inlined", name)
		}
	}
}

// TestSize: a server may have a million. The fields that a datagram needs are
// together, and the words that readers need are apart from them.
func TestSize(t *testing.T) {
	size := reflect.TypeFor[timesync.TimeSynchronizer]().Size()
	if size > 1088 {
		t.Errorf("%d bytes, more than 1088", size)
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
