// Welcome and Hello: what each side believes of the other, and since when.

package tick

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"timesync/internal/testkit"
)

// A million Hellos between two Advances are more than a server remembers: it counts
// what it ignores, and hears it when it is said again. So with what a server sends.
func TestFlood(t *testing.T) {
	peers := testkit.Sized(50_000, 1_000_000, 1_000_000)
	for _, action := range []Mismatch{MismatchSignal, MismatchDisconnect} {
		var r recorder
		s := startServer(r.server(ServerConfig{
			Config: Config{OnMismatch: action, StallThreshold: -1, CatchUp: CatchUpJump},
		}))
		h := Hello{Epoch: s.epoch, Rate: Hz(30)}
		for peer := range uint64(peers) {
			_ = s.OnHello(peer, h)
		}
		check(t, len(s.events), 1023, "events that wait") // of 1024: a Hello may need room for two
		if len(s.peers) > len(s.events) {
			t.Errorf("%d peers are remembered, of which %d events wait",
				len(s.peers), len(s.events))
		}
		unheard := s.Stats().EventsLost
		last := uint64(peers) - 1
		s.Advance(10_000_000) // its own events have room besides
		check(t, len(r.of(EventSkipped)), 1, "events that tell of ticks")
		check(t, len(r.of(EventRateMismatch))+int(unheard), peers, "mismatches, and what is lost")
		w, _ := s.Announce(last, 0)
		_ = s.OnHello(last, h)
		s.Advance(10_000_000)
		again, _ := s.Announce(last, 0)
		if e := r.events[len(r.events)-1]; w.Heard || again.Heard != (action == MismatchSignal) ||
			e.Peer != last {
			t.Errorf("heard %v, then %v; %v", w.Heard, again.Heard, e)
		}
	}
	c, _, _ := newClient(ClientConfig{})
	for epoch := range uint64(peers) {
		_ = c.OnWelcome(Welcome{Epoch: 2 + epoch, Rate: Hz(30)}, 0)
	}
	check(t, len(c.events), 1024, "events that wait") // each Welcome is two
	check(t, 512+int(c.Stats().EventsLost), peers, "Welcomes that wait, or are lost")
}

// A client that joins a server of an hour begins as soon as the bound is met, with the next tick
// that begins, and that may be at once; waiting for that is no stall. It is lost at twice the
// bound, and synced again below it.
func TestLateJoin(t *testing.T) {
	for late, first := range map[time.Duration]Tick{0: 3605 * 100, us: 3605*100 + 1} {
		l, remote, r := newClient(ClientConfig{
			Config:       Config{Rate: Hz(100)},
			ServerBuffer: -1,
			SyncBound:    ms(60),
		})
		remote.delay = 0
		remote.shift(late)
		now := uint64(0)
		for i, step := range []struct {
			bound time.Duration
			want  string
		}{
			{ms(60) + 1, "[]"},
			{ms(60), "[synced]"},
			{ms(120), "[synced]"},
			{ms(120) + 1, "[synced lost]"},
			{ms(60) + 1, "[synced lost]"},
			{ms(60), "[synced lost synced]"},
		} {
			remote.bound = step.bound
			if ticks := l.Advance(now); ticks > 1 {
				t.Errorf("%d ticks at once", ticks)
			}
			_, ok := l.SharedTime(now)
			check(t, ok, i > 0, "at a bound of %v: known", step.bound)
			r.told(t, step.bound, step.want)
			now = max(now+10_000, 5_000_000)
		}
		check(t, r.infos[0].Tick, first, "%v after its start: the first tick", late)
		check(t, l.Stats().Losses, 1, "losses")
	}
}

