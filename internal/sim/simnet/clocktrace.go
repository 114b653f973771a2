package simnet

import (
	"fmt"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

// ClockTrace is what a real clock showed minus true time, recorded about once a second.
type ClockTrace struct {
	times  []float64 // seconds of true time, rising
	phases []float64 // microseconds
	begin  float64   // of the times: what is true time 0 of the world
}

// ReadClockTrace reads a recorded clock: a gzip CSV file with the columns t_s and phase_us.
func ReadClockTrace(path string) (*ClockTrace, error) {
	c := &ClockTrace{}
	err := eachRow(path, func(row string) error {
		var at, phase float64
		if _, err := fmt.Sscan(row, &at, &phase); err != nil {
			return err
		}
		if n := len(c.times); n > 0 && at <= c.times[n-1] {
			return fmt.Errorf("the time does not rise")
		}
		c.times, c.phases = append(c.times, at), append(c.phases, phase)
		return nil
	})
	if err == nil && len(c.times) < 2 {
		err = fmt.Errorf("%s: fewer than two rows", path)
	}
	return c, err
}

// From returns the rest of the recording, whose time begin is true time 0 of a world.
func (c *ClockTrace) From(begin time.Duration) *ClockTrace {
	rest := *c
	rest.begin += begin.Seconds()
	return &rest
}

// Duration is how long the recording lasts.
func (c *ClockTrace) Duration() time.Duration {
	return time.Duration((c.times[len(c.times)-1] - c.begin) * float64(time.Second))
}

// Phase returns what the clock showed minus true time, in microseconds, on straight lines between
// the rows. Before and after the recording the clock is right but for a constant.
func (c *ClockTrace) Phase(t time.Duration) float64 {
	at := c.begin + t.Seconds()
	next := sort.SearchFloat64s(c.times, at)
	if next == 0 {
		return c.phases[0]
	}
	if next == len(c.times) {
		return c.phases[next-1]
	}
	part := (at - c.times[next-1]) / (c.times[next] - c.times[next-1])
	return c.phases[next-1] + part*(c.phases[next]-c.phases[next-1])
}

// ClockPair is the recorded clocks of two hosts in one experiment. B is nil where only one clock
// was recorded.
type ClockPair struct {
	Name string
	A, B *ClockTrace
}

// ReadClockPairs reads a folder of recorded clocks, EXPERIMENT-HOST.csv.gz each. Two hosts of one
// experiment are a pair. A phone (phone-NAME.csv.gz) stands alone. Of the folder "" there are none.
func ReadClockPairs(folder string) (pairs []ClockPair, err error) {
	if folder == "" {
		return nil, nil
	}
	paths, err := filepath.Glob(filepath.Join(folder, "*.csv.gz"))
	if err == nil && len(paths) == 0 {
		err = fmt.Errorf("%s: no *.csv.gz there", folder)
	}
	if err != nil {
		return nil, err
	}
	for _, path := range paths { // in the order of their names
		clock, err := ReadClockTrace(path)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(filepath.Base(path), ".csv.gz")
		experiment, _, _ := strings.Cut(name, "-")
		if n := len(pairs); n > 0 && pairs[n-1].Name == experiment && pairs[n-1].B == nil {
			pairs[n-1].B = clock
			continue
		}
		if experiment == "phone" {
			experiment = name
		}
		pairs = append(pairs, ClockPair{Name: experiment, A: clock})
	}
	return pairs, nil
}
