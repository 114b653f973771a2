// This test draws the picture of docs/DESIGN.md, and proves that the committed one is what
// the estimator does.
package shape

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"testing"

	"timesync"
)

// world is two synchronizers on a path without noise.
type world struct {
	a, b   timesync.TimeSynchronizer
	now    uint64 // A's clock, microseconds
	start  uint64 // what it showed first
	offset uint64 // B's clock minus A's
	delay  uint64 // of either way
	longer uint64 // by which the way from B to A takes longer than that
	sent   int
}

func (w *world) remote() uint64 { return w.now + w.offset }

// exchange sends a datagram each way, and with every tenth a report.
func (w *world) exchange() {
	reportA, okA := w.a.MinDeltaTS24(w.now)
	reportB, okB := w.b.MinDeltaTS24(w.remote())
	w.a.OnAuthenticatedDatagramTimestamp(timesync.LocalTimeToDatagramTS24(w.remote()), w.now+w.delay+w.longer)
	w.b.OnAuthenticatedDatagramTimestamp(timesync.LocalTimeToDatagramTS24(w.now), w.remote()+w.delay)
	if w.sent++; w.sent%10 == 2 && okA && okB {
		w.a.OnPeerMinDeltaTS24(reportB, w.now+w.delay+w.longer)
		w.b.OnPeerMinDeltaTS24(reportA, w.remote()+w.delay)
	}
	w.now += 50_003
}