// A remote clock without an anchor counts in another turn of its ring of 2^26 us. The
// Welcome says so, and no clock steps for it.
func TestTurn(t *testing.T) {
	const turn, up = 1 << 26 * us, time.Hour
	for turns := -3 * turn; turns < 3*turn; turns += turn {
		cfg := Config{StallThreshold: -1, CatchUp: CatchUpJump}
		l, remote, _ := newClient(ClientConfig{Config: cfg})
		welcome := l.welcomes.last.Welcome
		shows := func(nowUsec uint64, extra time.Duration) {
			t.Helper()
			l.Advance(nowUsec)
			g, ok := l.SharedTime(nowUsec)
			want := up + time.Duration(nowUsec)*us + extra
			if !ok || g.Duration() != want {
				t.Errorf("%v from the truth: at %d us shared time is %v, %v",
					turns, nowUsec, g.Duration(), ok)
			}
		}
		remote.shift(turns)
		for _, now := range []uint64{
			0, 999_999, 1_000_000, 60_000_000, 120_000_000, 120_010_000, 500_000_000, 2_000_000_000,
		} {
			shows(now, 0)
		}
		exact := remote.offset
		// steps that the remote clock can tell
		for i, sum := range []int{20, 40, 60, 80, 100, 80, 60, 40, 20, 0} {
			remote.offset = exact + int64(sum)*1_000_000
			shows(2_000_000_000+uint64(i)*10_000, time.Duration(sum)*sec)
		}

		// A fresh synchronizer has a turn of its own, also if it is known long after
		// the Welcome of its connection.
		steps := l.Stats().Steps
		fresh := &fakeRemote{delay: ms(50), offset: remote.offset, lost: true}
		fresh.shift(5*turn - turns)
		must(t, l.Follow(fresh))
		shows(2_002_000_000, 0)
		must(t, l.OnWelcome(welcome.at(2_003_000_000), 2_003_000_000))
		shows(2_010_000_000, 0)
		fresh.lost = false
		shows(2_011_000_000, 0)

		// An Anchor that comes later changes the turn, and nothing else.
		fresh.shift(-5 * turn)
		shows(2_012_000_000, 0)
		check(t, l.Stats().Steps, steps, "%v from the truth: steps", turns)
	}
}

// at returns the Welcome that the server of w sends at local time nowUsec, if w was sent
// at 0.
func (w Welcome) at(nowUsec uint64) Welcome {
	w.Tick += w.Rate.Ticks(time.Duration(nowUsec) * us)
	return w
}

// A fresh Welcome and the remote clock must agree to within what a Welcome can be late.
func TestAgrees(t *testing.T) {
	// 2 s in queues, the minimum delay, and the tick since whose start it may have been sent.
	limit := func(delay time.Duration) time.Duration {
		return (2*sec + delay + Hz(60).Duration(1)).Truncate(us)
	}
	const most = 16 * sec // that a datagram may be under way
	for _, tt := range []struct {
		delay, late time.Duration // the minimum delay, and that of the Welcome, by the remote clock
		first, then bool          // as the first of all, or after an epoch with ticks
	}{
		{ms(50), 0, true, true},
		{ms(50), -sec, true, true},
		{ms(50), -sec - us, false, false},
		{ms(50), limit(ms(50)), true, true},
		{ms(50), limit(ms(50)) + us, true, false},
		{most, limit(most), true, true},
		{most + 1, limit(most), true, true},
		{most + sec, limit(most) + us, true, false},
		{ms(50), 30 * sec, true, false},
		{ms(50), 30*sec + us, false, false},
	} {
		l, remote, _ := newClient(ClientConfig{})
		remote.delay = tt.delay
		remote.shift(tt.late)
		l.Advance(0)
		_, ok := l.SharedTime(0)
		check(t, ok, tt.first, "the first Welcome: %+v", tt)

		l, remote, _ = newClient(ClientConfig{})
		w := l.welcomes.last.Welcome
		l.Advance(0)
		l.Advance(20_000)
		remote.delay = tt.delay
		remote.shift(tt.late)
		w.Epoch++
		must(t, l.OnWelcome(w, 0))
		check(t, l.Stats().Ticks > 0, true, "ticks have run")
		l.Advance(30_000)
		_, ok = l.SharedTime(30_000)
		check(t, ok, tt.then, "that of another epoch: %+v", tt)
	}
}

// A Welcome says for 1 s what the server's clock shows, one that was repeated for 3 s:
// until then a remote clock that shows something else is not believed.
func TestFresh(t *testing.T) {
	for _, tt := range []struct {
		repeated bool
		fresh    uint64 // microseconds
		skipped  string
	}{{false, 1_000_000, "216065 to 216364"}, {true, 3_000_000, "216185 to 216484"}} {
		l, remote, r := newClient(ClientConfig{
			Config: Config{StallThreshold: -1, CatchUp: CatchUpRunAll},
		})
		if tt.repeated {
			must(t, l.OnWelcome(l.welcomes.last.Welcome, 0))
		}
		l.Advance(0)
		remote.shift(5 * sec)
		l.Advance(tt.fresh - 1)
		r.told(t, tt.repeated, "[synced lost]")
		l.Advance(tt.fresh)
		r.told(t, tt.repeated, "[synced lost synced stepped by 5s, ticks "+tt.skipped+" skipped]")
	}
}

