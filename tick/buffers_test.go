// Buffers set themselves: by when inputs reach the server, and states the client.

package tick

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
)

// way is a server, a client and the ways between them, each with a delay that may change. Both
// know the other's clock, and take both ways to be as long as told.
type way struct {
	t        *testing.T
	now      uint64
	ahead    uint64 // the client's clock minus now
	up, down time.Duration
	jitter   func() time.Duration // of an input, above up
	server   *Server
	client   *Client
	remote   *fakeRemote
	rec      recorder
	parcels  []parcel // under way
	every    uint64   // from one Welcome to the next, us
	mute     bool     // the server is not told of inputs
	state    bool     // the client is told of states
	seldom   bool     // but not of each Welcome beside one
	frame    uint64   // from one Advance of the client to the next, us; 0: each millisecond
	framed   uint64   // when the next is due
	copies   int      // of each input, in the datagrams after it
	hangs    bool     // the client's program does nothing, and what comes waits
	stopped  bool     // the server's program does nothing
	stops    uint64   // until then nothing arrives
	inTime   int
	late     int
	lateAt   uint64 // when the last one came

	states, lateStates int // by the client's clock when they came
}

// parcel is something under way.
type parcel struct {
	at      uint64
	down    bool // to the client
	arrives func()
}

func newWay(t *testing.T, cfg ClientConfig) *way {
	w := &way{t: t, up: ms(30), down: ms(30), every: 100_000, jitter: func() time.Duration {
		return 0
	}}
	w.server = mustServer(ServerConfig{})
	w.remote = &fakeRemote{delay: ms(30), to: ms(30)}
	cfg = w.rec.client(cfg)
	record := cfg.Tick
	cfg.Tick = func(s Update) {
		record(s)
		for n := s.Tick; n >= s.Tick-Tick(w.copies); n-- {
			w.send(w.up+w.jitter(), false, func() { w.input(n) })
		}
	}
	w.client = mustClient(cfg, w.remote)
	w.server.Start(0)
	w.client.Start(0)
	return w
}

func (w *way) send(delay time.Duration, down bool, arrives func()) {
	w.parcels = append(w.parcels, parcel{w.now + usec(delay), down, arrives})
}

// run lets time pass, in steps of a millisecond.
func (w *way) run(d time.Duration) {
	for end := w.now + usec(d); w.now < end; w.now += 1000 {
		w.parcels = slices.DeleteFunc(w.parcels, func(p parcel) bool {
			comes := max(p.at, w.stops) <= w.now && !w.stopped && !(p.down && w.hangs)
			if comes {
				p.arrives()
			}
			return comes
		})
		if !w.stopped {
			w.server.Advance(w.now)
		}
		if w.now%w.every == 0 && !w.stopped {
			told, _ := w.server.Announce(1, w.now)
			w.send(w.down, true, func() { w.told(told) })
		}
		if !w.hangs && w.now >= w.framed {
			w.framed += w.frame
			w.client.Advance(w.now + w.ahead)
		}
	}
}

// hang lets the client's program do nothing for a while, and then read what has come, before its
// next Advance or after it.
func (w *way) hang(d time.Duration, advances bool) {
	w.hangs = true
	w.run(d)
	w.hangs = false
	if advances {
		w.client.Advance(w.now + w.ahead)
	}
}

// pause lets the server, or both, stand still for a while.
func (w *way) pause(d time.Duration, both bool) {
	w.server.Pause(w.now)
	if both {
		w.client.Pause(w.now)
	}
	w.run(d)
	w.server.Resume(w.now)
	w.client.Resume(w.now)
}

// input is the arrival of the input for tick n.
func (w *way) input(n Tick) {
	if w.mute {
		return
	}
	epoch, _ := w.server.Epoch()
	if ok, _ := w.server.AcceptInput(1, epoch, n, w.now); ok {
		w.inTime++
	} else {
		w.late++
		w.lateAt = w.now
	}
}

