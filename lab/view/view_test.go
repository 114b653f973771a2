// These tests prove that what happened to a clock is found in its recording, and said.

package main

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"timesync"
	"timesync/record"

	"gonum.org/v1/plot/plotter"
)

// second is one in microseconds.
const second = 1_000_000

// way is a path of which is known what happens. End 1 is the peer; its clock is far ahead.
type way struct {
	seconds    int
	rate       float64 // datagrams a second each way; 0: 60
	longer     change  // ms: by which the way to an end is longer
	ahead      change  // s: by which an end's clock was set ahead
	silent     span    // nothing arrives
	unreported span    // no report does
}

// film records both ends.
func (w way) film(t *testing.T) (files [2]bytes.Buffer) {
	t.Helper()
	const seed = 34
	rng := rand.New(rand.NewPCG(seed, 1))
	ends := [2]*record.Recorder{record.New(&files[0]), record.New(&files[1])}
	clock := func(end int, now float64) uint64 {
		return [2]uint64{5 * second,
			1 << 45}[end] + uint64(now*second) + uint64(int64(w.ahead.at(end, now-1)*second))
	}
	rate := cmp.Or(w.rate, 60)
	for i := range int(float64(w.seconds) * rate) {
		now := 1 + float64(i)/rate
		for k, e := range ends {
			if i%50 == 0 {
				e.Flush()
			}
			delay := 0.030 + 0.002*rng.ExpFloat64() + w.longer.at(k, now-1)/1e3
			sent, received := clock(1-k, now), clock(k, now+delay)
			report, ok := ends[1-k].MinDeltaTS24(sent)
			if now-1 > w.silent.from && now-1 < w.silent.to {
				continue
			}
			e.OnAuthenticatedDatagramTimestamp(timesync.LocalTimeToDatagramTS24(sent), received)
			if now < 2 {
				e.Anchor(received, sent)
			}
			if ok && i%max(int(2*rate), 1) == 0 && (now-1 < w.unreported.from || now-1 >= w.unreported.to) {
				e.OnPeerMinDeltaTS24(report, received)
			}
		}
	}
	for _, e := range ends {
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// change is by how much something is at one end, from one second to another.
type change struct {
	end          int
	from, to, by float64
}

func (c change) at(end int, s float64) float64 {
	if end == c.end && s >= c.from && s < c.to {
		return c.by
	}
	return 0
}

// told returns what is said about a recording.
func told(r *reel) string {
	var words strings.Builder
	r.tell(&words, "x")
	return strings.TrimSpace(words.String())
}

const never = 1e9 // s

// TestWords: what is said is what happened, and nothing else.
func TestWords(t *testing.T) {
	queued := `\((59|60)\.\d s\) all datagrams to us queued for [45]\.\d s, ` +
		`the fastest of 0.2 s by up to 10\d ms`
	slow := way{seconds: 120, rate: 1, longer: change{0, 60, never, 20}}
	slept := way{seconds: 120, ahead: change{1, 90, never, -30}, silent: span{60, 90}}
	const step = `\(6[0-3]\.\d s\) the remote time stepped by `
	const why = ` ms: a clock was set, or the peer changed`
	for _, c := range []struct {
		name string
		way
		want []string // lines
	}{
		{"nothing", way{seconds: 90}, nil},
		{"a slow stream", way{seconds: 600, rate: 0.2}, nil},
		{"a route to us", way{seconds: 120, longer: change{0, 60, 90, 20}}, []string{
			`\(60\.\d s\) path to us longer by (19|20|21) ms; believed after (9|10|11)\.\d s`,
			`\(90\.\d s\) path to us shorter by (19|20|21) ms; believed at once`}},
		{"a route to us of a slow stream", slow, []string{
			`\((59|60|61)\.\d s\) path to us longer by (19|20|21) ms; believed after (1[0-3])\.\d s`}},
		{"a route to the peer", way{seconds: 120, longer: change{1, 60, 90, 20}}, []string{
			`\((7[0-9]|8[0-4])\.\d s\) path to the peer longer by (19|20|21) ms, as the peer reported`,
			`\(9[0-3]\.\d s\) path to the peer shorter by (19|20|21) ms, as the peer reported`}},
		{"a queue to us", way{seconds: 90, longer: change{0, 60, 65, 100}}, []string{queued}},
		{"a queue to us at the end", way{seconds: 65, longer: change{0, 60, never, 100}},
			[]string{queued}},
		{"a queue to the peer", way{seconds: 90, longer: change{1, 60, 65, 100}}, nil},
		{"the peer's clock, ahead", way{seconds: 90, ahead: change{1, 60, never, 0.02}},
			[]string{step + `\+(19|20)` + why}},
		{"the peer's clock, back", way{seconds: 90, ahead: change{1, 60, never, -0.25}},
			[]string{step + `-2(49|50)` + why}},
		{"the peer slept", slept, []string{
			`\((59|60)\.\d s\) nothing arrived for 30\.\d s`,
			`\(9[0-3]\.\d s\) the remote time stepped by -30 s, or that and a multiple of 67.1 s: .*`}},
		{"the peer is gone", way{seconds: 90, silent: span{60, never}},
			[]string{`\((59|60)\.\d s\) nothing arrived for 2[7-9]\.\d s`}},
		{"the network was away", way{seconds: 120, silent: span{60, 90}},
			[]string{`\((59|60)\.\d s\) nothing arrived for 30\.\d s`}},
		{"reports were lost", way{seconds: 90, unreported: span{59, 69}},
			[]string{`\(58\.\d s\) no report for 12\.\d s; usual are 2\.0 s`}},
	} {
		files := c.film(t)
		lines := strings.Split(told(unwind(&files[0])), "\n")
		// Around it stand the title, the offset that becomes known, and the answers.
		got := strings.Join(lines[2:len(lines)-1], "\n")
		want := strings.Join(c.want, "\n"+`\d\d:\d\d:\d\d `)
		if len(c.want) > 0 {
			want = `\d\d:\d\d:\d\d ` + want
		}
		if !regexp.MustCompile(`\A` + want + `\z`).MatchString(got) {
			t.Errorf("%s: it is said\n%s\nwant\n%s", c.name, got, strings.Join(c.want, "\n"))
		}
	}
}

// TestSleep: while a machine sleeps, its local clock may stand. The times of day in the words are
// right before and after.
func TestSleep(t *testing.T) {
	r := new(reel)
	m := record.Moment{Ends: [2]*timesync.TimeSynchronizer{new(timesync.TimeSynchronizer)}}
	wall := time.Date(2026, 11, 23, 14, 0, 0, 900_000_000, time.UTC)
	for at := range uint64(100) {
		if at == 50 {
			wall = wall.Add(time.Hour)
		}
		m.LocalUsec, m.AtUsec[0] = 1000*second+at*second, 1000*second+at*second
		m.Wall = wall.Add(time.Duration(at) * time.Second)
		r.see(&m)
	}
	if a, b := r.clock(49), r.clock(50); a != "14:00:49" || b != "15:00:50" {
		t.Errorf("it was %s, then %s", a, b)
	}
	said(t, told(r), `14:00:49 \(49.0 s\) the time of day went on by 1h0m0s more than the local clock`)
}

// TestSetBack: where the local clock is set back by minutes, all of the session is drawn, and the
// set is said.
func TestSetBack(t *testing.T) {
	files := way{seconds: 90, rate: 10, ahead: change{0, 60, never, -300}}.film(t)
	r := unwind(&files[0])
	said(t, told(r), `\((59|60)\.\d s\) the local clock was set back by 300 s`,
		`the remote time stepped`)
	if last := r.notes[len(r.notes)-1].At; last < 89 || strings.Contains(told(r), "nothing arrived") {
		t.Errorf("%.1f s\n%s", last, told(r))
	}
}

// TestMissing: it is said which recording lacks blocks, be it the first ones, that other answers
// were recorded, by how much, and why.
func TestMissing(t *testing.T) {
	for lacks, wants := range map[string][]string{
		"": {`answers differ .* 1\.2 ms: another version`},
		"recording": {
			`\(0\.0 s\) 7 blocks are missing in the recording`,
			`answers differ .* 1\.2 ms: blocks are missing`,
		},
		"second": {
			`\(0\.0 s\) 7 blocks are missing in the second recording`,
			`answers differ .* blocks are missing`,
		},
	} {
		r := new(reel)
		m := record.Moment{Ends: [2]*timesync.TimeSynchronizer{new(timesync.TimeSynchronizer),
			new(timesync.TimeSynchronizer)}}
		if m.Kind, m.Count = record.Missing, 7; lacks != "" {
			m.End = map[string]int{"second": 1}[lacks]
			r.see(&m)
		}
		m.Kind, m.End, m.Answer.OK, m.Answer.Snapshot.OffsetUsec = record.Answered, 0, true, 1234
		r.see(&m)
		said(t, told(r), wants...)
	}
}

// said holds words to regular expressions.
func said(t *testing.T, words string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !regexp.MustCompile(want).MatchString(words) {
			t.Errorf("not said: %s\n%s", want, words)
		}
	}
}

// drawn draws recordings, the first of which is called a, and looks at the picture and the CSV,
// which has so many rows at least. It returns the words.
func drawn(t *testing.T, least int, recordings ...[]byte) string {
	t.Helper()
	name, dir := "recording-a", t.TempDir()
	var paths []string
	var err error
	for i, content := range recordings {
		paths = append(paths, filepath.Join(dir, string(rune('a'+i))+".tsr"))
		err = errors.Join(err, os.WriteFile(paths[i], content, 0o666))
	}
	if len(recordings) > 1 {
		name += "-both"
	}
	var words strings.Builder
	err = errors.Join(err, drawRecording(dir, &words, paths...))
	png, bad := os.ReadFile(filepath.Join(dir, name+".png"))
	text, worse := os.ReadFile(filepath.Join(dir, name+".csv"))
	rows, worst := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err := errors.Join(err, bad, worse, worst); err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(png, []byte("\x89PNG")) || len(png) < 20_000 || len(rows) < least ||
		len(rows[0]) != 14 {
		t.Errorf("the picture: %d bytes; the CSV: %d rows", len(png), len(rows))
	}
	return words.String()
}

// TestStory draws the recordings of both ends of a path on which much happens: the way to a is
// 20 ms longer from 60 s on, and b's clock is set by 250 ms at 120 s.
func TestStory(t *testing.T) {
	files := way{
		seconds: 220,
		longer:  change{0, 60, never, 20},
		ahead:   change{1, 120, never, 0.25},
	}.film(t)
	whole := files[0].Bytes()
	said(t, drawn(t, 1000, whole, files[1].Bytes()),
		`\((59|60|61)\.\d s\) path to us longer by (19|20|21) ms; believed after (9|10|11)\.\d s`,
		`\((119|12\d)\.\d s\) the remote time stepped by \+2[45]\d ms`,
		`the two ends disagree by \S+ us \(median\)`,
		`all 2\d\d recorded answers are those of this version`)
	// A recording that is cut off is drawn as far as it goes.
	said(t, drawn(t, 500, whole[:len(whole)/2]), "ends within a block")
	path := filepath.Join(t.TempDir(), "x.tsr")
	err := os.WriteFile(path, []byte("something else"), 0o666)
	if bad := drawRecording(t.TempDir(), io.Discard, path); err != nil ||
		!errors.Is(bad, record.ErrFormat) || !strings.HasPrefix(bad.Error(), path) {
		t.Error(err, bad)
	}
}

// TestNeverKnown: where no report arrives, little is known, and there is a picture of that.
func TestNeverKnown(t *testing.T) {
	files := way{seconds: 20, unreported: span{0, never}}.film(t)
	said(t, drawn(t, 90, files[0].Bytes()),
		`\(0.0 s\) the offset is never known: 1200 datagrams and 0 reports arrived`)
}

// TestThinned: of the points of a long recording those are drawn that stand out.
func TestThinned(t *testing.T) {
	p := make(plotter.XYs, 1000)
	for x := range p {
		p[x].X = float64(x)
	}
	p[333].Y, p[337].Y = 2, -2
	got := thinned(p, 100)
	later := func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) }
	if len(got) != 20 || !slices.Contains(got, p[333]) || !slices.Contains(got, p[337]) ||
		!slices.IsSortedFunc(got, later) || len(thinned(p, 2)) != 1000 {
		t.Error(got)
	}
}
