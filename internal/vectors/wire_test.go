// SPDX-License-Identifier: BSD-3-Clause

package vectors

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"timesync"
	"timesync/link"
)

// The vectors of testdata/wire: package link writes them with -update, and both this test and
// examples/js judge an end by them. docs/WIRE.md says what an end must do.

var update = flag.Bool("update", false, "write testdata/wire anew")

const wireFolder = testdata + "wire/"

// wireEvent is a line of link.jsonl and sessions.jsonl.
type wireEvent struct {
	Scenario string `json:"scenario"`
	End      string `json:"end,omitempty"`
	Event    string `json:"event"` // begin, new, send, failed, open, read
	About    string `json:"about,omitempty"`
	Now      uint64 `json:"now,omitempty,string"` // the end's clock
	Hex      string `json:"hex,omitempty"`        // what was sent, or came

	// Of send: whether there is a report ("must", "may", "no"), what its quality is, if
	// that matters ("confirmed", "extrapolated"), whether an anchor goes even without one, and the true delay floor, in
	// us modulo 2^27, unless an end started anew or a clock was set within 6 s. Set says that one was:
	// then flag 2 may be missing. Also of read: then the bound need not hold yet.
	Report  string  `json:"report,omitempty"`
	Quality string  `json:"quality,omitempty"`
	Anchor  bool    `json:"anchor,omitempty"`
	Floor   *uint64 `json:"floor,omitempty,string"`
	Set     bool    `json:"set,omitempty"`

	// Of send, payload times: a time of the own clock, and what it is by the peer's, in units of 8 and
	// 512 us. Without TS23 the peer's clock is not to be known.
	Tell *uint64 `json:"tell,omitempty,string"`
	TS23 *uint32 `json:"ts23,omitempty"`
	TS16 *uint32 `json:"ts16,omitempty"`

	// Of open: the payload, and where it is payload times what they are by the own clock.
	Payload string  `json:"payload,omitempty"` // 3 bytes of link.AppendTime23 and a TS16
	Time23  *uint64 `json:"time23,omitempty,string"`
	Time16  *uint64 `json:"time16,omitempty,string"`

	// Of open: the error, or whether the delay of the datagram is known, how long it was, and what
	// the other clock shows now; both unless a clock was set within 6 s.
	Error string  `json:"error,omitempty"`
	Known bool    `json:"known,omitempty"`
	Delay *uint64 `json:"delay,omitempty,string"`
	Truth *uint64 `json:"truth,omitempty,string"` // also of read
	Wide  bool    `json:"wide,omitempty"`         // the truth need only lie within the end's bound

	// Of begin, in sessions.jsonl: limits for what is read. No error may exceed its bound.
	P99       uint64 `json:"p99,omitempty,string"`   // of the errors, us
	Bound     uint64 `json:"bound,omitempty,string"` // and of the bounds
	Confirmed int    `json:"confirmed,omitempty"`    // so many percent of an end's reports should be confirmed
}

// tolerance is what an error, in us, may come from rounding: two stamps, two reports with their quality.
const tolerance = 32

// within reports whether a and b differ by at most d modulo 2^bits.
func within(a, b, d uint64, bits uint) bool {
	return (a-b+d)&(1<<bits-1) <= 2*d
}