// told is the arrival of a Welcome and, if the client is told of states, of that of its tick.
func (w *way) told(read Welcome) {
	now := w.now + w.ahead
	if !w.seldom || read.Tick%16 == 0 {
		_ = w.client.OnWelcome(read, now)
	}
	if at, known := w.client.ServerTime(now); w.state && known {
		w.states++
		if at.Duration() > Hz(60).Duration(read.Tick-1) {
			w.lateStates++
		}
		w.client.AcceptState(read.Epoch, read.Tick, now)
	}
}

func (w *way) timing() Timing {
	timing, ok := w.client.Timing()
	if !ok {
		w.t.Fatal("not known")
	}
	return timing
}

// Without jitter next to nothing is kept beyond the delay, whatever the remote clock says of it,
// and when the way to the server becomes longer only the inputs of two round trips are late.
func TestLeadFollowsInputs(t *testing.T) {
	w := newWay(t, ClientConfig{})
	lead := func(when string, least, most int, buffer bool) { // ms; and whether the buffer is right
		t.Helper()
		if got := w.timing(); got.Lead < ms(least) || got.Lead > ms(most) || !buffer {
			t.Errorf("%s %+v", when, got)
		}
	}
	w.run(10 * sec)
	got := w.timing()
	lead("at first", 30, 33, got.LateInputs <= 0.001 && got.Error.Abs() <= ms(1))
	w.up += ms(50) // and the remote clock does not know
	changed := w.now
	before := w.late
	w.run(10 * sec)
	// a Welcome comes within 100 ms
	if n := w.late - before; n == 0 || n > 2*140*60/1000+6 || w.lateAt > changed+400_000 {
		t.Errorf("%d are late, the last after %d us", n, w.lateAt-changed)
	}
	lead("after the change", 80, 83, w.timing().ServerBuffer >= ms(50))
	first := w.client.buffers.jumped
	if first < Hz(60).Ticks(10*sec) || first > Hz(60).Ticks(11*sec) {
		t.Errorf("inputs count as sent before the step up to tick %d", first)
	}
	steps := w.rec.of(EventStepped)
	if len(steps) != 1 || (steps[0].By-ms(50)).Abs() > ms(5) || steps[0].First <= steps[0].Last {
		t.Errorf("%v", w.rec.events)
	}
	w.remote.to += ms(50) // now it does
	before = w.late
	w.run(5 * sec)
	lead("when the remote clock knows", 80, 83, w.timing().ServerBuffer <= ms(3))
	w.up -= ms(50)
	w.run(8 * sec)
	lead("after the change back", 30, 35, w.timing().ServerBuffer <= -ms(45))
	check(t, w.late, before, "late since the remote clock knew")
	w.run(time.Minute)
	w.up += ms(50)
	w.run(sec)
	check(t, len(w.rec.of(EventStepped)), 2, "steps")
	w.rec.check(t)
}

// A server that is not told of inputs, or one of before, lets nothing adapt; nor does a buffer
// that is set. Then each delay counts for its way. Inputs and states are in time also where the
// remote clock takes both ways to be equally long, although they are not: the shared clock is off
// then, and nobody can see that. Of other ticks, those from 4 s and 4 ticks before what is shown
// to 1 s and 4 ticks beyond what is played are accepted.
func TestNothingAdapts(t *testing.T) {
	// the remote clock is off, and says these delays
	for _, tt := range []struct{ set, off, from, to time.Duration }{
		{0, 0, ms(30), ms(30)},
		{0, 0, ms(30), ms(80)},
		{ms(20), 0, ms(300), ms(300)},
		{ms(20), 0, ms(80), ms(20)},
		{ms(20), ms(30), ms(50), ms(50)},
		{ms(20), -ms(30), ms(50), ms(50)},
	} {
		w := newWay(t, ClientConfig{ServerBuffer: tt.set, ClientBuffer: tt.set})
		w.up = tt.to + tt.off
		w.down = tt.from - tt.off
		w.remote.delay = tt.from
		w.remote.to = tt.to
		w.remote.shift(tt.off)
		w.mute = tt.set == 0
		w.state = tt.set != 0
		w.run(10 * sec)
		ahead := cmp.Or(tt.set, Hz(60).Duration(2))
		behind := cmp.Or(tt.set, Hz(60).Duration(1))
		if got := w.timing(); got.ServerBuffer != ahead || got.ClientBuffer != behind ||
			got.Lead != tt.to+ahead || got.Delay != tt.from+behind {
			t.Errorf("%+v: %+v", tt, got)
		}
		if tt.set > 0 && (w.late > 0 || w.lateStates > 0 || w.inTime < 500 || w.states < 90) {
			t.Errorf("%+v: %d of %d inputs and %d of %d states are late",
				tt, w.late, w.late+w.inTime, w.lateStates, w.states)
		}
		c, _ := w.client.Snapshot(w.now)
		theirs, _ := w.server.SharedTime(w.now)
		check(t, c.SharedTime.Sub(theirs), tt.off, "%+v: apart", tt)
		seen := c.ServerTime.Tick()
		played := c.PredictedTime.Tick()
		epoch := w.client.now.epoch
		for n, want := range map[Tick]bool{
			seen - 243:  true,
			seen - 245:  false,
			played + 64: true,
			played + 66: false,
		} {
			accepted := w.client.Accept(epoch, n, w.now)
			check(t, accepted, want, "%+v: tick %d is accepted, between %d and %d",
				tt, n, seen, played)
		}
		w.rec.told(t, tt, "[synced]")
	}
}

