// Random sequences of calls and messages against slow references: what a clock should read is
// added up from the list of all that ever happened to it.

package tick

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"timesync/internal/testkit"
)

var sequences = testkit.Count("sequences", "random sequences of TestModel", 200, 1000, 5000)

// healing is how long a client may take until it is right when all is well again: 3 s in which
// a Welcome of before may still count, 3 s until it is doubted, and 20 s to slew 200 ms.
const healing = 26 * sec

// late, in microseconds, is how long before a call the time was read that it is given.
const late = 5000

// history is the slow reference of a server's clock: when it started, and each pause since.
type history struct {
	begin  uint64 // local time of game time 0
	last   uint64 // the last input
	pauses []uint64
}

// input returns the time of an input: that of the last one, if it is earlier.
func (h *history) input(at uint64) uint64 {
	if int64(at-h.last) > 0 {
		h.last = at
	}
	return h.last
}

// read returns the game time at a local time, and whether it stands still.
func (h *history) read(at uint64) (game time.Duration, still bool) {
	from := h.begin
	for i, end := range h.pauses {
		if int64(at-end) < 0 {
			break
		}
		if i%2 == 0 {
			game += time.Duration(end-from) * us
		}
		from = end
		still = i%2 == 0
	}
	if !still {
		game += time.Duration(int64(at-from)) * us
	}
	return game, still
}

// mail is a Welcome that is under way.
type mail struct {
	w       Welcome
	arrives uint64 // true time, us
}

// model is a server and a client in a random world.
type model struct {
	rng        *rand.Rand
	now        uint64 // true time, us
	trace      []string
	adapts     bool // both sides are told what came
	server     *Server
	client     *Client
	serverLog  witness
	clientLog  witness
	history    history
	serverBase uint64 // the server's clock minus true time
	clientBase uint64
	remote     *fakeRemote
	mail       []mail
	wrong      string
}

// draws are what a sequence draws: first what a fuzzer has chosen, one of each byte.
type draws struct {
	chosen []byte
	rand.Source
}

func (d *draws) Uint64() uint64 {
	if len(d.chosen) == 0 {
		return d.Source.Uint64()
	}
	drawn := uint64(d.chosen[0]) * (math.MaxUint64 / math.MaxUint8) // in each of its bytes
	d.chosen = d.chosen[1:]
	return drawn
}

// newModel returns the model of a seed, whose clocks wrap soon if it is odd. If provider is not
// nil, that steers both sides.
func newModel(seed uint64, chosen []byte, provider *chaos) *model {
	m := &model{rng: rand.New(&draws{chosen, rand.NewPCG(seed, 28)})}
	m.log("seed %d", seed)
	m.serverBase = m.rng.Uint64()
	m.clientBase = m.rng.Uint64()
	if seed%2 == 1 {
		m.serverBase = -m.serverBase >> 40
		m.clientBase = -m.clientBase >> 40
	}
	const ahead = readerMargin - late
	for _, off := range []int64{
		-readerMargin, -m.rng.Int64N(readerMargin), 0, m.rng.Int64N(ahead), ahead,
	} {
		m.serverLog.readers = append(m.serverLog.readers, reader{off: off})
		m.clientLog.readers = append(m.clientLog.readers, reader{off: off})
	}
	m.clientLog.neverBack = m.rng.IntN(4) == 0
	cfg := Config{
		CatchUp:    CatchUp(m.rng.IntN(4)),
		OnMismatch: MismatchAdjust,
		Rate:       Hz([]uint32{1, 30, 60, 60, 128}[m.rng.IntN(5)]),
	}
	if provider != nil {
		provider.rng = m.rng
		cfg.Provider = provider
		cfg.CatchUp %= CatchUpRunAll // which would run a year of ticks
	}
	m.server = mustServer(ServerConfig{Config: cfg, Handlers: m.serverLog.handlers(), Epoch: 5})
	if m.rng.IntN(4) == 0 {
		cfg.Rate = Hz(50)
	}
	m.adapts = m.rng.IntN(2) == 0
	m.remote = m.exact()
	m.client = mustClient(ClientConfig{
		Config:    cfg,
		Handlers:  m.clientLog.handlers(),
		NeverBack: m.clientLog.neverBack,
	}, m.remote)
	return m
}

