// SPDX-License-Identifier: BSD-3-Clause

package metrics_test

import (
	"fmt"
	"net/http/httptest"
	"regexp"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"timesync/examples/metrics"
	"timesync/link"
)

// A server and one player whose clock is 3 s ahead. They exchange datagrams for a second, and then
// Prometheus scrapes the server.
func Example() {
	now := uint64(1_000_000)
	clock := func() uint64 { return now }
	collector := metrics.New(clock)
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector)

	var connection, player link.Link
	peer := collector.Add("seat 1", &connection)
	const ahead, under = 3_000_000, 20_000 // us: the player's clock, and the delay each way
	for range 10 {
		now += 100_000
		player.ReadHeader(connection.AppendHeader(nil, now-under), now+ahead)
		datagram := player.AppendHeader(nil, now-under+ahead)
		_, delay, ok, err := connection.ReadHeader(datagram, now)
		if err == nil && ok {
			peer.DelayIn(delay)
		}
	}

	page := httptest.NewRecorder()
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	handler.ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	series := regexp.MustCompile(`(?m)^timesync_(offset|min_delay|steps|state.*trusted|\w+_count).*`)
	for _, line := range series.FindAllString(page.Body.String(), -1) {
		fmt.Println(line)
	}
	// Output:
	// timesync_min_delay_seconds{direction="in",peer="seat 1"} 0.02
	// timesync_min_delay_seconds{direction="out",peer="seat 1"} 0.02
	// timesync_offset_seconds{peer="seat 1"} 3
	// timesync_one_way_delay_seconds_count{direction="in",peer="seat 1"} 9
	// timesync_state{peer="seat 1",state="trusted"} 1
	// timesync_steps_total{peer="seat 1"} 0
}
