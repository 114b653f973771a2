// The tests run the demo and the live ends over real sockets: they synchronize, follow a dialer that
// starts anew, let nobody else in, and say what is wrong. What package seal promises, its tests prove.
package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"flag"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"timesync/examples/internal/exampletest"
	"timesync/examples/internal/program"
	"timesync/examples/internal/relay"
	"timesync/examples/seal"
	"timesync/internal/stat"
)

// These tests run over real sockets on machines that may be busy. They judge by the
// jitter of the relay, which is far above what a loaded machine adds to a minimum,
// and wait for events instead of assuming when they come.

const patience = time.Minute

var (
	testKey = [32]byte{1, 2, 3}
	hexKey  = hex.EncodeToString(testKey[:])
)

// noise is a number with more digits than are meant.
var noise = regexp.MustCompile(`[0-9]+\.[0-9]{4,}|[0-9]e[+-]`)

// network is that of the demo, with the largest jitter given.
func network(jitter time.Duration, seed uint64) relay.Config {
	return relay.Config{Delay: 30 * time.Millisecond, Jitter: jitter, Loss: 1, Reorder: 2, Seed: seed}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not after %v: %s", patience, what)
		}
	}
}

// runMain runs the program until it ends or interrupt, which may be nil, says so.
func runMain(t *testing.T, interrupt func(stdout, stderr *exampletest.Output) bool, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var out, errs exampletest.Output
	done := make(chan int)
	go func() { done <- run(ctx, args, &out, &errs) }()
	for end := time.Now().Add(patience); ; {
		select {
		case code := <-done:
			return code, out.String(), errs.String()
		case <-time.After(5 * time.Millisecond):
			if time.Now().After(end) || interrupt != nil && interrupt(&out, &errs) {
				cancel()
			}
		}
	}
}

// testAccuracy looks at what peer p made of a relay of that delay, in ms, and jitter.
func testAccuracy(t *testing.T, p peerResults, delay float64, jitter time.Duration) {
	t.Helper()
	for when, e := range map[string]errorResults{"first": p.First, "later": p.Later} {
		for what, s := range map[string]stat.Spread{"offset": e.Offset, "one-way delay": e.OneWayDelay, "payload timestamp": e.Event} {
			if s.Samples == 0 || s.Median > jitter.Microseconds() || s.Median > s.P99 || s.P99 > s.Max {
				t.Errorf("%s: %s: %s error %+v, want a median below the jitter of %v", p.Name, when, what, s, jitter)
			}
		}
	}
	if p.MinDelay < delay {
		t.Errorf("%s: minimum one-way delay %v ms is below what the relay adds, %v", p.Name, p.MinDelay, delay)
	}
	if p.ClockBytes < 4 || p.ClockBytes > 7 { // in 3 s: the first round trips take 15
		t.Errorf("%s: %v bytes per datagram, want flags, the stamp and now and then more", p.Name, p.ClockBytes)
	}
	if p.ErrorBound < 30 || p.ErrorBound > 60 || p.Age > 1 {
		t.Errorf("%s: error bound %v ms, want about half the round trip; last datagram %v s ago", p.Name, p.ErrorBound, p.Age)
	}
}

// watchStalls begins to watch the machine. The function it returns ends that, and returns in which
// share of the time a sleep was more than 10 ms longer than it should.
func watchStalls() (stalled func() (share float64)) {
	end, done := make(chan struct{}), make(chan float64)
	go func() {
		begin, lost := time.Now(), time.Duration(0)
		for {
			select {
			case <-end:
				done <- lost.Seconds() / time.Since(begin).Seconds()
				return
			default:
			}
			slept := time.Now()
			time.Sleep(time.Millisecond)
			if took := time.Since(slept); took > 10*time.Millisecond {
				lost += took
			}
		}
	}()
	return func() float64 { close(end); return <-done }
}

