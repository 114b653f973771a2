// Peers in a mesh in a simulated world, whose clocks are known, and a judge.

package session

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"timesync/internal/sim"
	"timesync/internal/stat"
	"timesync/link"
)

const ms = time.Millisecond

// mesh is peers of which each is connected to each.
type mesh struct {
	t       *testing.T
	seed    uint64
	rng     *rand.Rand
	w       *sim.World
	peers   []*peer
	per     time.Duration // from one datagram to the next, of each pair
	apart   func(i, j int) bool
	founder *sim.Clock
	zero    uint64        // session time is zero more than the founder's clock, us
	alone   *peer         // not judged: it is in a session of its own
	set     time.Duration // when a clock was set last; Bound may be wrong for 15 s then
	judge   judge
}

// judge is what it found, errors in microseconds.
type judge struct {
	settled  time.Duration // members that are younger are not judged for accuracy
	apart    []float64     // largest distance of two members, each time
	jumps    []float64     // at handovers
	heals    []float64     // jumps when halves meet
	founder  []float64     // distance from the founder's clock
	wrong    int           // readings beyond Bound
	wrongTo  int           // pairs of readings beyond the sum of their HostBounds
	readings int
	back     int // readings that went back, without a step
	steps    uint32
	slack    float64 // the least of Bound minus error
	over     float64 // how far beyond
	bounds   []float64
}

// peer is one of them, in one of its lives.
type peer struct {
	id       uint64
	node     *sim.Node
	born     time.Duration
	alive    bool
	links    []*link.Link // to the others, by index
	m        *Member
	announce time.Duration // when, next
	last     Reading
	was      bool
	joined   time.Duration
}

// path is the delay of a way, and what is lost on it.
type path func(rng *rand.Rand, i, j int) *sim.Link

// bad is a network as that of the examples: 30 ms, jitter of 4 to 10 ms, 1 % lost, 2 % overtaken.
func bad(*rand.Rand, int, int) *sim.Link {
	return &sim.Link{
		Base:  sim.Fixed(30 * ms),
		Delay: sim.Sum(sim.Uniform(4*ms, 10*ms), sim.Reorder(0.02, 30*ms)),
		Loss:  sim.Bernoulli(0.01),
	}
}

// unequal has ways of 1 to 80 ms, each of its own.
func unequal(rng *rand.Rand, _, _ int) *sim.Link {
	return &sim.Link{
		Base:  sim.Fixed(ms + time.Duration(rng.Int64N(int64(80*ms)))),
		Delay: sim.Exp(time.Duration(rng.Int64N(int64(3 * ms)))),
		Loss:  sim.Bernoulli(0.02),
	}
}

// harsh is unequal, with jitter of any kind: Wi-Fi with stalls, mobile networks, queues of 50 to
// 300 ms, long tails.
func harsh(rng *rand.Rand, i, j int) *sim.Link {
	l := unequal(rng, i, j)
	l.Delay = []sim.Delay{
		l.Delay, sim.WiFi(), sim.Cellular(), sim.LogNormal(3*ms, 1),
		sim.Bufferbloat(50*ms, 300*ms, 2*time.Second, 30*time.Second, 20*time.Second),
	}[rng.IntN(5)]
	return l
}

// newMesh returns n peers, of whom the first founds a session at once.
func newMesh(t *testing.T, seed uint64, n int, way path, ppm float64) *mesh {
	x := &mesh{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 49)), w: sim.NewWorld(seed), per: 50 * ms}
	x.meet()
	x.judge = judge{settled: *young, slack: math.Inf(1)}
	for i := range n {
		p := &peer{id: uint64(i + 1)}
		p.node = x.w.Node(fmt.Sprint("peer", i), x.clock(ppm))
		x.peers = append(x.peers, p)
		p.node.OnReceive = func(from *sim.Node, b []byte) { x.receive(p, from, b) }
	}
	for i, p := range x.peers {
		for j, q := range x.peers[:i] {
			x.w.Connect(p.node, q.node, way(x.rng, i, j), way(x.rng, j, i))
		}
		x.birth(p)
	}
	x.found(x.peers[0])
	for i, p := range x.peers {
		for j := range x.peers {
			if i != j {
				x.every(x.per, func() { x.send(p, j) })
			}
		}
	}
	x.every(20*ms, x.look)
	return x
}

