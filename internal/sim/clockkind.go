package sim

import (
	"fmt"
	"time"

	"timesync/internal/sim/simnet"
)

// ClockKind is a kind of clock that the ends of any world can have: it changes the clocks that
// the world has by itself.
type ClockKind struct {
	Name string
	// Change changes the clock of an end in the world of that seed, which lasts that long.
	Change func(spec *simnet.ClockSpec, seed uint64, side Side, lasting time.Duration)
}

// Crystal is the kind of a crystal that nobody steers: it changes nothing.
var Crystal = ClockKind{
	Name:   "crystal",
	Change: func(*simnet.ClockSpec, uint64, Side, time.Duration) {},
}

// ClockKinds are all that need no recording.
func ClockKinds() []ClockKind {
	return []ClockKind{
		Crystal,
		steered("steered", simnet.Steered),
		steered("steered-often", simnet.SteeredOften),
		steered("steered-at-start", simnet.SteeredAtStart),
		coarseA("coarse-1ms", ms),          // a browser
		coarseA("coarse-15.6ms", 15600*us), // Windows, unless a program asks for better
	}
}

// steered lets a time daemon correct the clocks of both ends.
func steered(name string, how simnet.Steering) ClockKind {
	change := func(s *simnet.ClockSpec, seed uint64, side Side, lasting time.Duration) {
		r := simnet.Rand(seed, "steering "+side.name())
		s.Events = append(s.Events, how.Events(r, lasting)...)
	}
	return ClockKind{Name: name, Change: change}
}

// coarseA lets A's clock advance in steps.
func coarseA(name string, step time.Duration) ClockKind {
	return ClockKind{name, func(s *simnet.ClockSpec, seed uint64, side Side, _ time.Duration) {
		if side == A {
			phase := simnet.Dice{R: simnet.Rand(seed, "coarse")}.Span(0, step)
			s.Coarse = simnet.Coarse{Step: step, Phase: phase.Truncate(time.Microsecond)}
		}
	}}
}

// recordedFrom is where a recording begins in a world. Before that, chronyd may have stepped.
const recordedFrom = 900 * time.Second

// RecordedClock lets both ends have recorded clocks instead of crystals; a phone's is that of A,
// and B keeps its own. Recordings that are longer than twice recordedFrom begin there.
func RecordedClock(pair simnet.ClockPair) ClockKind {
	return ClockKind{pair.Name, func(s *simnet.ClockSpec, _ uint64, side Side, _ time.Duration) {
		trace := [2]*simnet.ClockTrace{pair.A, pair.B}[side]
		if trace == nil {
			return
		}
		s.SkewPPM = 0
		s.SinePPM = 0
		s.WanderPPM = 0
		s.Recorded = fromRecording(trace)
	}}
}

// fromRecording returns what of a recording is played.
func fromRecording(trace *simnet.ClockTrace) *simnet.ClockTrace {
	if trace.Duration() > 2*recordedFrom {
		return trace.From(recordedFrom)
	}
	return trace
}

// FindClockKind returns the kind of that name, among those that need no recording and those that
// are recorded in a folder; "" is no folder.
func FindClockKind(name, folder string) (ClockKind, error) {
	kinds := ClockKinds()
	pairs, err := simnet.ReadClockPairs(folder)
	if err != nil {
		return ClockKind{}, err
	}
	for _, p := range pairs {
		kinds = append(kinds, RecordedClock(p))
	}
	names := ""
	for _, k := range kinds {
		if k.Name == name {
			return k, nil
		}
		names += " " + k.Name
	}
	return ClockKind{}, fmt.Errorf("there is no kind of clock %q but%s", name, names)
}

// With returns the scenario with clocks of a kind.
func (c Scenario) With(kind ClockKind) Scenario {
	for side, clock := range [2]*func(seed uint64) simnet.ClockSpec{&c.A, &c.B} {
		was := *clock
		*clock = func(seed uint64) simnet.ClockSpec {
			spec := was(seed)
			kind.Change(&spec, seed, Side(side), c.Duration)
			return spec
		}
	}
	return c
}

// With changes the clocks to those of a kind, and returns the world.
func (d *Drawn) With(kind ClockKind) *Drawn {
	for side := range d.Clocks {
		spec := &d.Clocks[side]
		own := len(spec.Events)
		kind.Change(spec, d.Seed, Side(side), d.Until)
		for _, e := range spec.Events[own:] {
			d.mark(OfClocks, e.At, e.At+e.For)
			d.Happens(e.At, "clock", "of %c is corrected by %+.1f ppm for %v",
				'A'+rune(side), e.PPM, e.For)
		}
	}
	return d
}