// judge says what is wrong with an end of package link by an event, or nothing.
func judge(l *link.Link, e wireEvent) string {
	b, err := hex.DecodeString(e.Hex)
	if err != nil {
		return err.Error()
	}
	switch e.Event {
	case "send":
		if e.Tell != nil {
			if bad := judgeTimes(l, e); bad != "" {
				return bad
			}
		}
		return judgeHeader(l.AppendHeader(nil, e.Now), b, e)
	case "failed":
		l.SendFailed()
	case "open":
		payload, delay, known, err := l.Open(b, e.Now)
		switch {
		case errorName(err) != e.Error:
			return fmt.Sprintf("%v, want %q", err, e.Error)
		case hex.EncodeToString(payload) != e.Payload:
			return fmt.Sprintf("payload %x", payload)
		case e.Time23 != nil && (readTimes(payload, e.Now) != [2]uint64{*e.Time23, *e.Time16}):
			return fmt.Sprintf("payload times %d, want %d and %d", readTimes(payload, e.Now), *e.Time23, *e.Time16)
		case known != e.Known:
			return fmt.Sprintf("delay known: %v", known)
		case known && e.Delay != nil && !within(uint64(delay.Microseconds()), *e.Delay, tolerance, 64):
			return fmt.Sprintf("delay %v, want %d us", delay, *e.Delay)
		}
		limit := uint64(tolerance)
		if bound, ok := l.ErrorBound(e.Now); ok && e.Wide {
			limit = uint64(bound.Microseconds())
		}
		if remote, ok := l.RemoteTime(e.Now); ok && e.Truth != nil && !within(remote, *e.Truth, limit, 64) {
			return fmt.Sprintf("remote time %d, want %d to %d us", remote, *e.Truth, limit)
		}
	}
	return ""
}

// judgeTimes says what is wrong with the payload times that an end tells.
func judgeTimes(l *link.Link, e wireEvent) string {
	ts23, known := l.ToRemoteTime23(*e.Tell)
	ts16, _ := l.ToRemoteTime16(*e.Tell)
	const units23, units16 = tolerance/8 + 1, 1
	if known != (e.TS23 != nil) || known && (!within(uint64(ts23), uint64(*e.TS23), units23, 23) || !within(uint64(ts16), uint64(*e.TS16), units16, 16)) {
		return fmt.Sprintf("payload times %v and %v, known: %v", ts23, ts16, known)
	}
	return ""
}

// readTimes returns the two payload times, by the clock of the end that takes them.
func readTimes(payload []byte, now uint64) [2]uint64 {
	ts23, _ := link.ReadTime23(payload)
	return [2]uint64{timesync.FromLocalTime23(now, ts23), timesync.FromLocalTime16(now, timesync.ReadCounter16(payload[3:]))}
}

// judgeHeader says what is wrong with a header where b is one that is right.
func judgeHeader(got, b []byte, e wireEvent) string {
	flags, size, free := got[0], 4, byte(flagReport|flagAnchor)
	if e.Set {
		free |= flagHasAnchor
	}
	reports, quality := flags&flagReport != 0, ""
	if reports {
		quality = qualityNames[timesync.ReadCounter24(got[4:])%3]
		size += 3
	}
	if flags&flagAnchor != 0 {
		size += 8
	}
	switch {
	case (flags^b[0])&^free != 0:
		return fmt.Sprintf("flags %x, want %x", flags, b[0])
	case reports && e.Report == "no" || !reports && e.Report == "must":
		return fmt.Sprintf("a report: %v, want %s", reports, e.Report)
	case quality == "legacy" || reports && e.Quality != "" && quality != e.Quality:
		return fmt.Sprintf("a %s report, want a %s one", quality, e.Quality)
	case flags&flagAnchor != 0 != (reports || e.Anchor):
		return fmt.Sprintf("flags %x: an anchor is to go with a report, and without: %v", flags, e.Anchor)
	case len(got) != size || !bytes.Equal(got[1:4], b[1:4]):
		return fmt.Sprintf("% x, want the stamp % x", got, b[1:4])
	case flags&flagAnchor != 0 && !bytes.Equal(got[size-8:], leUint64(e.Now)):
		return fmt.Sprintf("% x: the anchor is not %d", got, e.Now)
	case reports && e.Floor != nil && !within(8*uint64(timesync.ReadCounter24(got[4:])), *e.Floor, tolerance, 27):
		return fmt.Sprintf("report %v, the floor is %d us", timesync.ReadCounter24(got[4:]), *e.Floor)
	}
	return ""
}

// qualityNames are what the remainders of reports mean; only the C++ original sends the third.
var qualityNames = [3]string{"extrapolated", "confirmed", "legacy"}

// unhex returns the bytes of a line, as many as are written in hex.
func unhex(s string) []byte {
	b, _ := hex.DecodeString(s)
	return b
}

func leUint64(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }

