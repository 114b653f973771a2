// SPDX-License-Identifier: BSD-3-Clause

package tick

// States keeps the last states of a server, or of one thing in its world, so that a client can
// show what lies between two of them. The zero value is empty. At EventEpochChanged begin with
// another one, since ticks are then counted anew. It must not be used by several goroutines at
// once.
type States[S any] struct {
	ticks  []Tick // the oldest first
	states []S
}

// statesKept is more than a second at 60 Hz, longer than any delay of the server clock that a
// game bears.
const statesKept = 128

// Put adds the state of tick n. A second state for the same tick changes nothing, nor does one
// that is older than all that are kept.
func (s *States[S]) Put(n Tick, state S) {
	at := len(s.ticks)
	for at > 0 && s.ticks[at-1] >= n {
		at--
	}
	switch {
	case at < len(s.ticks) && s.ticks[at] == n:
		return
	case len(s.ticks) < statesKept:
		var none S
		s.ticks = append(s.ticks, 0)
		s.states = append(s.states, none)
		copy(s.ticks[at+1:], s.ticks[at:])
		copy(s.states[at+1:], s.states[at:])
	case at == 0:
		return
	default:
		at--
		copy(s.ticks[:at], s.ticks[1:at+1])
		copy(s.states[:at], s.states[1:at+1])
	}
	s.ticks[at] = n
	s.states[at] = state
}

// Around returns the state before an instant, such as Client.ServerTime, and the one after it, and
// how to blend them: from 0, which is the first, to below 1. Before the oldest state, and after
// the newest, both are that one. ok is false while there is none.
func (s *States[S]) Around(at Time) (before, after S, blend float64, ok bool) {
	if len(s.ticks) == 0 {
		return before, after, 0, false
	}
	next := 0
	for next < len(s.ticks) && at.rate.Duration(s.ticks[next]) <= at.at {
		next++
	}
	if next == 0 || next == len(s.ticks) {
		end := s.states[max(next-1, 0)]
		return end, end, 0, true
	}
	begin := at.rate.Duration(s.ticks[next-1])
	length := at.rate.Duration(s.ticks[next]) - begin
	blend = min(float64(at.at-begin)/float64(length), below1)
	return s.states[next-1], s.states[next], blend, true
}