// The server clock follows the states, so that the one after the one that is shown has come. When
// they come later it stands still until that is so again.
func TestDelayFollowsStates(t *testing.T) {
	w := newWay(t, ClientConfig{})
	w.state, w.every = true, 16_000
	w.run(10 * sec)
	tick := Hz(60).Duration(1)
	if got := w.timing(); got.Delay < ms(30)+tick || got.Delay > ms(30)+3*tick ||
		got.LateStates > 0.03 {
		t.Errorf("at first %+v", got)
	}
	before := w.timing().Delay
	w.down += ms(100)
	w.run(2 * sec)
	if got := w.timing(); got.Delay < before+ms(95) || got.Delay > before+ms(110) {
		t.Errorf("after the change %+v, before %v", got, before)
	}
	w.rec.told(t, "states", "[synced]")
}

// scene is something that happens to a way.
type scene struct {
	happens func(w *way)
	longer  time.Duration // the lead is to be longer then by so much
	want    string        // events, where they are asked for
}

// stage is what scenes have in common: what goes before, and how it is looked at what comes of
// them.
type stage struct {
	// between which the client advances, us: each is played, and one of a millisecond
	frames      []uint64
	every       uint64 // from one Welcome to the next, us
	state       bool   // the client is told of states
	before      func(w *way)
	looks       int
	each        time.Duration // from look to look
	lead, delay time.Duration // how far they may be off what they were, at any look; 0 is any
	// how long inputs may come late, if the lead is not to be longer; 0 is any
	late  time.Duration
	steps bool // the clocks may be set
}

func (s stage) play(t *testing.T, scenes map[string]scene) {
	t.Helper()
	s.delay = cmp.Or(s.delay, time.Hour)
	s.late = cmp.Or(s.late, time.Hour)
	for what, scene := range scenes {
		for _, frame := range append(s.frames, 0) {
			what := fmt.Sprintf("%s, frames of %d us", what, frame)
			w := newWay(t, ClientConfig{})
			late := s.late
			w.frame = frame
			w.every = s.every
			w.state = s.state
			s.before(w)
			before := w.timing()
			at := w.now
			steps := w.client.Stats().Steps
			scene.happens(w)
			var lead, delay time.Duration // furthest from before
			for range s.looks {
				w.run(s.each)
				lead = max(lead, (w.timing().Lead - before.Lead - scene.longer).Abs())
				delay = max(delay, (w.timing().Delay - before.Delay).Abs())
			}
			if scene.longer > 0 {
				// A stop and a longer path at once are told apart a quarter of a second later.
				late = sec
			}
			set := w.client.Stats().Steps != steps && !s.steps
			if lead > s.lead || delay > s.delay || w.lateAt > at+usec(late) || set {
				t.Errorf("%s: the lead was up to %v off, the delay %v; "+
					"inputs were late until %d us after; %v",
					what, lead, delay, int64(w.lateAt-at), w.rec.events)
				t.Errorf("%+v, before %+v", w.timing(), before)
			}
			w.rec.told(t, what, cmp.Or(scene.want, fmt.Sprint(w.rec.events)))
		}
	}
}