// TestDemo is the whole of it: synchronized, accurate, and nothing got through.
func TestDemo(t *testing.T) {
	t.Parallel()
	stalled := watchStalls()
	w := launch(t, config{Flags: program.Flags{Network: network(10*time.Millisecond, 7), Skew: 50}, rate: 200})
	w.synced(t)
	eventually(t, "each kind rejected at each end", func() bool {
		for _, p := range w.peers {
			for _, kind := range kinds {
				if p.tally(kind).n < 5 {
					return false
				}
			}
		}
		return true
	})
	eventually(t, "enough to judge", func() bool {
		r := w.report()
		return min(r.Peers[0].Later.Event.Samples, r.Peers[1].Later.Event.Samples) >= 100
	})
	w.close()
	share := stalled()
	if share >= 0.1 {
		t.Logf("NOT TESTED: the accuracy, as the machine stalled for %.0f %% of the time", 100*share)
	}
	r := w.report()
	if r.Failed != "" {
		t.Error(r.Failed)
	}
	for _, p := range r.Peers {
		if !p.Synchronized || p.IntrudersPassed != 0 {
			t.Errorf("%s: synchronized %v, intruders %d", p.Name, p.Synchronized, p.IntrudersPassed)
		}
		if share < 0.1 { // else what is read late tells how busy the machine is
			testAccuracy(t, p, r.Delay, w.config.Network.Jitter)
		}
		forged, replayed, unproven := seal.ErrForged.Error(), seal.ErrReplayed.Error(), seal.ErrUnproven.Error()
		// The copy of a datagram that came before its sender had proven itself can be the first
		// that is taken: few overtake each other just then.
		if p.Rejected[forged] != p.Injected[forged] ||
			p.Rejected[replayed]+p.Rejected[unproven] < p.Injected[replayed]+p.Injected[unproven]-3 {
			t.Errorf("%s: rejected %v, injected %v", p.Name, p.Rejected, p.Injected)
		}
		if p.Received > p.Sent*3/2 {
			t.Errorf("%s: sent %d, accepted %d from one that sends as many", p.Name, p.Sent, p.Received)
		}
	}
}

// shown is true once both peers of the demo have shown a delay, which they know only
// when synchronized.
func shown(o *exampletest.Output) bool {
	s := o.String()
	for _, name := range names {
		i := strings.LastIndex(s, name+" ")
		if i < 0 {
			return false
		}
		if line, _, _ := strings.Cut(s[i:], "\n"); !strings.Contains(line, " us bound ") {
			return false
		}
	}
	return true
}

func TestTable(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := runMain(t, func(stdout, _ *exampletest.Output) bool { return shown(stdout) })
	if code != 0 || stderr != "" {
		t.Fatalf("exit status %d\n%s", code, stderr)
	}
	for _, want := range []string{
		"-seed ", "receive times are ", "time to first sync", "heard ", "median/p99/max", "first 3 s", "after 3 s, which count",
		"error bound at the end", "last datagram", "payload timestamp", "bytes per datagram", "forged", "replayed",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is missing in\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout, "\x1b") {
		t.Error("escape sequences in what is not a terminal")
	}
	_, table, _ := strings.Cut(stdout, "\n\n")
	for line := range strings.Lines(table) {
		if len(strings.TrimSpace(line)) > 60 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := runMain(t, func(_, stderr *exampletest.Output) bool { return shown(stderr) }, "-json", "-seed", "7", "-for", "1m")
	if code != 0 {
		t.Fatalf("exit status %d\n%s", code, stderr)
	}
	var r report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatalf("%v\n%s", err, stdout)
	}
	for _, number := range noise.FindAllString(stdout, -1) {
		t.Errorf("%s... has digits of noise", number)
	}
	if r.Seed != 7 || r.For != 60 || !r.Peers[0].Synchronized || !r.Peers[1].Synchronized || r.Peers[0].First.Offset.Samples == 0 {
		t.Errorf("%s", stdout)
	}
}

// TestAsymmetry: the table says that half of the difference between the two ways is in the errors. That it
// is, TestTable of channelbench proves.
func TestAsymmetry(t *testing.T) {
	var out strings.Builder
	r := report{Asymmetry: -200}
	if r.print(&out); !strings.Contains(out.String(), "One way takes 200 ms longer") {
		t.Errorf("the table does not explain the asymmetry:\n%s", out.String())
	}
}

