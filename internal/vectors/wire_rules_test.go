// SPDX-License-Identifier: BSD-3-Clause

package vectors

import "timesync"

// Flags of a header.
const (
	flagReport    = 1
	flagAnchor    = 2
	flagHasAnchor = 4
	flagAsks      = 8
)

// forged is a datagram of B's that no end would send just now, or that comes late.
type forged struct {
	flags  byte
	late   uint64 // us: so much longer it was under way
	anchor int64  // us: the anchor is wrong by so much, a multiple of the ring of stamps
	zero   bool   // it reports 0
	low    uint64 // us: the report is by so much too low
}

// come lets one arrive at A now.
func (w *wireWorld) come(f forged) {
	sent := w.now - w.delay - f.late
	clock := sent + w.ahead[1]
	b, _ := timesync.LocalTimeToDatagramTS24(clock).AppendBinary([]byte{f.flags})
	if f.flags&flagReport != 0 {
		var report uint64
		if !f.zero { // B knows its floor
			report = (w.back+w.ahead[1]-w.ahead[0]-f.low)>>3&(1<<24-1) + 1
			report -= (report - 1) % 3
		}
		b, _ = timesync.NewCounter24(report).AppendBinary(b)
	}
	if f.flags&flagAnchor != 0 {
		b = append(b, leUint64(clock+uint64(f.anchor))...)
	}
	w.open(wireDatagram{sent: sent, header: len(b), b: b})
}

// alone adds a world in which A alone is an end. B's datagrams are forged.
func (all *wireWorlds) alone(name, about string) *wireWorld {
	w := all.add(name, about, 3000*second)
	w.back = w.delay
	w.drop = func(int) bool { return true }
	return w
}

// meet lets A become synchronized and B know that.
func (w *wireWorld) meet() {
	w.turn(0, forged{flags: flagReport | flagAnchor | flagAsks}, 10_000)
	w.turn(10_000, forged{flags: flagReport | flagAnchor}, 10_000)
	w.turn(10_000, forged{flags: flagHasAnchor}, 70_000)
}

// after lets some microseconds pass.
func (w *wireWorld) after(usec int64) *wireWorld {
	w.now += uint64(usec)
	return w
}

// talk lets both send for so long, B what an end sends that knows all.
func (w *wireWorld) talk(usec, every int64) {
	for ; usec > 0; usec -= every {
		w.after(every / 2).come(forged{flags: flagHasAnchor})
		w.after(every / 2).send(0)
	}
}

// turn lets a datagram come after some microseconds, and A send some later.
func (w *wireWorld) turn(usec int64, f forged, later int64) {
	w.after(usec).come(f)
	w.after(later).send(0)
}