// settles lets a way run for a while.
func settles(d time.Duration) func(w *way) { return func(w *way) { w.run(d) } }

// frames are how often a client draws, us.
var frames = []uint64{16_667, 33_333}

// When a clock is set, or both pause, or the server alone, the lead stays what it was, and
// nothing is late.
func TestLeadStays(t *testing.T) {
	pause := func(d time.Duration, both bool) func(w *way) {
		return func(w *way) {
			w.mute = !both // what the client sends until it knows may be refused
			w.pause(d, both)
			w.run(ms(200))
			w.mute = false
		}
	}
	s := stage{
		every:  100_000,
		before: settles(5 * sec),
		looks:  1,
		each:   5 * sec,
		lead:   ms(3),
		late:   us,
		steps:  true,
	}
	s.play(t, map[string]scene{
		"a clock is set": {func(w *way) {
			w.ahead += 300_000
			w.remote.shift(-ms(300))
		}, 0, "[synced stepped by -300ms]"},
		"both pause for 0.15 s":   {pause(ms(150), true), 0, "[synced]"},
		"both pause for 5 s":      {pause(5*sec, true), 0, "[synced]"},
		"the server does, 0.15 s": {pause(ms(150), false), 0, "[synced]"},
		"the server does, for 5 s": {pause(5*sec, false), 0,
			"[synced stepped by -5s, ticks 304 to 603 run again]"},
	})
}

// What waited while the client's program hung says nothing of the path, nor do the states around
// a pause, nor a path that stopped once.
func TestDelayStays(t *testing.T) {
	if testing.Short() {
		t.Skip("a long simulation")
	}
	stop := func(d time.Duration) func(w *way) {
		return func(w *way) { w.stops = w.now + usec(d) }
	}
	s := stage{
		every: 50_000,
		state: true,
		looks: 60,
		each:  sec,
		lead:  ms(25),
		delay: ms(25),
		steps: true,
	}
	s.before = func(w *way) { // a Welcome is of each third tick
		w.run(sec)
		w.seldom = true
		w.run(30 * sec)
	}
	s.play(t, map[string]scene{
		"the path stops for 0.3 s":          {happens: stop(ms(300))},
		"the path stops for 0.7 s":          {happens: stop(ms(700))},
		"the path stops for 1.5 s":          {happens: stop(ms(1500))},
		"the path stops for 5 s":            {happens: stop(5 * sec)},
		"hangs for 1 s":                     {happens: func(w *way) { w.hang(sec, false) }},
		"hangs for 3 s":                     {happens: func(w *way) { w.hang(3*sec, false) }},
		"hangs for 3 s, and advances first": {happens: func(w *way) { w.hang(3*sec, true) }},
		"both pause":                        {happens: func(w *way) { w.pause(2*sec, true) }},
		"the server pauses":                 {happens: func(w *way) { w.pause(2*sec, false) }},
	})
}

// Inputs that were held up until one moment, by a path that stopped or by a slow frame, set no
// clock, although Welcomes that are sent as they come tell of late ones only. If the path is
// longer after that, the clock is set.
func TestInputsHeldUp(t *testing.T) {
	if testing.Short() {
		t.Skip("a long simulation")
	}
	stops := func(w *way) { // a link that has stopped for 0.3 s sends one each millisecond
		until := w.now + 300_000
		w.jitter = func() time.Duration {
			until = max(until+1000, w.now)
			return time.Duration(until-w.now) * us
		}
	}
	s := stage{
		frames: frames,
		every:  1000,
		before: settles(20*sec + ms(8)),
		looks:  1,
		each:   5 * sec,
		lead:   ms(25),
		steps:  true,
	}
	s.late = ms(1300)
	s.play(t, map[string]scene{
		"the path stops":      {happens: stops},
		"a frame takes 0.1 s": {happens: func(w *way) { w.hang(ms(100), true) }},
		"a frame takes 0.9 s": {happens: func(w *way) { w.hang(ms(900), true) }},
		"the path is longer":  {happens: func(w *way) { w.up += ms(100) }, longer: ms(100)},
		"it stops and is longer": {
			happens: func(w *way) {
				stops(w)
				w.up += ms(100)
			},
			longer: ms(100),
		},
	})
}