// What a remote clock cannot mean is as if it were not known.
func TestBadRemote(t *testing.T) {
	const most = 1 << 61 / 1000 * us // of game time
	for _, tt := range []struct {
		// the delays from the server and to it; 0 to it is as long as from it
		from, to, game time.Duration
		ok             bool
	}{
		{0, 0, time.Hour, true},
		{-1, 0, time.Hour, false},
		{time.Hour, 0, time.Hour, true},
		{time.Hour + 1, 0, time.Hour, false},
		{ms(30), -1, time.Hour, false},
		{ms(30), time.Hour, time.Hour, true},
		{ms(30), time.Hour + 1, time.Hour, false},
		{0, 0, most, true},
		{0, 0, most + us, false},
		{0, 0, -most, true},
		{0, 0, -most - us, false},
	} {
		l, remote, _ := newClient(ClientConfig{Config: Config{Rate: Hz(1_000_000)}})
		remote.delay = tt.from
		remote.to = tt.to
		w := l.welcomes.last.Welcome
		w.Epoch = 2
		w.Tick = Hz(1_000_000).Ticks(min(max(tt.game, -most), most))
		must(t, l.OnWelcome(w, 0))
		remote.shift(tt.game - time.Hour)
		l.Advance(0)
		check(t, l.synced, tt.ok, "%+v: synchronized", tt)
		remote.noDelay = true
		l.Advance(1)
		check(t, l.synced, false, "%+v: synchronized without a delay", tt)
		remote.noDelay, remote.noWay = false, true
		l.Advance(2)
		check(t, l.synced, false, "%+v: synchronized without the delay to the server", tt)
	}
}

// A Welcome may be 2^61 ns from tick 0, and no farther, its epoch is below 2^63, and its rate one
// that can be used.
func TestPlausible(t *testing.T) {
	c, _, _ := newClient(ClientConfig{})
	for w, want := range map[Welcome]error{
		{Epoch: 0}:         ErrMessage,
		{Epoch: 1<<63 - 1}: nil,
		{Epoch: 1 << 63}:   ErrMessage,
		{Epoch: 1, Rate: Hz(billion), Tick: 1 << 61}:    nil,
		{Epoch: 1, Rate: Hz(billion), Tick: 1<<61 + 1}:  ErrMessage,
		{Epoch: 1, Rate: Hz(billion), Tick: -1 << 61}:   nil,
		{Epoch: 1, Rate: Hz(billion), Tick: -1<<61 - 1}: ErrMessage,
		{Epoch: 1, Rate: Rate{0, 1}}:                    ErrMessage,
		{Epoch: 1, Rate: Rate{1, 0}}:                    ErrMessage,
		{Epoch: 1, Rate: Hz(billion + 1)}:               ErrMessage,
	} {
		c.Stop()
		c.Start(0)
		check(t, c.OnWelcome(w, 0), want, "%+v", w)
	}
}

// A client at 24 and a server at 36 ticks a second. Each side reports that once for an epoch and
// a peer. A client that takes the rate has it at once, and a peer that is refused may change its
// mind.
func TestRateMismatch(t *testing.T) {
	const reported = "[synced tick rate 36/s differs"
	const next = " epoch 2 tick rate 36/s differs stepped by 0s synced]"
	const adjusted = ", ticks 86451 to 129676 skipped epoch 2 stepped by -7.977778ms synced]"
	for _, tt := range []struct {
		action Mismatch
		rate   Rate   // of the client then
		err    error  // of OnHello
		want   string // of the client
	}{
		{MismatchWarn, Hz(24), nil, reported + next},
		{MismatchDisconnect, Hz(24), ErrRate, reported + next},
		{MismatchAdjust, Hz(36), nil, reported + adjusted},
		{MismatchSignal, Hz(24), nil, reported + next},
	} {
		var theirs recorder
		var logged strings.Builder
		cfg := Config{
			Rate:       Hz(24),
			OnMismatch: tt.action,
			Logger:     slog.New(slog.NewTextHandler(&logged, nil)),
		}
		c, _, ours := newClient(ClientConfig{Config: cfg})
		now := advance(c, 0, 2_000_000) // first at its own rate, to see Adjust while it runs
		w := c.welcomes.last.Welcome
		w.Rate = Hz(36)
		w.Tick = Hz(36).Ticks(time.Hour + 2*sec)
		before, _ := c.PredictedTime(now)
		must(t, c.OnWelcome(w, now))
		must(t, c.OnWelcome(w, now))
		after, _ := c.PredictedTime(now)
		ran := ours.ran
		now = advance(c, now, now+2_000_000)
		h, _ := c.Hello()
		more := int(ours.ran-ran) - 2*int(tt.rate.Num) // ticks than in 2 s at that rate
		by := after.Sub(before)
		took := after.rate.equal(tt.rate) && h.Rate.equal(tt.rate)
		if by != 0 || !took || more < -1 || more > 1 {
			t.Errorf("action %d: time moved by %v, %v, in the Hello %v, %d more ticks",
				tt.action, by, after.rate, h.Rate, more)
		}
		for range 2 {
			w.Epoch = 2
			must(t, c.OnWelcome(w.at(2_000_000), now))
		}
		c.Advance(now)
		ours.told(t, tt.action, tt.want)

		cfg.Rate = Hz(36)
		s := startServer(theirs.server(ServerConfig{Config: cfg}))
		check(t, s.OnHello(7, Hello{s.epoch, Rate{0, 1}}), ErrMessage, "bad rate")
		for _, hz := range []uint32{24, 25} {
			check(t, s.OnHello(7, Hello{s.epoch, Hz(hz)}), tt.err, "action %d: OnHello", tt.action)
		}
		must(t, s.OnHello(7, Hello{s.epoch, Hz(36)}))
		s.Advance(0)
		theirs.told(t, tt.action, "[synced tick rate 24/s of peer 7 differs peer 7 synced]")
		const warning = `level=WARN msg="tick: another tick rate" peer=`
		text := logged.String()
		warns := tt.action == MismatchWarn
		if strings.Count(text, warning) != map[bool]int{true: 3}[warns] ||
			warns && !strings.HasSuffix(text, warning+"7 rate=24/s own=36/s\n") {
			t.Errorf("action %d logged %q", tt.action, text)
		}
	}
}

