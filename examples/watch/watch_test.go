// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that what is scraped is what the links know, that the labels are bounded,
// and measure a scrape of 10,000 peers and the datagrams beside it.
package watch

import (
	"encoding/json"
	"expvar"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"timesync/internal/testkit"
	"timesync/link"
)

const delay = 20_000 // us

// game is a server with peers, whose clocks are a second ahead each, as many as there are.
type game struct {
	links []*link.Link
	now   uint64
}

// newGame makes a game in which all clocks are known.
func newGame(peers int) *game {
	g := &game{now: 2_200_000}
	for i := range peers {
		var own, far link.Link
		for now := uint64(1_000_000); now <= g.now; now += 100_000 {
			remote := now + g.ahead(i)
			far.Open(own.AppendHeader(nil, now), remote+delay)
			own.Open(far.AppendHeader(nil, remote), now+delay)
		}
		g.links = append(g.links, &own)
	}
	return g
}

func (g *game) ahead(i int) uint64 { return uint64(i%30) * 1_000_000 }

// published is what served shows: an expvar cannot be taken back, for another test.
var published *game

var served = func() *http.ServeMux {
	mux := http.NewServeMux()
	peers := func(yield func(int, *link.Link) bool) { slices.All(published.links)(yield) }
	Serve(mux, peers, 10_000, func() uint64 { return published.now })
	return mux
}()

func scrape(w http.ResponseWriter) { served.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil)) }

// sample is a line of the text format. promlint of Prometheus has no complaint about them.
var sample = regexp.MustCompile(`^(# HELP [a-z_]+ [^\\\n]+|# TYPE [a-z_]+ (gauge|counter)|[a-z_]+\{peer="\d+"\} [-+.0-9e]+)\n$`)

func TestScrape(t *testing.T) {
	g := newGame(10_003)
	published = g
	w := httptest.NewRecorder()
	scrape(w)
	text := w.Body.String()
	if n := strings.Count(text, "\n"); n != 8*(2+10_000) {
		t.Errorf("%d lines", n)
	}
	for line := range strings.Lines(text) {
		if !sample.MatchString(line) {
			t.Fatalf("not of the text format: %q", line)
		}
	}
	for i := range g.links[:100] {
		s, ok := g.links[i].Snapshot(g.now)
		want := fmt.Sprintf("\ntimesync_error_bound_seconds{peer=\"%d\"} %v\n", i, s.ErrorBound.Seconds())
		if !ok || !strings.Contains(text, want) {
			t.Fatalf("%v; no %s", ok, want)
		}
		if off := s.OffsetUsec - int64(g.ahead(i)); max(off, -off) > 100 {
			t.Fatalf("peer %d: %v", i, s)
		}
	}
	var rows []map[string]any
	if err := json.Unmarshal([]byte(expvar.Get("timesync").String()), &rows); err != nil || len(rows) != 10_000 || rows[7]["Peer"] != 7.0 || rows[7]["OffsetUsec"] == 0.0 {
		t.Errorf("expvar: %v, %d peers", err, len(rows))
	}
}

// BenchmarkScrape is a scrape of 10,000 peers, each with all of its series.
func BenchmarkScrape(b *testing.B) {
	published = newGame(10_000)
	least := time.Hour // other programs on the machine take their time from the rest
	for b.Loop() {
		begin := time.Now()
		scrape(new(httptest.ResponseRecorder)) // which keeps nothing
		least = min(least, time.Since(begin))
	}
	b.ReportMetric(least.Seconds()*1e3, "least-ms")
}

// BenchmarkDatagramsBesideScrape measures how long Open takes, in turns with and without
// scrapes of 10,000 peers in another goroutine: percentiles of either.
func BenchmarkDatagramsBesideScrape(b *testing.B) {
	g := newGame(10_000)
	published = g
	var took [2][]float64
	scrapes := 0
	for b.Loop() {
		took[0] = g.open(took[0], func() bool { return true })
		var over atomic.Bool
		go func() {
			for range 3 {
				scrape(new(httptest.ResponseRecorder))
			}
			over.Store(true)
		}()
		took[1] = g.open(took[1], over.Load)
		scrapes += 3
	}
	for i, name := range [2]string{"alone", "scraped"} {
		b.ReportMetric(testkit.Quantile(took[i], 0.5), name+"-p50-ns")
		b.ReportMetric(testkit.Quantile(took[i], 0.999), name+"-p99.9-ns")
	}
	b.ReportMetric(float64(len(took[1])/scrapes), "datagrams/scrape")
}

// open gives every link a datagram, again until over, and appends how long each took, ns.
func (g *game) open(took []float64, over func() bool) []float64 {
	datagram := make([]byte, link.MinHeader)
	for again := true; again; again = !over() {
		for i := range g.links {
			local := g.now + delay
			begin := time.Now()
			_, _, _, _ = g.links[i].Open(datagram, local)
			took = append(took, float64(time.Since(begin)))
		}
	}
	return took
}