var errorNames = map[error]string{nil: "", link.ErrTruncated: "truncated", link.ErrReserved: "reserved", link.ErrAnchor: "anchor"}

func errorName(err error) string {
	name, ok := errorNames[err]
	if !ok {
		return err.Error()
	}
	return name
}

// referee knows the rules by which an end sends reports, whatever its estimator.
type referee struct {
	heard, synced, knewUs, heardOfUs, owed, started bool
	first, due                                      uint64
	asking                                          int
	askedFrom, askedAt                              uint64
}

// send returns whether a report goes with a datagram, and whether an anchor goes without one.
func (r *referee) send(now uint64) (report string, anchor bool) {
	anchor = !r.synced || !r.heardOfUs
	if ago := int64(now - r.askedAt); !r.heard || r.asking > 0 || r.askedAt != 0 && max(ago, -ago) < 50_000 {
		return "no", anchor
	}
	if !r.started {
		r.started, r.first, r.due = true, now, now
	}
	if ahead := int64(r.due - now); r.owed || ahead <= 0 || ahead > 2_000_000 {
		r.owed, r.due = false, now+500_000
		if now-r.first >= 20_000_000 {
			r.due = now + 2_000_000
		}
		return "must", anchor
	}
	return "may", anchor
}

// open takes what came, and returns whether its delay is known.
func (r *referee) open(b []byte, now uint64) (known bool) {
	flags := b[0]
	reports, hasAnchor, asks := flags&1 != 0, flags&4 != 0, flags&8 != 0
	r.knewUs = r.knewUs || !asks && r.synced
	if !asks || !r.knewUs {
		r.asking = 0
	} else {
		if r.asking++; r.asking == 1 {
			r.askedFrom = now
		}
		r.askedAt = now
		if r.asking >= 3 && now-r.askedFrom >= 50_000 {
			*r = referee{}
		}
	}
	known, r.heard = r.synced, true
	r.synced = r.synced || reports && !hasAnchor && (b[4] != 0 || b[5] != 0 || b[6] != 0) // a report of 0 is none
	r.heardOfUs = hasAnchor
	r.owed = r.owed || asks
	return known
}

// wireWorld makes the lines of a scenario: two ends, a path without jitter, and what happens.
type wireWorld struct {
	name   string
	links  [2]*link.Link
	refs   [2]*referee
	ahead  [2]uint64 // clocks minus true time
	flying []wireDatagram
	lines  []wireEvent
	now    uint64 // true time, us
	setAt  uint64 // an end started anew or a clock was set
	set    bool   // the latter
	delay  uint64
	back   uint64 // the delay from A to B, where B is forged
	every  uint64
	settle uint64                // us: so long after setAt nothing is said of floors and times
	drop   func(side int) bool   // what is sent now gets lost
	hold   func(side int) uint64 // or takes longer
	tells  bool                  // datagrams carry payload times
	told   int                   // so many have
}

type wireDatagram struct {
	at, sent uint64
	to       int
	header   int // length
	b        []byte
}

// wireWorlds are the scenarios of a file, in order.
type wireWorlds []*wireWorld

func (all *wireWorlds) add(name, about string, ahead uint64) *wireWorld {
	w := &wireWorld{name: name, now: 1_000_000, delay: 20_000, every: 100_000, settle: 6 * second, ahead: [2]uint64{0, ahead}}
	w.lines = []wireEvent{{Scenario: name, Event: "begin", About: about}}
	w.links, w.refs = [2]*link.Link{{}, {}}, [2]*referee{{}, {}}
	*all = append(*all, w)
	return w
}

func (w *wireWorld) clock(side int) uint64 { return w.now + w.ahead[side] }

func (w *wireWorld) add(side int, e wireEvent) {
	e.Scenario, e.End = w.name, "AB"[side:side+1]
	w.lines = append(w.lines, e)
}

