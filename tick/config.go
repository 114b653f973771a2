// SPDX-License-Identifier: BSD-3-Clause

package tick

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"timesync/clock"
)

// CatchUp is what to do with ticks that are due beyond Config.MaxTicks.
type CatchUp uint8

const (
	// CatchUpKeep leaves them to the next frames, as netfox does. What is more than
	// StallThreshold behind is skipped. Where frames are usually so long that MaxTicks are due in
	// each, the next frames make up for nothing: then it is CatchUpDrop.
	CatchUpKeep CatchUp = iota
	// CatchUpDrop skips the oldest, so that MaxTicks remain.
	CatchUpDrop
	// CatchUpJump skips all but the latest.
	CatchUpJump
	// CatchUpRunAll runs them all, up to 10,000 in an Advance; the oldest beyond these are
	// skipped. MaxTicks has no meaning.
	CatchUpRunAll
)

// runAllMost bounds CatchUpRunAll: more than a catch-up of 2 minutes at 60 Hz is a clock that was
// set, or a rate that somebody else chose, and would freeze the program.
const runAllMost = 10_000

// Mismatch is what to do when the tick rates of a client and its server differ.
// Whatever it is, EventRateMismatch is reported.
type Mismatch uint8

const (
	// MismatchWarn logs a warning and goes on.
	MismatchWarn Mismatch = iota
	// MismatchDisconnect, on a server, refuses the client: OnHello returns ErrRate. A client goes on.
	MismatchDisconnect
	// MismatchAdjust, on a client, takes the rate of the server, up to Config.MaxRate. A server goes
	// on.
	MismatchAdjust
	// MismatchSignal only reports EventRateMismatch.
	MismatchSignal
)

// Config is what servers and clients have in common. The zero value has all defaults.
type Config struct {
	Rate Rate // ticks a second; zero is 60

	MaxTicks int     // ticks in an Advance at most; zero is 8
	CatchUp  CatchUp // what to do with the others; CatchUpKeep by default

	// StallThreshold is the time between two calls of Advance beyond which it is a
	// stall: the ticks of that time are skipped, except the last. Zero is 1 s,
	// negative is never.
	StallThreshold time.Duration

	// AcceptBehind and AcceptAhead say which messages Accept still accepts: of ticks from
	// AcceptBehind before the server clock to AcceptAhead after the predicted clock. Zero is
	// 4 s and 1 s, and 4 ticks more each.
	AcceptBehind, AcceptAhead time.Duration

	OnMismatch Mismatch // what to do about another tick rate; MismatchWarn by default

	// MaxRate is the highest rate that a client with MismatchAdjust takes from its server. If the
	// server has a higher one, the client goes on with its own. Zero is 1000 a second, or Rate if
	// that is higher.
	MaxRate Rate

	// Provider decides how the clocks advance; nil is what is built in. On a server that is the
	// rate of the local clock, which its clients count on: they hear of another one by Welcomes
	// alone, and step or slew after each.
	Provider Provider

	// Clock is a monotonic clock in microseconds, which Run reads. Nil is clock.Now.
	Clock func() uint64
	// Slept returns for how long the machine slept since the last call. Run calls it. Nil is Slept of
	// a clock.SleepWatch.
	Slept func() time.Duration
	// Logger gets the warnings of MismatchWarn. Nil is slog.Default().
	Logger *slog.Logger
}

// Handlers are called by the goroutine that advances a Server or Client, one at a time, and not
// after a Stop. Each may be nil. They may call all methods but Run and WaitSynced; an Advance or
// AdvanceOne inside of them does nothing.
type Handlers struct {
	BeforeLoop func()       // ticks will follow: the place to read the network
	BeforeTick func(Update) // before each tick
	Tick       func(Update) // the tick: simulate
	AfterTick  func(Update) // after each tick
	AfterLoop  func()       // the ticks of this Advance are done
	Event      func(Event)  // something happened; before the ticks of the same Advance

	// AfterSync is called on a client by each Advance that finds that the remote clock was
	// updated. by is what it reads, minus what its reading before led to at the skew of then:
	// positive if it was set forward, and 0 the first time. Less than 3 us is no update, since
	// readings are whole microseconds. It comes before the ticks, like Event.
	AfterSync func(by time.Duration)
}

// ServerConfig is the configuration of a Server. The zero value has all defaults.
type ServerConfig struct {
	Config   // what clients have, too
	Handlers // what to call

	// Epoch is the number of the first Start's epoch, at most 2^62; each later Start
	// adds one. Zero, the default, draws each from the wall clock, so that a restarted
	// process gets a later one. A new host that goes on with the game of another
	// gives the other's epoch plus one.
	Epoch uint64

	// FirstTick is the tick at Start, at most 36 years from tick 0. A new host goes on
	// where the old one was.
	FirstTick Tick
}