// ruleWorlds returns scenarios of link.jsonl that decide rules which two ends on a good path need not: A alone
// is an end, and hears what it seldom hears.
func ruleWorlds() (all wireWorlds) {
	const reports, asks = flagReport | flagAnchor, flagAnchor | flagAsks
	const anchored = flagHasAnchor | flagAnchor
	const ring = 1 << 27 // us: of stamps

	w := all.alone("a report of 0", "it is none, before and after A knows B's clock")
	for range 2 {
		w.turn(0, forged{flags: reports | flagAsks, zero: true}, 100_000)
	}
	w.meet()
	for range 4 {
		w.turn(50_000, forged{flags: reports | flagHasAnchor, zero: true}, 50_000)
	}

	w = all.alone("for a predecessor", "B takes A for one that it knew: its reports are not for A")
	for range 3 {
		w.turn(0, forged{flags: reports | flagHasAnchor}, 50_000)
		w.after(50_000)
	}
	w.meet()
	w.talk(second, 100_000)

	w = all.alone("first anchors", "the first two datagrams of B take 40 s longer, so the first anchor is by 40 s behind")
	w.setAt = w.now
	for _, late := range []uint64{40 * second, 40 * second, 0} {
		w.turn(0, forged{flags: asks, late: late}, 100_000)
		w.after(100_000)
	}
	w.meet()
	w.after(100_000).come(forged{flags: anchored})
	last, truth := &w.lines[len(w.lines)-1], w.clock(1)
	last.Truth, last.Wide = &truth, true // to 67.1 s at least
	w.talk(7*second, 200_000)

	w = all.alone("in a row", "B asks again: A pauses its reports, and starts anew with the third such datagram after 50 ms")
	w.meet()
	w.talk(600_000, 100_000)
	// Once, and then nothing for longer than 50 ms.
	w.turn(40_000, forged{flags: asks}, 30_000)
	w.after(30_000).send(0)
	w.turn(5_000, forged{flags: anchored}, 5_000) // what is owed
	// The pause goes on after the row.
	w.talk(600_000, 100_000)
	w.after(40_000).come(forged{flags: asks})
	w.turn(1_000, forged{flags: anchored}, -2_000) // a time of receipt may be rounded up
	w.after(50_999).send(0)
	w.after(1).send(0)
	// Twice in a row, for long.
	w.talk(600_000, 100_000)
	w.after(10_000).come(forged{flags: asks})
	w.turn(60_000, forged{flags: asks}, 10_000)
	w.after(10_000).come(forged{flags: anchored})
	// The pause counts from the last of the row.
	w.after(10_000).send(0)
	w.after(19_999).send(0)
	w.after(1).send(0)
	// Three times, but within 50 ms, and then once more.
	w.talk(600_000, 100_000)
	for _, usec := range []int64{0, 10_000, 39_999} {
		w.after(usec).come(forged{flags: asks})
	}
	w.send(0)
	w.after(1).come(forged{flags: asks})
	w.send(0)
	w.meet()
	w.talk(600_000, 100_000)
	for _, usec := range []int64{0, 20_000, 30_000} {
		w.after(usec).come(forged{flags: asks})
	}
	w.send(0)
	w.meet()
	w.talk(second, 100_000)

	w = all.alone("knew us", "a row counts once B sent a datagram without flag 3 to an A that was synchronized before that")
	w.come(forged{flags: reports})
	for range 4 {
		w.turn(50_000, forged{flags: asks}, 10_000)
	}
	w.fail(0)
	w.turn(10_000, forged{flags: anchored}, 10_000) // those before make no report pause
	w.turn(10_000, forged{flags: asks}, 10_000)

	w = all.alone("overtaken by 1.5 s", "a report that is 3 ms too low, sent 1.5 s before the one that was taken 0.5 s ago: it is passed over")
	w.meet()
	w.talk(7*second, 100_000)
	w.after(50_000).come(forged{flags: reports | flagHasAnchor})
	w.after(500_000).come(forged{flags: flagReport | flagHasAnchor, late: 2 * second, low: 3000})
	w.talk(second, 100_000)

	w = all.alone("schedule of a new peer", "a report every 0.5 s again for 20 s")
	w.meet()
	w.talk(23*second, 500_000)
	for range 3 {
		w.after(30_000).come(forged{flags: asks})
	}
	w.meet()
	w.talk(4*second, 250_000)

	w = all.alone("anchors", "2^27 us behind, as if held up for so long: A takes the third in a row after 2 s. Ahead, at once. And those that take 15.5 and 16.5 s")
	w.meet()
	behind := forged{flags: anchored, anchor: -ring}
	good := forged{flags: anchored}
	at := func(usec int64, f forged) {
		w.after(usec).come(f)
		w.after(10_000).send(0)
		w.after(-10_000)
	}
	at(100_000, behind) // flag 2 off
	at(100_000, good)   // on
	at(100_000, forged{flags: anchored, late: 16_500_000})
	at(100_000, behind)
	at(100_000, forged{flags: anchored, late: 16_500_000}) // off still
	at(100_000, forged{flags: anchored, late: 15_500_000}) // on
	at(100_000, behind)
	at(1_000_000, good) // ends the row
	at(500_000, behind)
	at(900_000, behind)
	at(1_000_000, behind) // the third, after 1.9 s
	w.ahead[1] -= ring    // the fourth, after 2 s, is right
	at(100_000, good)
	w.ahead[1] += ring
	at(100_000, good) // at once
	at(100_000, behind)
	at(2_500_000, behind) // the second
	w.ahead[1] -= ring
	at(100_000, good)
	w.ahead[1] += ring
	at(100_000, good)
	at(100_000, behind)
	at(1_000_000, forged{flags: anchored, late: 16_500_000}) // as if it had none
	at(500_000, behind)
	w.ahead[1] -= ring
	at(500_000, good)

	w = all.alone("silence", "B is silent for 15 s: A's reports are extrapolated")
	w.meet()
	w.talk(2*second, 200_000)
	for i := range 15 {
		w.after(second).send(0)
		if i >= 12 {
			w.lines[len(w.lines)-1].Quality = "extrapolated"
		}
	}

	w = all.alone("silence from the start", "after 0.1 s nobody knows the rates, so 0.6 and 4 s later the floor is extrapolated")
	w.meet()
	for _, usec := range []int64{600_000, 3_400_000} {
		w.after(usec).send(0)
		w.lines[len(w.lines)-1].Quality = "extrapolated"
	}

	w = all.alone("reports that are low", "of quality 1, but by 50 us, as they may be. 20 ms to A, 0 to B, so the truth is at A's bound")
	w.back = 0
	w.come(forged{flags: reports | flagAsks, low: 50})
	for range 40 {
		w.after(500_000).come(forged{flags: flagReport | flagHasAnchor, low: 50})
	}
	for i := range w.lines[1:] {
		w.lines[i+1].Wide, w.lines[i+1].Delay = true, nil
	}
	return all
}
