// The tests run the demo and the live ends over real sockets: they synchronize, follow a dialer
// that starts anew, let nobody else in, and say what is wrong. What package seal promises, its
// tests prove.
package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"timesync/examples/seal"
	"timesync/internal/badnet"
	"timesync/internal/program"
	"timesync/internal/program/programtest"
	"timesync/internal/testkit"
)

// The machine may be busy. They judge by the jitter of the relay, which is far above what a loaded
// machine adds to a minimum, and wait for events instead of assuming when they come.

const (
	jitter = 10 * time.Millisecond
	delay  = 30 * time.Millisecond
)

var (
	testKey = [32]byte{1, 2, 3}
	hexKey  = hex.EncodeToString(testKey[:])
)

// testAccuracy looks at what a peer made of the network.
func testAccuracy(t *testing.T, j *judge) {
	t.Helper()
	for what, errs := range map[string][]int64{
		"offset":            j.offset,
		"one-way delay":     j.owd,
		"payload timestamp": j.event,
	} {
		s := testkit.SpreadOf(errs)
		if s.Samples == 0 || s.Median > jitter.Microseconds() {
			t.Errorf("%s: %s error %+v, want a median below the jitter of %v",
				j.name, what, s, jitter)
		}
	}
	s := j.state()
	if s.MinimumOneWayDelay < delay || s.ErrorBound < delay || s.ErrorBound > 2*delay {
		t.Errorf("%s: %v; want what the relay adds, %v, and a bound of about half the round trip",
			j.name, s, delay)
	}
}

// TestDemo is the whole of it: synchronized, accurate, and nothing got through; and the judge would
// have noticed.
func TestDemo(t *testing.T) {
	t.Parallel()
	w, err := newWorld(programtest.Config(t, (*config).flags, (*config).check, "-seed 7"))
	testkit.Must(t, err)
	begun := time.Now()
	asked := begun
	lost := time.Duration(0)
	testkit.Eventually(t, "each kind rejected, and enough to judge", func() bool {
		if took := time.Since(asked); took > 15*time.Millisecond { // 5 ms are to be slept
			lost += took
		}
		asked = time.Now()
		for _, j := range w.judges {
			for _, k := range kinds {
				if j.tally(k.err).n < 5 || j.tally(nil).n < 300 {
					return false
				}
			}
		}
		return true
	})
	share := float64(lost) / float64(time.Since(begun))
	if share >= 0.1 { // what is read late tells how busy the machine is
		t.Logf("NOT TESTED: the accuracy, as the machine stalled for %.0f %% of the time",
			100*share)
	}
	testkit.Must(t, w.close())
	testkit.Must(t, w.failure())
	var table strings.Builder
	w.table(&table)
	t.Log(table.String())
	for _, j := range w.judges {
		if share < 0.1 {
			testAccuracy(t, j)
		}
		// The copy of a datagram that came before its sender had proven itself can be the first
		// that is taken: few overtake each other just then.
		rejected := j.tally(seal.ErrReplayed).n + j.tally(seal.ErrUnproven).n
		injected := w.relay.Injected(j.way, badnet.Replayed, badnet.Recorded)
		forged := w.relay.Injected(j.way, badnet.Forged, badnet.Cut)
		if j.tally(seal.ErrForged).n != forged || rejected < injected-3 {
			t.Errorf("%s: not all that was injected is rejected", j.name)
		}
		if accepted := j.tally(nil).n; accepted > int(j.sent.Load())*3/2 {
			t.Errorf("%s: accepted %d from one that sends as many", j.name, accepted)
		}
	}
	genuine := w.judges[0].payload(time.Second)
	forged := w.judges[0].payload(time.Second)
	forged[stampLen]++
	for _, payload := range [][]byte{genuine, genuine, forged, nil} {
		w.judges[1].delivered(seal.Datagram{Payload: payload}, time.Second)
	}
	err = w.failure()
	if err == nil || !strings.Contains(err.Error(), "peer B: accepted 3 datagrams") {
		t.Errorf("a copy, a forgery and nothing: %v", err)
	}
}

// start runs the program, and returns what it prints and a way to wait for its end.
func start(t *testing.T, args ...string) (out, errs *testkit.Output, stop func() (code int)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, errs = &testkit.Output{}, &testkit.Output{}
	done := make(chan int, 1)
	go func() { done <- run(ctx, args, out, errs) }()
	return out, errs, func() int { cancel(); return <-done }
}

// objects returns what -json has printed.
func objects(t *testing.T, text string) (all []line) {
	t.Helper()
	for text := range strings.Lines(text) {
		if !strings.HasSuffix(text, "\n") {
			break // it is being written
		}
		var l line
		testkit.Must(t, json.Unmarshal([]byte(text), &l))
		all = append(all, l)
	}
	return all
}

