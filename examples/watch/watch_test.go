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
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"timesync/internal/stat"
	"timesync/link"
)

const delay = 20_000 // us

// game is a server with peers, whose clocks are a second ahead each, as many as there are.
type game struct {
	links []link.Link
	now   atomic.Uint64
}

// newGame makes a game in which all clocks are known.
func newGame(peers int) *game {
	g := &game{links: make([]link.Link, peers)}
	g.now.Store(1_000_000)
	far := make([]link.Link, peers)
	for range 12 {
		now := g.now.Add(100_000)
		for i := range g.links {
			remote := now + g.ahead(i)
			far[i].Open(g.links[i].AppendHeader(nil, now), remote+delay)
			g.links[i].Open(far[i].AppendHeader(nil, remote), now+delay)
		}
	}
	return g
}

func (g *game) ahead(i int) uint64 { return uint64(i%30) * 1_000_000 }

func (g *game) all(yield func(int, *link.Link) bool) {
	for i := range g.links {
		if !yield(i, &g.links[i]) {
			return
		}
	}
}

// published keeps apart what tests publish, since an expvar cannot be taken back.
var published atomic.Pointer[game]

func scrape(mux *http.ServeMux) string {
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

var served = func() *http.ServeMux {
	mux := http.NewServeMux()
	peers := func(yield func(int, *link.Link) bool) { published.Load().all(yield) }
	Serve(mux, peers, 10_000, func() uint64 { return published.Load().now.Load() })
	return mux
}()

// sample is a line of the text format. promlint of Prometheus has no complaint about them.
var sample = regexp.MustCompile(`^(# HELP [a-z_]+ [^\\\n]+|# TYPE [a-z_]+ (gauge|counter)|[a-z_]+\{peer="\d+"\} [-+.0-9e]+)\n$`)

func TestScrape(t *testing.T) {
	g := newGame(10_003)
	published.Store(g)
	text := scrape(served)
	if n := strings.Count(text, "\n"); n != 8*(2+10_000) {
		t.Errorf("%d lines", n)
	}
	for line := range strings.Lines(text) {
		if !sample.MatchString(line) {
			t.Fatalf("not of the text format: %q", line)
		}
	}
	for i := range g.links[:100] {
		s, ok := g.links[i].Snapshot(g.now.Load())
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
	published.Store(newGame(10_000))
	least := time.Hour // other programs on the machine take their time from the rest
	for b.Loop() {
		begin := time.Now()
		served.ServeHTTP(discard{}, httptest.NewRequest("GET", "/metrics", nil))
		least = min(least, time.Since(begin))
	}
	b.ReportMetric(least.Seconds()*1e3, "least-ms")
}

// discard is a client that takes everything at once.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}

// BenchmarkDatagramsBesideScrape measures how long Open takes, in turns with and without
// scrapes of 10,000 peers in another goroutine: percentiles of either.
func BenchmarkDatagramsBesideScrape(b *testing.B) {
	g := newGame(10_000)
	published.Store(g)
	var took [2][]float64
	scrapes := 0
	for b.Loop() {
		took[0] = g.open(took[0], func() bool { return true })
		var n atomic.Int64
		done := make(chan struct{})
		go func() {
			defer close(done)
			for n.Add(1) <= 3 {
				served.ServeHTTP(discard{}, httptest.NewRequest("GET", "/metrics", nil))
			}
		}()
		took[1] = g.open(took[1], func() bool { return n.Load() > 3 })
		<-done
		scrapes += 3
	}
	for i, name := range [2]string{"alone", "scraped"} {
		b.ReportMetric(stat.Quantile(took[i], 0.5), name+"-p50-ns")
		b.ReportMetric(stat.Quantile(took[i], 0.999), name+"-p99.9-ns")
	}
	b.ReportMetric(float64(len(took[1])/scrapes), "datagrams/scrape")
}

// open gives every link a datagram, again until over, and appends how long each took, ns.
func (g *game) open(took []float64, over func() bool) []float64 {
	datagram := make([]byte, link.MinHeader)
	for again := true; again; again = !over() {
		for i := range g.links {
			local := g.now.Load() + delay
			begin := time.Now()
			_, _, _, _ = g.links[i].Open(datagram, local)
			took = append(took, float64(time.Since(begin)))
		}
	}
	return took
}
