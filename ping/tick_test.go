// These tests prove that the clock can drive package tick.

package ping

import (
	"testing"
	"time"

	"timesync/tick"
)

// TestServesTick: a Clock is the remote clock of a client's tick loop as it stands.
// With 5 ms of jitter and 50 ppm the shared clocks of both ends agree within half a
// tick of 60 Hz, no tick of the client is skipped or repeated, and what it sends for
// its predicted tick is there in time.
func TestServesTick(t *testing.T) {
	r := random(t)
	w := newWorld(&Clock{})
	w.ppb = 50_000
	w.up, w.down = exponential(r, 20*usMs, 5*usMs), exponential(r, 20*usMs, 5*usMs)
	w.keepPinging()

	config := tick.Config{Rate: tick.Hz(60)}
	server, errServer := tick.NewServer(tick.ServerConfig{Config: config})
	last, sent, late := tick.Tick(-1), 0, 0
	onTick := func(s tick.Info) {
		if last >= 0 {
			check(t, s.Tick, last+1, "the next tick")
		}
		last = s.Tick
		w.after(20*usMs, func() { // the fastest datagram
			if now, ok := server.Snapshot(w.remote()); ok && w.t > 5*usSec {
				sent++
				if now.SharedTime.Tick() > s.Tick {
					late++
				}
			}
		})
	}
	client, errClient := tick.NewClient(tick.ClientConfig{Config: config, Handlers: tick.Handlers{Tick: onTick}}, w.c)
	if errServer != nil || errClient != nil {
		t.Fatal(errServer, errClient)
	}
	server.Start(w.remote())
	client.Start(w.local())
	w.every(sec, func() {
		if welcome, ok := server.Announce(0, w.remote()); ok {
			w.after(w.down(), func() { check(t, client.OnWelcome(welcome, w.local()), nil, "a welcome") })
		}
	})
	worst := time.Duration(0)
	w.every(10*ms, func() {
		server.Advance(w.remote())
		client.Advance(w.local())
		here, ok := client.Snapshot(w.local())
		there, _ := server.Snapshot(w.remote())
		if ok && w.t > 5*usSec {
			worst = max(worst, here.SharedTime.Sub(there.SharedTime), there.SharedTime.Sub(here.SharedTime))
		}
	})
	w.run(30 * sec)
	t.Logf("shared clocks at most %v apart; %d of %d inputs late", worst, late, sent)
	if worst > sec/120 || sent < 1000 || late*100 > sent {
		t.Errorf("shared clocks %v apart, %d of %d inputs late", worst, late, sent)
	}
}
