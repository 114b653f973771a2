// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that the judge knows the truth: it finds the error that an unequal path
// must cause, and fails the row for it.
package channelbench

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"timesync/examples/channel"
	"timesync/internal/stat"
)

// TestUnequal has a transport that takes 10 ms longer to the server than back. So the offset
// is wrong by 5 ms, in which the delays seem equal, and so is all that follows from it.
// The bound knows of the round trip, and contains that.
func TestUnequal(t *testing.T) {
	longer := func() time.Duration { return 10 * time.Millisecond }
	r, err := Measure(t.Context(), Loads("bulk")[0], time.Second, wires(longer))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Check(); err == nil || !strings.Contains(err.Error(), "idle: the 99th percentile of the offset error is") {
		t.Errorf("the row says %v of an error of 5 ms", err)
	}
	for _, f := range []Found{r.client, r.server} {
		// The shortest delays are as short as the timers were once punctual.
		for _, s := range []Series{f.OffsetError, f.OneWayDelayError, f.TS23Error} {
			if usec := stat.Quantile(s, 0.5); usec < 3000 || usec > 8000 || len(s) < 10 || f.Outside > 0 {
				t.Errorf("an error of %d us, want about 5000: %+v", usec, f)
			}
		}
	}
}

// wires connects by two wires. What is sent to the server now takes so much longer.
func wires(longer func() time.Duration) Connect {
	return func(ctx context.Context, r *Run) error {
		for _, clock := range ClientClocks {
			client, server := r.Ends(clock)
			client.Peer = &channel.Peer{ReceivedUsec: clock.Now, Write: func(b []byte) error { return wire(b, server, longer()) }}
			server.Peer = &channel.Peer{ReceivedUsec: ServerClock.Now, Write: func(b []byte) error { return wire(b, client, 0) }}
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

// TestStall has a transport that lets nothing through for the first 5 s, and then all at
// once. The ends are judged from when they know each other's clock.
func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		stalled := func() time.Duration { return max(0, 5*time.Second-time.Since(begin)) }
		r, err := Measure(t.Context(), Load{name: "x"}, time.Second, wires(stalled))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range []Found{r.client, r.server} {
			if len(f.OffsetError) < 100 || stat.Quantile(f.OffsetError, 0.99) > 100 || f.Outside > 0 {
				t.Errorf("after the stall %+v", f)
			}
		}
	})
}

// TestFailures: a row without a result is an error, never an empty line.
func TestFailures(t *testing.T) { synctest.Test(t, testFailures) }

func testFailures(t *testing.T) {
	broken := errors.New("broken")
	silent := func(context.Context, *Run) error { return nil }
	distant := func() time.Duration { return 5 * time.Second }
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		ctx     context.Context
		load    Load
		connect Connect
		want    string
	}{
		"connect":   {t.Context(), Load{}, func(context.Context, *Run) error { return broken }, "broken"},
		"a task":    {t.Context(), Load{}, func(_ context.Context, r *Run) error { r.stop(broken); return nil }, "broken"},
		"interrupt": {cancelled, Load{}, silent, "context canceled"},
		"silence":   {t.Context(), Load{}, silent, "not all ends knew"},
		"vague":     {t.Context(), Load{}, wires(distant), "not all ends knew"},
		"no bulk":   {t.Context(), Load{up: true}, wires(func() time.Duration { return 0 }), "no bulk arrived"},
	} {
		test.load.name = "x"
		if _, err := Measure(test.ctx, test.load, 0, test.connect); err == nil || !strings.HasPrefix(err.Error(), "x: "+test.want) {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
}

// TestLimits: what is just within a limit passes, and what is just beyond fails.
func TestLimits(t *testing.T) {
	for _, load := range Loads("bulk") {
		want := int64(5000)
		if load.name == "idle" {
			want = 2000
		}
		r := Run{Load: load, client: Found{OffsetError: Series{want}}, server: Found{OffsetError: Series{want}}}
		if err := r.Check(); err != nil || r.Outside() != 0 {
			t.Error(err)
		}
		for _, end := range []*Found{&r.client, &r.server} {
			end.OffsetError[0], end.Outside = want+1, 1
			if r.Check() == nil || r.Outside() != 1 {
				t.Errorf("%s: an error of %d us passes, or an offset outside its bound", load.name, want+1)
			}
			end.OffsetError[0], end.Outside = want, 0
		}
	}
}
