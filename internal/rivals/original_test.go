// These tests prove that the model of the C++ original is equal to it in every bit: they replay
// the golden vectors (testdata/README.md at the top).
package rivals

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// vectors opens a file of recorded outputs of the C++ original and calls fn with its lines.
func vectors(t *testing.T, name string, fn func(line string)) {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(z)
	n := 0
	for lines.Scan() {
		if n++; n > 1 { // the first is a header
			fn(lines.Text())
		}
	}
	if err := lines.Err(); err != nil || n < 2 {
		t.Fatalf("%s: %d lines, %v", name, n, err)
	}
}

// row returns the numbers of a line of CSV; what is not a number is 0.
func row(line string) []uint64 {
	var out []uint64
	for s := range strings.SplitSeq(line, ",") {
		v, _ := strconv.ParseUint(s, 10, 64)
		out = append(out, v)
	}
	return out
}

func TestWindowMinVectors(t *testing.T) {
	for _, name := range []string{"windowmin.csv.gz", "windowmin_zero.csv.gz", "windowmin_backwards.csv.gz"} {
		var w WindowMin
		vectors(t, name, func(line string) {
			r := row(line) // scenario, step, value, timestamp, window, best, valid
			if r[1] == 0 {
				w = WindowMin{}
			}
			w.Update(uint32(r[2]), r[3], r[4])
			if got := w.Best(); uint64(got) != r[5] {
				t.Fatalf("%s: %s: best %d", name, line, got)
			}
			if len(r) > 6 && w.Valid() != (r[6] == 1) {
				t.Fatalf("%s: %s: valid %v", name, line, w.Valid())
			}
		})
	}
}

func TestToRemoteVectors(t *testing.T) {
	vectors(t, "to_remote.csv.gz", func(line string) {
		r := row(line)
		var o Original
		o.Datagram(uint32(r[1]), r[0])
		o.OnPeerMinDelta(uint32(r[2]), r[0])
		got := [3]uint64{uint64(o.minOWD.Load()), uint64(o.Remote23(r[3]))}
		got[2] = uint64(o.Datagram(uint32(r[7]), r[8]))
		if want := [3]uint64{r[4], r[5], r[9]}; got != want { // r[6] has 16 bits, which nothing here uses
			t.Fatalf("%s: got %d", line, got)
		}
	})
}

func TestSessionVectors(t *testing.T) {
	for _, name := range []string{"session.jsonl.gz", "session_quirks.jsonl.gz"} {
		var peers map[string]*Original
		checks := 0
		vectors(t, name, func(line string) {
			var e struct {
				Event, Peer string
				Now         uint64
				TS24, Value uint32
				Report, OWD *uint32
				Sync        bool
				MinOWD      uint32 `json:"min_owd"`
				MinDelta    uint32 `json:"min_delta"`
				RT23        uint32 `json:"rt23_at0"`
				Out         uint64
			}
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			o := peers[e.Peer]
			check := func(what string, got, want uint64) {
				if checks++; got != want {
					t.Fatalf("%s: %s\n%s = %d", name, line, what, got)
				}
			}
			switch e.Event {
			case "begin":
				peers = map[string]*Original{"A": {}, "B": {}}
			case "send":
				check("ts24", uint64(stamp(e.Now)), uint64(e.TS24))
				if e.Report != nil {
					delta, _ := o.MinDelta(e.Now)
					check("report", uint64(delta), uint64(*e.Report))
				}
			case "recv", "peermindelta":
				if e.Event == "recv" {
					check("owd", uint64(o.Datagram(e.TS24, e.Now)), uint64(*e.OWD))
				} else {
					o.OnPeerMinDelta(e.Value, e.Now)
				}
				minOWD := uint64(200_000) // what the original shows while it does not know
				if e.Sync {
					minOWD = uint64(o.minOWD.Load())
				}
				if o.synchronized() != e.Sync {
					t.Fatalf("%s: %s\nsync = %v", name, line, o.synchronized())
				}
				delta, _ := o.MinDelta(e.Now)
				check("min_owd", minOWD, uint64(e.MinOWD))
				check("min_delta", uint64(delta), uint64(e.MinDelta))
				check("rt23", uint64(o.Remote23(0)), uint64(e.RT23))
			case "toremote23":
				check("out", uint64(o.Remote23(e.Now)), e.Out)
			}
		})
		t.Logf("%s: %d checks", name, checks)
	}
}
