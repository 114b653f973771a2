// Peers in a mesh in a simulated world, whose clocks are known, and a judge.

package session

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"timesync/internal/sim/simnet"
	"timesync/internal/testkit"
	"timesync/link"
)

const us, ms, sec = time.Microsecond, time.Millisecond, time.Second

// mesh is peers of which each is connected to each.
type mesh struct {
	t       *testing.T
	seed    uint64
	rng     *rand.Rand
	w       *simnet.World
	peers   []*peer
	apart   func(i, j int) bool
	founder simnet.Clock  // nil if session time is no longer by it
	zero    uint64        // session time is zero more than the founder's clock, us
	set     time.Duration // when a clock was set last; Bound may be wrong for 15 s then
	judge   judge
}

// judge is what it found, in microseconds.
type judge struct {
	apart    []int64 // largest distance of two members, each time
	jumps    []int64 // at handovers
	founder  []int64 // distance from the founder's clock
	bounds   []int64
	wrong    int // readings beyond Bound
	wrongTo  int // pairs of readings beyond the sum of their HostBounds
	readings int
	back     int // readings that went back, without a step
	steps    uint32
}

// peer is one of them, in one of its lives.
type peer struct {
	id       uint64
	node     *simnet.Node
	since    time.Duration // when it began, or joined
	alive    bool
	links    []*link.Link // to the others, by index
	m        *Member
	announce time.Duration // when, next
	last     Reading       // of generation 0: none yet
}

// path is the delay of a way, and what is lost on it.
type path func(rng *rand.Rand, i, j int) *simnet.Link

// bad is a network as that of the examples: 30 ms, jitter of 4 to 10 ms, 1 % lost, 2 % overtaken.
func bad(*rand.Rand, int, int) *simnet.Link {
	return &simnet.Link{
		Base:  simnet.Fixed(30 * ms),
		Delay: simnet.Sum(simnet.Uniform(4*ms, 10*ms), simnet.Reorder(0.02, 30*ms)),
		Loss:  simnet.Bernoulli(0.01),
	}
}

// harsh has ways of 1 to 80 ms, each of its own, with jitter of any kind: Wi-Fi with stalls, mobile
// networks, queues of 50 to 300 ms, long tails.
func harsh(rng *rand.Rand, _, _ int) *simnet.Link {
	base := time.Duration(rng.Int64N(int64(80 * ms)))
	mean := time.Duration(rng.Int64N(int64(3 * ms)))
	jitters := []simnet.Delay{
		simnet.Exp(mean),
		simnet.WiFi(),
		simnet.Cellular(),
		simnet.LogNormal(3*ms, 1),
		simnet.Bufferbloat(50*ms, 300*ms, 2*sec, 30*sec, 20*sec),
	}
	return &simnet.Link{
		Base:  simnet.Fixed(ms + base),
		Loss:  simnet.Bernoulli(0.02),
		Delay: jitters[rng.IntN(len(jitters))],
	}
}

// newMesh returns n peers, of whom the first founds a session at once.
func newMesh(t *testing.T, seed uint64, in setting) *mesh {
	x := &mesh{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 49)), w: simnet.NewWorld(seed)}
	x.meet()
	for i := range in.peers {
		p := &peer{id: uint64(i + 1)}
		p.node = x.w.Node(fmt.Sprint("peer", i), x.clock(in.ppm))
		x.peers = append(x.peers, p)
		p.node.OnReceive = func(from *simnet.Node, b []byte) { x.receive(p, from, b) }
	}
	for i, p := range x.peers {
		for j, q := range x.peers[:i] {
			x.w.Connect(p.node, q.node, in.way(x.rng, i, j), in.way(x.rng, j, i))
		}
		x.birth(p)
	}
	p := x.peers[0]
	x.founder = p.node.Clock
	x.zero = x.rng.Uint64()
	check(t, p.m.Create(p.node.NowUsec(), p.node.NowUsec()+x.zero), nil, "seed %d: Create", seed)
	for i, p := range x.peers {
		for j := range x.peers {
			if i != j {
				x.w.Every(50*ms, x.upTo(50*ms), func() { x.send(p, j) })
			}
		}
	}
	x.w.Every(20*ms, x.upTo(20*ms), x.look)
	return x
}

// meet ends what keeps peers apart.
func (x *mesh) meet() { x.apart = func(int, int) bool { return false } }

// clock draws a clock that is up to ppm off, and wanders a little.
func (x *mesh) clock(ppm float64) simnet.Clock {
	return simnet.NewClock(simnet.ClockSpec{
		OffsetUsec: x.rng.Uint64(), SkewPPM: ppm * (2*x.rng.Float64() - 1),
		SinePPM: 0.2, SinePeriod: 300 * sec, SinePhase: 6 * x.rng.Float64(), WanderPPM: 0.01,
	}, x.rng.Uint64())
}

// upTo draws a time that is shorter than most.
func (x *mesh) upTo(most time.Duration) time.Duration {
	return time.Duration(x.rng.Int64N(int64(most)))
}

