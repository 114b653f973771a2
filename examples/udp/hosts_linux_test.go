package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"sync"
	"testing"
	"time"

	"timesync/internal/netns"
)

var hostsFor = flag.Duration("hosts", 0, "for how long TestTwoHosts runs, as root; 0: not at all")

const (
	hostAddress = "10.78.0.1"
	hostDelay   = 10 * time.Millisecond // each way
	hostJitter  = 2 * time.Millisecond
	hostSettled = 3.0  // s: the start does not count
	ppm         = 80.0 // how much faster the clock of the host that dials runs
)

// TestTwoHosts runs the program between two hosts in network namespaces, 10 ms and up to 2 ms of jitter
// apart, whose clocks run 80 ppm apart: each knows the other's within its error bound.
func TestTwoHosts(t *testing.T) {
	if *hostsFor == 0 {
		t.Skip("with -hosts 10s")
	}
	if os.Getenv("UDP_ALONE") == "" {
		runAlone(t)
		return
	}
	spaces := [2]string{"listens", "dials"}
	netns.Spaces(spaces[:]...)
	w := netns.Join(netns.At("listens", "eth0", hostAddress+"/24"), netns.At("dials", "eth0", "10.78.0.2/24"), hostDelay)
	w.Jitter.Store(int64(hostJitter))
	var both sync.WaitGroup
	var said [2][]state
	for i, end := range []string{"-listen", "-dial"} {
		skew := fmt.Sprint(ppm * float64(i))
		c := netns.Command(spaces[i], os.Args[0], end, hostAddress+":9000", "-key", netns.Key, "-json", "-for", hostsFor.String(), "-skew", skew)
		c.Env, c.Stderr = append(os.Environ(), "UDP_TEST_MAIN=1"), os.Stderr
		both.Go(func() {
			out, err := c.Output()
			for text := range bytes.Lines(out) {
				var s state
				err = cmp.Or(err, json.Unmarshal(text, &s))
				said[i] = append(said[i], s)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	judgeHosts(t, said)
}

// runAlone runs the test again where its namespaces go when it ends.
func runAlone(t *testing.T) {
	if out, err := netns.Alone("ip", "netns", "add", "try").CombinedOutput(); err != nil {
		fmt.Printf("NOT TESTED: udp between two hosts: no network namespaces here: %v: %s\n", err, out)
		return
	}
	again := netns.Alone(os.Args[0], "-test.run", "^TestTwoHosts$", "-test.v", "-hosts", hostsFor.String())
	again.Env = append(os.Environ(), "UDP_ALONE=1")
	out, err := again.CombinedOutput()
	if fmt.Printf("%s", out); err != nil {
		t.Error(err)
	}
}

// judgeHosts asks how far off each end was.
func judgeHosts(t *testing.T, said [2][]state) {
	if len(said[1]) == 0 {
		t.Fatal("the end that dials said nothing")
	}
	first := said[1][0]
	start := float64(first.Local) - first.Seconds*(1e6+ppm) // us; its clock began as that of this machine
	for i, lines := range said {
		judged := 0
		for _, s := range lines {
			if s.ErrorBound == 0 || s.Seconds < hostSettled {
				continue
			}
			judged++
			truth := (float64(s.Local) - start) * ppm / 1e6 // the peer's clock, which dials, minus this one
			if i == 1 {
				truth /= -1 - ppm/1e6
			}
			off := math.Abs(float64(s.OffsetUsec) - truth)
			t.Logf("end %d: %.0f us off; %v", i, off, s)
			if off > float64(s.ErrorBound.Microseconds()) {
				t.Error("that is beyond the error bound")
			}
		}
		if judged == 0 {
			t.Errorf("end %d was never synchronized after %v s", i, hostSettled)
		}
	}
}
