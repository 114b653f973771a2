// These tests prove what a reader of README and a server with a million peers count on: the
// snippets run, what costs less than a call is inlined, and a peer takes few cache lines.
package shape

import (
	"fmt"
	"math/bits"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"timesync"
	"timesync/link"
)

// TestREADME: the first snippet is the body of link's Example, and what it prints stands below.
func TestREADME(t *testing.T) {
	_, rest, found := strings.Cut(string(read(t, root+"/README.md")), "```go\n")
	snippet, rest, closed := strings.Cut(rest, "```\n")
	_, rest, _ = strings.Cut(rest, "```\n")
	prints, _, printed := strings.Cut(rest, "\n```\n")
	if !found || !closed || !printed {
		t.Fatal("no Go snippet with its output")
	}
	body, output := example(t, root+"/link/example_test.go", "Example")
	if strings.TrimSpace(snippet) != body || prints != output {
		t.Errorf("the snippet and what it prints are not those of Example:\n%s\n%s\nwant\n%s\n%s", snippet, prints, body, output)
	}
}

// TestQuickStart: the code of tick's quick start is the body of its Example.
func TestQuickStart(t *testing.T) {
	body, _ := example(t, root+"/tick/example_quick_test.go", "Example")
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
	_, recipe, found := strings.Cut(string(read(t, root+"/docs/USES.md")), "\n## Capture and playout\n")
	recipe, _, _ = strings.Cut(recipe, "\n## ")
	snippets := strings.Split(recipe, "```go\n")[1:]
	program := string(read(t, root+"/examples/voice/chat/main.go"))
	if !found || len(snippets) != 3 {
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

// example returns the body of an Example, and what it prints.
func example(t *testing.T, file, name string) (body, output string) {
	t.Helper()
	_, text, found := strings.Cut(string(read(t, file)), "\nfunc "+name+"() {\n")
	text, output, printed := strings.Cut(text, "\n\t// Output:")
	output, _, _ = strings.Cut(output, "\n}\n")
	if !found || !printed {
		t.Fatalf("%s has no %s with an output", file, name)
	}
	var lines []string
	for line := range strings.Lines(text + "\n") {
		lines = append(lines, strings.TrimPrefix(line, "\t"))
	}
	return strings.TrimSpace(strings.Join(lines, "")), strings.TrimSpace(strings.ReplaceAll(output, "\n\t// ", "\n"))
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
	t.Logf("TimeSynchronizer %d bytes", size)
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