// What a server that was stopped finds waiting, and inputs of frames between which the client's
// program hung, say nothing of the path.
func TestLeadStaysWithPrograms(t *testing.T) {
	s := stage{
		frames: frames,
		every:  16_000,
		before: settles(20 * sec),
		looks:  40,
		each:   sec / 4,
		lead:   ms(25),
	}
	s.play(t, map[string]scene{
		"the server is stopped for 0.9 s": {happens: func(w *way) {
			w.stopped = true
			w.run(ms(900))
			w.stopped = false
			w.framed = w.now
		}},
		"the client has 2 frames a second for 20 s": {happens: func(w *way) {
			for range 40 {
				w.hang(ms(500), true)
			}
			w.framed = w.now
			w.run(10 * sec) // such frames need a lead of their own, which is slewed back
		}},
	})
}

// A clock is set, and the remote clock notices that some time later, as a link does. What has
// arrived meanwhile has shown it already.
func TestSetIsNoticedLater(t *testing.T) {
	if testing.Short() {
		t.Skip("a long simulation")
	}
	s := stage{
		every:  50_000,
		state:  true,
		before: settles(20 * sec),
		looks:  1,
		each:   10 * sec,
		steps:  true,
	}
	s.lead = ms(100)
	s.delay = ms(100)
	for _, jump := range []time.Duration{ms(300), sec, 3 * sec, -ms(300), -sec, -3 * sec} {
		for _, later := range []time.Duration{ms(300), sec, 2 * sec} {
			what := fmt.Sprintf("the client's clock jumps by %v, noticed after %v", jump, later)
			happens := func(w *way) {
				w.ahead += usec(jump)
				w.run(later)
				w.remote.shift(-jump)
			}
			s.play(t, map[string]scene{what: {happens: happens}})
		}
	}
}

// A new connection to the same server, whose clock is known some time later, moves no buffer.
func TestFollowKeepsBuffers(t *testing.T) {
	s := stage{every: 50_000, state: true, looks: 100, each: ms(100), lead: ms(40), delay: ms(25)}
	s.before = func(w *way) {
		w.run(sec)
		w.ahead, w.remote.offset = 5_000_000, -5_000_000
		w.run(20 * sec)
	}
	for _, known := range []time.Duration{0, ms(20), ms(500), 2 * sec} {
		s.play(t, map[string]scene{fmt.Sprintf("known after %v", known): {happens: func(w *way) {
			w.remote = &fakeRemote{delay: ms(30), to: ms(30), offset: -5_000_000, lost: true}
			must(t, w.client.Follow(w.remote))
			w.run(known)
			w.remote.lost = false
		}}})
	}
}

// A client that resumes later than its server, and sends each input three times: those of which
// the first came in the pause are none that took so long.
func TestCopies(t *testing.T) {
	for _, later := range []time.Duration{ms(20), ms(60), ms(130), ms(190)} {
		w := newWay(t, ClientConfig{})
		w.copies = 2
		w.run(20 * sec)
		lead := func() time.Duration {
			ours, ok := w.client.PredictedTime(w.now)
			theirs, known := w.server.SharedTime(w.now)
			check(t, ok && known, true, "game time is known")
			return ours.Sub(theirs)
		}
		before := lead()
		w.server.Pause(w.now)
		w.client.Pause(w.now)
		w.run(5 * sec)
		w.server.Resume(w.now)
		w.run(later)
		w.client.Resume(w.now)
		for range 100 {
			w.run(sec / 10)
			more := lead() - before
			if more > ms(25) {
				t.Fatalf("resumed %v later: the predicted clock is %v further ahead than before",
					later, more)
			}
		}
	}
}

