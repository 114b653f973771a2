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
	// CatchUpKeep leaves them to the next frames, as netfox does. What is more than StallThreshold
	// behind is skipped. If nearly every frame is so long that MaxTicks are due, no frame can make
	// up for another, and CatchUpKeep works as CatchUpDrop.
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
	// MismatchDisconnect, on a server, refuses the client: OnHello returns ErrRate. A
	// client goes on.
	MismatchDisconnect
	// MismatchAdjust, on a client, takes the rate of the server, up to
	// Config.MaxRate. A server goes on.
	MismatchAdjust
	// MismatchSignal only reports EventRateMismatch.
	MismatchSignal
)

// Config is what servers and clients have in common. The zero value has all defaults.
type Config struct {
	Rate Rate // ticks a second; zero is 60

	MaxTicks int     // ticks in an Advance at most; zero is 8
	CatchUp  CatchUp // what to do with the others; CatchUpKeep by default

	// StallThreshold is the time between two calls of Advance beyond which it is a stall: the
	// ticks of that time are skipped, except the last. Zero is 1 s, negative is never. So at 60 Hz
	// and by default, all ticks of a pause of 0.9 s run, at most MaxTicks in each Advance. Of 1.1 s
	// only the last one runs.
	StallThreshold time.Duration

	// Accept takes messages of ticks from AcceptBehind before the server clock to AcceptAhead
	// after the predicted clock. Zero is 4 s and 1 s, and 4 ticks more each.
	AcceptBehind, AcceptAhead time.Duration

	OnMismatch Mismatch // what to do about another tick rate; MismatchWarn by default

	// MaxRate is the highest rate that a client with MismatchAdjust takes from its server. If the
	// server has a higher one, the client goes on with its own. Zero is 1000 a second, or Rate if
	// that is higher.
	MaxRate Rate

	// Provider decides how the clocks advance; nil is the built-in one. A server's built-in one
	// runs at the rate of the local clock, and clients count on that: they learn of another rate
	// only by Welcomes, and step or slew after each.
	Provider Provider

	// Clock is a monotonic clock in microseconds, which Run reads. Nil is clock.Now.
	Clock func() uint64
	// Slept returns for how long the machine slept since the last call. Run calls it. Nil is
	// Slept of a clock.SleepWatch.
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

	// AfterSync is called on a client, before the ticks, by each Advance that finds that the
	// remote clock was updated. by says by how much, positive if the clock was set forward: what
	// it reads minus what its last reading and skew foretold. It is 0 the first time. Less than
	// 3 us is no update, since readings are whole microseconds.
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
// All clocks run at the measured rate of the remote clock. The shared clock, on which all peers
// should agree, follows it within half a millisecond. The server and predicted clocks stay as they
// are within DeadBand of where they should be, and are slewed beyond it. When the shared clock is
// off by more than HardThreshold, all clocks step. So they do when another clock is, unless its
// buffer sets itself: such a clock is slewed, however far it is off.
type ClientConfig struct {
	Config   // what servers have, too
	Handlers // what to call

	// The buffers make up for jitter. The client plays ServerBuffer ahead of the earliest arrival
	// at the server, and shows the server ClientBuffer behind the latest arrival here. Negative
	// means none, and more than an hour is refused. Zero, the default, lets a buffer set itself:
	// the ServerBuffer begins with 2 ticks and learns from Server.AcceptInput, the ClientBuffer
	// begins with 1 tick and learns from AcceptState. Both stay within a second of that.
	ClientBuffer, ServerBuffer time.Duration

	// LateShare is the share of inputs, and of states, that may come too late where buffers set
	// themselves: at most 0.5, and zero is 0.01. Package jitter learns how long to wait for half
	// of it, which leaves room for the errors of the clocks. DeadBand does not apply to a clock
	// whose buffer sets itself.
	//
	// If four inputs in a row are late, the path has become longer. The predicted clock is then
	// set forward at once, EventStepped, and its ticks are run. If four states in a row are late,
	// the server clock stands still. What was held up until one moment, by a slow frame or a path
	// that stopped, sets no clock. A server that falls behind with its ticks counts as being at
	// the tick that it runs.
	LateShare float64

	// SyncBound is the largest ErrorBound of the remote clock with which the clocks start. The
	// shared clock then starts within SyncBound of the server's, however unequal the two ways are,
	// while no clock is set. The remote clock counts as lost when its ErrorBound is twice as
	// large. An ErrorBound is at least half of the round trip. Zero accepts any: the clocks start
	// at once, and step if the first datagram had been held back.
	SyncBound time.Duration

	// SlewPPM is how fast clocks are slewed within 50 ms of the goal, in parts per million, at most
	// 10^6; zero is 10,000 (1 %). Beyond 50 ms that grows by 2 % for each 10 ms, up to 25 %: an
	// error of 0.9 s takes 10 s.
	SlewPPM  int64
	DeadBand time.Duration // an error that is tolerated; zero is 20 ms
	// HardThreshold is the error above which clocks step; zero is 200 ms. In the first 3 s the
	// shared clock steps above 20 ms: the server may have hung when the first datagrams came.
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
		refuse(!c.Rate.valid(),
			"Rate is %d/%d, not above 0 and at most 10^9 a second",
			c.Rate.Num, c.Rate.Den),
		refuse(!c.MaxRate.valid(),
			"MaxRate is %d/%d, not above 0 and at most 10^9 a second",
			c.MaxRate.Num, c.MaxRate.Den),
		refuse(c.MaxTicks < 0, "MaxTicks is negative: %d", c.MaxTicks),
		refuse(c.CatchUp > CatchUpRunAll, "CatchUp is none of its constants: %d", c.CatchUp),
		refuse(c.AcceptBehind < 0 || c.AcceptAhead < 0,
			"AcceptBehind or AcceptAhead is negative: %v, %v", c.AcceptBehind, c.AcceptAhead),
		refuse(c.OnMismatch > MismatchSignal,
			"OnMismatch is none of its constants: %d", c.OnMismatch),
	)
}

func (c *ServerConfig) complete() error {
	first := c.Rate.Duration(c.FirstTick)
	return cmp.Or(
		c.Config.complete(),
		// as many Starts as one likes add one
		refuse(c.Epoch > 1<<62, "Epoch is more than 2^62: %d", c.Epoch),
		refuse(first.Abs() > maxStart/2,
			"FirstTick is more than 36 years from tick 0: %d", c.FirstTick),
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
		refuse(c.SlewPPM < 0 || c.SlewPPM > 1_000_000,
			"SlewPPM is not in 0 to 10^6: %d", c.SlewPPM),
		refuse(!(c.LateShare >= 0 && c.LateShare <= 0.5),
			"LateShare is not in 0 to 0.5: %v", c.LateShare),
		refuse(c.DeadBand < 0 || c.HardThreshold < 0,
			"DeadBand or HardThreshold is negative: %v, %v", c.DeadBand, c.HardThreshold),
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
