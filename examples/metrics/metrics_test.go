// These tests prove that what is scraped is what the clocks know, that names and units are those of
// Prometheus, that series end with their peers, that OpenTelemetry gets the same, that log lines
// have one shape, and that the dashboard asks for what there is.

package metrics

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

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
	own, _ := pair()
	return own
}

// pair returns both ends of a link that know each other's clocks.
func pair() (own, far *link.Link) {
	own, far = new(link.Link), new(link.Link)
	for now := uint64(1_000_000); now <= until; now += 100_000 {
		far.ReadHeader(own.AppendHeader(nil, now), now+ahead+delay)
		own.ReadHeader(far.AppendHeader(nil, now+ahead), now+delay)
	}
	return own, far
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
	c.Add("view", NewView(known()))
	p.DelayIn(20 * time.Millisecond)
	p.DelayOut(30 * time.Millisecond)
	p.DelayOut(40 * time.Millisecond)
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v, %v", problems, err)
	}
	text := scrape(t, c)
	t.Logf("what Prometheus reads:\n%s", text)
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
		`timesync_state{peer="view",state="unsynchronized"} 1`,
		`timesync_one_way_delay_seconds_count{direction="in",peer="known"} 1`,
		`timesync_one_way_delay_seconds_count{direction="out",peer="known"} 2`,
		`timesync_one_way_delay_seconds_sum{direction="out",peer="known"} 0.07`,
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
	want := `timesync_state{peer="known",state="silent"} 1`
	if !strings.Contains(scrape(t, c), want) {
		t.Errorf("after 20 s of silence %s is missing", want)
	}
}

// TestDocument: the README has the package's example, and names all that is scraped.
func TestDocument(t *testing.T) {
	b, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	readme := string(b)
	source, err := os.ReadFile("metrics.go")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(source), "\n//\n//\t")
	code, _, _ = strings.Cut(code, "\n//\n")
	code = strings.ReplaceAll(code, "\n//\t", "\n")
	if !strings.Contains(readme, "```go\n"+code+"\n```") {
		t.Errorf("README.md lacks this code of metrics.go:\n%s", code)
	}
	c := New(func() uint64 { return until })
	c.Add("known", known()).DelayIn(delay * time.Microsecond)
	families := regexp.MustCompile(`(?m)^# TYPE timesync_(\w+)`)
	for _, name := range families.FindAllStringSubmatch(scrape(t, c), -1) {
		if !strings.Contains(readme, "`"+name[1]+"`") {
			t.Errorf("README.md lacks `%s`", name[1])
		}
	}
}

// scrape returns what Prometheus reads.
func scrape(t testing.TB, c *Collector) string {
	t.Helper()
	// A pedantic one checks what is collected against what is described.
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	out := httptest.NewRecorder()
	options := promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}
	request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	promhttp.HandlerFor(registry, options).ServeHTTP(out, request)
	if out.Code != http.StatusOK {
		t.Fatalf("status %d: %s", out.Code, out.Body)
	}
	return out.Body.String()
}

