package tick

import (
	"cmp"
	"time"
)

// RemoteClock is the server's clock as a client knows it. A *timesync.TimeSynchronizer
// is one as it is, and so is a *ping.Clock. Its methods are called from the goroutine
// that advances the loop, possibly while another one feeds it; they must not call the
// loop.
//
// Two more methods are used where they exist:
//
//	Skew() (ppm float64, ok bool)                             // remote minus local rate
//	ErrorBound(localUsec uint64) (bound time.Duration, ok bool)
type RemoteClock interface {
	// RemoteTime returns what the server's clock shows when the local clock shows
	// localUsec, both in microseconds: the reading nearest to nearRemoteUsec if
	// several are possible. ok is false while that is not known.
	RemoteTime(localUsec, nearRemoteUsec uint64) (remoteUsec uint64, ok bool)
	// MinimumOneWayDelay returns half of the shortest round trip. Added to
	// RemoteTime it gives when the fastest datagram that is sent now arrives on the
	// server's clock, subtracted from it the stamp of the fastest one that arrives
	// now: both were measured that way, so that neither rests on the assumption
	// that the two ways take equally long. RemoteTime alone does.
	MinimumOneWayDelay() (delay time.Duration, ok bool)
}

// Clocks are the three clocks of a peer at one instant. On a server or host they
// are equal.
type Clocks struct {
	Shared    Time // what everybody has at this moment: the server's game time now (netfox: time, tick)
	Server    Time // what to show: the state of the server that has arrived by now (ServerTime)
	Predicted Time // what to play: when a message that is sent now arrives at the server (PredictedTime)
}

// list returns the clocks in the order in which the loop holds them.
func (c *Clocks) list() [3]*Time { return [3]*Time{&c.Shared, &c.Server, &c.Predicted} }

// Target is what a Provider may go by.
type Target struct {
	Clocks        // where the clocks of a client should be by the remote clock
	Known   bool  // Clocks is valid: false on a server, and on a client that lost its remote clock
	SkewPPB int64 // rate of the remote clock minus that of the local clock, parts per 10^9; 0 if not known
}

// Pace says how clocks move until the next Advance: at the rate of the local clock
// plus SkewPPB parts in 10^9, and on top of it each by its slew. No pace makes a
// clock go back.
type Pace struct {
	SkewPPB                   int64
	Shared, Server, Predicted Slew
}

// Slew is a correction by Left, positive forward, of which PPM microseconds are
// made in each second until nothing is left. With 10^6 PPM and Left negative a clock
// stands still.
type Slew struct {
	Left time.Duration
	PPM  int64
}

// Provider decides how the clocks advance (INetworkTimeProvider). It is used by one
// loop, from the goroutine that advances it, and must not call the loop. Since it sets
// the pace of the time to come, readings between two frames and at the next one lie on
// one line.
type Provider interface {
	// Init sets the clocks of a client that starts or enters a new epoch
	// (InitializeClient). Going in, all three show the start of the tick of the last
	// Welcome: the approval tick.
	Init(clocks *Clocks, target Target)
	// Advance is called at every Advance of the loop with the clocks of this instant
	// and returns their pace until the next (AdvanceTime). If ok is false it has
	// changed clocks: a hard correction, which the loop reports as Stepped.
	Advance(clocks *Clocks, target Target) (pace Pace, ok bool)
}

// ServerProvider runs all clocks at the constant rate of the local clock
// (ServerNetworkTimeProvider). It is the default of servers and hosts.
type ServerProvider struct{}

// Init lets all clocks start at the approval tick.
func (ServerProvider) Init(*Clocks, Target) {}

// Advance returns the pace of the local clock.
func (ServerProvider) Advance(*Clocks, Target) (Pace, bool) { return Pace{}, true }

