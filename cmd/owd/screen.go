// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"time"

	"timesync"
)

// screen shows reports: lines for a person, or one JSON object a line. On a terminal the last lines
// are the delays so far, drawn, and written again each second.
type screen struct {
	mu    sync.Mutex
	out   io.Writer
	errs  io.Writer
	names bool // there may be several peers, so each line says whose it is
	json  *json.Encoder
	draws bool
	drawn int // lines that are to be written again
	lines int // of figures, since the head was shown
}

// headEvery is after how many lines the head is shown again: those of a small terminal.
const headEvery = 20

// newScreen makes one for the reports of one peer or, if names is set, of several.
func newScreen(out, errs io.Writer, asJSON, names bool) *screen {
	s := &screen{out: out, errs: errs, names: names, draws: isTerminal(out) && !names}
	if asJSON {
		s.json = json.NewEncoder(out)
	}
	return s
}

// isTerminal reports whether escape codes may be written.
func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	if runtime.GOOS == "windows" {
		return os.Getenv("WT_SESSION") != "" // Windows Terminal; older consoles print the codes
	}
	term := os.Getenv("TERM")
	return term != "" && term != "dumb"
}

// begin shows what happens, for people.
func (s *screen) begin(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.json == nil {
		s.erase()
		fmt.Fprintln(s.out, text)
	}
}

// warn tells people what went wrong, also beside JSON.
func (s *screen) warn(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	fmt.Fprintln(s.errs, text)
}

// The columns of figures and clocks stand below these names.
const (
	figuresHead = "    min    mean     p99  jitter   lost"
	clocksHead  = "  bound  offset, s        skew, ppm"
	head        = "            to the peer, ms                        from the peer, ms\n" +
		"   s " + figuresHead + " " + figuresHead + " " + clocksHead
)

// second shows a second.
func (s *screen) second(r report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.json != nil {
		_ = s.json.Encode(object("second", r))
		return
	}
	s.erase()
	if s.lines%headEvery == 0 {
		fmt.Fprintln(s.out, head)
	}
	s.lines++
	name := ""
	if s.names {
		name = "  " + r.peer.String()
	}
	fmt.Fprintf(s.out, "%4.0f %s %s %s%s\n",
		r.elapsed.Seconds(), figures(r.to, r.hasTo), figures(r.from, true), clocks(r), name)
	if r.trouble != "" {
		fmt.Fprintf(s.out, "     %v: %s\n", r.peer, r.trouble)
	}
	if s.draws && r.known {
		fmt.Fprintf(s.out, "     to   %s\n     from %s\n", r.toShape, r.byShape)
		s.drawn = 2
	}
}

// erase removes what is to be written again.
func (s *screen) erase() {
	if s.drawn > 0 {
		fmt.Fprintf(s.out, "\x1b[%dA\x1b[J", s.drawn)
		s.drawn = 0
	}
}

// figures are those of a way in a second.
func figures(w way, has bool) string {
	if !has {
		return fmt.Sprintf("%7s %7s %7s %7s %6s", "-", "-", "-", "-", "-")
	}
	lost := fmt.Sprintf("%.0f %%", w.lossPercent())
	if w.Known == 0 {
		return fmt.Sprintf("%7s %7s %7s %7s %6s", "-", "-", "-", "-", lost)
	}
	return fmt.Sprintf("%7s %7s %7s %7s %6s",
		ms(w.Min), ms(w.Mean), ms(w.P99), ms(int32(w.Jitter)), lost)
}

// ms writes microseconds as milliseconds, with as many digits as say something.
func ms(us int32) string {
	switch {
	case us >= 1_000_000:
		return fmt.Sprintf("%.0f", float64(us)/1e3)
	case us >= 100_000:
		return fmt.Sprintf("%.1f", float64(us)/1e3)
	case us >= 10_000:
		return fmt.Sprintf("%.2f", float64(us)/1e3)
	default:
		return fmt.Sprintf("%.3f", float64(us)/1e3)
	}
}

// clocks are what is known of them.
func clocks(r report) string {
	if !r.known {
		return "       clocks still unknown"
	}
	bound := ms(int32(min(r.snapshot.ErrorBound.Microseconds(), int64(time.Hour.Microseconds())/2)))
	offset := float64(r.snapshot.OffsetUsec) / 1e6
	return fmt.Sprintf("%7s %+.6f  %+.1f±%.1f",
		bound, offset, r.snapshot.Skew, r.snapshot.SkewError)
}

// summary shows all that was measured with a peer.
func (s *screen) summary(r report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.json != nil {
		_ = s.json.Encode(object("summary", r))
		return
	}
	s.drawn = 0 // the last drawing stays
	fmt.Fprintf(s.out, "--- %v, %.0f s ---\n", r.peer, r.elapsed.Seconds())
	if r.hasTo {
		fmt.Fprintf(s.out, "to the peer:   %v\n", r.to)
	}
	fmt.Fprintf(s.out, "from the peer: %v\n", r.from)
	if r.known {
		s.summaryOfClocks(r.snapshot)
	}
}