// exact returns a remote clock that knows the server's.
func (m *model) exact() *fakeRemote {
	return &fakeRemote{offset: int64(m.serverBase - m.clientBase), delay: ms(50)}
}

func (m *model) serverNow() uint64 { return m.now + m.serverBase }
func (m *model) clientNow() uint64 { return m.now + m.clientBase }

// behind returns a time that was read just before the call in which it is used.
func (m *model) behind(now uint64) uint64 {
	if m.rng.IntN(3) == 0 {
		return now - m.rng.Uint64N(late)
	}
	return now
}

func (m *model) fail(format string, args ...any) {
	if m.wrong == "" {
		m.wrong = fmt.Sprintf("%d us: ", m.now) + fmt.Sprintf(format, args...)
	}
}

// input does something to the client by a reading of its clock, and checks that no reading from
// 20 ms before it to 20 ms after it is changed, steps apart.
func (m *model) input(now uint64, do func()) {
	if int64(now-m.client.atUsec) < 0 {
		now = m.client.atUsec
	}
	var before [9]Clocks
	at := func(i int) uint64 { return now - readerMargin + uint64(i)*readerMargin/4 }
	for i := range before {
		before[i], _ = m.client.Snapshot(at(i))
	}
	_, known := m.client.Snapshot(now)
	was := m.clientLog.backs
	do()
	if _, ok := m.client.Snapshot(now); !ok || !known || m.clientLog.backs != was {
		return
	}
	for i, b := range before {
		after, _ := m.client.Snapshot(at(i))
		if after.since(b) != all(0) {
			m.fail("the reading %d us from the input was %v and is %v", int64(at(i)-now), b, after)
		}
	}
}

// step lets something happen.
func (m *model) step() {
	s := m.server
	c := m.client
	switch op := m.rng.IntN(40); {
	case op < 2:
		m.startServer()
	case op == 2 && m.rng.IntN(3) == 0:
		m.log("server stops")
		s.Stop()
	case op < 7:
		m.pauseServer(op < 5, m.behind(m.serverNow()))
	case op < 9:
		m.startClient()
	case op == 9 && m.rng.IntN(3) == 0:
		m.log("client stops")
		c.Stop()
	case op < 14:
		pause := op < 12
		m.log("client pauses: %v", pause)
		at := m.behind(m.clientNow())
		m.input(at, func() { c.pause(at, pause) })
	case op == 14:
		m.log("the client follows a fresh clock")
		m.remote = m.exact()
		m.remote.offset += int64(m.rng.IntN(5)-2) * ringUsec
		m.input(m.clientNow(), func() { _ = c.Follow(m.remote) })
	case op < 17:
		m.disturb()
	case op < 22:
		m.send(op == 21)
	case op == 22 && !m.clientLog.neverBack: // which may then stand still for as long
		m.frame(m.rng.Uint64N(1 << 26)) // up to 67 s
	default:
		m.frame(m.rng.Uint64N(1 << (10 + m.rng.IntN(12)))) // up to 2 s
	}
	m.check()
}

func (m *model) startServer() {
	m.log("server starts")
	if !m.server.started {
		m.serverLog.start()
		m.history = history{begin: m.serverNow(), last: m.serverNow()}
	}
	m.server.Start(m.serverNow())
}

func (m *model) startClient() {
	m.log("client starts")
	if !m.client.started {
		m.clientLog.start()
	}
	m.client.Start(m.clientNow())
}

func (m *model) pauseServer(pause bool, at uint64) {
	m.log("server pauses: %v", pause)
	if m.server.started && pause == (len(m.history.pauses)%2 == 0) {
		m.history.pauses = append(m.history.pauses, m.history.input(at)+readerMargin)
	}
	m.server.pause(at, pause)
}