// run lets both ends send until so many microseconds have passed: A at first, and B half an
// interval later.
func (w *wireWorld) run(usec uint64) {
	for until := w.now + usec; w.now < until; w.now += 5_000 {
		for i := 0; i < len(w.flying); i++ {
			if f := w.flying[i]; f.at <= w.now {
				w.flying = slices.Delete(w.flying, i, i+1)
				w.open(f)
				i--
			}
		}
		for side := range w.links {
			if (w.now+uint64(side)*w.every/2)%w.every == 0 {
				w.send(side)
			}
		}
	}
}

func (w *wireWorld) settled() bool { return w.setAt == 0 || w.now-w.setAt > w.settle }

// tell adds payload times to a datagram, before the header is known: of what was 24 s ago to what
// will be in 8 s, which both kinds can say.
func (w *wireWorld) tell(side int, e *wireEvent) (payload []byte) {
	ahead := [...]int64{-24_000_000, -1_000, 0, 3_000_003, 8_000_000}[w.told%5]
	w.told++
	own := e.Now + uint64(ahead)
	e.Tell = &own
	ts23, known := w.links[side].ToRemoteTime23(own)
	ts16, _ := w.links[side].ToRemoteTime16(own)
	if known {
		theirs := own - w.ahead[side] + w.ahead[1-side]
		units23, units16 := uint32((theirs+4)>>3&(1<<23-1)), uint32((theirs+256)>>9&(1<<16-1))
		e.TS23, e.TS16 = &units23, &units16
	}
	payload, _ = ts16.AppendBinary(link.AppendTime23(nil, ts23, known))
	return payload
}

func (w *wireWorld) send(side int) {
	now := w.clock(side)
	e := wireEvent{Event: "send", Now: now}
	var payload []byte
	if w.tells {
		payload = w.tell(side, &e)
	}
	b := w.links[side].AppendHeader(nil, now)
	e.Hex = hex.EncodeToString(b)
	e.Report, e.Anchor = w.refs[side].send(now)
	e.Set = w.set && !w.settled()
	if w.settled() {
		floor := (w.delay + w.ahead[side] - w.ahead[1-side]) & (1<<27 - 1)
		e.Floor = &floor
	}
	w.add(side, e)
	if w.drop != nil && w.drop(side) {
		return
	}
	f := wireDatagram{w.now + w.delay, w.now, 1 - side, len(b), append(b, payload...)}
	if w.hold != nil {
		f.at += w.hold(side)
	}
	w.flying = append(w.flying, f)
}

func (w *wireWorld) open(f wireDatagram) {
	now := w.clock(f.to)
	_, _, known, err := w.links[f.to].Open(f.b, now)
	e := wireEvent{Event: "open", Now: now, Hex: hex.EncodeToString(f.b), Known: known, Error: errorName(err), Payload: hex.EncodeToString(f.b[f.header:])}
	if payload := f.b[f.header:]; len(payload) > 0 && payload[2]&0x80 != 0 { // there is a time
		times := readTimes(payload, now)
		e.Time23, e.Time16 = &times[0], &times[1]
	}
	w.refs[f.to].open(f.b, now)
	if delay, truth := w.now-f.sent, w.clock(1-f.to); w.settled() {
		e.Delay, e.Truth = &delay, &truth
	}
	w.add(f.to, e)
}

// anew starts an end anew, with another clock.
func (w *wireWorld) anew(side int, ahead uint64) {
	w.links[side], w.refs[side] = new(link.Link), new(referee)
	w.ahead[side] = ahead
	w.setAt = w.now
	w.add(side, wireEvent{Event: "new"})
}

// fail lets an end hear that its last datagram was not sent.
func (w *wireWorld) fail(side int) {
	w.links[side].SendFailed()
	w.refs[side].owed = true
	w.add(side, wireEvent{Event: "failed"})
}

// step sets a clock.
func (w *wireWorld) step(side int, by int64) {
	w.ahead[side] += uint64(by)
	w.setAt, w.set = w.now, true
}

const second = 1_000_000 // us

