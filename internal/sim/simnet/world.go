package simnet

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"
)

// event is something that happens at a true time.
type event struct {
	at      time.Duration
	happens func()
}

// Rand returns a random generator of its own for a seed and a name.
func Rand(seed uint64, name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// World is a virtual true time in which things happen, and a network of nodes. It
// must be used from one goroutine.
type World struct {
	seed    uint64
	now     time.Duration
	events  []event // the next is the last; few are planned at a time
	streams map[string]*rand.Rand
	links   map[[2]*Node]*wire
}

type wire struct {
	link *Link
	rand *rand.Rand
}

// NewWorld returns a world at true time 0 in which nothing is planned.
func NewWorld(seed uint64) *World {
	return &World{seed: seed, streams: map[string]*rand.Rand{}, links: map[[2]*Node]*wire{}}
}

// Now returns the true time since the start of the world.
func (w *World) Now() time.Duration { return w.now }

// At lets fn run at the true time t, or now if t is past. Simultaneous events run
// in the order in which they were planned.
func (w *World) At(t time.Duration, fn func()) {
	e := event{max(t, w.now), fn}
	later := 0
	for later < len(w.events) && w.events[later].at > e.at {
		later++
	}
	w.events = slices.Insert(w.events, later, e)
}

// Every lets fn run at the true time t, and again and again in that period.
func (w *World) Every(period, t time.Duration, fn func()) {
	w.At(t, func() {
		w.Every(period, w.now+period, fn)
		fn()
	})
}

// Run lets everything happen that is planned up to and including the true time
// until, and what follows from it.
func (w *World) Run(until time.Duration) {
	for n := len(w.events) - 1; n >= 0 && w.events[n].at <= until; n = len(w.events) - 1 {
		e := w.events[n]
		w.events = slices.Delete(w.events, n, n+1)
		w.now = e.at
		e.happens()
	}
	w.now = max(w.now, until)
}

// Pass lets something happen wherever a packet arrives that is sent over a link now.
func (w *World) Pass(l *Link, r *rand.Rand, happens func()) {
	for _, at := range l.Arrivals(r, w.now) {
		w.At(at, happens)
	}
}

// Rand returns the world's random generator of that name. Each name has a stream
// of its own, so that a new one leaves the others as they were.
func (w *World) Rand(name string) *rand.Rand {
	r := w.streams[name]
	if r == nil {
		r = Rand(w.seed, name)
		w.streams[name] = r
	}
	return r
}

// Node is a computer with a clock in a world.
type Node struct {
	Name      string
	Clock     Clock
	OnReceive func(from *Node, payload []byte) // called on arrival; nil drops

	world *World
}

// Node adds a node. Names should differ: they choose the random streams.
func (w *World) Node(name string, c Clock) *Node {
	return &Node{Name: name, Clock: c, world: w}
}

// Connect joins a and b by a link for each direction. A link must not be shared.
func (w *World) Connect(a, b *Node, ab, ba *Link) {
	w.links[[2]*Node{a, b}] = &wire{ab, w.Rand(a.Name + ">" + b.Name)}
	w.links[[2]*Node{b, a}] = &wire{ba, w.Rand(b.Name + ">" + a.Name)}
}

// Send sends a copy of payload over the link to the node to, which there must be.
func (n *Node) Send(to *Node, payload []byte) {
	l, sent := n.world.links[[2]*Node{n, to}], slices.Clone(payload)
	n.world.Pass(l.link, l.rand, func() {
		if to.OnReceive != nil {
			to.OnReceive(n, slices.Clone(sent))
		}
	})
}

// NowUsec returns what the node's clock reads now, in microseconds.
func (n *Node) NowUsec() uint64 { return n.Clock.Usec(n.world.now) }