// A message of the version before, or of a later one, is an error of its own, whatever is in it.
// That of a later one may have any length.
func TestVersions(t *testing.T) {
	hello, _ := Hello{7, Hz(60)}.AppendBinary(nil)
	welcome, _ := Welcome{Epoch: 7, Debt: 9}.AppendBinary(nil)
	for kind := range 256 {
		for _, b := range [][]byte{hello, welcome, welcome[:34], welcome[:1]} {
			b = append([]byte{byte(kind)}, b[1:]...)
			want := ErrMessage
			if 1 <= kind && kind <= 16 && kind != kindHello && kind != kindWelcome {
				want = ErrVersion
			}
			var h Hello
			var w Welcome
			errHello := h.UnmarshalBinary(b)
			errWelcome := w.UnmarshalBinary(b)
			if kind == kindHello && len(b) == len(hello) {
				check(t, errHello, nil, "a Hello")
				errHello = want
			}
			if kind == kindWelcome && len(b) == len(welcome) {
				check(t, errWelcome, nil, "a Welcome")
				check(t, w.Debt, 9, "its debt")
				errWelcome = want
			}
			check(t, errHello, want, "as a Hello: % x", b)
			check(t, errWelcome, want, "as a Welcome: % x", b)
		}
	}
}

// No rate that a server tells makes a client run on and on: above MaxRate it goes on with its
// own, and one frame has a bounded number of ticks, whatever is due.
func TestMaxRate(t *testing.T) {
	for _, tt := range []struct {
		max, own, told, want Rate
	}{
		{Rate{}, Rate{}, Hz(1e9), Hz(60)},
		{Rate{}, Rate{}, Hz(1000), Hz(1000)},
		{Rate{}, Rate{}, Rate{1000001, 1000}, Hz(60)},
		{Rate{}, Hz(2000), Hz(2000), Hz(2000)},
		{Rate{}, Hz(2000), Hz(2001), Hz(2000)},
		{Hz(30), Rate{}, Hz(61), Hz(60)},
		{Hz(128), Hz(60), Hz(128), Hz(128)},
		{Hz(128), Hz(60), Hz(129), Hz(60)},
		{Hz(1e9), Hz(60), Hz(1e9), Hz(1e9)},
	} {
		for catchUp := CatchUpKeep; catchUp <= CatchUpRunAll; catchUp++ {
			ran := 0
			cfg := ClientConfig{Config: Config{
				Rate:       tt.own,
				MaxRate:    tt.max,
				OnMismatch: MismatchAdjust,
				CatchUp:    catchUp,
			}}
			cfg.Tick = func(Update) { ran++ }
			remote := &fakeRemote{delay: ms(30)}
			c := startClient(cfg, remote)
			must(t, c.OnWelcome(Welcome{Epoch: 1, Rate: tt.told}, 0))
			c.Advance(1000)
			c.Advance(18_000)
			got, ok := c.SharedTime(18_000)
			isRight := ok && got.Rate().equal(tt.want)
			check(t, isRight, true, "%+v: known, with the rate %v", tt, got.Rate())
			most := int(tt.want.Ticks(ms(18))) + 1
			if ran < 1 || ran > min(most, 1+runAllMost) {
				t.Errorf("%+v, catch-up %d: %d ticks ran", tt, catchUp, ran)
			}
			stats := c.Stats()
			off := Tick(ran) + Tick(stats.Skipped) + stats.Debt - tt.want.Ticks(ms(17))
			if off < 0 || off > 1 {
				t.Errorf("%+v, catch-up %d: %d ticks ran of those due, %+v",
					tt, catchUp, ran, stats)
			}
		}
	}
}

