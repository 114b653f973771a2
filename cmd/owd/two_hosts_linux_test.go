package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"timesync/internal/netns"
	"timesync/internal/program"
	"timesync/internal/testkit"
)

var hostsFor = flag.Duration("hosts", 0,
	"for how long TestTwoHosts runs on each path, as root, up to 2m; 0: not at all")

const (
	hostAddress = "10.78.0.1"
	hostJitter  = 2 * time.Millisecond
	ppm         = 80.0 // how much faster the clock of the host that calls runs

	// hostError is how far off delays may be, beside half the difference of the ways.
	hostError = 100 * time.Microsecond
	// hostSettling is how long the skew takes to be known well enough for that. Within a shorter
	// run means may be off by twice as much.
	hostSettling = 20 * time.Second
	// startError is by how much more the least delay may be off, which may be one of the first
	// seconds: few datagrams have come, and 80 ppm are not known yet.
	startError = 500 * time.Microsecond
	// stampError is how far a receive time may be from the moment at which the wire let the
	// datagram go: the processes' clocks are compared by way of the wall clock, to microseconds.
	stampError = 50 * time.Microsecond
)

// paths are the delays from the listener, and to it. On the first one all that owd says is off by
// 10 ms, which nobody can know.
var paths = [][2]time.Duration{
	{10 * time.Millisecond, 30 * time.Millisecond},
	{20 * time.Millisecond, 20 * time.Millisecond},
}

// TestTwoHosts runs the program between two hosts in network namespaces whose clocks run 80 ppm
// apart. The wire between them notes when it lets each packet go, so true delays are known however
// late its timers are. What owd says of the same datagrams is right to 100 us and half the
// difference of the ways, and to the bound that it prints.
func TestTwoHosts(t *testing.T) {
	if *hostsFor == 0 {
		t.Skip("with -hosts 10s")
	}
	if *hostsFor > 2*time.Minute {
		t.Fatal("stamps of 24 bits repeat after 134 s, and tell the datagrams apart")
	}
	if os.Getenv("OWD_ALONE") == "" {
		runAlone(t)
		return
	}
	netns.Spaces("listens", "calls")
	listens := netns.At("listens", "eth0", hostAddress+"/24")
	calls := netns.At("calls", "eth0", "10.78.0.2/24")
	wire := netns.Join(listens, calls, 0)
	wire.Jitter.Store(int64(hostJitter))
	for i, delays := range paths {
		t.Run(fmt.Sprint(delays), func(t *testing.T) {
			for way, delay := range delays {
				wire.Delay[way].Store(int64(delay))
			}
			// Datagrams of the path before may still be under way to its ports.
			testHosts(t, wire, uint16(9000+2*i))
		})
	}
}

// testHosts has two conversations at once: the one at the port is judged, and the one at the next
// port prints what docs/OWD.md shows.
func testHosts(t *testing.T, wire *netns.Wire, port uint16) {
	measured := fmt.Sprintf("%s:%d", hostAddress, port)
	shown := fmt.Sprintf("%s:%d", hostAddress, port+1)
	passages := watch(wire, port)
	listener := newHost(t, "listens", 0, "-listen", measured)
	caller := newHost(t, "calls", ppm, "-json", "-interval", "10ms", measured)
	other := newHost(t, "listens", 0, "-listen", shown)
	people := newHost(t, "calls", ppm, shown)
	for _, h := range []*host{listener, other, caller, people} {
		h.begin(t)
	}
	testkit.Must(t, caller.Wait())
	testkit.Must(t, people.Wait())
	for _, h := range []*host{listener, other} {
		_ = h.Process.Signal(os.Interrupt)
		_ = h.Wait()
	}
	t.Logf("docs/OWD.md shows this:\n%s", people.out.String())
	lines := objects(t, caller.out.String())
	summary := lines[len(lines)-1]
	if len(lines) < 4 || summary.SendDelay == nil || summary.ReceiveDelay == nil {
		t.Fatalf("%d lines, the last one %+v", len(lines), summary)
	}
	to := trace{name: "to", way: 1, sender: caller, receiver: listener}
	from := trace{name: "from", way: 0, sender: listener, receiver: caller}
	to.read(t, passages(), int(summary.SendDelay.N))
	from.read(t, passages(), int(summary.ReceiveDelay.N))
	limit := unknowable(t, to, from) + hostError
	if *hostsFor <= hostSettling {
		limit += hostError
	}
	to.judgeSummary(t, *summary.SendDelay, limit)
	from.judgeSummary(t, *summary.ReceiveDelay, limit)
	bound := time.Duration(summary.ErrorBound)
	to.judgeBound(t, bound)
	from.judgeBound(t, bound)
	if *hostsFor > hostSettling {
		to, from = to.after(hostSettling), from.after(hostSettling)
		limit = unknowable(t, to, from) + hostError
		to.judgeSettled(t, limit)
		from.judgeSettled(t, limit)
	}
}

// host is a run of the program, with a clock that is known: it began at the wall clock when the
// program started.
type host struct {
	*exec.Cmd
	out      bytes.Buffer
	clock    program.Clock
	recorded string // folder
}

// newHost prepares a run in a namespace.
func newHost(t *testing.T, space string, skew float64, args ...string) *host {
	h := &host{recorded: t.TempDir(), clock: program.Clock{PPM: skew}}
	flags := []string{"-skew", fmt.Sprint(skew), "-record", h.recorded}
	if args[0] != "-listen" {
		flags = append(flags, "-for", hostsFor.String())
	}
	h.Cmd = netns.Command(space, os.Args[0], append(flags, args...)...)
	h.Env = append(os.Environ(), "OWD_TEST_MAIN=1", program.KeyVariable+"="+netns.Key)
	h.Stdout = &h.out
	h.Stderr = os.Stderr
	return h
}

// begin starts it.
func (h *host) begin(t *testing.T) {
	t.Helper()
	h.clock.Start = uint64(time.Now().UnixMicro())
	testkit.Must(t, h.Start())
}

// wall returns the wall clock when the host's clock showed that.
func (h *host) wall(localUsec uint64) time.Time {
	return time.UnixMicro(int64(h.clock.Start) + h.clock.True(localUsec))
}

// reads is the inverse of wall.
func (h *host) reads(wall time.Time) uint64 {
	return h.clock.At(wall.UnixMicro() - int64(h.clock.Start))
}

// runAlone runs the test again where its namespaces go when it ends.
func runAlone(t *testing.T) {
	out, err := netns.Alone("ip", "netns", "add", "try").CombinedOutput()
	if err != nil {
		fmt.Printf("NOT TESTED: owd between two hosts: no network namespaces here: %v: %s\n",
			err, out)
		return
	}
	again := netns.Alone(os.Args[0],
		"-test.run", "^TestTwoHosts$", "-test.v", "-hosts", hostsFor.String())
	again.Env = append(os.Environ(), "OWD_ALONE=1")
	out, err = again.CombinedOutput()
	fmt.Printf("%s", out)
	if err != nil {
		t.Error(err)
	}
}