// TestDesignPicture draws docs/witnesses.svg from a run of two synchronizers, and holds
// the committed file to it: go test ./internal/shape -run TestDesignPicture -update writes it.
func TestDesignPicture(t *testing.T) {
	const (
		file   = root + "/docs/witnesses.svg"
		length = 120 // s
	)
	events := []struct {
		at     int // s
		what   string
		happen func(w *world)
	}{
		{35, "path B to A longer", func(w *world) { w.longer = 20_000 }},
		{70, "B's clock set", func(w *world) { w.offset += 10_000 }},
		{95, "path as before", func(w *world) { w.longer = 0 }},
	}
	w := &world{start: 1 << 40, now: 1 << 40, delay: 30_000}
	var samples []designSample
	next := 0
	for w.now-w.start < length*1e6 {
		if next < len(events) && w.now-w.start >= uint64(events[next].at)*1e6 {
			events[next].happen(w)
			next++
		}
		w.exchange()
		if w.a.IsSynchronized() {
			samples = append(samples, sampleDesign(w))
		}
	}

	var svg bytes.Buffer
	p := func(format string, args ...any) { fmt.Fprintf(&svg, format+"\n", args...) }
	const left, right, top = 40, 610, 36 // px: where the panels are
	p(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 570" width="800" height="570" color="#777" font-family="sans-serif" font-size="13">`)
	p(`<title>Floors, round trip and offset while a path and a clock change</title>`)
	px := func(s float64) float64 { return left + (right-left)*s/length }
	text := func(x, y float64, anchor, fill, s string) {
		p(`<text x="%.0f" y="%.0f" text-anchor="%s" fill="%s">%s</text>`, x, y, anchor, fill, s)
	}
	for i, panel := range designPanels {
		y0, y1 := float64(top+i*178), float64(top+i*178+146)
		py := func(v float64) float64 {
			return math.Round(2*(y1-(y1-y0)*(v-panel.low)/(panel.high-panel.low))) / 2
		}
		for v := panel.low; v <= panel.high; v += 10 {
			p(`<path d="M%d,%.1fH%d" stroke="currentColor" stroke-opacity="0.25"/>`, left, py(v), right)
			text(left-8, py(v)+4, "end", "currentColor", fmt.Sprintf("%.0f", v))
		}
		text(right+14, y0+6, "start", "currentColor", panel.title)
		for _, e := range events {
			x := px(float64(e.at))
			p(`<path d="M%.1f,%.1fV%.1f" stroke="currentColor" stroke-opacity="0.6" stroke-dasharray="2 3"/>`, x, y0, y1)
			if i == 0 {
				p(`<path d="M%.1f,12V%.1f" stroke="currentColor" stroke-opacity="0.6" stroke-dasharray="2 3"/>`, x, y0)
				text(x+5, 24, "start", "currentColor", e.what)
			}
		}
		for n, c := range panel.curves {
			upper := designSteps(samples, px, func(s designSample) float64 { return py(c.upper(s)) })
			y := y0 + 32 + float64(n)*24
			if c.lower != nil {
				lower := designSteps(samples, px, func(s designSample) float64 { return py(c.lower(s)) })
				slices.Reverse(lower)
				p(`<path d="%sZ" fill="%s" fill-opacity="0.25" stroke="%s" stroke-opacity="0.5"/>`, designPath(append(upper, lower...)), c.color, c.color)
				p(`<rect x="%d" y="%.1f" width="22" height="10" fill="%s" fill-opacity="0.25" stroke="%s" stroke-opacity="0.5"/>`, right+14, y-9, c.color, c.color)
			} else {
				p(`<path d="%s" fill="none" stroke="%s" stroke-width="%s" stroke-dasharray="%s"/>`, designPath(upper), c.color, c.width, c.dashes)
				p(`<path d="M%d,%.1fh22" stroke="%s" stroke-width="%s" stroke-dasharray="%s"/>`, right+14, y-4, c.color, c.width, c.dashes)
			}
			text(right+42, y, "start", "currentColor", c.name)
		}
		for _, n := range panel.notes {
			text(px(n.at), py(n.v)+4, "start", "currentColor", n.s)
		}
	}
	for s := 0; s <= length; s += 20 {
		text(px(float64(s)), top+2*178+146+20, "middle", "currentColor", fmt.Sprint(s))
	}
	text(right+18, top+2*178+146+20, "start", "currentColor", "s")
	p("</svg>")

	if *update {
		if err := os.WriteFile(file, svg.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(committed, svg.Bytes()) {
		t.Errorf("%s is not what comes out: run go test ./internal/shape -run TestDesignPicture -update, and look at it", file)
	}
}

// designSample is what A knows of B, in milliseconds.
type designSample struct {
	at                           float64 // s
	truth, fastest               float64
	own, peer, mid, offset       float64
	trip, reference, uncorrected float64
	doubt, doubt0, correction    float64
}

// sampleDesign is the only place that knows the names of the estimator's fields.
func sampleDesign(w *world) (s designSample) {
	v := reflect.ValueOf(&w.a).Elem()
	pair := v.FieldByName("pair")
	own := pair.FieldByName("own")
	x := float64(w.now - v.FieldByName("base").Uint())
	number := func(v reflect.Value, name string) float64 { return v.FieldByName(name).Float() * 1e-3 } // ms
	drift := number(own, "slope") * x
	s.at = float64(w.now-w.start) / 1e6
	s.truth = float64(int64(w.offset)) * 1e-3
	s.fastest = float64(w.delay+w.longer)*1e-3 - s.truth
	s.own, s.peer = number(own, "level")+drift, number(pair, "peer")-drift
	s.mid, s.trip = (s.peer-s.own)/2, s.peer+s.own
	s.offset = number(pair, "offset") - drift
	s.reference, s.uncorrected, s.correction = number(pair, "trip"), number(pair, "free"), number(pair, "hold")
	// doubt is the estimator's: half of what the round trip differs from one that is known,
	// if that is more than two looks at the same one do.
	doubt := func(d float64) float64 {
		tolerance := 0.2 + 4*(min(number(own, "noise"), number(own, "dip"))+number(pair.FieldByName("limits"), "noise"))
		if math.Abs(d) < tolerance || d < 0 && (number(pair, "known") < 6e3 || pair.FieldByName("alien").Uint() > 4) {
			return 0
		}
		return math.Abs(d) / 2
	}
	s.doubt, s.doubt0 = doubt(s.trip-s.reference), doubt(s.trip-s.uncorrected)
	return s
}

type designCurve struct {
	name, color, width, dashes string
	upper, lower               func(designSample) float64 // lower: of an area
}

type designNote struct {
	at, v float64
	s     string
}

// Colours that can be told apart on white and on black.
const blue, orange, green, purple = "#3a86d8", "#d1661a", "#2e9b57", "#9a6ad6"

var designPanels = []struct {
	title     string
	low, high float64 // ms
	curves    []designCurve
	notes     []designNote
}{
	{"deltas, ms", 10, 60, []designCurve{
		{"fastest datagram", "currentColor", "1", "none", func(s designSample) float64 { return s.fastest }, nil},
		{"own floor m", blue, "2.5", "none", func(s designSample) float64 { return s.own }, nil},
		{"peer's floor p", orange, "2.5", "6 4", func(s designSample) float64 { return s.peer }, nil},
	}, []designNote{{46, 56, "late for 10 s"}}},
	{"round trip, ms", 40, 90, []designCurve{
		{"S = p + m", blue, "2.5", "none", func(s designSample) float64 { return s.trip }, nil},
		{"T, the reference", orange, "2.5", "6 4", func(s designSample) float64 { return s.reference }, nil},
		{"F, when h was 0", purple, "2.5", "2 3", func(s designSample) float64 { return s.uncorrected }, nil},
	}, []designNote{{46, 85, "S stood for 15 s"}}},
	{"B's clock minus A's, ms", -20, 30, []designCurve{
		{"allowed by T and h", orange, "", "", func(s designSample) float64 { return s.mid + s.correction + s.doubt }, func(s designSample) float64 { return s.mid + s.correction - s.doubt }},
		{"allowed by F", purple, "", "", func(s designSample) float64 { return s.mid + s.doubt0 }, func(s designSample) float64 { return s.mid - s.doubt0 }},
		{"midpoint", blue, "1.5", "6 4", func(s designSample) float64 { return s.mid }, nil},
		{"truth", "currentColor", "1", "none", func(s designSample) float64 { return s.truth }, nil},
		{"offset r", green, "2.5", "none", func(s designSample) float64 { return s.offset }, nil},
	}, nil},
}

// designSteps returns the corners of a curve that is constant between its changes.
func designSteps(samples []designSample, px func(float64) float64, y func(designSample) float64) (corners [][2]float64) {
	was := y(samples[0])
	corners = append(corners, [2]float64{px(samples[0].at), was})
	for _, s := range samples {
		if v := y(s); v != was {
			corners = append(corners, [2]float64{px(s.at), was}, [2]float64{px(s.at), v})
			was = v
		}
	}
	return append(corners, [2]float64{px(samples[len(samples)-1].at), was})
}

func designPath(corners [][2]float64) string {
	var b bytes.Buffer
	for i, c := range corners {
		fmt.Fprintf(&b, "%c%.1f,%.1f", "ML"[min(i, 1)], c[0], c[1])
	}
	return b.String()
}