// The defaults of ClientProvider, from the Network Time System's prototype: at 60 Hz
// 1 % is not seen, 20 ms is about a tick and 200 ms would take 20 s to slew.
const (
	defaultSlewPPM       = 10_000
	defaultDeadBand      = 20 * time.Millisecond
	defaultHardThreshold = 200 * time.Millisecond
	// sharedBand is the dead band of the shared clock at most: what all peers are to
	// agree on, to a thirtieth of a tick, and more than a good estimate dithers by.
	sharedBand = 500 * time.Microsecond
	// maxSkewPPB bounds what the loop believes of a skew. No quartz is a thousandth off.
	maxSkewPPB = 1_000_000
)

// ClientProvider follows the remote clock (ClientNetworkTimeProvider). The zero
// value has the defaults. It must not be shared by loops nor changed while used.
//
// All clocks run at the measured rate of the remote clock. The server and predicted
// clocks are left alone while they are within DeadBand of their targets and beyond
// it slewed until they are at them; so at zero error and within the band the
// correction is nothing at all. The shared clock, which all peers are to agree on,
// follows within half a millisecond. When one clock is off by more than HardThreshold
// all are set to their targets, a step.
type ClientProvider struct {
	SlewPPM       int64         // slew in parts per million, at most 10^6; 0 is 1 % (k_AdjustmentRatio)
	DeadBand      time.Duration // error that is tolerated; 0 is 20 ms (k_CorrectionTolerance)
	HardThreshold time.Duration // error from which on clocks step; 0 is 200 ms (k_HardResetThreshold, Recalibrate Threshold)
	// HardOnly never slews and takes no skew into account: all clocks run at exactly
	// the rate of the local clock, as the music of a rhythm game does, and step when
	// one is off by more than HardThreshold.
	HardOnly bool
	// NeverBack replaces steps back: the clock stands still until its target has
	// caught up, for as long as the step would have been.
	NeverBack bool

	skewPPB int64
	dir     [3]int  // sign of the slew under way, 0 for none
	hold    [3]bool // standing still instead of going back
}

// Init sets the clocks to their targets.
func (p *ClientProvider) Init(clocks *Clocks, target Target) {
	p.skewPPB, p.dir, p.hold = 0, [3]int{}, [3]bool{}
	if target.Known {
		*clocks = target.Clocks
	}
}

// Advance slews or steps the clocks to their targets. Without a target they run on
// at the last known rate.
func (p *ClientProvider) Advance(clocks *Clocks, target Target) (Pace, bool) {
	if !target.Known {
		return Pace{SkewPPB: p.skewPPB}, true
	}
	if !p.HardOnly {
		p.skewPPB = target.SkewPPB
	}
	hard := orDefault(p.HardThreshold, defaultHardThreshold)
	var slews [3]Slew
	var step bool
	for i, c := range clocks.list() {
		left := target.list()[i].Sub(*c)
		step = step || left > hard || left < -hard && !p.NeverBack
		slews[i] = p.slew(i, left, hard)
	}
	if step {
		for i, c := range clocks.list() {
			if t := target.list()[i]; !p.NeverBack || t.After(*c) {
				*c, slews[i], p.dir[i] = *t, Slew{}, 0
			}
		}
	}
	return Pace{p.skewPPB, slews[0], slews[1], slews[2]}, !step
}

// slew returns the slew of clock i, which is off by left.
func (p *ClientProvider) slew(i int, left, hard time.Duration) Slew {
	band := orDefault(p.DeadBand, defaultDeadBand)
	if i == 0 {
		band = min(band, sharedBand)
	}
	if p.hold[i] = p.NeverBack && left < 0 && (left < -hard || p.hold[i]); p.hold[i] {
		return Slew{left, 1_000_000}
	}
	sign := cmp.Compare(left, 0)
	switch {
	case max(left, -left) > band:
		p.dir[i] = sign
	case p.dir[i] != sign: // arrived
		p.dir[i] = 0
	}
	if p.HardOnly || p.dir[i] == 0 {
		return Slew{}
	}
	return Slew{left, orDefault(p.SlewPPM, defaultSlewPPM)}
}

func orDefault[T ~int | ~int64](v, whenZero T) T {
	if v == 0 {
		return whenZero
	}
	return v
}
