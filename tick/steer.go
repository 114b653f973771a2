// SPDX-License-Identifier: BSD-3-Clause

package tick

import "time"

// Provider decides where the clocks of a client begin, and how those of a client or a server
// advance. Config.Provider replaces the built-in one. Its methods are called by the
// goroutine that is in Advance, AdvanceOne or Run. They must not call the Server or Client.
//
// Whatever a Provider does, each tick runs once and in order, or an event says why not; without
// an event no clock goes back; and NeverBack holds.
type Provider interface {
	// InitializeClient is called when a client has learned its server's time, in each epoch. Each
	// clock begins At the time that s then holds, which is its Target unless you change it, and
	// goes on at its Pace.
	InitializeClient(s *Steering)
	// AdvanceTime is called in each Advance in which the Target is known, except in a pause. Its
	// decision takes effect 20 ms after the Advance, since readers may be that far ahead. At and
	// Target are of that moment.
	//
	// If it returns true, the clocks go on at their Pace. False is a hard correction: clocks whose
	// At was changed are set at once, which is reported as EventStepped.
	AdvanceTime(s *Steering) (ok bool)
}

// Steering is what a Provider is told of the three clocks, and what it decides. On a server, ticks
// and Welcomes follow PredictedTime.
type Steering struct {
	SharedTime, ServerTime, PredictedTime Steered // see Clocks

	// Age is how long ago the clocks began, in this epoch: when InitializeClient was called.
	Age time.Duration
}

// Steered is one clock as a Provider sees it.
type Steered struct {
	// At is the game time that the clock shows. Change it to set the clock; AdvanceTime must then
	// return false.
	At time.Duration
	// Target is the game time that the clock should show. On a server it is At.
	Target time.Duration
	// Pace is how the clock goes on: at first with the measured rate of the server's clock, and
	// without a slew.
	Pace Pace

	// Measured says that Target follows the arrivals of inputs or states, since the buffer of the
	// clock sets itself.
	Measured bool
	// Late says that several inputs or states in a row have just come too late. If PredictedTime
	// is set forward then, the ticks between are run.
	Late bool
}

// clocks returns the three by their index.
func (s *Steering) clocks() [3]*Steered {
	return [3]*Steered{shared: &s.SharedTime, server: &s.ServerTime, predicted: &s.PredictedTime}
}