// linkVectors returns link.jsonl.
func linkVectors() (lines []wireEvent) {
	var all wireWorlds
	w := all.add("start", "the first seconds; B's clock is 5000 s ahead", 5000*second)
	w.run(2 * second)

	w = all.add("schedule", "a report every 0.5 s for 20 s, then every 2 s; 4 datagrams a second", 12_345_678)
	w.every = 250_000
	w.run(23 * second)
	w.fail(0) // long after the start
	w.run(4 * second)

	w = all.add("lost", "the first six datagrams of B are lost", 1<<40)
	lost := 0
	w.drop = func(side int) bool { lost += side; return side == 1 && lost <= 6 }
	w.run(2 * second)

	w = all.add("failed", "A could not send what it should", 1<<63)
	w.run(3 * second)
	for range 3 {
		w.fail(0)
		w.run(700_000)
	}

	w = all.add("restart", "B starts anew, with another clock, while datagrams of the old B are under way; 50 a second", 77*second)
	w.every, w.delay = 20_000, 70_000
	w.run(3 * second)
	w.settle = second // what A knew of the old B is forgotten by then
	w.anew(1, 1<<50)
	w.run(9 * second)

	w = all.add("held up", "the first two datagrams of A arrive 1 s late: nobody has started anew", 5*second)
	held := 0
	w.hold = func(side int) uint64 {
		if side == 0 && held < 2 {
			held++
			return second
		}
		return 0
	}
	w.run(3 * second)

	w = all.add("overtaken", "the first two datagrams of A queue; the report of that arrives after the next one, and is passed over", 5*second)
	w.setAt, w.settle = w.now, 450_000 // B is right by then
	var sent [2]int
	w.hold = func(side int) uint64 {
		switch sent[side]++; {
		case side == 0 && sent[0] <= 2:
			return 90_000
		case side == 1 && sent[1] == 2:
			return 120_000
		}
		return 0
	}
	w.run(2 * second)

	for _, s := range []struct {
		name, about string
		by          int64
	}{
		{"set ahead", "A's clock is set ahead by 2 s", 2 * second},
		{"set back", "A's clock is set back by 2 s", -2 * second},
		{"set by half a ring", "A's clock is set ahead by 2^26 us: half the ring of stamps, all of that of offsets. The anchor tells", 1 << 26},
		{"set back by half a ring", "A's clock is set back by 2^26 us", -1 << 26},
		{"set by half a ring of offsets", "A's clock is set ahead by 2^25 us", 1 << 25},
		{"set by a ring", "A's clock is set back by 2^27 us, which no stamp shows", -1 << 27},
	} {
		w = all.add(s.name, s.about, 40*second)
		w.every = 200_000
		w.run(3 * second)
		w.step(0, s.by)
		w.run(8 * second)
	}

	w = all.add("set back by 40 s", "reports come each 2 s; the anchor of the first one after the step counts, as that report leaves the offset", 9*second)
	w.every = 200_000
	w.run(24 * second)
	w.step(0, -40*second)
	w.settle = 5 * second
	w.run(9 * second)

	w = all.add("wraps", "A's clock passes 2^64 and its stamps wrap; A's floor is 0", 0)
	w.ahead[0] = 1<<64 - 2_500_000
	w.ahead[1] = w.ahead[0] + w.delay
	w.run(4 * second)

	w = all.add("longer path", "both ways take 30 ms longer; 20 s after that the reports must show it", 6*second)
	w.every = 250_000
	w.run(5 * second)
	w.delay, w.setAt, w.settle = 50_000, w.now, 20*second
	w.run(24 * second)

	w = all.add("payload times", "each datagram says when something happened, or will; those of B pass 2^64", 0)
	w.ahead[1] = 1<<64 - 4_000_000
	w.every, w.tells = 200_000, true
	w.run(8 * second)
	for _, w := range append(all, ruleWorlds()...) {
		lines = append(lines, w.lines...)
	}
	return lines
}

