// The tests run the demo and the live ends over real sockets: they synchronize, follow a dialer that
// starts anew, let nobody else in, and say what is wrong. What package seal promises, its tests prove.
package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"flag"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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
	for what, errs := range map[string][]int64{"offset": j.offset, "one-way delay": j.owd, "payload timestamp": j.event} {
		s := testkit.SpreadOf(errs)
		if s.Samples == 0 || s.Median > jitter.Microseconds() {
			t.Errorf("%s: %s error %+v, want a median below the jitter of %v", j.name, what, s, jitter)
		}
	}
	if s := j.state(); s.MinimumOneWayDelay < delay || s.ErrorBound < delay || s.ErrorBound > 2*delay {
		t.Errorf("%s: %v; want what the relay adds, %v, and a bound of about half the round trip", j.name, s, delay)
	}
}

// TestDemo is the whole of it: synchronized, accurate, and nothing got through; and the judge would have noticed.
func TestDemo(t *testing.T) {
	t.Parallel()
	w, err := newWorld(programtest.Config(t, (*config).flags, (*config).check, "-seed 7"))
	testkit.Must(t, err)
	begun, lost := time.Now(), time.Duration(0)
	asked := begun
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
		t.Logf("NOT TESTED: the accuracy, as the machine stalled for %.0f %% of the time", 100*share)
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
		rejected, injected := j.tally(seal.ErrReplayed).n+j.tally(seal.ErrUnproven).n, w.relay.Injected(j.way, badnet.Replayed, badnet.Recorded)
		if j.tally(seal.ErrForged).n != w.relay.Injected(j.way, badnet.Forged, badnet.Cut) || rejected < injected-3 {
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
	if err := w.failure(); err == nil || !strings.Contains(err.Error(), "peer B: synchronized true, took 3 datagrams") {
		t.Errorf("a copy, a forgery and nothing: %v", err)
	}
}

// TestLive runs the two ends as two machines would, the dialer through the command
// line, and then again from another port: a restart that the listener must follow, but not before it has
// waited for the first.
func TestLive(t *testing.T) {
	t.Parallel()
	wall := program.Clock{Start: uint64(time.Now().Add(-program.True()).UnixMicro())}
	listener, err := newPeer(config{Flags: program.Flags{Key: testKey}}, badnet.Loopback(), netip.AddrPort{}, wall, "")
	testkit.Must(t, err)
	listener.start()
	at := badnet.Addr(listener.UDP).String()
	var first seal.Peer
	for life := range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		var out, errs testkit.Output
		done := make(chan int)
		go func() { done <- run(ctx, []string{"-dial", at, "-key", hexKey, "-json"}, &out, &errs) }()
		var s state
		testkit.Eventually(t, "both know the other's clock", func() bool {
			lines := strings.Split(out.String(), "\n")
			if len(lines) > 1 { // the one after the last newline may be incomplete
				testkit.Must(t, json.Unmarshal([]byte(lines[len(lines)-2]), &s))
			}
			return s.ErrorBound > 0 && listener.end.Link.IsSynchronized()
		})
		cancel()
		if code := <-done; code != 0 {
			t.Fatalf("life %d: exit status %d\n%s%s", life, code, out.String(), errs.String())
		}
		// Both clocks are this machine's wall clock, read at different moments.
		if max(s.OffsetUsec, -s.OffsetUsec) > 1_000_000 || s.MinimumOneWayDelay > time.Second {
			t.Errorf("life %d: %+v", life, s)
		}
		if line := listener.state().String(); !strings.Contains(line, "offset") || listener.tally(seal.ErrForged).n != 0 {
			t.Errorf("life %d: listener %v", life, line)
		}
		peer := listener.end.Peer()
		if life == 0 {
			first = peer
		} else if peer.Addr == first.Addr {
			t.Skip("the second dialer got the port of the first")
		} else if waited := peer.HeardUsec - first.HeardUsec; waited < uint64(quiet.Microseconds()) {
			t.Errorf("the listener serves another %d us after it has heard the first", waited)
		}
	}
	testkit.Must(t, listener.Close())
}

