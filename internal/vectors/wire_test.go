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
	"timesync/internal/testkit"
	"timesync/link"
)

// The vectors of testdata/wire: both these tests and js judge an end by them. docs/WIRE.md says
// what an end must do, and the README beside the files what is in a line. The files have the
// inputs; with -update, their results are those of the packages.

var update = flag.Bool("update", false, "write testdata/wire anew")

// wireEvent is a line of link.jsonl and sessions.jsonl.
type wireEvent struct {
	Scenario string `json:"scenario"`
	End      string `json:"end,omitempty"`
	Event    string `json:"event"`
	About    string `json:"about,omitempty"`
	Now      uint64 `json:"now,omitempty,string"`
	Hex      string `json:"hex,omitempty"`

	Report string `json:"report,omitempty"` // of send
	Anchor bool   `json:"anchor,omitempty"`
	// missing for 6 s after an end started anew or a clock was set
	Floor *uint64 `json:"floor,omitempty,string"`
	Set   bool    `json:"set,omitempty"` // also of read
	Tell  *uint64 `json:"tell,omitempty,string"`
	TS23  *uint32 `json:"ts23,omitempty"`
	TS16  *uint32 `json:"ts16,omitempty"`

	Payload string  `json:"payload,omitempty"` // of open
	Time23  *uint64 `json:"time23,omitempty,string"`
	Time16  *uint64 `json:"time16,omitempty,string"`
	Error   string  `json:"error,omitempty"`
	Known   bool    `json:"known,omitempty"`
	Delay   *uint64 `json:"delay,omitempty,string"` // missing for 6 s after a clock was set
	Truth   *uint64 `json:"truth,omitempty,string"` // the same; also of read
	Wide    bool    `json:"wide,omitempty"`

	P99   uint64 `json:"p99,omitempty,string"` // of begin, in sessions.jsonl
	Bound uint64 `json:"bound,omitempty,string"`
}

const second = 1_000_000 // us

// tolerance is what an error, in us, may come from rounding: two stamps, two reports.
const tolerance = 32

// within reports whether a and b differ by at most d modulo 2^bits.
func within(a, b, d uint64, bits uint) bool {
	return (a-b+d)&(1<<bits-1) <= 2*d
}

// kept returns what a line says, if anything, where what came out differs by at most d from that,
// modulo 2^bits; else what came out.
func kept[T uint32 | uint64](said *T, got, d T, bits uint) *T {
	if said == nil || within(uint64(*said), uint64(got), uint64(d), bits) {
		return said
	}
	return &got
}

// Flags of a header.
const (
	flagReport    = 1
	flagAnchor    = 2
	flagHasAnchor = 4
	flagChecks    = 32
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
}

// player lets both ends of each scenario do what the lines say.
type player struct{ scenes []*scene }

// play returns what an end makes of a line. With -update that is the line with what package link
// sends now, also where that comes to the other end. Datagrams that no end sent stay.
func (p *player) play(e wireEvent) wireEvent {
	if e.Event == "begin" {
		ends := map[string]*wireEnd{"A": {Link: new(link.Link)}, "B": {Link: new(link.Link)}}
		p.scenes = append(p.scenes, &scene{wireEvent: e, ends: ends, sent: map[string]string{}})
		return e
	}
	s := p.scenes[len(p.scenes)-1]
	l, was := s.ends[e.End], e
	switch e.Event {
	case "new":
		l.Link = new(link.Link)
	case "failed":
		l.SendFailed()
	case "send":
		was.Hex = s.send(l, &e)
	case "open":
		if header, ok := s.sent[e.End+e.Hex[2:8]]; ok && *update {
			was.Hex = header + e.Payload
		}
		s.open(l, unhex(was.Hex), &e)
	case "read":
		l.read(&e)
	}
	if *update {
		return was
	}
	return e
}

// send returns the header that an end sends. That of a line may have another report, or none.
func (s *scene) send(l *wireEnd, e *wireEvent) string {
	l.tell(e)
	got, right := l.AppendHeader(nil, e.Now), unhex(e.Hex)
	reports, anchors, header := got[0]&flagReport != 0, got[0]&flagAnchor != 0, hex.EncodeToString(got)
	s.sent[map[string]string{"A": "B", "B": "A"}[e.End]+header[2:8]] = header
	// an end may find that it has to check what it knows
	free := byte(flagReport | flagAnchor | flagChecks)
	if e.Set {
		free |= flagHasAnchor
	}
	if e.Hex == "" { // of a session: only what is read is judged
		free, right = 0xff, got
	}
	want := append([]byte{right[0]&^free | got[0]&free}, right[1:4]...)
	if reports {
		report := timesync.ReadCounter24(got[4:])
		if report%3 == 2 { // an original's
			e.Report = "an original's"
		}
		if report != 0 { // else nothing came
			e.Floor = kept(e.Floor, 8*uint64(report), tolerance, 27)
		}
		want = append(want, got[4:7]...)
	}
	if anchors {
		want = binary.LittleEndian.AppendUint64(want, e.Now)
	}
	switch {
	case e.Hex == "":
		return ""
	case !bytes.Equal(got, want):
		e.Hex = header
	case reports && e.Report == "no" || !reports && e.Report == "must":
		e.Report = fmt.Sprint(reports)
	case !anchors && (reports || e.Anchor),
		anchors && !(reports || e.Anchor || e.Set || got[0]&flagChecks != 0):
		// it goes with a report, and else where the line says so, or something is checked
		e.Anchor = !e.Anchor
	}
	return header
}

