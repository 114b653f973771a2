// SPDX-License-Identifier: BSD-3-Clause

package tick

import (
	"slices"
	"time"
)

const (
	// welcomeGap is the second from one Welcome to the next, and how late one may be. After it, a
	// Welcome of an earlier epoch is believed if the remote clock agrees.
	welcomeGap = 1200 * time.Millisecond
	// For welcomeFresh after the last Welcome, or for silence if the server has repeated it, the
	// remote clock must agree with that Welcome; so it must when an epoch begins. The remote clock
	// may be behind it by welcomeAhead, and ahead of it by welcomeLate and the delay, of which
	// maxDelay is believed. Otherwise the remote clock is still that of the server before, or has
	// noticed only one half of a step. A client that has run no ticks yet has had no server
	// before, so its first Welcome may be firstWelcomeLate.
	welcomeFresh     = time.Second
	welcomeAhead     = time.Second
	welcomeLate      = 2 * time.Second
	maxDelay         = 16 * time.Second
	firstWelcomeLate = 30 * time.Second
)

// arrived is a Welcome that has come, or none.
type arrived struct {
	Welcome
	ok     bool   // there is one
	atUsec uint64 // when it came
}

// reading returns what it says of the server's clock, if it came without delay.
func (a arrived) reading() reading { return reading{a.serverUsec(), a.atUsec} }

// welcomes is what a client believes of the Welcomes of its server.
type welcomes struct {
	last     arrived   // the last one that is believed, from the server of the remote clock
	repeated bool      // it was not the first of its epoch and connection
	earlier  arrived   // one of an earlier epoch since then, which may be believed yet
	over     [4]uint64 // epochs that were left last: a delayed Welcome may be of one

	resumed  bool    // the client has paused, or resumed
	resumeAt reading // when
}

// refuses reports whether a Welcome is out of date. One of an earlier epoch is remembered.
func (w *welcomes) refuses(came arrived) bool {
	if !w.last.ok || elapsed(w.last.atUsec, came.atUsec) >= silence {
		return false
	}
	over := slices.Contains(w.over[:], came.Epoch) && came.Epoch != w.last.Epoch
	if !over && came.Epoch < w.last.Epoch {
		w.earlier = came
	}
	return over || came.before(w.last.Welcome)
}

// overlooked reports whether the server has paused since the last Welcome, for longer than that.
func (w *welcomes) overlooked(came Welcome, hard time.Duration) bool {
	moved := elapsed(w.last.OriginUsec, came.OriginUsec)
	return w.last.ok && came.Epoch == w.last.Epoch && !came.Paused && !w.last.Paused &&
		moved.Abs() > hard
}

// leave notes that an epoch is over.
func (w *welcomes) leave(epoch uint64) {
	copy(w.over[1:], w.over[:])
	w.over[0] = epoch
	w.resumed = false
}

// fits reports whether a remote clock that reads r is the one that the Welcome tells of. Since the
// start of the tick that it names, the Welcome may have been under way for delay and welcomeLate,
// or for least if that is longer.
func (a arrived) fits(r reading, delay, least time.Duration) bool {
	late := max(satAdd(welcomeLate+max(min(delay, maxDelay), 0), a.Rate.Duration(1)), least)
	ahead := int64(r.usec - a.reading().at(r.atUsec))
	return -welcomeAhead.Microseconds() <= ahead && ahead <= late.Microseconds()
}

// agrees reports whether the remote clock can be that of the server that sent the last Welcome,
// or that says nothing any more. known and first say that the clocks are known, and that no
// tick has run.
func (w *welcomes) agrees(r reading, delay time.Duration, known, first bool) bool {
	fresh := welcomeFresh
	if w.repeated {
		fresh = silence
	}
	if known && elapsed(w.last.atUsec, r.atUsec) >= fresh {
		return true
	}
	least := time.Duration(0)
	if !known && first {
		least = firstWelcomeLate
	}
	return w.last.fits(r, delay, least)
}

// tells reports whether the last Welcome says where game time is now. In a pause of the server it
// does not, since nobody knows when that will end. A Welcome that was sent before our own Pause or
// Resume may be out of date. If no other one comes for silence, it counts.
func (w *welcomes) tells(nowUsec uint64) bool {
	if w.last.Paused {
		return false
	}
	isRecent := w.resumed && elapsed(w.resumeAt.atUsec, nowUsec) < silence
	isOlder := int64(w.last.serverUsec()-w.resumeAt.usec) < 0
	return !(isRecent && isOlder)
}