// Frames of about a tick beat with the ticks. The lead is long enough for those that are run last.
func TestBeat(t *testing.T) {
	if testing.Short() {
		t.Skip("a long simulation")
	}
	frames := []uint64{4000, 16_650, 16_667, 16_683, 16_700} // us; a tick takes 16,667
	for _, frame := range frames {
		w := newWay(t, ClientConfig{})
		w.frame = frame
		w.run(30 * sec)
		w.inTime, w.late = 0, 0
		w.run(5 * 60 * sec)
		all := w.inTime + w.late
		share := float64(w.late) / float64(all)
		if share > 0.005 || w.inTime < 17_000 {
			t.Errorf("frames of %d us: %.2f %% of %d inputs were late", frame, 100*share, all)
		}
		if lead := w.timing().Lead; lead > ms(80) {
			t.Errorf("frames of %d us: the lead is %v on a path of 30 ms each way", frame, lead)
		}
	}
}

// Where both pause at the same times no clock steps, whichever Welcomes are lost: also if the
// last one that came was sent in the pause, or before it, or arrives only after it. Where one of
// them pauses alone, the client steps once.
func TestPause(t *testing.T) {
	for name, tt := range map[string]struct {
		server, client bool          // who pauses, for 2 s
		inPause        bool          // Welcomes arrive
		delayed        bool          // one of before arrives after it
		after          time.Duration // when the first one after it comes
		joins          bool          // the client is started in the pause
		want           string
	}{
		"both":                        {true, true, true, false, ms(900), false, "[synced]"},
		"none in the pause":           {true, true, false, false, ms(900), false, "[synced]"},
		"one of before comes after":   {true, true, false, true, ms(900), false, "[synced]"},
		"in the pause, and of before": {true, true, true, true, ms(10), false, "[synced]"},
		"at once":                     {true, true, true, false, 0, false, "[synced]"},
		"the server alone": {true, false, true, false, ms(500), false,
			"[synced stepped by -1.9s, ticks 94 to 207 run again]"},
		"the client joins": {true, false, true, false, ms(500), true, "[synced]"},
		"the client alone": {false, true, false, false, sec, false,
			"[synced stepped by 1.9s, ticks 124 to 236 skipped]"},
	} {
		w := newWay(t, ClientConfig{}) // on which nothing comes but what welcome sends
		w.every = math.MaxUint64
		w.mute = true
		welcome := func() {
			told, _ := w.server.Announce(1, w.now)
			must(t, w.client.OnWelcome(told, w.now))
		}
		welcome()
		w.run(sec)
		old, _ := w.server.Announce(1, w.now)
		if tt.server {
			w.server.Pause(w.now)
		}
		if tt.client {
			w.client.Pause(w.now)
		}
		if tt.joins {
			w.client.Stop()
			w.rec = recorder{}
			w.client.Start(w.now)
		}
		frozen, _ := w.client.PredictedTime(w.now + readerMargin)
		ran := w.rec.ran
		for _, d := range []time.Duration{ms(100), sec, ms(800)} {
			w.run(d)
			if tt.inPause {
				welcome()
			}
		}
		if got, _ := w.client.PredictedTime(w.now); tt.client &&
			(got.Sub(frozen) != 0 || w.rec.ran != ran) {
			t.Errorf("%s: the pause moved time from %v to %v and ran %d ticks",
				name, frozen, got, w.rec.ran-ran)
		}
		w.server.Resume(w.now)
		w.client.Resume(w.now)
		if tt.delayed {
			_ = w.client.OnWelcome(old, w.now+1000)
		}
		w.run(tt.after)
		welcome()
		w.run(2 * sec)
		welcome()
		w.run(2 * sec)
		ours, _ := w.client.SharedTime(w.now)
		theirs, _ := w.server.SharedTime(w.now)
		check(t, ours.Sub(theirs), 0, "%s: apart", name)
		w.rec.told(t, name, tt.want)
	}
}