func (m *model) log(format string, args ...any) {
	m.trace = append(m.trace, fmt.Sprintf("%d us: ", m.now)+fmt.Sprintf(format, args...))
}

// disturb lets the remote clock err, or be right again.
func (m *model) disturb() {
	*m.remote = fakeRemote{offset: m.remote.offset, delay: m.remote.delay}
	switch m.rng.IntN(5) {
	case 0:
		m.remote.lost = true
	case 1:
		m.remote.shift(time.Duration(m.rng.Int64N(int64(6*sec))) - 3*sec)
	case 2:
		m.remote.shift(time.Duration(m.rng.Int64N(int64(ms(200)))) - ms(100))
	case 3:
		m.remote.ppm = float64(m.rng.IntN(1000) - 500)
		m.remote.delay = ms(m.rng.IntN(300))
	case 4:
		m.remote.offset = m.exact().offset
	}
	m.log("the remote clock is %+v", *m.remote)
}

// send lets the server announce itself: the message is lost, doubled, or late. A forged one is of
// another epoch, or says another rate.
func (m *model) send(forged bool) {
	at := m.behind(m.serverNow())
	w, ok := m.server.Announce(1, at)
	if !ok {
		return
	}
	if m.server.cfg.Provider == nil && !m.right(w, at) {
		game, still := m.history.read(at)
		m.fail("announced %+v at %d, game time %v, paused %v", w, at, game, still)
	}
	if forged {
		game := w.Rate.Duration(w.Tick)
		w.Epoch += m.rng.Uint64N(2) * (m.rng.Uint64N(200) - 4) // the first of the server is 5
		w.Rate = Hz(1 + m.rng.Uint32N(200))
		w.Tick = w.Rate.Ticks(game)
	}
	for range m.rng.IntN(3) {
		m.mail = append(m.mail, mail{w, m.now + m.rng.Uint64N(1<<(12+m.rng.IntN(10)))})
	}
}

// right reports whether a Welcome of that time is right. So near to a Pause or a Resume it says
// what comes.
func (m *model) right(w Welcome, at uint64) bool {
	game, still := m.history.read(at)
	shown := game
	end := m.serverNow() + readerMargin
	coming := 0
	for _, p := range m.history.pauses {
		coming += map[bool]int{true: 1}[int64(p-at) > 0]
	}
	later, will := m.history.read(end)
	switch {
	case coming > 1: // the first is overtaken
		return w.Paused == will
	case will && !still:
		shown = later
	case !will && still:
		game = later - elapsed(at, end)
	}
	return w.OriginUsec+uint64(game.Microseconds()) == at && w.Tick == w.Rate.Ticks(shown) &&
		w.Paused == will
}

// frame lets time pass, and whatever arrives arrive, and advances both.
func (m *model) frame(d uint64) {
	m.now += d
	m.mail = slices.DeleteFunc(m.mail, func(x mail) bool {
		if x.arrives <= m.now {
			m.log("%+v arrives", x.w)
			m.input(m.clientNow(), func() { _ = m.client.OnWelcome(x.w, m.clientNow()) })
		}
		return x.arrives <= m.now
	})
	if h, ok := m.client.Hello(); ok {
		_ = m.server.OnHello(1, h)
	}
	if m.server.started {
		m.history.input(m.serverNow())
	}
	one := m.rng.IntN(8) == 0 // they advance as a physics engine does
	m.server.advance(m.serverNow(), one)
	if m.adapts && m.clientLog.begun { // inputs of late, and states
		input := m.clientLog.next - 1 - Tick(m.rng.IntN(20))
		m.server.AcceptInput(1, m.server.epoch, input, m.serverNow())
		state := m.serverLog.next - 1 - Tick(m.rng.IntN(20))
		m.client.AcceptState(m.client.now.epoch, state, m.behind(m.clientNow()))
	}
	at := m.behind(m.clientNow())
	m.input(at, func() { m.client.advance(at, one) })
	m.check()
}

