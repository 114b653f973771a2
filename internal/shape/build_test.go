// These tests prove what a reader of README and a server with a million peers count on: the
// snippet runs, what costs less than a call is inlined, and a peer takes few cache lines.
package shape

import (
	"math/bits"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"timesync"
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
	// What a datagram without news needs is the first cache line, and neighbours in a slice
	// share none.
	hot, _ := reflect.TypeFor[timesync.TimeSynchronizer]().FieldByName("bucket")
	if hot.Offset != 0 || hot.Type.Size() > 64 || size%64 != 0 {
		t.Errorf("bucket at %d, %d bytes, of %d bytes", hot.Offset, hot.Type.Size(), size)
	}
}
