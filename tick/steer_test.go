// How clocks follow a remote clock that jitters, steps, drifts or is lost.

package tick

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// all returns what all three clocks do alike.
func all(d time.Duration) [3]time.Duration { return [3]time.Duration{d, d, d} }

// Feed-forward: with the skew known, ten minutes at 100 ppm need no slewing, and a minute without
// news costs nothing. With HardOnly the clocks are exactly the local clock, whatever the skew.
func TestSkew(t *testing.T) {
	for _, tt := range []struct {
		ppm, runs float64 // the rate of the server's clock, and of the client's game time
		hardOnly  bool
		off       time.Duration // at most
	}{{100, 100, false, ms(1)}, {-100, -100, false, ms(1)}, {100, 0, true, 0}} {
		l, remote, r := newClient(ClientConfig{HardOnly: tt.hardOnly})
		start := remote.offset
		remote.ppm = tt.ppm + 1 // known to 1 ppm
		worst, slews := time.Duration(0), 0
		for now := uint64(0); now < 600_000_000; now += 16_667 {
			remote.offset = start + int64(float64(now)*tt.ppm*1e-6)
			remote.lost = now > 500_000_000 && now < 560_000_000
			l.Advance(now)
			if l.now.courses[predicted].last().pace.SlewPPM != 0 {
				slews++
			}
			g, _ := l.SharedTime(now)
			truth := time.Hour + time.Duration(float64(now)*1000*(1+tt.runs*1e-6))
			worst = max(worst, (g.Duration() - truth).Abs())
		}
		if slews != 0 || worst > tt.off {
			t.Errorf("%+v: %d slews of the predicted clock, error up to %v", tt, slews, worst)
		}
		r.told(t, tt, "[synced lost synced]")
	}
	for _, tt := range []struct {
		ppm  float64
		want int64
	}{
		{math.NaN(), 0},
		{math.Inf(1), maxSkewPPB},
		{math.Inf(-1), -maxSkewPPB},
		{1e300, maxSkewPPB},
	} {
		r := remote{clock: &fakeRemote{ppm: tt.ppm}}
		check(t, r.skewPPB(), tt.want, "a skew of %v", tt.ppm)
	}
}

// What is off by exactly DeadBand is left alone, by exactly HardThreshold slewed; the shared
// clock, and any if DeadBand is smaller, is left alone within 0.5 ms. What is slewed is slewed
// until it is there. In the warm-up the shared clock is set where it is off by more than 20 ms.
func TestSteer(t *testing.T) {
	const fast, most, still, step = 10_000, 250_000, 1_000_000, -1
	const young = 3 // the shared clock in the warm-up
	type state struct {
		off time.Duration
		ppm int64 // of the slew, 0 for none, or step
	}
	for _, tt := range []struct {
		cfg    ClientConfig
		clock  int
		states []state
	}{
		{ClientConfig{}, young, []state{
			{ms(1), fast}, {ms(20), fast}, {ms(20) + 1, step}, {ms(200), step},
		}},
		{ClientConfig{HardThreshold: ms(10)}, young, []state{{ms(10), fast}, {ms(10) + 1, step}}},
		{ClientConfig{HardOnly: true}, young, []state{{ms(200), 0}, {ms(200) + 1, step}}},
		{ClientConfig{NeverBack: true}, young, []state{{ms(20), fast}, {ms(20) + 1, step}}},
		{ClientConfig{}, predicted, []state{
			{ms(20), 0}, {ms(20) + 1, fast}, {ms(50), fast},
			{ms(100), 110_000}, {ms(200), most}, {ms(200) + 1, step},
		}},
		{ClientConfig{}, server, []state{{ms(20), 0}, {ms(20) + 1, fast}}},
		{ClientConfig{}, shared, []state{
			{sharedBand, 0}, {sharedBand + 1, fast}, {ms(200), most}, {ms(200) + 1, step},
		}},
		{ClientConfig{DeadBand: 10}, shared, []state{{10, 0}, {11, fast}}},
		{ClientConfig{HardThreshold: ms(50)}, server, []state{{ms(50), fast}, {ms(50) + 1, step}}},
		{ClientConfig{HardOnly: true}, server, []state{{ms(200), 0}, {ms(200) + 1, step}}},
		{ClientConfig{}, predicted, []state{
			{ms(10), 0}, {ms(21), fast}, {ms(1), fast}, {0, 0}, {ms(1), 0},
			{-ms(21), fast}, {-ms(1), fast}, {ms(1), 0}, {ms(2), 0},
		}},
		{ClientConfig{}, predicted, []state{
			{ms(201), step}, {1, 0}, {-ms(201), step}, {-1, 0}, {-ms(21), fast},
		}},
		{ClientConfig{NeverBack: true}, predicted, []state{
			{-ms(200), most}, {-ms(201), still}, {-ms(1), still}, {0, 0}, {-ms(100), 110_000},
		}},
		{ClientConfig{NeverBack: true}, predicted, []state{
			{ms(21), fast}, {ms(201), step}, {1, 0},
		}},
	} {
		must(t, tt.cfg.complete())
		signs := []time.Duration{1, -1}
		if tt.cfg.NeverBack {
			signs = signs[:1]
		}
		for _, sign := range signs {
			p := &clientProvider{ClientConfig: tt.cfg}
			for i, state := range tt.states {
				var got, want Steering
				off := sign * state.off
				got.Age = warmUp
				if tt.clock == young {
					got.Age--
				}
				want.Age = got.Age
				clock := tt.clock % young
				got.clocks()[clock].Target, want.clocks()[clock].Target = off, off
				switch c := want.clocks()[clock]; state.ppm {
				case step:
					c.At = off
				case 0:
				default:
					c.Pace = Pace{0, off, state.ppm}
				}
				if ok := p.AdvanceTime(&got); got != want || ok != (state.ppm != step) {
					t.Errorf("%+v, %d: off by %v: %+v, %v, want %+v", tt.cfg, i, off, got, ok, want)
				}
			}
		}
	}
}