// check checks all that must hold at any time.
func (m *model) check() {
	ours := m.clientLog.look(&m.client.loop, m.clientNow())
	theirs := m.serverLog.look(&m.server.loop, m.serverNow())
	if ours != "" || theirs != "" {
		m.fail("the client: %s; the server: %s", ours, theirs)
	}
	for _, r := range m.serverLog.readers {
		at := m.serverNow() + uint64(r.off)
		want, _ := m.history.read(at)
		got, ok := m.server.Snapshot(at)
		builtIn := m.server.started && m.server.cfg.Provider == nil
		if builtIn && (!ok || got.since(Clocks{}) != all(want)) {
			m.fail("the server reads %v, %v, by the reference %v", got, ok, want)
		}
	}
}

// heal ends all disturbances, and checks how far the client is off then.
func (m *model) heal() {
	m.log("all is well")
	m.adapts = false
	*m.remote = fakeRemote{offset: m.exact().offset, delay: ms(50)}
	m.startServer()
	m.pauseServer(false, m.serverNow())
	m.startClient()
	m.client.Resume(m.clientNow())
	from := m.now
	told := uint64(0)
	for m.now-from < usec(healing) {
		if m.now-told > 1_000_000 {
			w, _ := m.server.Announce(1, m.serverNow())
			m.mail = append(m.mail, mail{w, m.now + 50_000})
			told = m.now
		}
		m.frame(10_000 + m.rng.Uint64N(100_000))
	}
	c, ok := m.client.Snapshot(m.clientNow())
	if _, says := m.client.Hello(); !ok || !m.client.synced || says ||
		m.client.now.epoch != m.server.epoch {
		m.fail("not synchronized after %v", healing)
	}
	truth, _ := m.server.SharedTime(m.serverNow())
	r := m.client.now.rate
	band := [3]time.Duration{sharedBand, ms(20), ms(20)}
	apart := [3]time.Duration{
		shared:    0,
		server:    -ms(50) - r.Duration(1),
		predicted: ms(50) + r.Duration(2),
	}
	if m.client.buffers.ahead.tally.all > 0 || m.client.buffers.behind.tally.all > 0 {
		band[server] = adaptReach + ms(100)
		band[predicted] = adaptReach + ms(100)
	}
	for i, d := range c.since(Clocks{truth, truth, truth}) {
		if off := d - apart[i]; off.Abs() > band[i]+10*us {
			m.fail("clock %d is off by %v after %v", i, off, healing)
		}
	}
}

// play lets so many things happen.
func (m *model) play(t *testing.T, steps int) *model {
	for range steps {
		m.step()
	}
	m.end(t)
	return m
}

// end ends the test if anything was wrong.
func (m *model) end(t *testing.T) {
	t.Helper()
	if m.wrong != "" {
		t.Fatalf("%s\n%s", m.wrong, strings.Join(m.trace, "\n"))
	}
}

// String returns what was done, and what came of it.
func (m *model) String() string {
	return fmt.Sprint(m.trace, m.serverLog, m.clientLog, m.server.Stats(), m.client.Stats())
}

// Random sequences of calls and messages, with readers behind and ahead: each tick runs once and
// in order unless an event says otherwise, and the same again in the same sequence, no clock goes
// back without an event, what was read stays, the server is where the reference is, and the client
// is right 26 s after the last disturbance.
func TestModel(t *testing.T) {
	n := sequences()
	base := newRand(t).Uint64()
	ticks, backs := uint64(0), 0
	for i := range n {
		seed := base + uint64(i)
		m := newModel(seed, nil, nil).play(t, 70)
		if i == 0 && m.String() != newModel(seed, nil, nil).play(t, 70).String() {
			t.Error("the same seed, another trace")
		}
		m.heal()
		m.end(t)
		ticks += m.clientLog.ran
		backs += m.clientLog.backs
	}
	t.Logf("%d sequences: %d ticks of clients, %d events that may set a clock back",
		n, ticks, backs)
	if ticks == 0 || backs == 0 {
		t.Error("the sequences are too kind")
	}
}
