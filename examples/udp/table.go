package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// report is what the demo found, for the table and for -json.
type report struct {
	For       float64        `json:"for_s"`
	Rate      float64        `json:"rate_hz"`
	Delay     float64        `json:"delay_ms"`
	JitterMin float64        `json:"jitter_min_ms"`
	JitterMax float64        `json:"jitter_max_ms"`
	Loss      float64        `json:"loss_percent"`
	Skew      float64        `json:"skew_ppm"`
	Asymmetry float64        `json:"asymmetry_ms"`
	Seed      uint64         `json:"seed"`
	Failed    string         `json:"failed,omitempty"`
	Peers     [2]peerResults `json:"peers"`
}

// peerResults is what one peer made of it. Errors are sizes, without their signs.
type peerResults struct {
	Name            string         `json:"name"`
	Synchronized    bool           `json:"synchronized"`
	FirstSync       float64        `json:"time_to_first_sync_ms"`
	Offset          spread         `json:"offset_error"`
	OneWayDelay     spread         `json:"one_way_delay_error"`
	Event           spread         `json:"payload_timestamp_error"`
	MinDelay        float64        `json:"minimum_one_way_delay_ms"`
	TrueMinDelay    float64        `json:"true_minimum_one_way_delay_ms"`
	Sent            int            `json:"sent"`
	Received        int            `json:"received"`
	DatagramBytes   float64        `json:"bytes_per_datagram"`
	ClockBytes      float64        `json:"bytes_per_datagram_stamp_and_min_delta"`
	EventBytes      float64        `json:"bytes_per_datagram_payload_timestamp"`
	JudgeBytes      float64        `json:"bytes_per_datagram_judge"`
	Injected        map[string]int `json:"injected"`
	Rejected        map[string]int `json:"rejected"`
	IntrudersPassed int            `json:"intruders_passed"`
}

// kinds are the reasons to reject, in the order of the table.
var kinds = []error{ErrForged, ErrReplayed, ErrTruncated, ErrUnproven}

func (p *peer) results(name string, j *judge, r *relay, index int) peerResults {
	j.mu.Lock()
	defer j.mu.Unlock()
	x := peerResults{
		Name: name, Synchronized: j.synced, FirstSync: ms(j.firstSync),
		Offset: spreadOf(j.offset), OneWayDelay: spreadOf(j.owd), Event: spreadOf(j.event),
		TrueMinDelay: ms(j.least), Sent: j.sent, Received: p.count(nil),
		EventBytes: eventLen, JudgeBytes: judgeLen,
		Injected: map[string]int{}, Rejected: map[string]int{}, IntrudersPassed: j.intruders,
	}
	if delay, ok := p.Sync.MinimumOneWayDelay(); ok {
		x.MinDelay = ms(delay)
	}
	if j.sent > 0 {
		x.DatagramBytes = float64(j.bytes) / float64(j.sent)
		x.ClockBytes = float64(j.clockBytes) / float64(j.sent)
	}
	for _, kind := range kinds {
		x.Injected[kind.Error()] = r.injections(index, kind)
		x.Rejected[kind.Error()] = p.count(kind)
	}
	return x
}

func (r *report) print(w io.Writer) {
	row := func(label string, cell func(p peerResults) string) {
		line := fmt.Sprintf("%-36s %18s %18s", label, cell(r.Peers[0]), cell(r.Peers[1]))
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
	line := func() { fmt.Fprintln(w, strings.Repeat("-", 74)) }
	row("", func(p peerResults) string { return p.Name })
	line()
	ifSynced := func(p peerResults, s string) string {
		if !p.Synchronized {
			return "never"
		}
		return s
	}
	row("time to first sync", func(p peerResults) string { return ifSynced(p, fmt.Sprintf("%.0f ms", p.FirstSync)) })
	errors := func(label string, of func(peerResults) spread) {
		for _, q := range []struct {
			name string
			at   func(spread) int64
		}{
			{"median", func(s spread) int64 { return s.Median }},
			{"p99", func(s spread) int64 { return s.P99 }},
			{"max", func(s spread) int64 { return s.Max }},
		} {
			row(fmt.Sprintf("%-28s %s", label, q.name), func(p peerResults) string {
				if of(p).Samples == 0 {
					return "-"
				}
				return micros(q.at(of(p)))
			})
			label = ""
		}
	}
	errors("offset error", func(p peerResults) spread { return p.Offset })
	errors("one-way delay error", func(p peerResults) spread { return p.OneWayDelay })
	errors("payload timestamp error", func(p peerResults) spread { return p.Event })
	row("minimum one-way delay, estimated", func(p peerResults) string { return ifSynced(p, fmt.Sprintf("%.3f ms", p.MinDelay)) })
	row("                       true, inbound", func(p peerResults) string { return fmt.Sprintf("%.3f ms", p.TrueMinDelay) })
	line()
	row("datagrams sent", func(p peerResults) string { return strconv.Itoa(p.Sent) })
	row("datagrams accepted", func(p peerResults) string { return strconv.Itoa(p.Received) })
	row("bytes per datagram, in all", func(p peerResults) string { return fmt.Sprintf("%.2f", p.DatagramBytes) })
	row("  stamp and MinDelta", func(p peerResults) string { return fmt.Sprintf("%.2f", p.ClockBytes) })
	row("  payload timestamp", func(p peerResults) string { return fmt.Sprintf("%.2f", p.EventBytes) })
	row("  the judge's, demo only", func(p peerResults) string { return fmt.Sprintf("%.2f", p.JudgeBytes) })
	line()
	row("rejected / injected", func(peerResults) string { return "" })
	for _, kind := range kinds {
		label := map[error]string{
			ErrForged:    "  forged",
			ErrReplayed:  "  replayed",
			ErrTruncated: "  truncated",
			ErrUnproven:  "  another session's",
		}[kind]
		row(label, func(p peerResults) string {
			return fmt.Sprintf("%d / %d", p.Rejected[kind.Error()], p.Injected[kind.Error()])
		})
	}
	row("accepted, but never sent", func(p peerResults) string { return strconv.Itoa(p.IntrudersPassed) })
	for _, p := range r.Peers {
		if p.Rejected[ErrUnproven.Error()] > p.Injected[ErrUnproven.Error()] {
			fmt.Fprintln(w, "\nRejected but not injected: greetings, which prove nothing yet, and what came after\nthe datagram that did but was sent before it.")
			break
		}
	}
	if r.Asymmetry != 0 {
		fmt.Fprintf(w, "\nOne way takes %g ms longer. No exchange of datagrams can tell: half of it, %g ms,\nis in the errors above.\n",
			math.Abs(r.Asymmetry), math.Abs(r.Asymmetry)/2)
	}
}

func ms(d time.Duration) float64 { return math.Round(float64(d)/1e3) / 1e3 }

func millis(d time.Duration) string { return fmt.Sprintf("%.3f ms", ms(d)) }

func micros(usec int64) string { return strconv.FormatInt(usec, 10) + " us" }
