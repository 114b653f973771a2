package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
)

// These tests run over real sockets on machines that may be busy. They judge by the
// jitter of the relay, which is far above what a loaded machine adds to a minimum,
// and wait for events instead of assuming when they come.

const patience = time.Minute

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not after %v: %s", patience, what)
		}
	}
}

// output is what a program that still runs has printed.
type output struct {
	mu  sync.Mutex
	buf strings.Builder
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// runMain runs the program until it ends or interrupt, which may be nil, says so.
func runMain(t *testing.T, interrupt func(stdout, stderr *output) bool, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var out, errs output
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

// TestDemo is the whole of it: synchronized, accurate, and nothing got through.
func TestDemo(t *testing.T) {
	for _, sync := range []string{"datagram", "ping"} {
		t.Run(sync, func(t *testing.T) { testDemo(t, sync) })
	}
}

func testDemo(t *testing.T, sync string) {
	t.Parallel()
	w := launch(t, config{sync: sync, jitter: 10 * time.Millisecond, loss: 1, skew: 50, rate: 200, seed: 7})
	w.synced(t)
	eventually(t, "each kind rejected at each end", func() bool {
		for _, p := range w.peers {
			for _, kind := range kinds {
				if p.count(kind) < 5 {
					return false
				}
			}
		}
		return true
	})
	eventually(t, "enough to judge", func() bool {
		r := w.report()
		return min(r.Peers[0].Received, r.Peers[1].Received) >= 300
	})
	w.close()
	r := w.report()
	if r.Failed != "" {
		t.Error(r.Failed)
	}
	for _, p := range r.Peers {
		if !p.Synchronized || p.IntrudersPassed != 0 {
			t.Errorf("%s: synchronized %v, intruders %d", p.Name, p.Synchronized, p.IntrudersPassed)
		}
		for what, s := range map[string]spread{"offset": p.Offset, "one-way delay": p.OneWayDelay, "payload timestamp": p.Event} {
			if s.Samples == 0 || s.Median > w.config.jitter.Microseconds() || s.Median > s.P99 || s.P99 > s.Max {
				t.Errorf("%s: %s error %+v, want a median below the jitter of %v", p.Name, what, s, w.config.jitter)
			}
		}
		if p.MinDelay < r.Delay {
			t.Errorf("%s: minimum one-way delay %v ms is below what the relay adds, %v", p.Name, p.MinDelay, r.Delay)
		}
		if p.ClockBytes < 3 || p.ClockBytes > 3.5 {
			t.Errorf("%s: %v bytes per datagram, want the stamp and now and then a MinDelta", p.Name, p.ClockBytes)
		}
		if p.Received > p.Sent*3/2 {
			t.Errorf("%s: sent %d, accepted %d from one that sends as many", p.Name, p.Sent, p.Received)
		}
	}
}

// shown is true once both peers of the demo have shown a delay, which they know only
// when synchronized.
func shown(o *output) bool {
	s := o.String()
	for _, name := range names {
		i := strings.LastIndex(s, name+" ")
		if i < 0 {
			return false
		}
		if line, _, _ := strings.Cut(s[i:], "\n"); !strings.Contains(line, "us  min OWD") {
			return false
		}
	}
	return true
}

func TestTable(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := runMain(t, func(stdout, _ *output) bool { return shown(stdout) })
	if code != 0 || stderr != "" {
		t.Fatalf("exit status %d\n%s", code, stderr)
	}
	for _, want := range []string{
		"-seed ", "receive times are ", "time to first sync", "offset error                 median", "p99", "max",
		"one-way delay error", "payload timestamp error", "bytes per datagram", "forged", "replayed", "truncated",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is missing in\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout, "\x1b") {
		t.Error("escape sequences in what is not a terminal")
	}
	for line := range strings.Lines(stdout) {
		if len(strings.TrimSpace(line)) > 80 && strings.Contains(line, "min OWD") {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := runMain(t, func(_, stderr *output) bool { return shown(stderr) }, "-json", "-seed", "7", "-for", "1m")
	if code != 0 {
		t.Fatalf("exit status %d\n%s", code, stderr)
	}
	var r report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatalf("%v\n%s", err, stdout)
	}
	if r.Seed != 7 || r.For != 60 || !r.Peers[0].Synchronized || !r.Peers[1].Synchronized || r.Peers[0].Offset.Samples == 0 {
		t.Errorf("%s", stdout)
	}
}

// TestAsymmetry: half of the difference between the two ways is in the offset, with
// opposite signs at the two ends, and the table says so.
func TestAsymmetry(t *testing.T) {
	t.Parallel()
	w := launch(t, config{jitter: time.Millisecond, asymmetry: -200 * time.Millisecond, rate: 100, seed: 5})
	w.synced(t)
	for i, want := range []int64{-100_000, 100_000} {
		eventually(t, "half the asymmetry in the error", func() bool {
			err, ok := w.judges[i].offsetError(time.Since(w.epoch))
			return ok && max(err-want, want-err) < 20_000
		})
	}
	r := w.report()
	var out strings.Builder
	if r.print(&out); !strings.Contains(out.String(), "One way takes 200 ms longer") {
		t.Errorf("the table does not explain the asymmetry:\n%s", out.String())
	}
}

// launch starts a world with its attacker.
func launch(t *testing.T, c config) *world {
	t.Helper()
	c.key = testKey
	w, err := newWorld(c)
	if err != nil {
		t.Fatal(err)
	}
	w.relay.attack.Store(true)
	w.start()
	t.Cleanup(w.close)
	return w
}

func (w *world) synced(t *testing.T) {
	t.Helper()
	eventually(t, "both synchronized", func() bool {
		return w.peers[0].Sync.IsSynchronized() && w.peers[1].Sync.IsSynchronized()
	})
}

// right reports whether peer i has an offset that is off by less than the jitter.
func (w *world) right(i int) bool {
	err, ok := w.judges[i].offsetError(time.Since(w.epoch))
	return ok && max(err, -err) < w.config.jitter.Microseconds()
}

func (w *world) intruders() (n int) {
	for _, j := range w.judges {
		j.mu.Lock()
		n += j.intruders
		j.mu.Unlock()
	}
	return n
}

func adoptedBy(p *peer) uint64 {
	p.Hook.mu.Lock()
	defer p.Hook.mu.Unlock()
	return p.Hook.peer
}

// TestDroppedPeer: one peer falls silent and comes back. Nobody forgets the offset
// in between, and both go on as if nothing had been.
func TestDroppedPeer(t *testing.T) {
	t.Parallel()
	w := launch(t, config{jitter: 10 * time.Millisecond, loss: 1, skew: 50, rate: 100, seed: 3})
	w.synced(t)
	a, b := w.peers[0], w.peers[1]
	b.silent.Store(true)
	heard := -1
	eventually(t, "what was under way has arrived", func() bool {
		before := heard
		heard = a.count(nil)
		time.Sleep(200 * time.Millisecond)
		return heard == before
	})
	sessionOfB := adoptedBy(a)
	var before [2]int64
	for i, j := range w.judges {
		before[i], _ = j.offsetError(time.Since(w.epoch))
	}
	time.Sleep(500 * time.Millisecond)
	for i, j := range w.judges {
		after, ok := j.offsetError(time.Since(w.epoch))
		if d := after - before[i]; !ok || max(d, -d) > 1000 {
			t.Errorf("%s: offset error moves from %d to %d us in the silence", names[i], before[i], after)
		}
	}
	if n := a.count(nil); n != heard {
		t.Errorf("a took %d datagrams from a silent peer", n-heard)
	}
	b.silent.Store(false)
	eventually(t, "both hear each other again", func() bool { return a.count(nil) > heard+50 && w.right(0) && w.right(1) })
	w.close()
	if adoptedBy(a) != sessionOfB {
		t.Error("a pause has become a restart")
	}
	if n := w.intruders(); n != 0 {
		t.Errorf("%d intruders", n)
	}
}

// TestRestartedPeer: one peer dies and another is born at the same address with the
// same key, a clock that begins elsewhere, and no memory. The survivor must drop the
// old clock for the new one and find the new offset.
func TestRestartedPeer(t *testing.T) {
	t.Parallel()
	w := launch(t, config{jitter: 10 * time.Millisecond, loss: 1, skew: 50, rate: 100, seed: 4})
	w.synced(t)
	for life := range uint64(2) {
		i := int(life) // first A, then B
		dead := w.peers[i]
		dead.close()
		conn, err := loopback(addr(dead.conn))
		if err != nil {
			t.Fatal(err)
		}
		w.birth(i, conn, life+1)
		w.judges[i].remote.Store(&w.peers[1-i].clock)
		w.judges[1-i].remote.Store(&w.peers[i].clock)
		if w.right(1 - i) {
			t.Fatal("the new clock is not different; nothing is tested")
		}
		w.peers[i].start(w.config.rate)
		eventually(t, "both have found the new offset", func() bool { return w.right(0) && w.right(1) })
	}
	if n := w.intruders(); n != 0 {
		t.Errorf("%d intruders", n)
	}
}

// TestLive runs the two ends as two machines would, the dialer through the command
// line, and then again from another port: a restart that the listener must follow.
func TestLive(t *testing.T) {
	t.Parallel()
	m := &meter{}
	listener, err := newLive(config{listen: "127.0.0.1:0", key: testKey}, m)
	if err != nil {
		t.Fatal(err)
	}
	listener.start(100)
	defer listener.close()
	at := addr(listener.conn).String()
	var first netip.AddrPort
	for life := range 2 {
		last := func(o *output) (s liveState) {
			lines := strings.Split(o.String(), "\n")
			if len(lines) > 1 { // the one after the last newline may be incomplete
				if err := json.Unmarshal([]byte(lines[len(lines)-2]), &s); err != nil {
					t.Errorf("%v\n%s", err, o.String())
				}
			}
			return s
		}
		var state liveState
		code, stdout, stderr := runMain(t, func(stdout, _ *output) bool {
			state = last(stdout)
			return state.Synchronized && listener.Sync.IsSynchronized()
		}, "-dial", at, "-key", hex.EncodeToString(testKey[:]), "-rate", "100", "-json")
		if code != 0 {
			t.Fatalf("life %d: exit status %d\n%s%s", life, code, stdout, stderr)
		}
		// Both clocks are this machine's wall clock, read at different moments.
		if max(state.Offset, -state.Offset) > 1_000_000 || state.MinDelay > 1000 || state.Forged != 0 {
			t.Errorf("life %d: %+v", life, state)
		}
		if s := listener.state(m); !s.Synchronized || !strings.Contains(s.String(), "offset") {
			t.Errorf("life %d: listener %v", life, s)
		}
		switch now := *listener.remote.Load(); life {
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
	code, stdout, stderr := runMain(t, nil, "-listen", "127.0.0.1:0", "-key", hex.EncodeToString(testKey[:]), "-for", "50ms")
	if code != 1 || !strings.Contains(stdout, "listening at 127.0.0.1:") || !strings.Contains(stdout, "receive times are ") || !strings.Contains(stderr, "never synchronized") {
		t.Errorf("exit status %d\n%s%s", code, stdout, stderr)
	}
	busy, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	if code, _, stderr := runMain(t, nil, "-listen", addr(busy).String(), "-key", hex.EncodeToString(testKey[:])); code != 1 || stderr == "" {
		t.Errorf("a busy port: exit status %d, %s", code, stderr)
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
	w, err := newWorld(config{key: testKey, jitter: time.Millisecond, seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	w.relay.start() // for the counts
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
	forged[eventLen+8]++
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
	key := hex.EncodeToString(testKey[:])
	for _, c := range []struct {
		args string
		want string
	}{
		{"-rate 0", "-rate 0: must be above 0"},
		{"-rate -5", "-rate -5"},
		{"-rate NaN", "-rate NaN"},
		{"-rate 1e9", "at most 1000"},
		{"-rate x", "invalid value"},
		{"-for 0", "-for 0s: must be positive"},
		{"-for -1s", "must be positive"},
		{"-for 10", "invalid value"},
		{"-jitter -1ms", "-jitter -1ms"},
		{"-jitter 1h", "-jitter 1h"},
		{"-loss 101", "0 to 100 percent"},
		{"-loss -1", "0 to 100 percent"},
		{"-loss NaN", "0 to 100 percent"},
		{"-skew Inf", "-skew"},
		{"-skew NaN", "-skew"},
		{"-asymmetry 1h", "-asymmetry"},
		{"-seed -1", "invalid value"},
		{"-nonsense", "not defined"},
		{"what", `unexpected argument "what"`},
		{"-key " + key, "-key: needs -listen or -dial"},
		{"-listen :0 -dial :1 -key " + key, "one or the other"},
		{"-listen :0", "-key: must be 64 hex digits"},
		{"-dial :1", "-key: must be 64 hex digits"},
		{"-dial :1 -key abc", "-key: must be 64 hex digits"},
		{"-dial :1 -loss 2 -key " + key, "-loss: only for the demo"},
		{"-dial= -key " + key, "empty address"},
	} {
		code, stdout, stderr := runMain(t, nil, strings.Fields(c.args)...)
		if code != 2 || stdout != "" || !strings.Contains(stderr, c.want) || !strings.Contains(stderr, "usage: udp") {
			t.Errorf("%s: exit status %d, stdout %q, stderr\n%s\nwant 2 and %q with the usage", c.args, code, stdout, stderr, c.want)
		}
	}
	if code, _, stderr := runMain(t, nil, "-h"); code != 0 || !strings.Contains(stderr, "usage: udp") {
		t.Errorf("-h: exit status %d\n%s", code, stderr)
	}
	if code, _, stderr := runMain(t, nil, "-dial", "127.0.0.1:x", "-key", key); code != 1 || stderr == "" {
		t.Errorf("a bad port: exit status %d, %s", code, stderr)
	}
}

func TestClock(t *testing.T) {
	const hour = time.Hour
	for _, c := range []struct {
		in   clock
		at   time.Duration
		want uint64
	}{
		{clock{5, 0}, hour, 3_600_000_005},
		{clock{0, 50e-6}, hour, 3_600_180_000},
		{clock{0, -50e-6}, hour, 3_599_820_000},
		{clock{1<<64 - 1, 0}, time.Microsecond, 0}, // wraps
	} {
		if got := c.in.at(c.at); (time.Duration(got - c.want)).Abs() > 1 { // rounded down
			t.Errorf("%+v at %v: %d, want %d", c.in, c.at, got, c.want)
		}
	}
}

func TestSpread(t *testing.T) {
	errs := make([]int64, 0, 101)
	for i := range int64(101) {
		errs = append(errs, (i-100)*(i%2*2-1)) // 0 to 100 with changing signs
	}
	if got, want := spreadOf(errs), (spread{101, 50, 99, 100}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := spreadOf(nil); got != (spread{}) {
		t.Errorf("of nothing: %+v", got)
	}
}
