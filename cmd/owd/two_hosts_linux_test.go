package main

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
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
	// seldomError is the same for an end that sends five times more seldom than by default: the
	// fastest of its few datagrams are less fast.
	seldomError = 2 * hostError
	// hostSettling is how long the skew takes to be known well enough for that.
	hostSettling = 20 * time.Second
	// startError is how far off what contains the start may be: the least delay, and the mean of a
	// run that is shorter than twice hostSettling. Few datagrams have come by then, and 80 ppm are
	// not known yet.
	startError = 300 * time.Microsecond
	// queueError is the same where datagrams queue from the start on: 10 s later the skew may still
	// be unknown, and makes 80 us a second.
	queueError = startError + 800*time.Microsecond
	// stampError is how far a receive time may be from the moment at which the wire let the
	// datagram go: the processes' clocks are compared by way of the wall clock, to microseconds.
	stampError = 20 * time.Microsecond
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
	meanError := startError
	some := paths[:1] // a short run is one of .ci/run, which has little time
	if isLong() {
		meanError = hostError
		some = paths
	}
	for i, delays := range some {
		t.Run(fmt.Sprint(delays), func(t *testing.T) {
			for way, delay := range delays {
				wire.Delay[way].Store(int64(delay))
			}
			// Datagrams of the path before may still be under way to its ports.
			testHosts(t, wire, uint16(9000+3*i), meanError)
		})
	}
	t.Run("kernel queue", func(t *testing.T) {
		flood(t)
		testHosts(t, wire, uint16(9000+3*len(paths)), queueError)
	})
}

// isLong reports whether most of a run comes after the skew is known.
func isLong() bool { return *hostsFor >= 2*hostSettling }