// meet ends what keeps peers apart.
func (x *mesh) meet() { x.apart = func(int, int) bool { return false } }

// clock draws a clock that is up to ppm off, and wanders a little.
func (x *mesh) clock(ppm float64) *sim.Clock {
	return sim.NewClock(sim.ClockSpec{
		OffsetUsec: x.rng.Uint64(), SkewPPM: ppm * (2*x.rng.Float64() - 1),
		SinePPM: 0.2, SinePeriod: 300 * time.Second, SinePhase: 6 * x.rng.Float64(), WanderPPM: 0.01,
	}, x.rng.Uint64())
}

func (x *mesh) every(period time.Duration, f func()) {
	var again func()
	again = func() {
		f()
		x.w.At(x.w.Now()+period, again)
	}
	x.w.At(x.w.Now()+time.Duration(x.rng.Int64N(int64(period))), again)
}

func (x *mesh) found(p *peer) {
	x.founder = p.node.Clock
	session := x.rng.Uint64()
	if err := p.m.Found(p.node.NowUsec(), session); err != nil {
		x.t.Error(err)
	}
	x.zero = session - p.node.NowUsec()
}

// truth returns a session time minus what the founder's clock says, us.
func (x *mesh) truth(usec uint64) float64 {
	if x.founder == nil {
		return 0 // nobody, or more than one
	}
	now := x.w.Now()
	reading := x.founder.Reading(now)
	return float64(int64(usec-x.founder.Usec(now)-x.zero)) - (reading - math.Floor(reading))
}

// birth lets a peer begin anew: as after a restart it knows nothing.
func (x *mesh) birth(p *peer) {
	p.alive, p.born, p.was, p.joined = true, x.w.Now(), false, 0
	p.m, p.links = New(p.id), make([]*link.Link, len(x.peers))
	for j := range p.links {
		p.links[j] = new(link.Link)
	}
}

// restart is a birth with another clock, as that of a process that counts from its start.
func (x *mesh) restart(p *peer) {
	p.node.Clock = x.clock(50)
	x.birth(p)
}

// send sends a datagram, with the announcement if one is due. A host announces to each in turn.
func (x *mesh) send(p *peer, to int) {
	if !p.alive || x.apart(int(p.id-1), to) {
		return
	}
	now := p.node.NowUsec()
	b := p.links[to].AppendHeader(nil, now)
	if x.w.Now() >= p.announce {
		p.announce = x.w.Now() + time.Second
		x.announce(p)
	}
	p.node.Send(x.peers[to].node, b)
}

// announce sends the announcement of a host to all.
func (x *mesh) announce(p *peer) {
	for j, q := range x.peers {
		a, ok := p.m.Announce(nil, p.node.NowUsec())
		if ok && q != p && !x.apart(int(p.id-1), j) {
			p.node.Send(q.node, append(p.links[j].AppendHeader(nil, p.node.NowUsec()), a...))
		}
	}
}

func (x *mesh) receive(p *peer, from *sim.Node, b []byte) {
	if !p.alive {
		return
	}
	for j, q := range x.peers {
		if q.node != from {
			continue
		}
		now := p.node.NowUsec()
		payload, _, _, err := p.links[j].Open(b, now)
		if err != nil {
			x.t.Error(err)
		}
		if len(payload) > 0 {
			x.accept(p, q.id, p.links[j], payload, now)
		}
	}
}

// accept judges by how much session time jumps.
func (x *mesh) accept(p *peer, from uint64, clock *link.Link, a []byte, now uint64) {
	before, known := p.m.peek(now + 1e6)
	err := p.m.Accept(from, clock, a, now)
	after, _ := p.m.peek(now + 1e6)
	if err == nil && known && x.settled(p) && p != x.alone && (before.Host != after.Host || before.Generation != after.Generation) {
		x.judge.jumps = append(x.judge.jumps, math.Abs(float64(int64(after.Usec-before.Usec))))
	}
	if err == nil && !known {
		p.joined = x.w.Now()
	}
}