// ClientConfig is the configuration of a Client. The zero value has all defaults.
//
// All clocks run at the measured rate of the remote clock. The server and predicted
// clocks are left alone while they are within DeadBand of where they should be, and
// beyond it slewed until they are there: at zero error the correction is nothing at
// all. The shared clock, which all peers are to agree on, follows within half a
// millisecond. When the shared clock is off by more than HardThreshold all clocks are set, a
// step. So they are when another one is, unless its buffer sets itself: such a clock is slewed,
// however far it is off.
type ClientConfig struct {
	Config   // what servers have, too
	Handlers // what to call

	// The client plays ServerBuffer ahead of the earliest arrival at the server and
	// shows the server ClientBuffer behind the latest, to make up for jitter. Negative is none,
	// more than an hour is refused. Zero, the default, is 2 ticks and 1 tick to begin with. Then
	// the buffer sets itself, within a second of that either way: the ServerBuffer where the
	// server is told of inputs by Server.AcceptInput, the ClientBuffer where the client is told of
	// states by AcceptState.
	ClientBuffer, ServerBuffer time.Duration

	// LateShare is the share of inputs that may come too late, and of states, where buffers set
	// themselves: at most 0.5, and zero is 0.01. Package jitter learns how long to wait for that;
	// half of LateShare is asked of it, with room for what the clocks err. A clock whose buffer
	// sets itself is not left alone within DeadBand.
	//
	// If at least four inputs in a row are late, since the path has become longer, the predicted
	// clock is set forward at once, EventStepped, and its ticks are run; for states the server
	// clock stands still. What was held up until one moment, as by a slow frame or a path that
	// stopped, sets no clock. A server that falls behind with its ticks counts as being where
	// they are.
	LateShare float64

	// SyncBound is how well the remote clock must be known to start: the most that its
	// ErrorBound may be. While no clock is set, the truth lies within ErrorBound of
	// RemoteTime, however unequal the two ways are; so the shared clock then starts
	// within SyncBound of the server's. The remote clock counts as lost when its bound
	// is twice as large. Zero is any: the clocks start at once, and step if the first
	// datagram was one that had been held back. A bound is at least half of the round
	// trip.
	SyncBound time.Duration

	// SlewPPM is the slew within 50 ms of the goal, in parts per million, at most 10^6; zero is
	// 10,000 (1 %). Beyond 50 ms it grows by 2 % for each 10 ms, up to 25 %, so that 0.9 s are
	// made up for in 10 s.
	SlewPPM  int64
	DeadBand time.Duration // error that is tolerated; zero is 20 ms
	// HardThreshold is the error from which on clocks step; zero is 200 ms. In the first 3 s
	// after the clocks began, the shared clock steps from 20 ms on: its server may have hung when
	// the first datagrams came.
	HardThreshold time.Duration

	// HardOnly never slews and takes no skew into account: all clocks run at exactly
	// the rate of the local clock, as the music of a rhythm game does, and step when
	// one is off by more than HardThreshold.
	HardOnly bool
	// NeverBack replaces steps back: the clock stands still until it is right, for as
	// long as the step would have been.
	NeverBack bool
}

// complete checks the configuration and fills in the defaults, but those that depend on the rate.
func (c *Config) complete() error {
	c.MaxTicks = cmp.Or(c.MaxTicks, 8) // as in netfox: a frame of 1/8 s at 60 Hz still catches up
	c.StallThreshold = cmp.Or(c.StallThreshold, time.Second)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.Slept == nil {
		c.Slept = new(clock.SleepWatch).Slept
	}
	if c.Clock == nil {
		c.Clock = clock.Now
	}
	if c.MaxRate == (Rate{}) {
		c.MaxRate = Hz(1000) // a game with longer ticks than 1 ms: more is a mistake, or an attack
	}
	if c.Rate.above(c.MaxRate) {
		c.MaxRate = c.Rate.orDefault()
	}
	return cmp.Or(
		refuse(!c.Rate.valid(), "Rate is %d/%d, not above 0 and at most 10^9 a second", c.Rate.Num, c.Rate.Den),
		refuse(!c.MaxRate.valid(), "MaxRate is %d/%d, not above 0 and at most 10^9 a second", c.MaxRate.Num, c.MaxRate.Den),
		refuse(c.MaxTicks < 0, "MaxTicks is negative: %d", c.MaxTicks),
		refuse(c.CatchUp > CatchUpRunAll, "CatchUp is none of its constants: %d", c.CatchUp),
		refuse(c.AcceptBehind < 0 || c.AcceptAhead < 0,
			"AcceptBehind or AcceptAhead is negative: %v, %v", c.AcceptBehind, c.AcceptAhead),
		refuse(c.OnMismatch > MismatchSignal, "OnMismatch is none of its constants: %d", c.OnMismatch),
	)
}

func (c *ServerConfig) complete() error {
	first := c.Rate.Duration(c.FirstTick)
	return cmp.Or(
		c.Config.complete(),
		refuse(c.Epoch > 1<<62, "Epoch is more than 2^62: %d", c.Epoch), // as many Starts as one likes add one
		refuse(first.Abs() > maxStart/2, "FirstTick is more than 36 years from tick 0: %d", c.FirstTick),
	)
}

func (c *ClientConfig) complete() error {
	c.LateShare = cmp.Or(c.LateShare, 0.01)
	// As in the Network Time System's prototype: at 60 Hz 1 % is not seen, and 20 ms is about a
	// tick.
	c.SlewPPM = cmp.Or(c.SlewPPM, 10_000)
	c.DeadBand = cmp.Or(c.DeadBand, 20*time.Millisecond)
	c.HardThreshold = cmp.Or(c.HardThreshold, 200*time.Millisecond)
	longest := max(c.ClientBuffer, c.ServerBuffer)
	return cmp.Or(
		c.Config.complete(),
		refuse(c.SyncBound < 0, "SyncBound is negative: %v", c.SyncBound),
		refuse(c.SlewPPM < 0 || c.SlewPPM > 1_000_000, "SlewPPM is not in 0 to 10^6: %d", c.SlewPPM),
		refuse(!(c.LateShare >= 0 && c.LateShare <= 0.5), "LateShare is not in 0 to 0.5: %v", c.LateShare),
		refuse(c.DeadBand < 0 || c.HardThreshold < 0, "DeadBand or HardThreshold is negative: %v, %v", c.DeadBand, c.HardThreshold),
		refuse(longest > time.Hour, "a buffer is longer than 1h: %v", longest),
	)
}

// refuse returns an error if something is wrong.
func refuse(wrong bool, format string, args ...any) error {
	if !wrong {
		return nil
	}
	return fmt.Errorf("tick: "+format, args...)
}
