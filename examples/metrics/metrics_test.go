// These tests prove that what is scraped is what the clocks know, that names and units are those of
// Prometheus, that series end with their peers, and that the dashboard asks for what there is.

package metrics

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"timesync"
	"timesync/link"
	"timesync/ping"
)

const (
	ahead = 3_000_000 // us: the peers' clocks
	delay = 20_000    // us: each way
	until = 2_200_000 // us: when they have exchanged enough
)

// known returns a link that knows its peer's clock.
func known() *link.Link {
	var own, far link.Link
	for now := uint64(1_000_000); now <= until; now += 100_000 {
		far.ReadHeader(own.AppendHeader(nil, now), now+ahead+delay)
		own.ReadHeader(far.AppendHeader(nil, now+ahead), now+delay)
	}
	return &own
}

func TestScrape(t *testing.T) {
	now := uint64(until)
	c := New(func() uint64 { return now })
	var unknown link.Link
	var core timesync.TimeSynchronizer
	p := c.Add("known", known())
	c.Add("unknown", &unknown)
	c.Add("core", &core)
	c.Add("ping", &ping.Clock{})
	p.Delay(20 * time.Millisecond)
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v, %v", problems, err)
	}
	text := scrape(t, c)
	for _, want := range []string{
		`timesync_offset_seconds{peer="known"} 3`,
		`timesync_min_delay_seconds{direction="in",peer="known"} 0.0`,
		`timesync_min_delay_seconds{direction="out",peer="known"} 0.0`,
		`timesync_steps_total{peer="known"} 0`,
		`timesync_datagrams_total{peer="known"} 1`,
		`timesync_datagrams_total{peer="core"} 0`,
		`timesync_state{peer="known",state="trusted"} 1`,
		`timesync_state{peer="known",state="silent"} 0`,
		`timesync_state{peer="unknown",state="unsynchronized"} 1`,
		`timesync_state{peer="ping",state="unsynchronized"} 1`,
		`timesync_one_way_delay_seconds_count{peer="known"} 1`,
		`timesync_silence_seconds{peer="known"} 0`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
	if strings.Contains(text, `timesync_offset_seconds{peer="unknown"}`) {
		t.Error("a clock that is not known has an offset")
	}
	now += 20_000_000
	if want := `timesync_state{peer="known",state="silent"} 1`; !strings.Contains(scrape(t, c), want) {
		t.Errorf("after 20 s of silence %s is missing", want)
	}
}

// scrape returns what Prometheus reads.
func scrape(t testing.TB, c *Collector) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry() // which checks what is collected against what is described
	registry.MustRegister(c)
	out := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}).
		ServeHTTP(out, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if out.Code != http.StatusOK {
		t.Fatalf("status %d: %s", out.Code, out.Body)
	}
	return out.Body.String()
}

// TestRemove: a peer that leaves takes its series along, but not those of the next one of its name.
func TestRemove(t *testing.T) {
	c := New(func() uint64 { return until })
	first := c.Add("seat 1", known())
	c.Add("seat 1", known())
	first.Remove()
	if !strings.Contains(scrape(t, c), `timesync_offset_seconds{peer="seat 1"}`) {
		t.Error("the second one of a name is gone with the first")
	}
	c.Add("seat 2", known()).Remove()
	if strings.Contains(scrape(t, c), "seat 2") {
		t.Error("a peer that left is still shown")
	}
}

// TestMeanwhile: scrapes, datagrams and peers that come and go at the same time; for the race detector.
func TestMeanwhile(t *testing.T) {
	var all sync.WaitGroup
	c := New(func() uint64 { return until })
	l := known()
	p := c.Add("stays", l)
	for i := range 4 {
		all.Go(func() {
			for n := range 200 {
				p.Delay(time.Duration(n) * time.Millisecond)
				l.AppendHeader(nil, until+uint64(n))
				c.Add(fmt.Sprint("guest ", i), &link.Link{}).Remove()
			}
		})
	}
	for range 20 {
		if n := testutil.CollectAndCount(c); n == 0 {
			t.Error("nothing is collected")
		}
	}
	all.Wait()
}

// TestDashboard: it is JSON, and each series that it asks for exists.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	c := New(func() uint64 { return until })
	c.Add("known", known()).Delay(time.Millisecond)
	there := scrape(t, c)
	names := regexp.MustCompile(`timesync_\w+`)
	for _, panel := range board.Panels {
		if len(panel.Targets) == 0 {
			t.Errorf("panel %q asks for nothing", panel.Title)
		}
		for _, target := range panel.Targets {
			asked := names.FindAllString(target.Expr, -1)
			if len(asked) == 0 {
				t.Errorf("panel %q: no series in %q", panel.Title, target.Expr)
			}
			for _, name := range asked {
				if !strings.Contains(there, "\n"+name+"{") {
					t.Errorf("panel %q asks for %s, which does not exist", panel.Title, name)
				}
			}
		}
	}
}

// BenchmarkScrape is a scrape of 10,000 peers.
func BenchmarkScrape(b *testing.B) {
	c := New(func() uint64 { return until })
	l := known()
	for i := range 10_000 {
		c.Add(fmt.Sprint(i), l)
	}
	for b.Loop() {
		testutil.CollectAndCount(c)
	}
}
