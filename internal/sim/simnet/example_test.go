package simnet_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"timesync/internal/sim/simnet"
)

func Example() {
	w := simnet.NewWorld(1) // the seed
	fast := simnet.NewClock(simnet.ClockSpec{SkewPPM: 40}, 1)
	a, b := w.Node("a", fast), w.Node("b", simnet.NewManualClock(5_000_000, 0))
	path := func() *simnet.Link { // a link keeps state, so each way needs its own
		return &simnet.Link{Base: simnet.Fixed(20 * time.Millisecond), Loss: simnet.Bernoulli(0.1)}
	}
	w.Connect(a, b, path(), path())
	b.OnReceive = func(_ *simnet.Node, payload []byte) {
		fmt.Printf("%v: %s, a shows %d us, b %d us\n", w.Now(), payload, a.NowUsec(), b.NowUsec())
	}
	w.Every(time.Second, 0, func() { a.Send(b, []byte("hello")) })
	w.Run(2500 * time.Millisecond)

	// Output:
	// 20ms: hello, a shows 20000 us, b 5020000 us
	// 1.02s: hello, a shows 1020040 us, b 6020000 us
	// 2.02s: hello, a shows 2020080 us, b 7020000 us
}

// TestReadme: the program of README.md is the example.
func TestReadme(t *testing.T) {
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, program, _ := strings.Cut(string(source), "func Example() {\n")
	program, _, _ = strings.Cut(program, "\n\t// Output:")
	program = strings.TrimPrefix(strings.ReplaceAll("\n"+program, "\n\t", "\n"), "\n")
	if !strings.Contains(string(readme), "```go\n"+program+"```\n") {
		t.Errorf("README.md has another program than Example:\n%s", program)
	}
}