// freeAddress returns an address at which nobody listens.
func freeAddress() string {
	free := badnet.Loopback()
	defer free.Close()
	return badnet.Addr(free).String()
}

// listening starts a listener and returns where it is.
func listening(
	t *testing.T, args ...string,
) (at string, out, errs *testkit.Output, stop func() int) {
	t.Helper()
	at = freeAddress()
	out, errs, stop = start(t, append([]string{"-listen", at}, args...)...)
	testkit.Eventually(t, "the listener is there", func() bool {
		return out.String() != "" || errs.String() != ""
	})
	return at, out, errs, stop
}

// TestLive: two callers of one listener at once, with one key: each knows both ways, and the
// listener knows them apart.
func TestLive(t *testing.T) {
	t.Setenv(program.KeyVariable, hexKey)
	at, heard, _, stop := listening(t)
	var callers [2]*testkit.Output
	var stops [2]func() int
	for i := range callers {
		callers[i], _, stops[i] = start(t, "-json", "-interval", "10ms", at)
	}
	for i, out := range callers {
		testkit.Eventually(t, "both ways are known", func() bool {
			for _, l := range objects(t, out.String()) {
				if l.SendDelay != nil && l.ReceiveDelay != nil && l.UpstreamCame > 0 {
					return true
				}
			}
			return false
		})
		if code := stops[i](); code != 0 {
			t.Errorf("caller %d: exit status %d", i, code)
		}
		all := objects(t, out.String())
		last := all[len(all)-1]
		if last.Kind != "summary" || !last.Synchronized || last.Peer != at || last.ErrorBound <= 0 {
			t.Errorf("caller %d: %+v", i, last)
		}
		// Both clocks are this machine's wall clock, read at different moments.
		off := time.Duration(last.Offset).Abs()
		if off > time.Duration(last.ErrorBound)+time.Second {
			t.Errorf("caller %d: the offset is %v", i, off)
		}
	}
	if code := stop(); code != 0 {
		t.Errorf("the listener: exit status %d", code)
	}
	if n := strings.Count(heard.String(), "from the peer: "); n != 2 {
		t.Errorf("the listener sums up %d callers in\n%s", n, heard.String())
	}
}

// TestCount: after as many datagrams as asked for, of the size asked for, the program ends by
// itself.
func TestCount(t *testing.T) {
	t.Setenv(program.KeyVariable, hexKey)
	at, _, _, stop := listening(t)
	defer stop()
	var out, errs testkit.Output
	args := []string{"-count", "30", "-interval", "5ms", "-size", "1000", "-json", at}
	code := run(t.Context(), args, &out, &errs)
	all := objects(t, out.String())
	if code != 0 || len(all) == 0 || all[len(all)-1].Sent != 30 {
		t.Errorf("exit status %d\n%s%s", code, out.String(), errs.String())
	}
}

// TestRestart: a listener that starts anew is followed by a caller that goes on.
func TestRestart(t *testing.T) {
	t.Setenv(program.KeyVariable, hexKey)
	at, _, _, stop := listening(t)
	out, _, end := start(t, "-json", "-interval", "10ms", at)
	knows := func(from int) func() bool {
		return func() bool {
			all := objects(t, out.String())
			for _, l := range all[min(from, len(all)):] {
				if l.SendDelay != nil && l.ReceiveDelay != nil {
					return true
				}
			}
			return false
		}
	}
	testkit.Eventually(t, "the first listener is known", knows(0))
	stop()
	before := len(objects(t, out.String())) + 1
	_, _, stop = start(t, "-listen", at)
	defer stop()
	testkit.Eventually(t, "the next one is known", knows(before))
	end()
}

// TestEnd: a listener that ends while callers still send has one recording of each, and all can be
// read.
func TestEnd(t *testing.T) {
	const callers = 4
	t.Setenv(program.KeyVariable, hexKey)
	folder := t.TempDir()
	at := freeAddress()
	heard, _, stop := start(t, "-json", "-listen", at, "-record", folder)
	for range callers {
		_, _, end := start(t, "-interval", "1ms", at)
		defer end()
	}
	testkit.Eventually(t, "all are known", func() bool {
		known := map[string]bool{}
		for _, l := range objects(t, heard.String()) {
			known[l.Peer] = known[l.Peer] || l.ReceiveDelay != nil
		}
		return len(known) == callers && !slices.Contains(slices.Collect(maps.Values(known)), false)
	})
	if code := stop(); code != 0 {
		t.Errorf("exit status %d", code)
	}
	files, err := filepath.Glob(filepath.Join(folder, "owd-*.tsr"))
	testkit.Must(t, err)
	if len(files) != callers {
		t.Errorf("%d recordings of %d callers", len(files), callers)
	}
	for _, name := range files {
		if datagrams := programtest.Recording(t, name); datagrams == 0 {
			t.Errorf("%s is empty", name)
		}
	}
}