// flood puts a queue of the kernel, of up to 100 ms at 10 Mbit/s, before the wire to the listener,
// and fills it to 90 % in bursts, as strangers' packets do.
func flood(t *testing.T) {
	// Not by netns.Run, which ends the program, and with it what the paths before have shown.
	queue := netns.Command("calls", "tc", "qdisc", "add", "dev", "eth0", "root",
		"tbf", "rate", "10mbit", "burst", "15kb", "limit", "125kb")
	if out, err := queue.CombinedOutput(); err != nil {
		fmt.Printf("NOT TESTED: owd behind a kernel queue: no tbf here: %v: %s\n", err, out)
		t.Skip("no tbf here")
	}
	c := netns.Command("calls", os.Args[0])
	c.Env = append(os.Environ(), floodVariable+"="+hostAddress+":9")
	testkit.Must(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
}

const floodVariable = "OWD_TEST_FLOOD"

// init lets flood run this program in another namespace.
func init() {
	if address := os.Getenv(floodVariable); address != "" {
		fmt.Fprintln(os.Stderr, sendFlood(address))
		os.Exit(1)
	}
}

// sendFlood sends 9 Mbit/s to an address: bursts of 1 to 20 packets of 1,200 bytes, at random.
func sendFlood(address string) error {
	const (
		size = 1200             // bytes
		rate = 9e6 / 8 / size   // packets a second
		most = 20               // packets of a burst
		mean = (1 + most) / 2.0 // of them
	)
	conn, err := net.Dial("udp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	packet := make([]byte, size-28) // without the headers of IP and UDP
	next := time.Now()
	for {
		time.Sleep(time.Until(next))
		for range 1 + rand.IntN(most) {
			_, _ = conn.Write(packet) // nobody listens, and says so
		}
		next = next.Add(time.Duration(rand.ExpFloat64() * mean / rate * float64(time.Second)))
	}
}

// testHosts has three pairs at once: one with the default interval, whose table docs/OWD.md shows,
// one that sends more often, and one that seldom sends. The figures of all three must be right.
func testHosts(t *testing.T, wire *netns.Wire, port uint16, meanError time.Duration) {
	passage := watch(wire)
	usual := newPair(t, port)
	often := newPair(t, port+1, "-json", "-interval", "10ms")
	seldom := newPair(t, port+2, "-json", "-interval", "100ms")
	pairs := []*pair{often, usual, seldom}
	for _, p := range pairs {
		p.listener.begin(t)
	}
	for _, p := range pairs {
		p.caller.begin(t)
	}
	for _, p := range pairs {
		testkit.Must(t, p.caller.Wait())
		_ = p.listener.Process.Signal(os.Interrupt)
		_ = p.listener.Wait()
		p.to.read(t, passage)
		p.from.read(t, passage)
		p.to.judgeBounds(t)
		p.from.judgeBounds(t)
	}
	t.Logf("docs/OWD.md shows this:\n%s", usual.caller.out.String())
	lines := objects(t, often.caller.out.String())
	summary := lines[len(lines)-1]
	if len(lines) < 4 || summary.SendDelay == nil || summary.ReceiveDelay == nil {
		t.Fatalf("%d lines, the last one %+v", len(lines), summary)
	}
	often.noteUnknowable()
	to, toUnknowable := often.to.judgeSummary(t, *summary.SendDelay, meanError)
	from, fromUnknowable := often.from.judgeSummary(t, *summary.ReceiveDelay, meanError)
	// What is unknowable becomes less, and the two ways' datagrams did not come at the same times.
	judgeSum(t, to, from, meanError+(toUnknowable-fromUnknowable).Abs())
	if !isLong() {
		return
	}
	t.Logf("after %v, every 10 ms:", hostSettling)
	often.judgeSettled(t, hostError)
	t.Logf("after %v, every %v, the default:", hostSettling, defaultInterval)
	usual.judgeSettled(t, hostError)
	t.Logf("after %v, every 100 ms:", hostSettling)
	seldom.judgeSettled(t, seldomError)
}

// judgeSettled asks that half of the delays are right once the clocks have settled. Beside what is
// unknowable, they may be wrong by that much.
func (p *pair) judgeSettled(t *testing.T, wrong time.Duration) {
	t.Helper()
	p.settle(t)
	limit := p.unknowable(t) + wrong
	to := p.to.median(t)
	from := p.from.median(t)
	if max(to.Abs(), from.Abs()) > limit {
		t.Errorf("half of the delays are off by %v to the peer and %v from it, limit %v",
			to, from, limit)
	}
	judgeSum(t, to, from, wrong)
}

// judgeSum asks that what is wrong to the peer is wrong from it the other way, since an offset that
// is off makes one way longer and the other one shorter.
func judgeSum(t *testing.T, to, from, limit time.Duration) {
	t.Helper()
	t.Logf("both ways together are off by %v", to+from)
	if sum := to + from; sum.Abs() > limit {
		t.Errorf("both ways together are off by %v, limit %v", sum, limit)
	}
}

// pair is a caller and its listener.
type pair struct {
	listener, caller *host
	to, from         trace
}

// newPair prepares one whose listener is at a port.
func newPair(t *testing.T, port uint16, flags ...string) *pair {
	at := fmt.Sprintf("%s:%d", hostAddress, port)
	flags = append(flags, "-for", hostsFor.String(), at)
	p := &pair{
		listener: newHost(t, "listens", 0, "-listen", at),
		caller:   newHost(t, "calls", ppm, flags...),
	}
	p.to = trace{port: port, way: toListener, sender: p.caller, receiver: p.listener}
	p.from = trace{port: port, way: toCaller, sender: p.listener, receiver: p.caller}
	return p
}

// settle drops what came before the clocks had settled.
func (p *pair) settle(t *testing.T) {
	t.Helper()
	p.to.drop(t, hostSettling)
	p.from.drop(t, hostSettling)
}

// noteUnknowable notes with each datagram what was unknowable when it came.
func (p *pair) noteUnknowable() {
	var arrivals []*traced
	for _, tr := range []*trace{&p.to, &p.from} {
		for i := range tr.all {
			arrivals = append(arrivals, &tr.all[i])
		}
	}
	slices.SortStableFunc(arrivals, func(a, b *traced) int { return a.received.Compare(b.received) })
	fastest := [2]time.Duration{
		toCaller:   p.from.all[0].truth,
		toListener: p.to.all[0].truth,
	}
	for _, d := range arrivals {
		fastest[d.way] = min(fastest[d.way], d.truth)
		d.unknowable = (fastest[toCaller] - fastest[toListener]).Abs() / 2
	}
}

// unknowable returns what was unknowable in the end.
func (p *pair) unknowable(t *testing.T) time.Duration {
	t.Helper()
	to := p.to.least()
	from := p.from.least()
	half := (to - from).Abs() / 2
	t.Logf("the fastest take %v to the peer and %v from it; half the difference is %v",
		to, from, half)
	return half
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