// A Welcome says that the server is paused at any time, also long before and after; and when a
// tick starts, it says after that. What a Welcome says within the reader margin, TestModel
// checks.
func TestWelcomeAtPause(t *testing.T) {
	s := startServer(ServerConfig{Config: Config{Rate: Hz(100)}})
	s.Advance(1_000_000)
	s.Pause(1_000_000)
	const far = 1<<63 + 1_020_000
	for _, now := range []uint64{0, 1 << 63, far - 1, far, far + 1} {
		w, ok := s.Announce(1, now)
		check(t, ok && w.Paused, true, "paused, at %d us", now)
	}
	s.Resume(2_000_000)
	for n, want := range map[Tick]uint64{150: 2_500_000, -5: 950_000} {
		at, ok := s.StartUsec(n, 2_030_000)
		check(t, ok && at == want, true, "tick %d starts at %d us, want %d", n, at, want)
	}
}

// Each side tells that the other has fallen silent, and is back. For a server a Hello of its
// epoch counts, too, but a peer of which there was no input is not missed.
func TestSilence(t *testing.T) {
	var hub recorder
	w := newWay(t, ClientConfig{})
	w.server = startServer(hub.server(ServerConfig{Epoch: 5}))
	must(t, w.server.OnHello(8, Hello{Epoch: 5}))
	w.run(sec)
	if got := w.timing(); got.Silent || w.now-got.HeardUsec > 200_000 {
		t.Errorf("%+v", got)
	}
	up := w.up
	down := w.down
	w.up = 10 * sec
	w.down = 10 * sec
	w.run(9 * sec)
	check(t, w.timing().Silent, true, "silent")
	w.up, w.down = up, down
	w.run(2 * sec)
	w.mute = true
	w.run(4 * sec)
	check(t, w.server.OnHello(1, Hello{Epoch: 4}), ErrEpoch, "a Hello of before")
	w.run(ms(100))
	must(t, w.server.OnHello(1, Hello{Epoch: 5}))
	w.server.Advance(w.now)
	check(t, fmt.Sprint(w.rec.silences), "[silent for 3.001s heard again after 9.1s]", "the client")
	const first = "silent for 3.1s peer 1 heard again after 9.007s"
	const second = "silent for 3.002s peer 1 heard again after 4.101s"
	check(t, fmt.Sprint(hub.silences), "[peer 1 "+first+" peer 1 "+second+"]", "the server")
}

// A server tells by how much inputs came early or late, and nothing of those that it refused.
func TestInputsAreTold(t *testing.T) {
	s := mustServer(ServerConfig{Epoch: 5})
	accept := func(peer, epoch uint64, n Tick, now uint64, want string) {
		t.Helper()
		ok, late := s.AcceptInput(peer, epoch, n, now)
		check(t, fmt.Sprint(ok, late), want, "tick %d: accepted and late", n)
	}
	told := func(peer uint64, want string) {
		t.Helper()
		text := ""
		w, _ := s.Announce(peer, 1_200_000)
		for i := range w.inputs.ticks {
			if early, ok := w.inputs.early(i); ok {
				text += fmt.Sprintf(" %d:%v", w.inputs.newest-Tick(i), early)
			}
		}
		check(t, text, want, "peer %d is told", peer)
	}
	const inTime, late, no, now = "true false", "false true", "false false", 1_200_000
	accept(1, 5, 5, 0, no) // by a server that is stopped
	early := s.Stats().Early
	s.Start(0)
	accept(2, 5, 0, 0, inTime) // before it ran
	s.Forget(2)
	s.Advance(now) // skips all but tick 72, which runs
	accept(1, 5, 0, now, late)
	accept(1, 5, 72, now, late)
	accept(1, 5, 73, now, inTime)
	accept(1, 5, math.MaxInt64, now, no)
	accept(1, 5, math.MinInt64, now, no)
	accept(1, 4, 73, now, no)
	if got := s.Stats(); early != 1 || got.Refused != 2 || got.OldEpoch != 1 {
		t.Errorf("%+v", got)
	}
	told(1, " 73:16.6ms 72:-100µs")
	// it came in time, and was read after the Advance that ran its tick
	accept(2, 5, 71, 1_180_000, late)
	told(2, " 71:-16.7ms")
	s.Forget(1)
	told(1, "")
	s.Stop()
	s.Start(0)
	check(t, s.Stats(), Stats{Debt: 1}, "of the next life")
}

