// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that the judge knows the truth: it finds the error that an unequal path
// must cause, and fails the row for it.
package channelbench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"timesync/examples/channel"
	"timesync/internal/testkit"
)

// TestJudge: the judge finds how wrong an end is.
//
// One transport takes 10 ms longer to the server than back. So the offset is wrong by 5 ms, in
// which the delays seem equal, and so is all that follows from it. The bound knows of the round
// trip, and contains that. Another transport lets nothing through for the first 5 s, and then all
// at once: its ends are judged from when they know each other's clock.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		longer func(since time.Duration) time.Duration
		wrong  int64 // us
		says   string
	}{
		{
			longer: func(time.Duration) time.Duration { return 10 * time.Millisecond },
			wrong:  5000,
			says:   "idle: the 99th percentile of the offset error is",
		},
		{
			longer: func(since time.Duration) time.Duration { return max(0, 5*time.Second-since) },
			wrong:  0,
			says:   "<nil>",
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			connect := wires(func() time.Duration { return c.longer(time.Since(begin)) })
			r, err := Measure(t.Context(), Loads("bulk")[0], time.Second, connect)
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Check(); !strings.Contains(fmt.Sprint(err), c.says) {
				t.Errorf("the row says %v of an error of %d us", err, c.wrong)
			}
			for _, f := range []Found{r.client, r.server} {
				if f.Outside > 0 {
					t.Errorf("%d offsets are outside their bound", f.Outside)
				}
				for _, s := range []Series{f.OffsetError, f.OneWayDelayError, f.TS23Error} {
					off := testkit.Quantile(s, 0.99) - c.wrong
					if size(off) > 100 || len(s) < 100 {
						t.Errorf("%d errors, %d us more than %d: %+v", len(s), off, c.wrong, f)
					}
				}
			}
		})
	}
}

// wires connects by two wires. What is sent to the server now takes so much longer.
func wires(longer func() time.Duration) Connect {
	return func(ctx context.Context, r *Run) error {
		for _, clock := range ClientClocks {
			client, server := r.Ends(clock)
			client.Peer = &channel.Peer{
				ReceivedUsec: clock.Now,
				Write:        func(b []byte) error { return wire(b, server, longer()) },
			}
			server.Peer = &channel.Peer{
				ReceivedUsec: ServerClock.Now,
				Write:        func(b []byte) error { return wire(b, client, 0) },
			}
			client.Send(ctx)
			server.Send(ctx)
		}
		return nil
	}
}

// wire carries a datagram to an end, which a measurement waits for.
func wire(datagram []byte, to *End, delay time.Duration) error {
	to.Go(func() error {
		time.Sleep(delay)
		received, err := to.Peer.Take(datagram)
		if err == nil {
			to.Judge(received)
		}
		return err
	})
	return nil
}

// TestFailures: a row without a result is an error, never an empty line.
func TestFailures(t *testing.T) { synctest.Test(t, testFailures) }

func testFailures(t *testing.T) {
	broken := errors.New("broken")
	breaks := func(context.Context, *Run) error { return broken }
	breaksLater := func(_ context.Context, r *Run) error {
		r.stop(broken)
		return nil
	}
	silent := func(context.Context, *Run) error { return nil }
	near := wires(func() time.Duration { return 0 })
	distant := wires(func() time.Duration { return 5 * time.Second })
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		ctx     context.Context
		load    Load
		connect Connect
		want    string
	}{
		"connect":   {t.Context(), Load{}, breaks, "broken"},
		"a task":    {t.Context(), Load{}, breaksLater, "broken"},
		"interrupt": {cancelled, Load{}, silent, "context canceled"},
		"silence":   {t.Context(), Load{}, silent, "not every end knew"},
		"vague":     {t.Context(), Load{}, distant, "not every end knew"},
		"no bulk":   {t.Context(), Load{up: true}, near, "no bulk arrived"},
	} {
		test.load.name = "x"
		_, err := Measure(test.ctx, test.load, 0, test.connect)
		if err == nil || !strings.HasPrefix(err.Error(), "x: "+test.want) {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
}

// TestLimits: what is just within a limit passes, and what is just beyond fails.
func TestLimits(t *testing.T) {
	r := Run{
		Load:   Load{limit: 5000},
		client: Found{OffsetError: Series{5000}},
		server: Found{OffsetError: Series{5000}},
	}
	if err := r.Check(); err != nil || r.Outside() != 0 {
		t.Error(err)
	}
	for _, end := range []*Found{&r.client, &r.server} {
		end.OffsetError[0] = 5001
		end.Outside = 1
		if r.Check() == nil || r.Outside() != 1 {
			t.Error("an error of 5001 us passes, or an offset outside its bound")
		}
		end.OffsetError[0] = 5000
		end.Outside = 0
	}
}
