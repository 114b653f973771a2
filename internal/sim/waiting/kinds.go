package waiting

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
)

// Rates are the rates at which things are sent in the worlds, a second.
var Rates = []float64{1, 10, 20, 30, 60, 200}

// kind is one kind of world.
type kind struct {
	name string
	make func(w *World, g *generator)
}

// kinds are all kinds. Their delays are in milliseconds.
var kinds = []kind{
	{"lan", lan},
	{"exponential", func(w *World, g *generator) {
		w.Items = g.queue(func(float64) float64 { return 20 + g.exp(5) })
	}},
	{"gamma", func(w *World, g *generator) {
		w.Items = g.queue(func(float64) float64 { return 40 + g.exp(4) + g.exp(4) })
	}},
	{"heavy tails", func(w *World, g *generator) {
		w.Items = g.path(func(float64) float64 { return 20 + g.heavy() })
	}},
	{"heavy tails, in order", func(w *World, g *generator) {
		w.Items = g.queue(func(float64) float64 { return 20 + g.heavy() })
		w.tailed = true
	}},
	{"Wi-Fi power save", powerSave},
	{"saw", saw},
	{"bufferbloat", bufferbloat},
	{"handover", handover},
	{"shift of 60 ms", func(w *World, g *generator) { shift(w, g, 60, 30_000) }},
	{"shift of 15 ms", func(w *World, g *generator) { shift(w, g, 15, 20_000) }},
	{"stop of the path", func(w *World, g *generator) {
		g.stops = g.drawnStops(40_000, 300, 900)
		w.Stops = g.stops
		w.Items = g.queue(g.calm)
	}},
	{"stop of the sender", stopOfSender},
	{"stop, caught up with", catchingUp},
	{"stop every 10 s", func(w *World, g *generator) {
		for at := 12_000.0; at < g.length-12_000; at += 10_000 {
			g.stops = append(g.stops, Stop{at, at + 300})
		}
		w.Stops = g.stops
		w.Items = g.queue(g.calm)
	}},
	{"jitter on and off", func(w *World, g *generator) {
		w.Items = g.queue(func(sent float64) float64 {
			if math.Mod(sent, 30_000) > 20_000 {
				return 30 + g.exp(15)
			}
			return 30 + g.exp(1.5)
		})
	}},
	{"loss and reordering", lossAndReordering},
	{"drift with steps", driftWithSteps},
	{"wander", wander},
}

// Kinds returns the names of all kinds.
func Kinds() []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

// New returns a world of a kind, 5 minutes long, or 25 where less than 5 are sent a second.
func New(name string, rate float64, seed uint64) *World {
	length := 300_000.
	if rate < 5 {
		length *= 5
	}
	return Lasting(name, rate, seed, length)
}

// Lasting returns a world of a kind that lasts so many milliseconds.
func Lasting(name string, rate float64, seed uint64, length float64) *World {
	hash := fnv.New64a()
	hash.Write([]byte(name))
	g := &generator{
		Rand:   rand.New(rand.NewPCG(seed, hash.Sum64()+uint64(rate))),
		rate:   rate,
		length: length,
	}
	w := &World{Name: name, Kind: name, Rate: rate}
	for _, k := range kinds {
		if k.name == name {
			k.make(w, g)
		}
	}
	w.sort()
	if w.tailed {
		w.findStops()
	}
	return w
}

// generator draws the delays of a world.
type generator struct {
	*rand.Rand
	rate   float64
	length float64
	stops  []Stop // of the path
}

func (g *generator) exp(mean float64) float64 { return g.ExpFloat64() * mean }

// heavy returns a delay with a heavy tail (Lomax, shape 1.5), up to a second.
func (g *generator) heavy() float64 {
	return min(1000, 2*(math.Pow(1-g.Float64(), -1/1.5)-1))
}

// calm is the delay of a path on which nothing happens but stops.
func (g *generator) calm(float64) float64 { return 30 + g.exp(3) }

// path sends things that may overtake one another. delay is that of what is sent at a time.
func (g *generator) path(delay func(sent float64) float64) []Item {
	return g.send(delay, false)
}

// queue sends things that never overtake one another.
func (g *generator) queue(delay func(sent float64) float64) []Item {
	return g.send(delay, true)
}

func (g *generator) send(delay func(sent float64) float64, inOrder bool) (items []Item) {
	newest, stop := math.Inf(-1), 0
	for i := 0; ; i++ {
		item := Item{Sent: float64(i) * 1000 / g.rate}
		if item.Sent > g.length {
			return items
		}
		item.Arrived = item.Sent + delay(item.Sent)
		for stop < len(g.stops) && item.Arrived >= g.stops[stop].End {
			stop++
		}
		if stop < len(g.stops) && item.Arrived >= g.stops[stop].Begin {
			item.Arrived = g.stops[stop].End + g.Float64()*0.2
			item.Stopped = true
		}
		if inOrder && item.Arrived < newest {
			item.Arrived = newest + 0.01
		}
		newest = max(newest, item.Arrived)
		items = append(items, item)
	}
}

// drawnStops returns stops that are drawn: at least 3 s apart, every so long on the mean.
func (g *generator) drawnStops(every, shortest, longest float64) (stops []Stop) {
	at := 8000.0
	for {
		at += 3000 + g.exp(every-3000)
		length := shortest + g.Float64()*(longest-shortest)
		if at+length > g.length-12_000 {
			return stops
		}
		stops = append(stops, Stop{at, at + length})
		at += length
	}
}

// lan has 0.2 ms of delay, and in one of 200 a millisecond more.
func lan(w *World, g *generator) {
	w.Items = g.queue(func(float64) float64 {
		delay := 0.2 + g.exp(0.05)
		if g.Float64() < 0.005 {
			delay += g.exp(1)
		}
		return delay
	})
}