// TestWhy: when nothing comes, the program says what may be wrong, and ends with 1.
func TestWhy(t *testing.T) {
	nobody := freeAddress()
	silent := badnet.Loopback()
	defer silent.Close()
	t.Setenv(program.KeyVariable, hexKey)
	type test struct{ to, want string }
	tests := []test{{badnet.Addr(silent).String(), "does a firewall"}}
	if runtime.GOOS == "linux" { // others may tell nobody
		tests = append(tests, test{nobody, "nothing listens at that port"})
	}
	for _, c := range tests {
		var out, errs testkit.Output
		code := run(t.Context(), []string{"-for", "300ms", "-interval", "10ms", c.to}, &out, &errs)
		if code != 1 || !strings.Contains(errs.String(), c.want) {
			t.Errorf("exit status %d\n%s%swant %q", code, out.String(), errs.String(), c.want)
		}
	}
}

// TestOtherKey: a caller with another key gets no answer, and the listener says why.
func TestOtherKey(t *testing.T) {
	t.Setenv(program.KeyVariable, hexKey)
	at, _, warned, stop := listening(t)
	t.Setenv(program.KeyVariable, strings.Repeat("ab", 32))
	out, _, end := start(t, "-interval", "10ms", at)
	testkit.Eventually(t, "the listener says so", func() bool {
		return strings.Contains(warned.String(), "sealed with another key")
	})
	if code := end(); code != 1 || !strings.Contains(out.String(), "0 received") {
		t.Errorf("the caller: exit status %d\n%s", code, out.String())
	}
	if code := stop(); code != 1 {
		t.Errorf("the listener: exit status %d", code)
	}
}

// TestOtherKeyMeanwhile: the listener also says so while it serves a caller that has its key.
func TestOtherKeyMeanwhile(t *testing.T) {
	t.Setenv(program.KeyVariable, hexKey)
	at := freeAddress()
	heard, warned, stop := start(t, "-json", "-listen", at)
	_, _, endGood := start(t, "-interval", "10ms", at)
	testkit.Eventually(t, "the listener serves the one with the key", func() bool {
		return len(objects(t, heard.String())) > 0
	})
	if warned.String() != "" {
		t.Errorf("before anybody else calls: %s", warned.String())
	}
	t.Setenv(program.KeyVariable, strings.Repeat("ab", 32))
	_, _, endOther := start(t, "-interval", "10ms", at)
	testkit.Eventually(t, "the listener says so", func() bool {
		return strings.Contains(warned.String(), "sealed with another key")
	})
	served := len(objects(t, heard.String()))
	testkit.Eventually(t, "the one with the key is still served", func() bool {
		return len(objects(t, heard.String())) > served
	})
	if code := endOther(); code != 1 {
		t.Errorf("the one with another key: exit status %d", code)
	}
	if code := endGood(); code != 0 {
		t.Errorf("the one with the key: exit status %d", code)
	}
	stop()
}

// TestAddress: a socket for IPv4 and IPv6 has an IPv4 caller as ::ffff:127.0.0.1. People and
// programs see it as 127.0.0.1.
func TestAddress(t *testing.T) {
	t.Setenv(program.KeyVariable, hexKey)
	free, err := net.ListenUDP("udp", nil)
	testkit.Must(t, err)
	port := free.LocalAddr().(*net.UDPAddr).Port
	free.Close()
	at := fmt.Sprintf("127.0.0.1:%d", port)
	heard, warned, stop := start(t, "-json", "-listen", fmt.Sprintf(":%d", port))
	_, _, end := start(t, "-interval", "10ms", at)
	testkit.Eventually(t, "the listener shows the caller", func() bool {
		return len(objects(t, heard.String())) > 0
	})
	end()
	stop()
	for _, l := range objects(t, heard.String()) {
		peer, err := netip.ParseAddrPort(l.Peer)
		if err != nil || peer.Addr() != netip.MustParseAddr("127.0.0.1") {
			t.Errorf("a caller from 127.0.0.1 is shown as %s\n%s", l.Peer, warned.String())
		}
	}
}

// TestNewKey: what -newkey prints is a key, and another one each time.
func TestNewKey(t *testing.T) {
	var printed [2]string
	for i := range printed {
		var out, errs testkit.Output
		if code := run(t.Context(), []string{"-newkey"}, &out, &errs); code != 0 {
			t.Fatalf("exit status %d, %s", code, errs.String())
		}
		printed[i] = strings.TrimSpace(out.String())
		_, err := program.Key(printed[i])
		testkit.Must(t, err)
	}
	if printed[0] == printed[1] {
		t.Error("twice the same key")
	}
}

