// SPDX-License-Identifier: BSD-3-Clause

package tick

import (
	"cmp"
	"time"
)

const (
	// sharedBand is the dead band of the shared clock at most: what all peers are to
	// agree on, to a thirtieth of a tick, and more than a good estimate dithers by.
	sharedBand = 500 * time.Microsecond
	// maxSkewPPB bounds what a client believes of a skew. No quartz is a thousandth off.
	maxSkewPPB = 1_000_000
)

// target is where the clocks of a client should be by the remote clock.
type target struct {
	at      [3]time.Duration
	skewPPB int64 // rate of the remote clock minus that of the local clock, parts in 10^9; 0 if not known
}

// steering decides how clocks follow their target: see ClientConfig.
type steering struct {
	slewPPM             int64
	deadBand, hard      time.Duration
	hardOnly, neverBack bool

	dir  [3]int  // sign of the slew under way, 0 for none
	hold [3]bool // standing still instead of going back

	adapts [3]bool // the clock follows arrivals: exactly, and never by a step of its own
	stands bool    // the server clock is to stand still until it is right
}

func newSteering(c ClientConfig) steering {
	return steering{
		slewPPM:   orDefault(c.SlewPPM, defaultSlewPPM),
		deadBand:  orDefault(c.DeadBand, defaultDeadBand),
		hard:      orDefault(c.HardThreshold, defaultHardThreshold),
		hardOnly:  c.HardOnly,
		neverBack: c.NeverBack,
	}
}

// forget ends all corrections: the clocks are at their targets.
func (s *steering) forget() { s.dir, s.hold = [3]int{}, [3]bool{} }

// correct returns the slews of clocks that show now. If step is true, clocks were
// set instead, those in now.
func (s *steering) correct(now *[3]time.Duration, target [3]time.Duration) (slews [3]slew, step bool) {
	apart := (target[shared] - now[shared]).Abs() > s.hard
	for i, t := range target {
		left := t - now[i]
		if s.adapts[i] && !apart {
			left = min(max(left, -s.hard), s.hard)
		}
		step = step || left > s.hard || left < -s.hard && !s.neverBack
		slews[i] = s.slew(i, left)
	}
	if step {
		for i, t := range target {
			if !s.neverBack || t > now[i] {
				now[i], slews[i], s.dir[i] = t, slew{}, 0
			}
		}
	}
	return slews, step
}

// slew returns the slew of clock i, which is off by left.
func (s *steering) slew(i int, left time.Duration) slew {
	band := s.deadBand
	if i == shared || s.adapts[i] {
		band = min(band, sharedBand)
	}
	begins := s.neverBack && left < -s.hard || s.stands && i == server
	if s.hold[i] = left < 0 && (begins || s.hold[i]); s.hold[i] {
		return slew{left, 1_000_000}
	}
	sign := cmp.Compare(left, 0)
	switch {
	case max(left, -left) > band:
		s.dir[i] = sign
	case s.dir[i] != sign: // arrived
		s.dir[i] = 0
	}
	if s.hardOnly || s.dir[i] == 0 {
		return slew{}
	}
	return slew{left, s.slewPPM}
}