// tell says the payload times.
func (l *wireEnd) tell(e *wireEvent) {
	if e.Tell == nil {
		return
	}
	ts23, known := l.ToRemoteTime23(*e.Tell)
	remote, _ := l.RemoteTime(*e.Tell)
	ts16 := timesync.NewCounter16((remote + 1<<8) >> 9) // to the nearest unit of 512 us
	told23, told16 := uint32(ts23), uint32(ts16)
	switch {
	case !known:
		e.TS23, e.TS16 = nil, nil
	case e.TS23 == nil:
		e.TS23, e.TS16 = &told23, &told16
	default:
		e.TS23, e.TS16 = kept(e.TS23, told23, tolerance/8+1, 23), kept(e.TS16, told16, 1, 16)
	}
}

func (s *scene) open(l *wireEnd, datagram []byte, e *wireEvent) {
	payload, delay, known, err := l.ReadHeader(datagram, e.Now)
	if e.Error = errorName(err); s.P99 > 0 { // of a session
		return
	}
	e.Payload, e.Known = hex.EncodeToString(payload), known
	if e.Time23 != nil {
		ts23, _ := link.ReadTime23(payload)
		time23 := timesync.FromLocalTime23(e.Now, ts23)
		time16 := timesync.FromLocalTime16(e.Now, timesync.ReadCounter16(payload[3:]))
		e.Time23, e.Time16 = &time23, &time16
	}
	if known {
		e.Delay = kept(e.Delay, uint64(delay.Microseconds()), tolerance, 64)
	}
	limit := uint64(tolerance)
	if bound, ok := l.ErrorBound(e.Now); ok && e.Wide {
		limit = uint64(bound.Microseconds())
	}
	if remote, ok := l.RemoteTime(e.Now); ok {
		e.Truth = kept(e.Truth, remote, limit, 64)
	}
}

func (l *wireEnd) read(e *wireEvent) {
	known, ok := l.Snapshot(e.Now)
	bound := uint64(known.ErrorBound.Microseconds())
	l.errs = append(l.errs, math.Abs(float64(int64(known.RemoteUsec-*e.Truth))))
	if !e.Set {
		l.bounds = append(l.bounds, float64(bound))
		e.Truth = kept(e.Truth, known.RemoteUsec, bound, 64)
	}
	if !ok {
		e.Truth = nil
	}
}

// unhex returns the bytes of a line, as many as are written in hex.
func unhex(s string) []byte {
	b, _ := hex.DecodeString(s)
	return b
}

var errorNames = map[error]string{
	nil:               "",
	link.ErrTruncated: "truncated",
	link.ErrReserved:  "reserved",
	link.ErrVersion:   "version",
	link.ErrAnchor:    "anchor",
}

func errorName(err error) string {
	name, ok := errorNames[err]
	if !ok {
		return err.Error()
	}
	return name
}

// wire hands the lines of a file of testdata/wire to play in order. What it makes of a line is
// what that says. With -update that is written.
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

// TestWireLink: both ends of each scenario do what docs/WIRE.md says, in each event. Each end of
// the jittered sessions knows the time as well as their limits say, and its bound holds; what the
// estimator says to the microsecond does not matter there.
func TestWireLink(t *testing.T) {
	var p player
	wire(t, "link.jsonl", p.play)
	wire(t, "sessions.jsonl.gz", p.play)
	for _, s := range p.scenes {
		for end, l := range s.ends {
			if l.errs == nil {
				continue
			}
			p99, bound := testkit.Quantile(l.errs, .99), testkit.Quantile(l.bounds, .99)
			t.Logf("%s, %s: p99 %.0f us, of the bounds %.1f ms", s.Scenario, end, p99, bound/1e3)
			if !(p99 <= float64(s.P99)) || !(bound <= float64(s.Bound)) {
				t.Errorf("the limits are %d us and %d us", s.P99, s.Bound)
			}
		}
	}
}

// TestWireMalformed: each datagram is refused for its reason, "" if it is well-formed.
func TestWireMalformed(t *testing.T) {
	type malformed struct {
		Hex   string `json:"hex"`
		Error string `json:"error"`
	}
	wire(t, "malformed.jsonl", func(l malformed) malformed {
		_, _, _, err := new(link.Link).ReadHeader(unhex(l.Hex), 1e6)
		l.Error = errorName(err)
		return l
	})
}

// formula is a line of formulas.jsonl: the first numbers of a synchronizer, which no estimator may
// choose.
type formula struct {
	Kind   string `json:"kind"`
	Floor  uint64 `json:"floor,string"`
	Peer   uint32 `json:"peer,omitempty"`
	Report uint32 `json:"report,omitempty"`
	Offset uint64 `json:"offset,omitempty,string"`
	Delay  uint64 `json:"delay,omitempty,string"`
}

// TestWireFormulas: reports and offsets to the bit.
func TestWireFormulas(t *testing.T) {
	const stamp, ring = 1 << 23, 1 << 27
	wire(t, "formulas.jsonl", func(f formula) formula {
		var s timesync.TimeSynchronizer
		now := uint64(stamp)<<3 + f.Floor + ring
		s.OnAuthenticatedDatagramTimestamp(stamp, now)
		if f.Kind == "offset" {
			s.OnPeerMinDeltaTS24(timesync.Counter24(f.Peer), now)
			remote, _ := s.RemoteTime(now)
			delay, _ := s.MinimumOneWayDelay()
			f.Offset, f.Delay = (remote-now)&(1<<26-1), uint64(delay.Microseconds())
			return f
		}
		report, _ := s.MinDeltaTS24(now)
		f.Report = uint32(report)
		return f
	})
}
