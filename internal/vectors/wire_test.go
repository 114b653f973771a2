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
	"os"
	"reflect"
	"strings"
	"testing"

	"timesync"
	"timesync/link"
)

// The vectors of testdata/wire: both these tests and examples/js judge an end by them. docs/WIRE.md says what an
// end must do. The files have the inputs; with -update, their results are those of the packages.

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

const second = 1_000_000 // us

// tolerance is what an error, in us, may come from rounding: two stamps, two reports with their quality.
const tolerance = 32

// within reports whether a and b differ by at most d modulo 2^bits.
func within(a, b, d uint64, bits uint) bool {
	return (a-b+d)&(1<<bits-1) <= 2*d
}

// Flags of a header.
const (
	flagReport    = 1
	flagAnchor    = 2
	flagHasAnchor = 4
)

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
	if len(lines) < 500 {
		t.Fatalf("%s has only %d lines", name, len(lines))
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

// checkWire holds the lines of a file against what play makes of them in order, which is what they say. With
// -update it writes that.
func checkWire[T any](t *testing.T, name string, play func(T) T) []T {
	t.Helper()
	lines := readWire[T](t, name)
	for i, want := range lines {
		got := play(want)
		if lines[i] = got; !*update && !reflect.DeepEqual(got, want) {
			t.Errorf("line %d: %+v, want %+v", i+1, got, want)
		}
	}
	if *update {
		writeWire(t, name, lines)
	}
	return lines
}

// events returns the lines of link.jsonl or sessions.jsonl.gz. With -update it first writes them with what
// package link sends now, also where that comes to the other end. Datagrams that no end sent stay.
func events(t *testing.T, name string) []wireEvent {
	t.Helper()
	lines := readWire[wireEvent](t, name)
	if !*update {
		return lines
	}
	var ends map[string]*link.Link
	var sent map[string]string // by the end that hears it, and its stamp
	for i := range lines {
		e := &lines[i]
		switch e.Event {
		case "begin":
			ends, sent = bothEnds(), map[string]string{}
		case "new":
			ends[e.End] = new(link.Link)
		case "failed":
			ends[e.End].SendFailed()
		case "send":
			header := hex.EncodeToString(ends[e.End].AppendHeader(nil, e.Now))
			sent[map[string]string{"A": "B", "B": "A"}[e.End]+header[2:8]] = header
			if e.Hex != "" {
				e.Hex = header
			}
		case "open":
			if header, ok := sent[e.End+e.Hex[2:8]]; ok {
				e.Hex = header + e.Payload
			}
			ends[e.End].Open(unhex(e.Hex), e.Now)
		}
	}
	writeWire(t, name, lines)
	return lines
}

func bothEnds() map[string]*link.Link { return map[string]*link.Link{"A": {}, "B": {}} }

// TestWireLink: both ends of each scenario do what docs/WIRE.md says, in each event.
func TestWireLink(t *testing.T) {
	var ends map[string]*link.Link
	wrong := 0
	for i, e := range events(t, "link.jsonl") {
		switch e.Event {
		case "begin":
			ends = bothEnds()
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
	checkWire(t, "malformed.jsonl", malformed.calculate)
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
	checkWire(t, "formulas.jsonl", formula.calculate)
}
