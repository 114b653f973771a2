// These tests prove that the model of the C++ original is equal to it in every bit: they replay
// the golden vectors (testdata/README.md at the top).
package vectors

import (
	"testing"

	"timesync/internal/rivals"
	"timesync/internal/sim"
)

func TestWindowMinVectors(t *testing.T) {
	for _, name := range []string{"windowmin.csv", "windowmin_zero.csv", "windowmin_backwards.csv"} {
		var w rivals.WindowMin
		for line, r := range Rows(t, name) { // scenario, step, value, timestamp, window, best, valid
			if r[1] == 0 {
				w = rivals.WindowMin{}
			}
			w.Update(uint32(r[2]), r[3], r[4])
			if got := w.Best(); uint64(got) != r[5] {
				t.Fatalf("%s: %s: best %d", name, line, got)
			}
			if len(r) > 6 && w.Valid() != (r[6] == 1) {
				t.Fatalf("%s: %s: valid %v", name, line, w.Valid())
			}
		}
	}
}

func TestToRemoteVectors(t *testing.T) {
	for line, r := range Rows(t, "to_remote.csv") {
		var o rivals.Original
		o.Datagram(uint32(r[1]), r[0])
		o.OnPeerMinDelta(uint32(r[2]), r[0])
		got := [3]uint64{uint64(o.MinOWD()), uint64(o.Remote23(r[3]))}
		got[2] = uint64(o.Datagram(uint32(r[7]), r[8]))
		if want := [3]uint64{r[4], r[5], r[9]}; got != want { // r[6] has 16 bits, which nothing here uses
			t.Fatalf("%s: got %d", line, got)
		}
	}
}

func TestSessionVectors(t *testing.T) {
	for _, name := range []string{"session.jsonl", "session_quirks.jsonl"} {
		checks := 0
		for _, session := range goldenSessions(t, name) {
			peers := map[string]*rivals.Original{"A": {}, "B": {}}
			for _, e := range session {
				o := peers[e.Peer]
				check := func(what string, got, want uint64) {
					if checks++; got != want {
						t.Fatalf("%s: %+v\n%s = %d", name, e, what, got)
					}
				}
				switch e.Event {
				case "send":
					check("ts24", uint64(sim.Stamp(e.Now)), uint64(e.TS24))
					if e.Report != nil {
						delta, _ := o.MinDelta(e.Now)
						check("report", uint64(delta), uint64(*e.Report))
					}
				case "recv", "peermindelta":
					if e.Event == "recv" {
						check("owd", uint64(o.Datagram(uint32(e.TS24), e.Now)), uint64(*e.OWD))
					} else {
						o.OnPeerMinDelta(uint32(e.Value), e.Now)
					}
					if _, synced := o.RemoteTime(e.Now, 0); synced != e.Sync {
						t.Fatalf("%s: %+v\nsync = %v", name, e, synced)
					}
					if e.Sync { // else the original shows 200 ms
						check("min_owd", uint64(o.MinOWD()), uint64(e.MinOWD))
					}
					delta, _ := o.MinDelta(e.Now)
					check("min_delta", uint64(delta), uint64(e.MinDelta))
					check("rt23", uint64(o.Remote23(0)), uint64(e.RT23))
				case "toremote23":
					check("out", uint64(o.Remote23(e.Now)), e.Out)
				}
			}
		}
		t.Logf("%s: %d checks", name, checks)
	}
}