// TestFailures: what cannot work ends with status 1 and says why.
func TestFailures(t *testing.T) {
	t.Setenv(program.KeyVariable, hexKey)
	busy := badnet.Loopback()
	defer busy.Close()
	nowhere := filepath.Join(t.TempDir(), "file")
	testkit.Must(t, os.WriteFile(nowhere, nil, 0o600)) // no folder can be there
	for _, c := range []struct{ args, stdout, stderr string }{
		{"-record " + nowhere + " -for 200ms", "", "owd: "},
		{"-loss 100 -for 200ms", "peer A", "peer A: not synchronized"},
		{"-listen 127.0.0.1:0 -for 50ms", "listens on 127.0.0.1:", "nobody called"},
		{"-listen " + badnet.Addr(busy).String(), "", "owd: "},
		{"127.0.0.1:x", "", "owd: "},
		{"-record " + nowhere + " -for 50ms " + badnet.Addr(busy).String(), "", "owd: "},
	} {
		var out, errs testkit.Output
		code := run(t.Context(), strings.Fields(c.args), &out, &errs)
		printed := strings.Contains(out.String(), c.stdout)
		said := strings.Contains(errs.String(), c.stderr)
		if code != 1 || !printed || !said {
			t.Errorf("%s: exit status %d\n%s%s", c.args, code, out.String(), errs.String())
		}
	}
}

// TestMain lets TestSignal run the program.
func TestMain(m *testing.M) {
	if os.Getenv("OWD_TEST_MAIN") != "" {
		main()
	}
	flag.Parse()
	flag.Set("test.parallel", "8") // these tests mostly wait
	os.Exit(m.Run())
}

// TestSignal: SIGTERM ends the demo, which has said what it must, with its table. A recording can
// be read however the program ends, by SIGKILL, too.
func TestSignal(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Log("there are no signals to send on Windows")
		return
	}
	said := []string{
		"-seed 7", ", bound ", "median/p99/max", "error bound at the end",
		"payload timestamp", "accepted, but never sent", "forged", "replayed",
		"One way takes 20ms longer",
	}
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		var out testkit.Output
		folder := t.TempDir()
		command := exec.Command(os.Args[0],
			"-for", "1m", "-record", folder, "-down", "20ms@0s", "-seed", "7")
		command.Env = append(os.Environ(), "OWD_TEST_MAIN=1")
		command.Stdout, command.Stderr = &out, &out
		testkit.Must(t, command.Start())
		var files []string
		testkit.Eventually(t, "a line is printed, and some blocks are written", func() bool {
			files, _ = filepath.Glob(filepath.Join(folder, "owd-[ab]-*.tsr"))
			for _, name := range files {
				if file, err := os.Stat(name); err != nil || file.Size() < 1000 {
					return false
				}
			}
			return len(files) == 2 && strings.Contains(out.String(), ", bound ")
		})
		testkit.Must(t, command.Process.Signal(signal))
		err := command.Wait()
		for _, want := range said {
			if signal == syscall.SIGTERM && (err != nil || !strings.Contains(out.String(), want)) {
				t.Errorf("%v: %q is missing in\n%s", err, want, out.String())
			}
		}
		for _, name := range files {
			// A block of a busy machine may have one only.
			if datagrams := programtest.Recording(t, name); datagrams < 10 {
				t.Errorf("%v: %d datagrams", signal, datagrams)
			}
		}
	}
}

func TestFlags(t *testing.T) {
	t.Setenv(program.KeyVariable, "")
	programtest.Flags(t, "owd", run, map[string]string{
		"-json":                        "only with -listen or HOST:PORT",
		"-count 5":                     "only with -listen or HOST:PORT",
		"-listen :0":                   "run owd -newkey",
		"localhost:9000":               "run owd -newkey",
		"-listen :0 localhost:9000":    "either HOST:PORT or -listen",
		"localhost:9000 " + hexKey:     "pass the key in $" + program.KeyVariable,
		"-listen :0 -interval 1s":      "the caller decides that",
		"-interval 1us localhost:9000": "-interval",
		"-size 5 localhost:9000":       "-size",
		"-count -1 localhost:9000":     "-count",
		"-loss 5 localhost:9000":       "only in the demo",
		"-skew 5000":                   "-skew",
		"-for -1s":                     "-for",
		"example.org":                  "want a host and a port",
		"-newkey -listen :0":           "-newkey",
	})
	t.Setenv(program.KeyVariable, "abc")
	programtest.Flags(t, "owd", run, map[string]string{"-listen :0": "want 64 hex digits"})
}