// powerSave has phases in which a station hears only each beacon, 102.4 ms apart.
func powerSave(w *World, g *generator) {
	const beacon = 102.4
	saving, until := false, 0.0
	w.Items = g.queue(func(sent float64) float64 {
		if sent >= until {
			saving = !saving
			until = sent + 3000 + g.exp(5000)
		}
		delay := 2 + g.exp(1)
		if saving {
			return math.Ceil((sent+delay)/beacon)*beacon - sent + g.exp(0.5)
		}
		return delay
	})
}

// saw has a queue that fills up to 100 ms within 8 s and then empties.
func saw(w *World, g *generator) {
	w.Items = g.queue(func(sent float64) float64 {
		phase := math.Mod(sent, 8000) / 8000
		queue := 100 * phase
		if phase > 0.96 {
			queue = 96 * (1 - phase) / 0.04
		}
		return 20 + queue + g.exp(2)
	})
}

// bufferbloat has a queue that TCP fills, with phases in which it empties.
func bufferbloat(w *World, g *generator) {
	filling, until, queue, last := false, 5000.0, 0.0, 0.0
	w.Items = g.queue(func(sent float64) float64 {
		if sent >= until {
			filling = !filling
			until = sent + 5000 + g.Float64()*10_000
		}
		if passed := sent - last; !filling {
			queue = max(0, queue-passed*0.5)
		} else if queue += passed * 0.1; queue > 150 {
			queue = 100 + g.Float64()*20 // a loss, after which TCP sends less
		}
		last = sent
		return 20 + queue + g.exp(3)
	})
}

// handover has stops after each of which the path is another one.
func handover(w *World, g *generator) {
	g.stops = g.drawnStops(20_000, 150, 500)
	w.Stops = g.stops
	base, next := 40.0, 0
	w.Items = g.queue(func(sent float64) float64 {
		for ; next < len(g.stops) && sent > g.stops[next].Begin; next++ {
			base = max(20, base+g.NormFloat64()*10)
		}
		return base + g.exp(3) + g.exp(3)
	})
}

// shift has a path that becomes longer, and shorter again.
func shift(w *World, g *generator, by, every float64) {
	if g.rate < 5 {
		every *= 5
	}
	longer := func(sent float64) bool { return int(sent/every)%2 == 1 }
	for at := every; at < g.length-every/2; at += every {
		if longer(at) {
			w.Ups = append(w.Ups, at)
		} else {
			w.Downs = append(w.Downs, at)
		}
	}
	w.Items = g.queue(func(sent float64) float64 {
		if longer(sent) {
			return 30 + by + g.exp(3)
		}
		return 30 + g.exp(3)
	})
}

// stopOfSender has a sender whose program stands still, and then sends at once all that was due.
func stopOfSender(w *World, g *generator) {
	w.Stops = g.drawnStops(40_000, 300, 900)
	w.Items = g.path(g.calm)
	for i := range w.Items {
		item := &w.Items[i]
		for _, stop := range w.Stops {
			if stop.Begin <= item.Sent && item.Sent < stop.End {
				item.Arrived = stop.End + g.calm(0)
				item.Stopped = true
			}
		}
	}
}

// catchingUp has a server of 30 frames a second that stands still, and then runs 8 ticks of 60 Hz
// in each frame until it has caught up.
func catchingUp(w *World, g *generator) {
	const frame, ticks = 33.3, 133
	w.Stops = g.drawnStops(40_000, 300, 900)
	w.Items = g.path(g.calm)
	next := 0
	for _, stop := range w.Stops {
		for next < len(w.Items) && w.Items[next].Sent < stop.Begin {
			next++
		}
		if next == len(w.Items) {
			return
		}
		reached := w.Items[next].Sent
		for now := stop.End; ; now += frame {
			for next < len(w.Items) && w.Items[next].Sent < min(reached+ticks, now) {
				w.Items[next].Arrived = now + g.calm(0)
				w.Items[next].Stopped = true
				next++
			}
			if reached += ticks; reached > now {
				break
			}
		}
	}
}

// lossAndReordering loses and delays one of 50, and one of 100 comes twice.
func lossAndReordering(w *World, g *generator) {
	sent := g.path(func(float64) float64 {
		delay := 30 + g.exp(4)
		if g.Float64() < 0.02 {
			delay += 20 + g.exp(10)
		}
		return delay
	})
	for _, item := range sent {
		if g.Float64() < 0.02 {
			continue
		}
		w.Items = append(w.Items, item)
		if g.Float64() < 0.01 {
			item.Arrived += 5 + g.exp(100)
			item.Stopped = true // nobody waits for it
			w.Items = append(w.Items, item)
		}
	}
}

// driftWithSteps has a clock that is off by 300 ppm and set by 250 ms every minute, there and back.
func driftWithSteps(w *World, g *generator) {
	set := 0.0
	next := 60_000.0
	w.Items = g.path(func(sent float64) float64 {
		if sent >= next {
			if set == 0 {
				w.Ups = append(w.Ups, sent)
				set = 250
			} else {
				w.Downs = append(w.Downs, sent)
				set = 0
			}
			next += 60_000
		}
		return 30 + set + 300e-6*sent + g.exp(4)
	})
}

// wander has a delay that wanders by some 8 ms each tenth of a second.
func wander(w *World, g *generator) {
	at, until := 10.0, 0.0
	w.Items = g.queue(func(sent float64) float64 {
		for ; until < sent; until += 100 {
			at = math.Abs(at + g.NormFloat64()*8 - (at-10)*0.1)
		}
		return 20 + at + g.exp(2)
	})
}