// TestDelayOut: a peer that says when a datagram arrived makes known how long it took.
func TestDelayOut(t *testing.T) {
	own, _ := pair()
	sent := uint64(until - 500_000)
	arrived := link.AppendEvent(nil, sent+delay+ahead) // by the peer's clock
	at, err := own.ReadEvent(until, arrived, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	c := New(func() uint64 { return until })
	c.Add("peer", own).DelayOut(time.Duration(at-sent) * time.Microsecond)
	text := scrape(t, c)
	for bucket, want := range map[string]int{"0.0128": 0, "0.0256": 1} {
		const name = "timesync_one_way_delay_seconds_bucket"
		line := fmt.Sprintf(`%s{direction="out",peer="peer",le="%s"} %d`, name, bucket, want)
		if !strings.Contains(text, line) {
			t.Errorf("%s is missing in\n%s", line, text)
		}
	}
}

// TestView: a peer that only another machine hears is shown as others are, with offsets and bounds
// of both parts. Steps is a count, unlike that of a chain.
func TestView(t *testing.T) {
	now := uint64(until)
	toRelay := known()
	fromRelay := known() // the relay's clock is ahead: what is until here is later there
	view := NewView(toRelay)
	c := New(func() uint64 { return now })
	c.Add("camera", view)
	arrive := func(s timesync.Snapshot) {
		t.Helper()
		b, err := s.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := view.Arrived(b); err != nil {
			t.Fatal(err)
		}
	}
	near, _ := toRelay.Snapshot(until)
	far, _ := fromRelay.Snapshot(until)
	far = far.At(until + ahead)
	arrive(far)
	both := near.Then(far)
	text := scrape(t, c)
	for _, want := range []string{
		`timesync_offset_seconds{peer="camera"} 6`,
		fmt.Sprintf(`timesync_error_bound_seconds{peer="camera"} %v`, both.ErrorBound.Seconds()),
		`timesync_steps_total{peer="camera"} 0`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
	far.Steps += 5
	arrive(far)
	for range 2 {
		want := `timesync_steps_total{peer="camera"} 1`
		if text := scrape(t, c); !strings.Contains(text, want) {
			t.Errorf("after a step %s is missing in\n%s", want, text)
		}
	}
	if err := view.Arrived([]byte("no snapshot")); err == nil {
		t.Error("what is no snapshot is taken")
	}
	now += 20_000_000
	want := `timesync_state{peer="camera",state="silent"} 1`
	if !strings.Contains(scrape(t, c), want) {
		t.Errorf("after 20 s without news %s is missing", want)
	}
}

// TestLog: all lines have the same attributes, whatever is known, and one for each peer in order.
func TestLog(t *testing.T) {
	c := New(func() uint64 { return until })
	c.Add("3 knows nothing", NewView(&ping.Clock{}))
	c.Add("1 knows all", known())
	c.Add("2 has no stats", &ping.Clock{})
	var out bytes.Buffer
	c.Log(t.Context(), slog.New(slog.NewJSONHandler(&out, nil)))
	var names []string
	shapes := map[string]bool{}
	for text := range strings.Lines(out.String()) {
		var line struct{ Peer map[string]any }
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		names = append(names, line.Peer["name"].(string))
		outer := slices.Sorted(maps.Keys(line.Peer))
		inner := slices.Sorted(maps.Keys(line.Peer["snapshot"].(map[string]any)))
		shapes[fmt.Sprint(outer, inner)] = true
	}
	want := []string{"1 knows all", "2 has no stats", "3 knows nothing"}
	if !slices.Equal(names, want) {
		t.Errorf("lines of %q, want %q", names, want)
	}
	if len(shapes) != 1 {
		t.Errorf("%d shapes in\n%s", len(shapes), out.String())
	}
	for _, want := range []string{
		`"state":"trusted"`,
		`"state":"unsynchronized"`,
		`"offset_us":3000000`,
		`"datagrams":1`,
		`"heard":true`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is missing in\n%s", want, out.String())
		}
	}
}

// TestOpenTelemetry: by way of its bridge for Prometheus it gets the same series, and loses those
// of a peer that leaves.
func TestOpenTelemetry(t *testing.T) {
	c := New(func() uint64 { return until })
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	bridge := bridge.NewMetricProducer(bridge.WithGatherer(registry))
	reader := metric.NewManualReader(metric.WithProducer(bridge))
	metric.NewMeterProvider(metric.WithReader(reader))
	p := c.Add("player", known())
	p.DelayIn(20 * time.Millisecond)
	p.DelayOut(20 * time.Millisecond)
	got := collect(t, reader)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if points := got[family.GetName()]; points != len(family.GetMetric()) {
			t.Errorf("%s has %d points, want %d", family.GetName(), points, len(family.GetMetric()))
		}
	}
	if len(got) != len(families) || got["timesync_one_way_delay_seconds"] != 2 {
		t.Errorf("%v", got)
	}
	p.Remove()
	if got := collect(t, reader); len(got) != 0 {
		t.Errorf("the peer left, and there is %v", got)
	}
}

// collect returns how many points each metric has that OpenTelemetry reads.
func collect(t *testing.T, reader metric.Reader) map[string]int {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	points := map[string]int{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Gauge[float64]:
				points[m.Name] = len(data.DataPoints)
			case metricdata.Sum[float64]:
				points[m.Name] = len(data.DataPoints)
			case metricdata.Histogram[float64]:
				points[m.Name] = len(data.DataPoints)
			default:
				t.Errorf("%s is a %T", m.Name, m.Data)
			}
		}
	}
	return points
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
	second := c.Add("seat 2", known())
	second.DelayIn(delay * time.Microsecond)
	second.DelayOut(delay * time.Microsecond)
	second.Remove()
	second.DelayIn(delay * time.Microsecond)
	never := c.Add("seat 2, too", known())
	never.Remove()
	never.DelayOut(delay * time.Microsecond)
	if strings.Contains(scrape(t, c), "seat 2") {
		t.Error("a peer that left is still shown")
	}
}

// TestMeanwhile: scrapes, datagrams and peers that come and go at the same time; for the race
// detector.
func TestMeanwhile(t *testing.T) {
	var all sync.WaitGroup
	c := New(func() uint64 { return until })
	l := known()
	p := c.Add("stays", l)
	for i := range 4 {
		all.Go(func() {
			for n := range 200 {
				p.DelayIn(time.Duration(n) * time.Millisecond)
				p.DelayOut(time.Duration(n) * time.Millisecond)
				l.AppendHeader(nil, until+uint64(n))
				c.Add(fmt.Sprint("guest ", i), &link.Link{}).Remove()
			}
		})
	}
	for range 20 {
		if n := testutil.CollectAndCount(c); n == 0 {
			t.Error("nothing is collected")
		}
		c.Log(t.Context(), slog.New(slog.DiscardHandler))
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
	c.Add("known", known()).DelayIn(time.Millisecond)
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