// must ends the test if something fails that is to work.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// readWire returns the lines of a file of testdata/wire.
func readWire[T any](t *testing.T, name string) (lines []T) {
	t.Helper()
	b, err := os.ReadFile(wireFolder + name)
	must(t, err)
	var r io.Reader = bytes.NewReader(b)
	if strings.HasSuffix(name, ".gz") {
		r, err = gzip.NewReader(r)
		must(t, err)
	}
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	for d.More() {
		var line T
		if err := d.Decode(&line); err != nil {
			t.Fatalf("%s, line %d: %v", name, len(lines)+1, err)
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		t.Fatalf("%s is empty", name)
	}
	return lines
}

// writeWire writes a file of testdata/wire.
func writeWire[T any](t *testing.T, name string, lines []T) {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	for _, line := range lines {
		must(t, e.Encode(line))
	}
	if strings.HasSuffix(name, ".gz") {
		plain := bytes.Clone(b.Bytes())
		b.Reset()
		z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
		z.Write(plain)
		z.Close()
	}
	must(t, os.WriteFile(wireFolder+name, b.Bytes(), 0o644))
}

// TestWireLink: both ends of each scenario do what docs/WIRE.md says, in each event.
func TestWireLink(t *testing.T) {
	if *update {
		writeWire(t, "link.jsonl", linkVectors())
	}
	var ends map[string]*link.Link
	wrong := 0
	for i, e := range readWire[wireEvent](t, "link.jsonl") {
		switch e.Event {
		case "begin":
			ends = map[string]*link.Link{"A": {}, "B": {}}
		case "new":
			ends[e.End] = new(link.Link)
		default:
			if bad := judge(ends[e.End], e); bad != "" && wrong < 20 {
				wrong++
				t.Errorf("line %d, %s, end %s, %s at %d: %s", i+1, e.Scenario, e.End, e.Event, e.Now, bad)
			}
		}
	}
}

// TestWireLinkCurrent: the scenarios in the file are those of this program: what they send differs
// in the values and the number of reports at most.
func TestWireLinkCurrent(t *testing.T) {
	want, got := linkVectors(), readWire[wireEvent](t, "link.jsonl")
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d: run with -update", len(got), len(want))
	}
	for i, e := range got {
		w := want[i]
		e.Hex, w.Hex = "", ""
		a, _ := json.Marshal(e)
		b, _ := json.Marshal(w)
		if !bytes.Equal(a, b) {
			t.Fatalf("line %d is %s, want %s: run with -update", i+1, a, b)
		}
	}
}

// checkWire judges the lines of a file by what calculate makes of them, which is what they say.
func checkWire[T comparable](t *testing.T, name string, calculate func(T) T) []T {
	t.Helper()
	lines := readWire[T](t, name)
	for i, want := range lines {
		if got := calculate(want); got != want {
			t.Errorf("line %d: %+v, want %+v", i+1, got, want)
		}
	}
	return lines
}

// malformed is a line of malformed.jsonl.
type malformed struct {
	Hex   string `json:"hex"`
	Error string `json:"error"` // "": it is well-formed
}

// calculate returns a line with its error.
func (m malformed) calculate() malformed {
	b, err := hex.DecodeString(m.Hex)
	if err == nil {
		_, _, _, err = new(link.Link).Open(b, 1e6)
	}
	m.Error = errorName(err)
	return m
}

// TestWireMalformed: each datagram is refused for its reason.
func TestWireMalformed(t *testing.T) {
	if *update {
		whole := "0f" + "4042ff" + "010203" + "0012fa0700000000" // stamp and anchor agree: 0x07fa1200 >> 3 is 0xff4240
		var lines []malformed
		for n := 0; n <= len(whole); n += 2 {
			lines = append(lines, malformed{Hex: whole[:n]})
		}
		lines = append(lines, malformed{Hex: whole + "7061796c6f6164"})
		for _, short := range []string{"f0", "10ffff", "ff4042"} { // too short to look at the flags
			lines = append(lines, malformed{Hex: short})
		}
		for flags := range 256 { // 4 bytes, then all 15
			lines = append(lines, malformed{Hex: fmt.Sprintf("%02x4042ff", flags)},
				malformed{Hex: fmt.Sprintf("%02x4042ff0102030012fa0700000000", flags)},
				malformed{Hex: fmt.Sprintf("%02x4042ff0012fa0700000000", flags)})
		}
		for bit := range 64 { // of the anchor: the 24 from bit 3 on are the stamp
			lines = append(lines, malformed{Hex: fmt.Sprintf("024042ff%x", leUint64(0x07fa1200^1<<bit))})
		}
		for i := range lines {
			lines[i] = lines[i].calculate()
		}
		writeWire(t, "malformed.jsonl", lines)
	}
	seen := map[string]int{}
	for _, m := range checkWire(t, "malformed.jsonl", malformed.calculate) {
		seen[m.Error]++
	}
	if len(seen) != 4 {
		t.Errorf("not all reasons: %v", seen)
	}
}

