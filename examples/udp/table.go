// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"timesync/examples/internal/relay"
	"timesync/examples/seal"
	"timesync/internal/stat"
)

// report is what the demo found, for the table and for -json.
type report struct {
	For         float64             `json:"for_s"`
	CountsAfter float64             `json:"counts_after_s"`
	Rate        float64             `json:"rate_hz"`
	Delay       float64             `json:"delay_ms"`
	JitterMin   float64             `json:"jitter_min_ms"`
	JitterMax   float64             `json:"jitter_max_ms"`
	Loss        float64             `json:"loss_percent"`
	Skew        float64             `json:"skew_ppm"`
	Asymmetry   float64             `json:"asymmetry_ms"`
	Seed        uint64              `json:"seed"`
	Failed      string              `json:"failed,omitempty"`
	Peers       [2]peerResults      `json:"peers"`
	Appointment *appointmentResults `json:"instant,omitempty"`
}

// peerResults is what one peer made of it. Errors are sizes, without their signs.
type peerResults struct {
	Name            string         `json:"name"`
	Synchronized    bool           `json:"synchronized"`
	FirstSync       float64        `json:"time_to_first_sync_ms"`
	First           errorResults   `json:"first_seconds"`
	Later           errorResults   `json:"later"`
	ErrorBound      float64        `json:"error_bound_ms"`
	Age             float64        `json:"last_datagram_age_s"`
	MinDelay        float64        `json:"minimum_one_way_delay_ms"`
	Sent            int            `json:"sent"`
	Received        int            `json:"received"`
	DatagramBytes   float64        `json:"bytes_per_datagram"`
	ClockBytes      float64        `json:"bytes_per_datagram_link_header"`
	Injected        map[string]int `json:"injected"`
	Rejected        map[string]int `json:"rejected"`
	IntrudersPassed int            `json:"intruders_passed"`

	silence string
}

// errorResults are those of the first seconds, or of later ones.
type errorResults struct {
	Offset      stat.Spread `json:"offset_error"`
	OneWayDelay stat.Spread `json:"one_way_delay_error"`
	Event       stat.Spread `json:"payload_timestamp_error"`
}

func (j judgements) results() errorResults {
	return errorResults{stat.SpreadOf(j.offset), stat.SpreadOf(j.owd), stat.SpreadOf(j.event)}
}

// kinds are the reasons to reject, in the order of the table.
var kinds = []error{seal.ErrForged, seal.ErrReplayed, seal.ErrUnproven}

// injected is what each kind of injected datagram must be rejected as, once the sender has
// proven itself; before, replays are unproven.
var injected = map[relay.Kind]error{
	relay.Forged: seal.ErrForged, relay.Cut: seal.ErrForged,
	relay.Replayed: seal.ErrReplayed, relay.Recorded: seal.ErrUnproven,
}

// results sums up at true time now. What was injected is for the caller to add.
func (j *judge) results(name string, now time.Duration) peerResults {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.peer
	bound, _ := p.end.Link.ErrorBound(p.clock.at(now))
	delay, _ := p.end.Link.MinimumOneWayDelay()
	_, rejected := p.rejected()
	heard := p.tally(nil)
	silence := p.silence(now)
	p.mu.Lock()
	defer p.mu.Unlock()
	x := peerResults{
		Name: name, Synchronized: j.synced, FirstSync: ms(j.firstSync),
		First: j.first.results(), Later: j.later.results(), ErrorBound: ms(bound),
		Age: seconds(max(now-heard.last, 0)), silence: silence,
		MinDelay: ms(delay), Sent: p.sent, Received: heard.n,
		Injected: map[string]int{}, Rejected: rejected, IntrudersPassed: j.intruders,
	}
	if p.sent > 0 {
		x.DatagramBytes = hundredths(float64(p.bytes) / float64(p.sent))
		x.ClockBytes = hundredths(float64(p.header) / float64(p.sent))
	}
	return x
}

// line is where a row is a line across the table.
const line = "-"

// row is one of the table, for one peer.
type row struct{ label, value string }

func (p *peerResults) rows(countsAfter float64) []row {
	milliseconds := func(x float64) string {
		if !p.Synchronized {
			return "never"
		}
		return fmt.Sprintf("%.3f ms", x)
	}
	rows := []row{
		{"", p.Name},
		{line, ""},
		{"time to first sync", milliseconds(p.FirstSync)},
		{"error bound at the end", milliseconds(p.ErrorBound)},
		{"last datagram", p.silence},
		{"shortest one-way delay", milliseconds(p.MinDelay)},
		{line, ""},
		{"errors in us: median/p99/max", ""},
		{fmt.Sprintf("first %g s", countsAfter), ""},
		{"  offset", p.First.Offset.String()},
		{"  one-way delay", p.First.OneWayDelay.String()},
		{"  payload timestamp", p.First.Event.String()},
		{fmt.Sprintf("after %g s, which count", countsAfter), ""},
		{"  offset", p.Later.Offset.String()},
		{"  one-way delay", p.Later.OneWayDelay.String()},
		{"  payload timestamp", p.Later.Event.String()},
		{line, ""},
		{"datagrams sent", strconv.Itoa(p.Sent)},
		{"datagrams accepted", strconv.Itoa(p.Received)},
		{"bytes per datagram", fmt.Sprintf("%.2f", p.DatagramBytes)},
		{"  stamp and reports", fmt.Sprintf("%.2f", p.ClockBytes)},
		{line, ""},
		{"rejected / injected", ""},
	}
	for i, label := range []string{"  forged or cut short", "  replayed", "  another session's"} {
		kind := kinds[i].Error()
		rows = append(rows, row{label, fmt.Sprintf("%d / %d", p.Rejected[kind], p.Injected[kind])})
	}
	return append(rows, row{"accepted, but never sent", strconv.Itoa(p.IntrudersPassed)})
}

// print prints the table, 60 columns wide, and explains what it does not.
func (r *report) print(w io.Writer) {
	fmt.Fprintln(w)
	b := r.Peers[1].rows(r.CountsAfter)
	for i, a := range r.Peers[0].rows(r.CountsAfter) {
		text := fmt.Sprintf("%-26s %16s %16s", a.label, a.value, b[i].value)
		if a.label == line {
			text = strings.Repeat(line, 60)
		}
		fmt.Fprintln(w, strings.TrimRight(text, " "))
	}
	fmt.Fprint(w, "\nBefore a sender has proven itself, all that it sends counts\nas another session's, replayed or not.\n")
	if r.Asymmetry != 0 {
		fmt.Fprintf(w, "\nOne way takes %g ms longer. No exchange of datagrams can\ntell: half of it, %g ms, is in the errors above.\n",
			math.Abs(r.Asymmetry), math.Abs(r.Asymmetry)/2)
	}
	if x := r.Appointment; x != nil {
		fmt.Fprintf(w, "\nBoth acted at an instant that was agreed %g s ahead. In true\ntime the acts were planned %d us apart and done %d us apart.\n",
			x.Ahead, x.Planned, x.Done)
	}
}

// These round to what is meant, so that JSON has no digits of noise.
func ms(d time.Duration) float64      { return math.Round(float64(d)/1e3) / 1e3 }
func seconds(d time.Duration) float64 { return math.Round(float64(d)/1e6) / 1e3 }
func hundredths(x float64) float64    { return math.Round(x*100) / 100 }