func (s *screen) summaryOfClocks(c timesync.Snapshot) {
	bound := ms(signed(c.ErrorBound))
	fmt.Fprintf(s.out, "its clock minus this one: %+.6f s ± %s ms, %+.1f ± %.1f ppm, %d steps\n",
		float64(c.OffsetUsec)/1e6, bound, c.Skew, c.SkewError, c.Steps)
	fmt.Fprintf(s.out, "each delay may be off by %s ms, half the round trip: "+
		"nobody can measure how unequal\n"+
		"the two ways are. If one way is shown too long, the other is shown too short.\n", bound)
}

// String is for a summary.
func (w way) String() string {
	text := fmt.Sprintf("%d received, %d lost (%.1f %%), %d reordered, %d duplicates",
		w.Received, w.Lost, w.lossPercent(), w.Reordered, w.Duplicates)
	if w.Known == 0 {
		return text
	}
	return fmt.Sprintf("%s\n               min %s, mean %s, p99 %s, max %s, jitter %s ms",
		text, ms(w.Min), ms(w.Mean), ms(w.P99), ms(w.Max), ms(int32(w.Jitter)))
}

// delays of one way, in JSON: nanoseconds, as irtt writes them.
type delays struct {
	N    uint32 `json:"n"`
	Min  int64  `json:"min"`
	Mean int64  `json:"mean"`
	P99  int64  `json:"p99"`
	Max  int64  `json:"max"`
}

// line is an object of -json. docs/OWD.md says what each field is.
type line struct {
	Kind    string  `json:"kind"` // second or summary
	Peer    string  `json:"peer"`
	Elapsed float64 `json:"elapsed_s"`
	Sent    uint64  `json:"packets_sent"`

	SendDelay       *delays `json:"send_delay,omitempty"`
	SendJitter      int64   `json:"send_jitter"`
	UpstreamLoss    float64 `json:"upstream_loss_percent"`
	UpstreamOrder   uint32  `json:"upstream_reordered"`
	UpstreamCame    uint32  `json:"upstream_received"`
	UpstreamTwice   uint32  `json:"upstream_duplicates"`
	ReceiveDelay    *delays `json:"receive_delay,omitempty"`
	ReceiveJitter   int64   `json:"receive_jitter"`
	DownstreamLoss  float64 `json:"downstream_loss_percent"`
	DownstreamOrder uint32  `json:"downstream_reordered"`
	DownstreamCame  uint32  `json:"packets_received"`
	DownstreamTwice uint32  `json:"downstream_duplicates"`

	Synchronized bool    `json:"synchronized"`
	Offset       int64   `json:"offset"`
	ErrorBound   int64   `json:"error_bound"`
	Skew         float64 `json:"skew_ppm"`
	SkewError    float64 `json:"skew_error_ppm"`
	Steps        uint32  `json:"steps"`
	Trouble      string  `json:"trouble,omitempty"`
}

func object(kind string, r report) line {
	l := line{
		Kind:            kind,
		Peer:            r.peer.String(),
		Elapsed:         r.elapsed.Seconds(),
		Sent:            r.sent,
		ReceiveDelay:    r.from.delays(),
		ReceiveJitter:   nanoseconds(int64(r.from.Jitter)),
		DownstreamLoss:  r.from.lossPercent(),
		DownstreamOrder: r.from.Reordered,
		DownstreamCame:  r.from.Received,
		DownstreamTwice: r.from.Duplicates,
		Synchronized:    r.known,
		Offset:          nanoseconds(r.snapshot.OffsetUsec),
		ErrorBound:      int64(r.snapshot.ErrorBound),
		Skew:            r.snapshot.Skew,
		SkewError:       r.snapshot.SkewError,
		Steps:           r.snapshot.Steps,
		Trouble:         r.trouble,
	}
	if r.hasTo {
		l.SendDelay = r.to.delays()
		l.SendJitter = nanoseconds(int64(r.to.Jitter))
		l.UpstreamLoss = r.to.lossPercent()
		l.UpstreamOrder = r.to.Reordered
		l.UpstreamCame = r.to.Received
		l.UpstreamTwice = r.to.Duplicates
	}
	return l
}

func nanoseconds(us int64) int64 { return us * int64(time.Microsecond) }

// delays returns those of a way, or nil of none.
func (w way) delays() *delays {
	if w.Known == 0 {
		return nil
	}
	return &delays{
		N:    w.Known,
		Min:  nanoseconds(int64(w.Min)),
		Mean: nanoseconds(int64(w.Mean)),
		P99:  nanoseconds(int64(w.P99)),
		Max:  nanoseconds(int64(w.Max)),
	}
}
