package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"timesync/examples/internal/lab"
	"timesync/internal/stat"
)

var hostsFor = flag.Duration("hosts", 0, "for how long TestTwoHosts runs, as root; 0: not at all")

const (
	hostAddress = "10.78.0.1"
	hostDelay   = 10 * time.Millisecond // each way
	hostJitter  = 2 * time.Millisecond
	hostSettled = 3.0 // s: the start does not count
)

// ppm are how much faster the clocks of the hosts run: the one that listens, and that dials.
var ppm = [2]float64{-30, 50}

// TestTwoHosts runs the program between two hosts in network namespaces, 10 ms and up to 2 ms of jitter
// apart, whose clocks run 80 ppm apart: each knows the other's within its error bound.
func TestTwoHosts(t *testing.T) {
	if *hostsFor == 0 {
		t.Skip("with -hosts 10s")
	}
	program := os.Getenv("UDP_ALONE")
	if program == "" {
		runAlone(t)
		return
	}
	lab.Spaces("listens", "dials")
	w := lab.Join(lab.At("listens", "eth0", hostAddress+"/24"), lab.At("dials", "eth0", "10.78.0.2/24"), hostDelay)
	w.Jitter.Store(int64(hostJitter))
	said, err := runHosts(program, [2]string{"listens", "dials"})
	if err != nil {
		t.Fatal(err)
	}
	var start [2]float64 // us; both clocks began as that of this machine
	for i, lines := range said {
		start[i] = float64(lines[0].Local) - lines[0].Seconds*(1e6+ppm[i])
	}
	if err := errors.Join(judgeHost(t, 0, said[0], start), judgeHost(t, 1, said[1], start)); err != nil {
		t.Error(err)
	}
}

// runAlone runs the test again where its namespaces go when it ends, on a program that it builds.
func runAlone(t *testing.T) {
	if out, err := lab.Alone("ip", "netns", "add", "try").CombinedOutput(); err != nil {
		fmt.Printf("NOT TESTED: udp between two hosts: no network namespaces here: %v: %s\n", err, out)
		return
	}
	program := t.TempDir() + "/udp"
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	again := lab.Alone(os.Args[0], "-test.run", "^TestTwoHosts$", "-test.v", "-hosts", hostsFor.String())
	again.Env = append(os.Environ(), "UDP_ALONE="+program)
	out, err := again.CombinedOutput()
	if fmt.Printf("%s", out); err != nil {
		t.Error(err)
	}
}

// runHosts runs both ends and returns what they said.
func runHosts(program string, spaces [2]string) (said [2][]state, err error) {
	var both sync.WaitGroup
	var failed [2]error
	for i, end := range []string{"-listen", "-dial"} {
		skew := fmt.Sprint(ppm[i])
		c := lab.Command(spaces[i], program, end, hostAddress+":9000", "-key", lab.Key, "-json", "-for", hostsFor.String(), "-skew", skew)
		c.Stderr = os.Stderr
		both.Go(func() {
			out, err := c.Output()
			for text := range bytes.Lines(out) {
				var s state
				err = cmp.Or(err, json.Unmarshal(text, &s))
				said[i] = append(said[i], s)
			}
			failed[i] = err
		})
	}
	both.Wait()
	if len(said[0]) == 0 || len(said[1]) == 0 {
		return said, errors.New("an end said nothing")
	}
	return said, errors.Join(failed[:]...)
}

// judgeHost prints how far off one end was.
func judgeHost(t *testing.T, i int, lines []state, start [2]float64) error {
	name := [...]string{"the listener", "the dialer"}[i]
	var errs []float64
	beyond, last := 0, lines[len(lines)-1]
	for _, s := range lines {
		if s.ErrorBound == 0 || s.Seconds < hostSettled {
			continue
		}
		// This machine's clock.
		at := start[i] + (float64(s.Local)-start[i])/(1+ppm[i]/1e6)
		truth := at + (at-start[1-i])*ppm[1-i]/1e6 - float64(s.Local)
		e := math.Abs(float64(s.OffsetUsec) - truth)
		errs = append(errs, e)
		if e > float64(s.ErrorBound.Microseconds()) {
			beyond++
		}
	}
	if len(errs) == 0 {
		return fmt.Errorf("%s was never synchronized after %v s", name, hostSettled)
	}
	t.Logf("%s, clock %+g ppm: error p50 %.0f us, most %.0f us of %d answers; bound %.2f ms, %d beyond it; skew %+.1f ppm, truly %+g",
		name, ppm[i], stat.OrNaN(errs, 0.5), stat.OrNaN(errs, 1), len(errs), last.ErrorBound.Seconds()*1e3, beyond, last.Skew, ppm[1-i]-ppm[i])
	if beyond > 0 {
		return fmt.Errorf("%s: %d answers are beyond the error bound", name, beyond)
	}
	return nil
}