// peek is Read without a trace.
func (m *Member) peek(localUsec uint64) (Reading, bool) {
	return m.at(localUsec), m.generation > 0
}

func (x *mesh) settled(p *peer) bool {
	return p.alive && p.m.generation > 0 && x.w.Now()-max(p.born, p.joined) >= x.judge.settled
}

// host lets a peer become host, and say so.
func (x *mesh) host(p *peer) {
	if err := p.m.Host(p.node.NowUsec()); err != nil {
		x.t.Errorf("seed %d: peer %d: %v", x.seed, p.id, err)
	}
	p.announce = x.w.Now() + time.Second
	x.announce(p)
}

// look judges all readings of this moment.
func (x *mesh) look() {
	low, high, n, one := math.Inf(1), math.Inf(-1), 0, uint64(0)
	for _, p := range x.peers {
		r, ok := p.m.Read(p.node.NowUsec())
		if !p.alive || !ok || p == x.alone {
			continue
		}
		off := x.truth(r.Usec)
		x.judge.readings++
		// The clocks have readings of whole microseconds.
		if over := math.Abs(off) - 1 - us(r.Bound); over > 0 && !x.disturbed() {
			x.judge.wrong++
			x.judge.over = max(x.judge.over, over)
		} else if r.Bound > 0 && !x.disturbed() {
			x.judge.slack = min(x.judge.slack, -over)
		}
		for _, q := range x.peers {
			of, ok := q.m.peek(q.node.NowUsec())
			if ok && q.alive && q != x.alone && !x.disturbed() && of.Host == r.Host && of.Generation == r.Generation && // 0 at the host itself
				math.Abs(float64(int64(of.Usec-r.Usec)))-1 > us(r.HostBound+of.HostBound) {
				x.judge.wrongTo++
			}
		}
		if p.was && r.Steps == p.last.Steps && int64(r.Usec-p.last.Usec) < 0 {
			x.judge.back++
		}
		if p.was && r.Steps != p.last.Steps {
			x.judge.steps += r.Steps - p.last.Steps
		}
		p.last, p.was = r, true
		if x.settled(p) {
			if n++; n == 1 {
				one = r.Usec
			}
			from := float64(int64(r.Usec - one))
			low, high = min(low, from), max(high, from)
			x.judge.founder = append(x.judge.founder, math.Abs(off))
			x.judge.bounds = append(x.judge.bounds, us(r.Bound))
		}
	}
	if n > 1 {
		x.judge.apart = append(x.judge.apart, high-low)
	}
}

// disturbed reports whether a clock was set less than 15 s ago.
func (x *mesh) disturbed() bool { return x.set > 0 && x.w.Now()-x.set < 15*time.Second }

// must ends the test if something fails that is to work.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func us(d time.Duration) float64 { return float64(d) / 1e3 }

// add adds what another world found.
func (j *judge) add(o *judge) {
	j.apart, j.jumps, j.heals = append(j.apart, o.apart...), append(j.jumps, o.jumps...), append(j.heals, o.heals...)
	j.founder, j.bounds = append(j.founder, o.founder...), append(j.bounds, o.bounds...)
	j.wrong, j.wrongTo, j.readings, j.back, j.steps = j.wrong+o.wrong, j.wrongTo+o.wrongTo, j.readings+o.readings, j.back+o.back, j.steps+o.steps
	j.slack, j.over = min(j.slack, o.slack), max(j.over, o.over)
}

func (j *judge) String() string {
	q := func(v []float64) string {
		if len(v) == 0 {
			return "none"
		}
		return fmt.Sprintf("%.0f/%.0f/%.0f us", stat.Quantile(v, 0.5), stat.Quantile(v, 0.99), stat.Quantile(v, 1))
	}
	return fmt.Sprintf("median/p99/most: apart %s, jumps %s (%d), where halves meet %s, off the founder's clock %s, bound %s; %d readings, %d beyond Bound (by %.0f us; least slack %.0f us), %d beyond HostBound, %d back, %d steps",
		q(j.apart), q(j.jumps), len(j.jumps), q(j.heals), q(j.founder), q(j.bounds), j.readings, j.wrong, j.over, j.slack, j.wrongTo, j.back, j.steps)
}
