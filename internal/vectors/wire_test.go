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
	"math"
	"os"
	"strings"
	"testing"

	"timesync"
	"timesync/internal/stat"
	"timesync/link"
)

// The vectors of testdata/wire: both these tests and examples/js judge an end by them. docs/WIRE.md says what an
// end must do, and the README beside the files what is in a line. The files have the inputs; with -update, their
// results are those of the packages.

var update = flag.Bool("update", false, "write testdata/wire anew")

// wireEvent is a line of link.jsonl and sessions.jsonl.
type wireEvent struct {
	Scenario string `json:"scenario"`
	End      string `json:"end,omitempty"`
	Event    string `json:"event"`
	About    string `json:"about,omitempty"`
	Now      uint64 `json:"now,omitempty,string"`
	Hex      string `json:"hex,omitempty"`

	Report  string  `json:"report,omitempty"` // of send
	Quality string  `json:"quality,omitempty"`
	Anchor  bool    `json:"anchor,omitempty"`
	Floor   *uint64 `json:"floor,omitempty,string"` // missing for 6 s after an end started anew or a clock was set
	Set     bool    `json:"set,omitempty"`          // also of read
	Tell    *uint64 `json:"tell,omitempty,string"`
	TS23    *uint32 `json:"ts23,omitempty"`
	TS16    *uint32 `json:"ts16,omitempty"`

	Payload string  `json:"payload,omitempty"` // of open
	Time23  *uint64 `json:"time23,omitempty,string"`
	Time16  *uint64 `json:"time16,omitempty,string"`
	Error   string  `json:"error,omitempty"`
	Known   bool    `json:"known,omitempty"`
	Delay   *uint64 `json:"delay,omitempty,string"` // missing for 6 s after a clock was set
	Truth   *uint64 `json:"truth,omitempty,string"` // the same; also of read
	Wide    bool    `json:"wide,omitempty"`

	P99       uint64 `json:"p99,omitempty,string"` // of begin, in sessions.jsonl
	Bound     uint64 `json:"bound,omitempty,string"`
	Confirmed int    `json:"confirmed,omitempty"`
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

// wireEnd is an end, and what it read: errors and bounds, us, the latter unless a clock was set.
type wireEnd struct {
	*link.Link
	errs, bounds []float64
}

// scene is a scenario of link.jsonl or sessions.jsonl.gz.
type scene struct {
	wireEvent // with which it begins
	ends      map[string]*wireEnd
	sent      map[string]string // headers, by the end that hears them, and their stamps
	qualities [3]int            // of reports
}

// player lets both ends of each scenario do what the lines say.
type player struct {
	t      *testing.T
	scenes []*scene
	wrong  int
}

// play says what an end does otherwise than its line demands. With -update it returns the line with what package link
// sends now, also where that comes to the other end. Datagrams that no end sent stay.
func (p *player) play(e wireEvent) wireEvent {
	if e.Event == "begin" {
		ends := map[string]*wireEnd{"A": {Link: new(link.Link)}, "B": {Link: new(link.Link)}}
		p.scenes = append(p.scenes, &scene{wireEvent: e, ends: ends, sent: map[string]string{}})
		return e
	}
	s := p.scenes[len(p.scenes)-1]
	bad := ""
	switch l := s.ends[e.End]; e.Event {
	case "new":
		l.Link = new(link.Link)
	case "failed":
		l.SendFailed()
	case "send":
		bad = s.send(l, &e)
	case "open":
		bad = s.open(l, &e)
	case "read":
		bad = l.read(e)
	}
	if bad != "" && p.wrong < 20 {
		p.wrong++
		p.t.Errorf("%s, end %s, %s at %d: %s", e.Scenario, e.End, e.Event, e.Now, bad)
	}
	return e
}

func (s *scene) send(l *wireEnd, e *wireEvent) string {
	if bad := judgeTimes(l.Link, *e); bad != "" {
		return bad
	}
	got, want := l.AppendHeader(nil, e.Now), unhex(e.Hex)
	header := hex.EncodeToString(got)
	s.sent[map[string]string{"A": "B", "B": "A"}[e.End]+header[2:8]] = header
	if got[0]&flagReport != 0 {
		s.qualities[timesync.ReadCounter24(got[4:])%3]++
	}
	if e.Hex == "" { // of a session
		return ""
	}
	if *update {
		e.Hex = header
	}
	return judgeHeader(got, want, *e)
}

func (s *scene) open(l *wireEnd, e *wireEvent) string {
	if header, ok := s.sent[e.End+e.Hex[2:8]]; ok && *update {
		e.Hex = header + e.Payload
	}
	payload, delay, known, err := l.Open(unhex(e.Hex), e.Now)
	switch {
	case errorName(err) != e.Error:
		return fmt.Sprintf("%v, want %q", err, e.Error)
	case s.P99 > 0: // else only what is read is judged
		return ""
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
	return ""
}

func (l *wireEnd) read(e wireEvent) string {
	known, ok := l.Snapshot(e.Now)
	err, bound := math.Abs(float64(int64(known.RemoteUsec-*e.Truth))), float64(known.ErrorBound.Microseconds())
	if l.errs = append(l.errs, err); !e.Set {
		l.bounds = append(l.bounds, bound)
	}
	if !ok || err > bound && !e.Set {
		return fmt.Sprintf("off by %.0f us, the bound is %.0f", err, bound)
	}
	return ""
}

// judgeTimes says what is wrong with the payload times that an end tells.
func judgeTimes(l *link.Link, e wireEvent) string {
	if e.Tell == nil {
		return ""
	}
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

// judgeHeader says what is wrong with a header where right is another one, which may have another report, or none.
func judgeHeader(got, right []byte, e wireEvent) string {
	free := byte(flagReport | flagAnchor)
	if e.Set {
		free |= flagHasAnchor
	}
	reports, anchors := got[0]&flagReport != 0, got[0]&flagAnchor != 0
	want := append([]byte{right[0]&^free | got[0]&free}, right[1:4]...)
	report, quality := timesync.Counter24(0), ""
	if reports {
		report = timesync.ReadCounter24(got[4:])
		quality = qualityNames[report%3]
		want = append(want, got[4:7]...)
	}
	if anchors {
		want = binary.LittleEndian.AppendUint64(want, e.Now)
	}
	switch {
	case !bytes.Equal(got, want):
		return fmt.Sprintf("% x, want % x", got, want)
	case reports && e.Report == "no" || !reports && e.Report == "must":
		return fmt.Sprintf("a report: %v, want %s", reports, e.Report)
	case quality == "legacy" || reports && e.Quality != "" && quality != e.Quality:
		return fmt.Sprintf("a %s report, want a %s one", quality, e.Quality)
	case anchors != (reports || e.Anchor):
		return fmt.Sprintf("% x: an anchor is to go with a report, and without: %v", got, e.Anchor)
	case reports && e.Floor != nil && !within(8*uint64(report), *e.Floor, tolerance, 27):
		return fmt.Sprintf("report %v, the floor is %d us", report, *e.Floor)
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

var errorNames = map[error]string{nil: "", link.ErrTruncated: "truncated", link.ErrReserved: "reserved", link.ErrAnchor: "anchor"}

func errorName(err error) string {
	name, ok := errorNames[err]
	if !ok {
		return err.Error()
	}
	return name
}

// wire hands the lines of a file of testdata/wire to play in order. What it makes of a line is what that says. With
// -update that is written.
func wire[T any](t *testing.T, name string, play func(T) T) {
	t.Helper()
	name = "wire/" + name
	var got bytes.Buffer
	e := json.NewEncoder(&got)
	for _, line := range lines[T](t, name) {
		must(t, e.Encode(play(line)))
	}
	want := strings.Split(string(unpacked(t, name)), "\n")
	for i, line := range strings.Split(got.String(), "\n") {
		if !*update && (i >= len(want) || line != want[i]) {
			t.Errorf("line %d: %s, want %s", i+1, line, want[min(i, len(want)-1)])
		}
	}
	if *update {
		must(t, os.WriteFile(testdata+name, packed(name, got.Bytes()), 0o644))
	}
}

// packed is what unpacked takes apart.
func packed(name string, b []byte) []byte {
	if !strings.HasSuffix(name, ".gz") {
		return b
	}
	var packed bytes.Buffer
	z, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	z.Write(b)
	z.Close()
	return packed.Bytes()
}

// TestWireLink: both ends of each scenario do what docs/WIRE.md says, in each event. Each end of the jittered sessions
// knows the time as well as their limits say, and its bound holds; what the estimator says to the microsecond does not
// matter there.
func TestWireLink(t *testing.T) {
	p := player{t: t}
	wire(t, "link.jsonl", p.play)
	wire(t, "sessions.jsonl.gz", p.play)
	for _, s := range p.scenes {
		if all := s.qualities[0] + s.qualities[1]; 100*s.qualities[1] < s.Confirmed*all {
			t.Errorf("%s: of %d reports %d are confirmed", s.Scenario, all, s.qualities[1])
		}
		for end, l := range s.ends {
			if l.errs == nil {
				continue
			}
			p99, bound := stat.Quantile(l.errs, .99), stat.Quantile(l.bounds, .99)
			t.Logf("%s, %s: p99 %.0f us, of the bounds %.1f ms", s.Scenario, end, p99, bound/1e3)
			if !(p99 <= float64(s.P99)) || !(bound <= float64(s.Bound)) {
				t.Errorf("the limits are %d us and %d us", s.P99, s.Bound)
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
	_, _, _, err := new(link.Link).Open(unhex(m.Hex), 1e6)
	m.Error = errorName(err)
	return m
}

// TestWireMalformed: each datagram is refused for its reason.
func TestWireMalformed(t *testing.T) {
	wire(t, "malformed.jsonl", malformed.calculate)
}

// formula is a line of formulas.jsonl: the first numbers of a synchronizer, which no estimator may
// choose.
type formula struct {
	Kind    string `json:"kind"`
	Floor   uint64 `json:"floor,string"`
	Quality uint32 `json:"quality,omitempty"`
	Peer    uint32 `json:"peer,omitempty"`
	Report  uint32 `json:"report,omitempty"`
	Offset  uint64 `json:"offset,omitempty,string"`
	Delay   uint64 `json:"delay,omitempty,string"`
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
	wire(t, "formulas.jsonl", formula.calculate)
}