// A server knows of each peer how many of its inputs are late, how many are refused as too early,
// when it was heard last, and that it is silent.
func TestPeer(t *testing.T) {
	s := startServer(ServerConfig{Epoch: 5})
	if _, ok := s.Peer(1); ok {
		t.Error("a peer is known that was never heard")
	}
	must(t, s.OnHello(1, Hello{Epoch: 5}))
	got, ok := s.Peer(1)
	check(t, got, PeerTiming{Synced: true}, "after a Hello")
	check(t, ok, true, "known")
	now := uint64(0)
	for range 1000 {
		now += 16_667
		s.Advance(now)
		n := Hz(60).Ticks(time.Duration(now) * us)
		s.AcceptInput(1, 5, n+2, now)
		if n%10 == 2 {
			s.AcceptInput(2, 5, n-1, now) // just too late
		}
		if n%10 == 0 {
			s.AcceptInput(2, 5, n-60*9, now) // so late that it is refused
			s.AcceptInput(2, 5, n+60*2, now)
			s.AcceptInput(2, 4, n, now) // of another epoch
		} else {
			s.AcceptInput(2, 5, n+1, now)
			s.AcceptInput(2, 5, n+1, now) // again: the first counts
		}
	}
	got, _ = s.Peer(1)
	check(t, got, PeerTiming{Synced: true, HeardUsec: now}, "one that is in time")
	got, _ = s.Peer(2)
	if d := got.LateInputs - 200./1100; d < -0.01 || d > 0.01 {
		t.Errorf("%v are late", got.LateInputs)
	}
	if got.HeardUsec < now-20_000 {
		t.Errorf("heard at %d us, %d now", got.HeardUsec, now)
	}
	got.LateInputs, got.HeardUsec = 0, 0
	check(t, got, PeerTiming{TooEarly: 100}, "one that is not")
	for end := now + 4_000_000; now < end; now += 10_000 {
		s.Advance(now)
	}
	got, _ = s.Peer(1)
	check(t, got.Silent, true, "silent")
	s.Forget(1)
	_, ok = s.Peer(1)
	check(t, ok, false, "known after Forget")
}

// Any order of ticks is kept as a slow reference has it.
func FuzzArrivals(f *testing.F) {
	f.Add([]byte{1, 2})
	f.Add([]byte{1, 2, 3, 200, 3, 90, 255, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		var a arrivals
		first := map[Tick]time.Duration{}
		newest := Tick(math.MinInt64)
		at := Tick(1000)
		for i, c := range b {
			at += Tick(int8(c))
			if _, ok := first[at]; !ok && (newest == math.MinInt64 || at > newest-arrivalsKept) {
				first[at] = time.Duration(i) * earlyUnit
			}
			newest = max(newest, at)
			a.add(at, time.Duration(i)*earlyUnit)
		}
		for i := range a.ticks {
			got, ok := a.early(i)
			want, came := first[a.newest-Tick(i)]
			if ok != came || ok && got != want {
				t.Fatalf("tick %d: %v, %v, want %v, %v", a.newest-Tick(i), got, ok, want, came)
			}
		}
		if len(b) > 0 && (a.newest != newest || a.ticks == 0) {
			t.Fatalf("%+v, newest %d", a, newest)
		}
		var read arrivals
		read.read(a.append(nil))
		if read != a {
			t.Fatalf("%+v is read as %+v", a, read)
		}
	})
}

// TestToldLater: what an arrival told counts although its time of receipt was rounded up, and so
// is later than the time of the next Advance.
func TestToldLater(t *testing.T) {
	for _, step := range []uint64{0, 1, 1000, 31_200} {
		var f follower
		for i := range uint64(20) {
			came := arrival{sent: time.Duration(i) * ms(16), distance: ms(5)}
			f.add(came, 1_000_000+i*16_000+step)
		}
		now := uint64(1_000_000 + 19*16_000)
		got := f.distance(ms(20), ms(1), 0, 0.01, now)
		want := f.distance(ms(20), ms(1), 0, 0.01, now+step)
		check(t, got, want, "received %d us later than now", step)
	}
}
