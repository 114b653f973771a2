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
	err := lab.Measure("udp between two hosts", "udp", nil, func(l *lab.Lab, program string) error {
		spaces := [2]string{l.Space("listens"), l.Space("dials")}
		w := l.Wire(lab.At(spaces[0], "eth0", hostAddress+"/24"), lab.At(spaces[1], "eth0", "10.78.0.2/24"), hostDelay)
		w.Jitter.Store(int64(hostJitter))
		if err := l.Built(); err != nil {
			return err
		}
		said, err := runHosts(program, spaces)
		if err != nil {
			return err
		}
		return errors.Join(judgeHost(t, 0, said), judgeHost(t, 1, said))
	})
	if err != nil {
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

// judgeHost prints how far off one end was. Both clocks began as that of this machine, in us.
func judgeHost(t *testing.T, i int, said [2][]state) error {
	name := [...]string{"the listener", "the dialer"}[i]
	start := func(i int) float64 { return float64(said[i][0].Local) - said[i][0].Seconds*(1e6+ppm[i]) }
	var errs []float64
	for _, s := range said[i] {
		if s.ErrorBound == 0 || s.Seconds < hostSettled {
			continue
		}
		machine := start(i) + (float64(s.Local)-start(i))/(1+ppm[i]/1e6)
		truth := machine + (machine-start(1-i))*ppm[1-i]/1e6 - float64(s.Local)
		e := math.Abs(float64(s.OffsetUsec) - truth)
		errs = append(errs, e)
		if bound := s.ErrorBound.Microseconds(); e > float64(bound) {
			t.Errorf("%s: an error of %.0f us is beyond the bound, %d us", name, e, bound)
		}
	}
	if len(errs) == 0 {
		return fmt.Errorf("%s was never synchronized after %v s", name, hostSettled)
	}
	last := said[i][len(said[i])-1]
	t.Logf("%s, clock %+g ppm: error p50 %.0f us, most %.0f us of %d answers; bound %v; skew %+.1f ppm, truly %+g",
		name, ppm[i], stat.OrNaN(errs, 0.5), stat.OrNaN(errs, 1), len(errs), last.ErrorBound, last.Skew, ppm[1-i]-ppm[i])
	return nil
}