// A Welcome of an earlier epoch is believed when those of the present one have stopped
// for 1.2 s and the remote clock agrees with it, as that of a server whose wall
// clock was set back. Then the epoch that is over stays so.
func TestEarlierEpoch(t *testing.T) {
	const gap, silence = 1_200_000, 3_000_000 // what doc.go says
	var c *Client
	var remote *fakeRemote
	var present, earlier Welcome // of epochs 9 and 5; the remote clock is that of the earlier
	advance := func(nowUsec uint64, want uint64) {
		t.Helper()
		c.Advance(nowUsec)
		check(t, c.now.epoch, want, "at %d us in epoch", nowUsec)
	}
	refused := func(w Welcome, nowUsec uint64) {
		t.Helper()
		before := c.Stats().OldEpoch
		check(t, c.OnWelcome(w, nowUsec), ErrEpoch, "epoch %d at %d us", w.Epoch, nowUsec)
		check(t, c.Stats().OldEpoch, before+1, "epoch %d at %d us: counted", w.Epoch, nowUsec)
	}
	for what, happens := range map[string]func(){
		"believed when the present one has stopped, and then that is over": func() {
			advance(gap-1, 9)
			advance(gap, 5)
			g, ok := c.SharedTime(gap)
			goesOn := ok && g.Duration() == 10*sec+gap*us
			check(t, goesOn, true, "in the earlier epoch the time is %v", g)
			present.Tick += 100
			refused(present, gap) // delayed, of the epoch that is over
			advance(silence-1, 5)
			refused(present, silence-1)            // the Welcome that was believed came at 0
			must(t, c.OnWelcome(present, silence)) // after 3 s of silence it is believed
		},
		"not while the present one goes on": func() {
			present.Tick += 60
			must(t, c.OnWelcome(present, gap-1))
			advance(gap, 9)
			advance(3*gap, 9)
		},
		"not while the remote clock is another": func() {
			remote.shift(-50 * sec)
			advance(silence, 9)
			remote.shift(50 * sec)
			remote.lost = true
			advance(silence+1, 9)
			remote.lost = false
			advance(silence+2, 5)
		},
		"not one of the last four that the client was in": func() {
			c.welcomes.earlier = arrived{}
			earlier.Epoch = 1
			for present.Epoch < 12 {
				refused(earlier, 0)
				present.Epoch++
				must(t, c.OnWelcome(present, 0))
			}
			refused(earlier, 0)
			advance(silence, 12)
		},
		// Of two of the same tick, around a pause, the one that was sent last counts.
		"not an overtaken one of the present": func() {
			later := present
			later.OriginUsec += 800_000
			must(t, c.OnWelcome(later, 1000))
			refused(present, 2000)
			remote.offset = int64(present.serverUsec()) // agrees with it
			advance(silence, 9)
			check(t, c.welcomes.last.Welcome, later, "what is believed")
		},
		"not after Stop, nor one that comes while it is stopped; then any is": func() {
			c.Stop()
			check(t, c.OnWelcome(present, 0), ErrEpoch, "a Welcome after Stop")
			c.Start(0)
			advance(gap, 0)
			must(t, c.OnWelcome(earlier, gap))
		},
		"not after Follow; then any is": func() {
			must(t, c.Follow(remote))
			advance(gap, 9)
			must(t, c.OnWelcome(earlier, gap))
		},
	} {
		t.Log(what)
		c, remote, _ = newClient(ClientConfig{})
		c.Advance(0)
		present = c.welcomes.last.Welcome
		present.Epoch = 9
		must(t, c.OnWelcome(present, 0))
		c.Advance(0)
		earlier = Welcome{Epoch: 5, Rate: Hz(60), Tick: 600}
		remote.offset = int64(usec(10 * sec))
		refused(earlier, 0)
		happens()
	}
}
