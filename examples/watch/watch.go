// SPDX-License-Identifier: BSD-3-Clause

// Package watch shows the clocks of all peers to Prometheus and expvar: copy this file. What it
// shows, and the alert rules, are in docs/RECORDING.md and docs/PRODUCTION.md.
package watch

import (
	"bufio"
	"expvar"
	"iter"
	"net/http"
	"strconv"

	"timesync"
	"timesync/link"
)

type peer struct {
	Peer int
	timesync.Snapshot
	timesync.Stats
}

var metrics = []struct { // in the units of Prometheus: seconds, and ratios
	name, kind, help string
	of               func(p *peer) float64
}{
	{"timesync_offset_seconds", "gauge", "Remote minus local clock.", func(p *peer) float64 { return float64(p.OffsetUsec) / 1e6 }},
	{"timesync_error_bound_seconds", "gauge", "The offset may be so far off.", func(p *peer) float64 { return p.ErrorBound.Seconds() }},
	{"timesync_skew_ratio", "gauge", "Remote minus local rate.", func(p *peer) float64 { return p.Skew / 1e6 }},
	{"timesync_min_delay_seconds", "gauge", "Shortest one-way delay of late, from the peer.", func(p *peer) float64 { return p.MinimumOneWayDelay.Seconds() }},
	{"timesync_min_delay_to_peer_seconds", "gauge", "Shortest one-way delay of late, to the peer.", func(p *peer) float64 { return p.MinimumDelayToPeer.Seconds() }},
	{"timesync_report_age_seconds", "gauge", "Since the peer last reported.", func(p *peer) float64 { return p.Age.Seconds() }},
	{"timesync_steps_total", "counter", "Discontinuities of the remote time.", func(p *peer) float64 { return float64(p.Steps) }},
	{"timesync_late_buckets_total", "counter", "Spans of 0.2 s in which all datagrams queued.", func(p *peer) float64 { return float64(p.LateBuckets) }},
}

// Serve publishes what is known of peers; nowUsec is the clock of their links. Each has the
// number of its place in the game, below most: numbers of connections would never end.
// Call it once in a process: expvar panics where a name is published twice.
func Serve(mux *http.ServeMux, peers iter.Seq2[int, *link.Link], most int, nowUsec func() uint64) {
	known := func() (all []peer) {
		for i, l := range peers {
			if s, ok := l.Snapshot(nowUsec()); ok && i < most { // others have no series
				all = append(all, peer{i, s, l.Stats()})
			}
		}
		return all
	}
	expvar.Publish("timesync", expvar.Func(func() any { return known() }))
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		out, all := bufio.NewWriter(w), known()
		defer out.Flush()
		for _, m := range metrics {
			out.WriteString("# HELP " + m.name + " " + m.help + "\n# TYPE " + m.name + " " + m.kind + "\n")
			for i := range all {
				b := strconv.AppendInt(append(append(out.AvailableBuffer(), m.name...), `{peer="`...), int64(all[i].Peer), 10)
				out.Write(append(strconv.AppendFloat(append(b, `"} `...), m.of(&all[i]), 'g', -1, 64), '\n'))
			}
		}
	})
}