// launch starts a world.
func launch(t *testing.T, c config) *world {
	t.Helper()
	w, err := newWorld(c)
	if err != nil {
		t.Fatal(err)
	}
	w.start()
	t.Cleanup(w.close)
	return w
}

func (w *world) synced(t *testing.T) {
	t.Helper()
	eventually(t, "both synchronized", func() bool {
		return w.peers[0].end.Link.IsSynchronized() && w.peers[1].end.Link.IsSynchronized()
	})
}

// TestLive runs the two ends as two machines would, the dialer through the command
// line, and then again from another port: a restart that the listener must follow.
func TestLive(t *testing.T) {
	t.Parallel()
	listener := liveEnd(t, config{Flags: program.Flags{Listen: "127.0.0.1:0"}})
	at := relay.Addr(listener.conn).String()
	var first netip.AddrPort
	for life := range 2 {
		last := func(o *exampletest.Output) (s liveState) {
			lines := strings.Split(o.String(), "\n")
			for _, number := range noise.FindAllString(o.String(), -1) {
				t.Errorf("%s... has digits of noise", number)
			}
			if len(lines) > 1 { // the one after the last newline may be incomplete
				if err := json.Unmarshal([]byte(lines[len(lines)-2]), &s); err != nil {
					t.Errorf("%v\n%s", err, o.String())
				}
			}
			return s
		}
		var state liveState
		code, stdout, stderr := runMain(t, func(stdout, _ *exampletest.Output) bool {
			state = last(stdout)
			return state.Synchronized && listener.end.Link.IsSynchronized()
		}, "-dial", at, "-key", hexKey, "-rate", "100", "-json")
		if code != 0 {
			t.Fatalf("life %d: exit status %d\n%s%s", life, code, stdout, stderr)
		}
		// Both clocks are this machine's wall clock, read at different moments.
		if max(state.Offset, -state.Offset) > 1_000_000 || state.MinDelay > 1000 || state.Rejected["forged"] != 0 {
			t.Errorf("life %d: %+v", life, state)
		}
		if s := listener.state(); !s.Synchronized || !strings.Contains(s.line(), "offset") {
			t.Errorf("life %d: listener %v", life, s)
		}
		switch now := listener.to(); life {
		case 0:
			first = now
		case 1:
			if now == first {
				t.Skip("the second dialer got the port of the first")
			}
		}
	}
}

// TestListener: the waiting end says where it is, and fails if nobody comes.
func TestListener(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := runMain(t, nil, "-listen", "127.0.0.1:0", "-key", hexKey, "-for", "50ms")
	if code != 1 || !strings.Contains(stdout, "listening at 127.0.0.1:") || !strings.Contains(stdout, "receive times are ") || !strings.Contains(stderr, "never synchronized") {
		t.Errorf("exit status %d\n%s%s", code, stdout, stderr)
	}
	busy, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	if code, _, stderr := runMain(t, nil, "-listen", relay.Addr(busy).String(), "-key", hexKey); code != 1 || stderr == "" {
		t.Errorf("a busy port: exit status %d, %s", code, stderr)
	}
}

// liveEnd starts one end in this process.
func liveEnd(t *testing.T, c config) *peer {
	t.Helper()
	c.Key = testKey
	p, err := newLive(c)
	if err != nil {
		t.Fatal(err)
	}
	p.start(100)
	t.Cleanup(p.close)
	return p
}

