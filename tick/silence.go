// SPDX-License-Identifier: BSD-3-Clause

package tick

import "time"

// silence is after how long the other side is taken to be silent: it should have announced itself,
// or sent inputs, three times. What its Welcomes said is then believed no more, and any other is.
const silence = 3 * time.Second

// vitals is when the other side was heard last.
type vitals struct {
	known  bool
	silent bool // and that is reported
	atUsec uint64
}

// hear notes that the other side is heard, and reports it if it was silent.
func (l *loop) hear(v *vitals, peer, nowUsec uint64) {
	if v.silent && len(l.events) < maxEvents-2 {
		l.report(Event{Kind: EventHeard, By: max(elapsed(v.atUsec, nowUsec), 0), Peer: peer, Last: -1})
		v.silent = false
	}
	if !v.known || int64(nowUsec-v.atUsec) > 0 {
		v.known, v.atUsec = true, nowUsec
	}
}

// watch reports the other side if it has fallen silent, unless too many events wait. What came during a stall
// may not have been read yet, so after one it waits anew.
func (l *loop) watch(v *vitals, peer uint64) {
	if l.woke && elapsed(l.wokeUsec, l.atUsec) <= silence {
		return
	}
	if age := elapsed(v.atUsec, l.atUsec); v.known && !v.silent && age > silence && len(l.events) < maxEvents {
		v.silent = true
		l.report(Event{Kind: EventSilent, By: age, Peer: peer, Last: -1})
	}
}