// formula is a line of formulas.jsonl: the first numbers of a synchronizer, which no estimator may
// choose.
type formula struct {
	Kind    string `json:"kind"`                    // report, offset
	Floor   uint64 `json:"floor,string"`            // us modulo 2^27: of the own floor
	Quality uint32 `json:"quality,omitempty"`       // of report
	Peer    uint32 `json:"peer,omitempty"`          // of offset: the peer's report
	Report  uint32 `json:"report,omitempty"`        // the result
	Offset  uint64 `json:"offset,omitempty,string"` // the result, us modulo 2^26: rounded down, or up by up to 1/4
	Delay   uint64 `json:"delay,omitempty,string"`  // and floor + offset, 0 if negative
}

// calculate returns a formula with its result.
func (f formula) calculate() formula {
	var s timesync.TimeSynchronizer
	const stamp, ring = 1 << 23, 1 << 27
	now := uint64(stamp)<<3 + f.Floor + ring
	s.OnAuthenticatedDatagramTimestamp(stamp, now)
	if f.Kind == "report" {
		at := now
		if f.Quality == 0 { // what was confirmed so long ago is extrapolated, once the peer's floor is known
			s.OnPeerMinDeltaTS24(timesync.NewCounter24(-f.Floor>>3+2500), now)
			at += 10 * second
		}
		report, _ := s.MinDeltaTS24(at)
		f.Report = uint32(report)
		return f
	}
	s.OnPeerMinDeltaTS24(timesync.Counter24(f.Peer), now)
	remote, _ := s.RemoteTime(now)
	delay, _ := s.MinimumOneWayDelay()
	f.Offset, f.Delay = (remote-now)&(1<<26-1), uint64(delay.Microseconds())
	return f
}

// TestWireFormulas: reports and offsets to the bit.
func TestWireFormulas(t *testing.T) {
	if *update {
		rng := rand.New(rand.NewPCG(48_300_000, 0))
		var lines []formula
		edges := []uint64{0, 1, 3, 4, 5, 7, 8, 11, 12, 13, 16, 20, 24, 1<<27 - 1, 1<<27 - 4, 1<<27 - 5, 1<<27 - 8, 1<<27 - 12, 1<<27 - 16, 1<<27 - 20, 1 << 26, 1<<26 - 1, 1<<26 - 8}
		for i := range 300 {
			floor := rng.Uint64N(1 << 27)
			if i < len(edges) {
				floor = edges[i]
			}
			for quality := range uint32(2) {
				lines = append(lines, formula{Kind: "report", Floor: floor, Quality: quality}.calculate())
			}
			trip := rng.Uint64N(1 << uint(10+i%10))
			peer := uint32((trip-floor)>>3&(1<<24-1)) + 1
			lines = append(lines, formula{Kind: "offset", Floor: floor, Peer: peer & (1<<24 - 1)}.calculate())
		}
		writeWire(t, "formulas.jsonl", lines)
	}
	qualities := map[[2]uint32]int{}
	for i, f := range checkWire(t, "formulas.jsonl", formula.calculate) {
		if f.Kind == "report" {
			qualities[[2]uint32{f.Quality, f.Report % 3}]++
			if !within(8*uint64(f.Report), f.Floor, 21, 27) || f.Report == 0 { // 13 us, or 21 where 0 became -1
				t.Errorf("line %d: report %d of %d us", i+1, f.Report, f.Floor)
			}
		}
	}
	if qualities[[2]uint32{0, 0}] < 250 || qualities[[2]uint32{1, 1}] < 250 {
		t.Errorf("too few have their quality: asked for and had %v", qualities)
	}
}