// A clock reads as its pieces say.
func TestPieceRead(t *testing.T) {
	const at = math.MaxUint64 - 5 // the local clock wraps
	before := func(usec int64) uint64 { return uint64(-usec) }
	for _, tt := range []struct {
		name  string
		pace  Pace
		after uint64 // microseconds
		want  time.Duration
	}{
		{"at its start", Pace{0, ms(5), 10_000}, 0, 0},
		{"before its start", Pace{0, ms(5), 10_000}, before(1_000_000), -sec},
		{"before its start, with skew", Pace{SkewPPB: 100_000}, before(1_000_000), -ms(1000) - 100*us},
		{"at rest", Pace{}, 1_000_000, sec},
		{"with skew", Pace{SkewPPB: 100_000}, 1_000_000, ms(1000) + 100*us},
		{"slewed forward", Pace{0, ms(50), 10_000}, 1_000_000, ms(1010)},
		{"slewed backward", Pace{0, -ms(50), 10_000}, 1_000_000, ms(990)},
		{"slew at its end", Pace{0, ms(5), 10_000}, 1_000_000, ms(1005)},
		{"standing still", Pace{0, -time.Hour, 1_000_000}, 1_000_000, 0},
		{"standing still, slower", Pace{-100_000, -time.Hour, 1_000_000}, 1_000_000, 0},
		{"standing still, then on", Pace{0, -ms(400), 1_000_000}, 1_000_000, ms(600)},
		{"73 years on", Pace{}, math.MaxInt64, maxAhead * 1000},
		{"73 years before", Pace{}, 1 << 63, -maxAhead * 1000},
	} {
		p := piece{from: at, base: time.Hour, pace: tt.pace}
		check(t, p.read(at+tt.after)-time.Hour, tt.want, "%s", tt.name)
		p.still = true
		check(t, p.read(at+tt.after), time.Hour, "%s: in a pause", tt.name)
	}
	for _, end := range []time.Duration{2 * maxStart, -2 * maxStart} {
		p := piece{base: end, pace: Pace{SkewPPB: maxSkewPPB}}
		for _, d := range []uint64{1_000_000, maxAhead, before(1_000_000), before(maxAhead)} {
			if got := p.read(d); got.Abs() > 2*maxStart {
				t.Errorf("%v from the end: %v", d, got)
			}
		}
	}
}

// What a step back runs again begins with the tick after the one that is then running, and
// nothing is run again where that one, or the next, is running anyway.
func TestStepBackWithinATick(t *testing.T) {
	for running, want := range map[Tick]string{8: ", ticks 9 to 9 run again", 9: "", 10: ""} {
		s := mustServer(ServerConfig{})
		s.set(predicted, s.now.rate.Duration(running), Pace{})
		s.setNextTick(10)
		s.step(s.latest(predicted)+1, false)
		check(t, fmt.Sprint(s.events), "[stepped by -1ns"+want+"]",
			"back into tick %d before tick 10", running)
	}
}