// TestFailures: what cannot work ends with status 1 and says why; the waiting end says where it is.
func TestFailures(t *testing.T) {
	t.Parallel()
	busy := badnet.Loopback()
	defer busy.Close()
	nowhere := filepath.Join(t.TempDir(), "file")
	testkit.Must(t, os.WriteFile(nowhere, nil, 0o600)) // no folder can be there
	for _, c := range []struct{ args, stdout, stderr string }{
		{"-record " + nowhere + " -for 200ms", "", "udp: "},
		{"-loss 100 -for 200ms", "peer A", "synchronized false"},
		{"-listen 127.0.0.1:0 -for 50ms -key " + hexKey, "at 127.0.0.1:", "never synchronized"},
		{"-listen 127.0.0.1:0 -for 50ms -key " + hexKey + " -record " + nowhere, "", "udp: "},
		{"-listen " + badnet.Addr(busy).String() + " -key " + hexKey, "", "udp: "},
		{"-dial 127.0.0.1:x -key " + hexKey, "", "udp: "},
	} {
		var out, errs testkit.Output
		code := run(t.Context(), strings.Fields(c.args), &out, &errs)
		if code != 1 || !strings.Contains(out.String(), c.stdout) || !strings.Contains(errs.String(), c.stderr) {
			t.Errorf("%s: exit status %d\n%s%s", c.args, code, out.String(), errs.String())
		}
	}
}

// TestTrouble: when nothing comes for 3 s, the lines say so and why it may be.
func TestTrouble(t *testing.T) {
	listener := &peer{}
	dialer := &peer{dial: netip.MustParseAddrPort("192.0.2.1:9000")}
	const second = time.Second
	for _, c := range []struct {
		p      *peer
		opened map[error]tally
		now    time.Duration
		want   string
	}{
		{dialer, nil, 2 * second, ""},
		{dialer, nil, 3 * second, "nothing comes: wrong address, wrong key, or no listener?"},
		{listener, nil, 3 * second, "nothing comes: no dialer, wrong address, or a firewall?"},
		{dialer, map[error]tally{nil: {5, 10 * second}}, 12 * second, ""},
		{dialer, map[error]tally{nil: {5, 10 * second}}, 16 * second, "no listener"},
		{listener, map[error]tally{seal.ErrForged: {5, 2 * second}}, 4 * second, "another key"},
		{listener, map[error]tally{seal.ErrForged: {5, 2 * second}}, 6 * second, "no dialer"},
		{listener, map[error]tally{nil: {5, 3 * second}, seal.ErrForged: {5, 3 * second}}, 4 * second, ""},
		{dialer, map[error]tally{seal.ErrRefused: {1, second}}, second, "serves another dialer"},
		{dialer, map[error]tally{nil: {5, 2 * second}, seal.ErrRefused: {1, second}}, 2 * second, ""},
	} {
		c.p.opened = c.opened
		if got := c.p.trouble(c.now); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%v at %v: %q, want %q", c.opened, c.now, got, c.want)
		}
	}
	lines := strings.Split(state{Trouble: "why"}.String(), "\n")
	if len(lines) != 2 || !strings.Contains(lines[1], "why") {
		t.Errorf("%q", lines)
	}
}

// TestMain lets TestSignal run the program.
func TestMain(m *testing.M) {
	if os.Getenv("UDP_TEST_MAIN") != "" {
		main()
	}
	flag.Parse()
	flag.Set("test.parallel", "8") // these tests mostly wait
	os.Exit(m.Run())
}

// TestSignal: SIGTERM ends the demo, which has said what it must, with its table. A recording can be read
// however the program ends, by SIGKILL, too.
func TestSignal(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Log("there are no signals to send on Windows")
		return
	}
	said := []string{
		"-seed 7", ", bound ", "median/p99/max", "error bound at the end",
		"payload timestamp", "accepted, but never sent", "forged", "replayed", "One way takes 20ms longer",
	}
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		var out testkit.Output
		folder := t.TempDir()
		command := exec.Command(os.Args[0], "-for", "1m", "-record", folder, "-down", "20ms@0s", "-seed", "7")
		command.Env = append(os.Environ(), "UDP_TEST_MAIN=1")
		command.Stdout, command.Stderr = &out, &out
		testkit.Must(t, command.Start())
		var files []string
		testkit.Eventually(t, "a line is printed, and some blocks are written", func() bool {
			files, _ = filepath.Glob(filepath.Join(folder, "udp-[ab]-*.tsr"))
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
	t.Parallel()
	programtest.Flags(t, "udp", run, map[string]string{
		"-json": "-json: needs -listen or -dial",
	})
}