// TestTrouble: when nothing comes for 3 s, the lines say so and why it may be.
func TestTrouble(t *testing.T) {
	listener := &peer{end: seal.New(testKey, 1)}
	dialer := &peer{end: seal.New(testKey, 0), dial: netip.MustParseAddrPort("192.0.2.1:9000")}
	const second = time.Second
	for _, c := range []struct {
		p                      *peer
		opened                 map[error]tally
		now                    time.Duration
		wantSilence, wantWords string
	}{
		{dialer, nil, 2 * second, "nothing heard yet", ""},
		{dialer, nil, 3 * second, "nothing heard yet", "nothing comes: wrong address, wrong key, or no listener?"},
		{listener, nil, 3 * second, "nothing heard yet", "nothing comes: no dialer, wrong address, or a firewall?"},
		{dialer, map[error]tally{nil: {5, 10 * second}}, 10*second + 12*time.Millisecond, "heard 12 ms ago", ""},
		{dialer, map[error]tally{nil: {5, 10 * second}}, 12 * second, "silent for 2 s", ""},
		{dialer, map[error]tally{nil: {5, 10 * second}}, 16 * second, "silent for 6 s", "no listener"},
		{listener, map[error]tally{seal.ErrForged: {5, 2 * second}}, 4 * second, "nothing heard yet", "another key"},
		{listener, map[error]tally{seal.ErrForged: {5, 2 * second}}, 6 * second, "nothing heard yet", "no dialer"},
		{listener, map[error]tally{nil: {5, 3 * second}, seal.ErrForged: {5, 3 * second}}, 4 * second, "silent for 1 s", ""},
		{dialer, map[error]tally{seal.ErrRefused: {1, second}}, second, "nothing heard yet", "serves another dialer"},
		{dialer, map[error]tally{nil: {5, 2 * second}, seal.ErrRefused: {1, second}}, 2 * second, "heard 0 ms ago", ""},
	} {
		c.p.opened = c.opened
		if got := c.p.silence(c.now); got != c.wantSilence {
			t.Errorf("%v at %v: %q, want %q", c.opened, c.now, got, c.wantSilence)
		}
		if got := c.p.trouble(c.now); (got == "") != (c.wantWords == "") || !strings.Contains(got, c.wantWords) {
			t.Errorf("%v at %v: %q, want %q", c.opened, c.now, got, c.wantWords)
		}
	}
	s := liveState{Trouble: "why", silence: "silent for 6 s"}
	if lines := strings.Split(s.line(), "\n"); len(lines) != 2 || !strings.Contains(lines[0], s.silence) || !strings.Contains(lines[1], "why") {
		t.Errorf("%q", lines)
	}
}

// TestInstant: both peers plan an instant within 1 ms of true time, and act at it.
func TestInstant(t *testing.T) {
	t.Parallel()
	w := launch(t, config{Flags: program.Flags{Network: network(10*time.Millisecond, 9), Skew: 50}, rate: 100, at: 300 * time.Millisecond})
	eventually(t, "both have acted", func() bool { return w.appointment.results() != nil })
	w.close()
	r := w.report()
	if x := r.Appointment; x.Planned > 1000 || x.Ahead != 0.3 {
		t.Errorf("%+v, want at most 1000 us between the plans", x)
	}
	for i := range w.peers { // late on a busy machine, but never early
		if x := w.appointment; x.done[i] < x.planned[i]-10*time.Microsecond {
			t.Errorf("%s acts %v early", names[i], x.planned[i]-x.done[i])
		}
	}
	var out strings.Builder
	if r.print(&out); !strings.Contains(out.String(), "agreed 0.3 s ahead") {
		t.Errorf("the table does not tell:\n%s", out.String())
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

// TestSignal: SIGTERM ends the demo with its table, and a live end with its summary. A recording can be
// read however the program ends, by SIGKILL, too.
func TestSignal(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Log("there are no signals to send on Windows")
		return
	}
	folder := t.TempDir()
	for _, c := range []struct {
		signal syscall.Signal
		args   string
		record string
		want   string
	}{
		{syscall.SIGTERM, "-for 1m", "terminated", "accepted, but never sent"},
		{syscall.SIGKILL, "-for 1m", "killed", ""},
		{syscall.SIGTERM, "-listen 127.0.0.1:0 -key " + hexKey, "", "datagrams sent"},
	} {
		var out, errs exampletest.Output
		var files []string
		if c.record != "" {
			name := filepath.Join(folder, c.record)
			files = []string{name, name + peerSuffix}
			c.args += " -record " + name
		}
		command := exec.Command(os.Args[0], strings.Fields(c.args)...)
		command.Env = append(os.Environ(), "UDP_TEST_MAIN=1")
		command.Stdout, command.Stderr = &out, &errs
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "it runs, and some blocks are written", func() bool {
			for _, name := range files {
				if file, err := os.Stat(name); err != nil || file.Size() < 1000 {
					return false
				}
			}
			return strings.Contains(out.String(), " in, ")
		})
		killed := time.Now()
		if err := command.Process.Signal(c.signal); err != nil {
			t.Fatal(err)
		}
		_ = command.Wait() // 1 if it never synchronized, -1 if it was killed
		code := command.ProcessState.ExitCode()
		if c.want != "" && (code < 0 || code > 1) || !strings.Contains(out.String(), c.want) {
			t.Errorf("%v: exit status %d\n%s%s", c, code, out.String(), errs.String())
		}
		for _, name := range files {
			datagrams, last := exampletest.Recording(t, name)
			t.Logf("%v: %d datagrams; the last block is from %v before", c.signal, datagrams, killed.Sub(last))
			if datagrams < 10 { // a block of a busy machine may have one only
				t.Errorf("%v: %d datagrams", c.signal, datagrams)
			}
		}
	}
}

