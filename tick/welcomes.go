// SPDX-License-Identifier: BSD-3-Clause

package tick

import (
	"slices"
	"time"
)

const (
	// welcomeGap is a second from one Welcome to the next, and what one may be late.
	// After it, one of an earlier epoch is believed if the remote clock agrees.
	welcomeGap = 1200 * time.Millisecond
	// welcomeFresh is how long the last Welcome says what the server's clock shows; where the
	// server has repeated it, silence is. Meanwhile, and when an epoch begins, it must agree with
	// the remote clock: less than a second ahead, and late by no more than welcomeLate and the
	// delay, of which maxDelay is believed. Otherwise the remote clock is of a server before, or
	// has noticed one half of a step. A client that has run no ticks yet has no server before:
	// the first Welcome may be very late.
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
	w.over[0], w.resumed = epoch, false
}

// fits reports whether a remote clock that reads so much is the one that a Welcome tells of. It
// may have been under way for a while since the start of the tick that it names, or for least.
func (a arrived) fits(r reading, delay, least time.Duration) bool {
	late := max(satAdd(welcomeLate+max(min(delay, maxDelay), 0), a.Rate.Duration(1)), least)
	ahead := int64(r.usec - a.reading().at(r.atUsec))
	return -welcomeAhead.Microseconds() <= ahead && ahead <= late.Microseconds()
}

// agrees reports whether the remote clock can be that of the server that sent the last Welcome,
// or that says nothing any more. known and first say that the clocks are known, and that no
// tick has run.
func (w *welcomes) agrees(r reading, delay time.Duration, known, first bool) bool {
	fresh, least := welcomeFresh, time.Duration(0)
	if w.repeated {
		fresh = silence
	}
	if !known && first {
		least = firstWelcomeLate
	}
	return known && elapsed(w.last.atUsec, r.atUsec) >= fresh || w.last.fits(r, delay, least)
}

// tells reports whether the last Welcome says where game time is now. In a pause of the server it
// does not: nobody knows when that will end. And one that was sent before our own Resume, or in
// the tick of it, may be from before the pause; if no other comes for silence, it counts.
func (w *welcomes) tells(nowUsec uint64) bool {
	doubted := w.resumed && elapsed(w.resumeAt.atUsec, nowUsec) < silence
	return !w.last.Paused && !(doubted && int64(w.last.serverUsec()-w.resumeAt.usec) < 0)
}
