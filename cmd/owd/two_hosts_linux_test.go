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

var hostsFor = flag.Duration("hosts", 0, "for how long TestTwoHosts runs, as root; 0: not at all")

const (
	hostAddress = "10.78.0.1"
	hostJitter  = 2 * time.Millisecond
	ppm         = 80.0 // how much faster the clock of the host that calls runs
	// overhead is what two processes, four hand-overs of packets and a busy machine add to a mean.
	overhead = time.Millisecond
)

// The ways differ by 20 ms: nobody can measure that, so delays are off by half of it.
var hostDelay = [2]time.Duration{10 * time.Millisecond, 30 * time.Millisecond} // from the listener, and to it

// TestTwoHosts runs the program between two hosts in network namespaces whose clocks run 80 ppm apart: each way is
// right to the bound that is printed beside it, and within half the difference of the ways.
func TestTwoHosts(t *testing.T) {
	if *hostsFor == 0 {
		t.Skip("with -hosts 10s")
	}
	if os.Getenv("OWD_ALONE") == "" {
		runAlone(t)
		return
	}
	spaces := [2]string{"listens", "calls"}
	netns.Spaces(spaces[:]...)
	w := netns.Join(netns.At("listens", "eth0", hostAddress+"/24"), netns.At("calls", "eth0", "10.78.0.2/24"), 0)
	for way, delay := range hostDelay {
		w.Delay[way].Store(int64(delay))
	}
	w.Jitter.Store(int64(hostJitter))
	at := hostAddress + ":9000"
	caller := []string{"-for", hostsFor.String(), "-skew", fmt.Sprint(ppm), at}
	listens := netns.Command(spaces[0], os.Args[0], "-listen", at)
	calls := netns.Command(spaces[1], os.Args[0], append([]string{"-json"}, caller...)...)
	shows := netns.Command(spaces[1], os.Args[0], caller...) // the same for people, at the same time
	for _, c := range []*exec.Cmd{listens, calls, shows} {
		c.Env = append(os.Environ(), "OWD_TEST_MAIN=1", program.KeyVariable+"="+netns.Key)
		c.Stderr = os.Stderr
	}
	var table bytes.Buffer
	shows.Stdout = &table
	testkit.Must(t, listens.Start())
	testkit.Must(t, shows.Start())
	out, err := calls.Output()
	testkit.Must(t, err)
	testkit.Must(t, shows.Wait())
	t.Logf("docs/OWD.md shows this:\n%s", table.String())
	_ = listens.Process.Signal(os.Interrupt)
	_ = listens.Wait()
	all := objects(t, string(out))
	if len(all) < 4 {
		t.Fatalf("%d lines", len(all))
	}
	for _, l := range all {
		if l.Kind != "summary" {
			continue
		}
		if l.SendDelay == nil || l.ReceiveDelay == nil {
			t.Fatalf("%+v", l)
		}
		bound := time.Duration(l.ErrorBound)
		for name, way := range map[string]struct {
			got   *delays
			truth time.Duration
		}{"to": {l.SendDelay, hostDelay[1]}, "from": {l.ReceiveDelay, hostDelay[0]}} {
			off := time.Duration(way.got.Min) - way.truth
			t.Logf("%s: %v at least, %v in truth, bound %v", name, time.Duration(way.got.Min), way.truth, bound)
			if off.Abs() > bound || off.Abs() > (hostDelay[1]-hostDelay[0])/2+overhead {
				t.Errorf("%s: off by %v, bound %v", name, off, bound)
			}
		}
		sum := time.Duration(l.SendDelay.Min+l.ReceiveDelay.Min) - hostDelay[0] - hostDelay[1]
		if sum < -overhead || sum > overhead {
			t.Errorf("both ways together are off by %v", sum)
		}
	}
}

// runAlone runs the test again where its namespaces go when it ends.
func runAlone(t *testing.T) {
	if out, err := netns.Alone("ip", "netns", "add", "try").CombinedOutput(); err != nil {
		fmt.Printf("NOT TESTED: owd between two hosts: no network namespaces here: %v: %s\n", err, out)
		return
	}
	again := netns.Alone(os.Args[0], "-test.run", "^TestTwoHosts$", "-test.v", "-hosts", hostsFor.String())
	again.Env = append(os.Environ(), "OWD_ALONE=1")
	out, err := again.CombinedOutput()
	if fmt.Printf("%s", out); err != nil {
		t.Error(err)
	}
}