// birth lets a peer begin anew: as after a restart it knows nothing.
func (x *mesh) birth(p *peer) {
	p.alive = true
	p.since = x.w.Now()
	p.last = Reading{}
	p.m = New(p.id)
	p.links = make([]*link.Link, len(x.peers))
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
		p.announce = x.w.Now() + sec
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

func (x *mesh) receive(p *peer, from *simnet.Node, b []byte) {
	if !p.alive {
		return
	}
	j := slices.IndexFunc(x.peers, func(q *peer) bool { return q.node == from })
	now := p.node.NowUsec()
	payload, _, _, err := p.links[j].ReadHeader(b, now)
	check(x.t, err, nil, "seed %d: ReadHeader", x.seed)
	if len(payload) > 0 {
		x.accept(p, x.peers[j].id, p.links[j], payload, now)
	}
}

// accept judges by how much session time jumps.
func (x *mesh) accept(p *peer, from uint64, clock *link.Link, a []byte, now uint64) {
	before, known := p.m.peek(now + 1e6)
	err := p.m.Accept(from, clock, a, now)
	after, _ := p.m.peek(now + 1e6)
	changed := before.Host != after.Host || before.Generation != after.Generation
	if err == nil && known && changed && x.settled(p) {
		x.judge.jumps = append(x.judge.jumps, magnitude(int64(after.Usec-before.Usec)))
	}
	if err == nil && !known {
		p.since = x.w.Now()
	}
}

// peek is Read without a trace.
func (m *Member) peek(localUsec uint64) (Reading, bool) {
	return m.at(localUsec), m.generation > 0
}

func (x *mesh) settled(p *peer) bool {
	return p.alive && p.m.generation > 0 && x.w.Now()-p.since >= *young
}

// host lets a peer become host, and say so.
func (x *mesh) host(p *peer) {
	check(x.t, p.m.BecomeHost(p.node.NowUsec()), nil, "seed %d: peer %d: BecomeHost", x.seed, p.id)
	p.announce = x.w.Now() + sec
	x.announce(p)
}

// look judges all readings of this moment.
func (x *mesh) look() {
	var first uint64
	var settled []int64 // session times minus the first one
	for _, p := range x.peers {
		r, ok := p.m.Read(p.node.NowUsec())
		if !p.alive || !ok {
			continue
		}
		x.judge.readings++
		off := int64(0)
		if x.founder != nil {
			off = magnitude(int64(r.Usec - x.founder.Usec(x.w.Now()) - x.zero))
		}
		// The clocks have readings of whole microseconds.
		if off > r.Bound.Microseconds()+1 && !x.disturbed() {
			x.judge.wrong++
		}
		for _, q := range x.peers {
			of, ok := q.m.peek(q.node.NowUsec())
			same := ok && q.alive && of.Host == r.Host && of.Generation == r.Generation
			apart := magnitude(int64(of.Usec - r.Usec))
			most := (r.HostBound + of.HostBound).Microseconds() // HostBound is 0 at the host
			if same && !x.disturbed() && apart > most+1 {
				x.judge.wrongTo++
			}
		}
		if p.last.Generation > 0 {
			x.judge.steps += r.Steps - p.last.Steps
			if r.Steps == p.last.Steps && int64(r.Usec-p.last.Usec) < 0 {
				x.judge.back++
			}
		}
		p.last = r
		if x.settled(p) {
			if len(settled) == 0 {
				first = r.Usec
			}
			settled = append(settled, int64(r.Usec-first))
			x.judge.founder = append(x.judge.founder, off)
			x.judge.bounds = append(x.judge.bounds, r.Bound.Microseconds())
		}
	}
	if len(settled) > 1 {
		x.judge.apart = append(x.judge.apart, slices.Max(settled)-slices.Min(settled))
	}
}

// disturbed reports whether a clock was set less than 15 s ago.
func (x *mesh) disturbed() bool { return x.set > 0 && x.w.Now()-x.set < 15*sec }

// must ends the test if something fails that is to work.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// check fails if a test got something else than it wants.
func check[T comparable](t *testing.T, got, want T, format string, args ...any) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %+v, want %+v", fmt.Sprintf(format, args...), got, want)
	}
}

// add adds what another world found.
func (j *judge) add(o *judge) {
	j.apart = append(j.apart, o.apart...)
	j.jumps = append(j.jumps, o.jumps...)
	j.founder = append(j.founder, o.founder...)
	j.bounds = append(j.bounds, o.bounds...)
	j.wrong += o.wrong
	j.wrongTo += o.wrongTo
	j.back += o.back
	j.readings += o.readings
	j.steps += o.steps
}

func (j *judge) String() string {
	of := testkit.SpreadOf
	spreads := fmt.Sprintf(
		"median/p99/most, us: apart %v, jumps %v (%d), off the founder's clock %v, bound %v",
		of(j.apart), of(j.jumps), len(j.jumps), of(j.founder), of(j.bounds))
	counts := fmt.Sprintf(
		"%d readings, %d beyond Bound, %d beyond HostBound, %d back, %d steps",
		j.readings, j.wrong, j.wrongTo, j.back, j.steps)
	return spreads + "; " + counts
}
