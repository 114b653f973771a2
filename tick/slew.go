// SPDX-License-Identifier: BSD-3-Clause

package tick

import (
	"cmp"
	"time"
)

// clientProvider is the Provider of a client, see ClientConfig.
type clientProvider struct {
	ClientConfig
	slews [3]int64 // the slew under way of each clock, parts in 10^6, negative backward
}

const (
	// sharedBand is the widest dead band of the shared clock, since all peers should agree on it:
	// a thirtieth of a tick at 60 Hz, and more than a good estimate dithers by.
	sharedBand = 500 * time.Microsecond
	// standstill is the slew backward of a clock that stands still.
	standstill = 1_000_000 // ppm
	// Within slewNear of its target a clock is slewed by SlewPPM. Beyond that the slew grows by
	// 100 % for each slewScale, up to slewMost: an error of 0.9 s takes 10 s. A faster slew is
	// felt as another speed of the game.
	slewNear  = 50 * time.Millisecond
	slewScale = 500 * time.Millisecond
	slewMost  = 250_000 // ppm
	// For warmUp after the clocks began, all of them are set, not slewed, if the shared one is off
	// by more than warmUpMost, about a tick. The first datagrams may have waited while the server
	// hung, and the next reports of a link take up to two seconds. So early a step harms no game.
	warmUp     = 3 * time.Second
	warmUpMost = 20 * time.Millisecond
)

// InitializeClient ends all corrections: the clocks are at their targets.
func (p *clientProvider) InitializeClient(*Steering) { p.slews = [3]int64{} }

// AdvanceTime slews what is off. It sets all clocks if one is off by more than HardThreshold, and
// in the warm-up if the shared one is off by more than warmUpMost.
func (p *clientProvider) AdvanceTime(s *Steering) bool {
	lead := &s.PredictedTime
	off := s.SharedTime.Target - s.SharedTime.At
	most := p.HardThreshold
	if s.Age < warmUp && !p.HardOnly {
		most = min(most, warmUpMost)
	}
	apart := off.Abs() > most
	hard := apart && (off > 0 || !p.NeverBack)
	for i, c := range s.clocks() {
		left := c.Target - c.At
		if c.Measured && !apart { // one that follows arrivals needs no step of its own
			left = min(max(left, -p.HardThreshold), p.HardThreshold)
		}
		hard = hard || left > p.HardThreshold || left < -p.HardThreshold && !p.NeverBack
		p.slew(i, c, left)
	}
	hurries := lead.Late && lead.Target > lead.At && !p.HardOnly
	for i, c := range s.clocks() {
		if hurries && c == lead || hard && (!p.NeverBack || c.Target > c.At) {
			c.At = c.Target
			c.Pace.Slew = 0
			c.Pace.SlewPPM = 0
			p.slews[i] = 0
		}
	}
	return !hard && !hurries
}

// slewPPM returns how fast to slew a clock that is off by off.
func (p *clientProvider) slewPPM(off time.Duration) int64 {
	far := int64(max(off-slewNear, 0))
	return max(p.SlewPPM, min(p.SlewPPM+far*1_000_000/int64(slewScale), slewMost))
}

// slew sets the slew of clock i, which is off by left.
func (p *clientProvider) slew(i int, c *Steered, left time.Duration) {
	band := p.DeadBand
	slew := &p.slews[i]
	if i == shared || c.Measured {
		band = min(band, sharedBand)
	}
	stops := p.NeverBack && left < -p.HardThreshold || i == server && c.Late && !p.HardOnly
	switch sign := int64(cmp.Compare(left, 0)); {
	case left < 0 && (stops || *slew == -standstill):
		*slew = -standstill
	case p.HardOnly || left.Abs() <= band && *slew*sign <= 0: // or it has arrived
		*slew = 0
	case left.Abs() > band:
		*slew = sign * p.slewPPM(left.Abs())
	case *slew != 0:
		*slew = sign * p.SlewPPM
	}
	if *slew != 0 {
		c.Pace.Slew = left
		c.Pace.SlewPPM = max(*slew, -*slew)
	}
}
