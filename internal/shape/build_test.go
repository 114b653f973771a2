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

// TestREADME: the first snippet is the body of link's Example.
func TestREADME(t *testing.T) {
	text := string(read(t, root+"/README.md"))
	before, rest, found := strings.Cut(text, "```go\n")
	snippet, _, closed := strings.Cut(rest, "```\n")
	if line := strings.Count(before, "\n") + 1; !found || !closed || line >= 20 {
		t.Fatalf("no Go snippet before line 20 (line %d)", line)
	}
	_, body, _ := strings.Cut(string(read(t, root+"/link/example_test.go")), "\nfunc Example() {\n")
	body, _, _ = strings.Cut(body, "\n\t// Output:")
	var want strings.Builder
	for line := range strings.Lines(body + "\n") {
		want.WriteString(strings.TrimPrefix(line, "\t"))
	}
	if strings.TrimSpace(snippet) != strings.TrimSpace(want.String()) {
		t.Errorf("the snippet is not the body of Example:\n%s\nwant\n%s", snippet, want.String())
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
	if size > 448 {
		t.Errorf("%d bytes, more than 448", size)
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