// TestRecordNowhere: a file that cannot be made is said before anything starts.
func TestRecordNowhere(t *testing.T) {
	t.Parallel()
	if code, _, stderr := runMain(t, nil, "-record", filepath.Join(t.TempDir(), "none", "udp.tsr"), "-for", "200ms"); code != 1 {
		t.Errorf("exit status %d\n%s", code, stderr)
	}
}

func TestNeverSynchronized(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := runMain(t, nil, "-loss", "100", "-for", "200ms")
	if code != 1 || !strings.Contains(stderr, "never synchronized") || !strings.Contains(stdout, "never") {
		t.Errorf("exit status %d\n%s%s", code, stdout, stderr)
	}
}

// TestIntruder: the judge notices what a broken hook would let through.
func TestIntruder(t *testing.T) {
	w, err := newWorld(config{Flags: program.Flags{Key: testKey, Network: network(time.Millisecond, 1)}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	for i := range w.peers {
		w.peers[i].start(0.001)
	}
	a, b := w.judges[0], w.judges[1]
	genuine := a.payload(time.Second)
	b.delivered(genuine, 2*time.Second, 0, false)
	if b.intruders != 0 {
		t.Fatal("a true datagram is an intruder")
	}
	b.delivered(genuine, 3*time.Second, 0, false)
	if b.intruders != 1 {
		t.Error("a replayed datagram is none")
	}
	forged := a.payload(time.Second)
	forged[2*stampLen+8]++
	b.delivered(forged, 2*time.Second, 0, false)
	b.delivered(nil, 2*time.Second, 0, false)
	if b.intruders != 3 {
		t.Error("forged datagrams are none")
	}
	if r := w.report(); !strings.Contains(r.Failed, "peer B took 3 datagrams") {
		t.Errorf("report: %q", r.Failed)
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	key := hexKey
	exampletest.Flags(t, "udp", run, map[string]string{
		"-rate 0":                     "-rate 0: must be above 0",
		"-rate -5":                    "-rate -5",
		"-rate NaN":                   "-rate NaN",
		"-rate 1e9":                   "at most 1000",
		"-dial :1 -at 1s -key " + key: "-at: only without",
		"-at -1s":                     "-at -1s: must be from 0 to 16s",
		"-at 16.1s -for 1m":           "-at 16.1s: must be from 0 to 16s",
		"-at 16s":                     "-at 16s: needs -for 20s or more",
	})
	if code, _, stderr := runMain(t, nil, "-dial", "127.0.0.1:x", "-key", key); code != 1 || stderr == "" {
		t.Errorf("a bad port: exit status %d, %s", code, stderr)
	}
}
