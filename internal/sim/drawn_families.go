package sim

import (
	"cmp"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"time"

	"timesync/internal/sim/simnet"
)

// Family is a kind of event in an otherwise calm world.
type Family struct {
	Name   string
	Kind   string // of event; "" is none
	Ways   int    // 1 is one of the two, 3 both, 0 where a kind does not ask
	Early  bool   // in the first 8 s
	Jitter string // "" is narrow, "wide" or "gamma"

	lo, hi float64
	lasts  [2]time.Duration
	longer int
}

// Families returns all of them.
func Families() (all []Family) {
	add := func(f Family) {
		name := cmp.Or(f.Kind, "no event") + [...]string{"", " one way", "", " both ways"}[f.Ways]
		switch f.Kind {
		case "ramp", "slew":
			name += fmt.Sprintf(" %g-%g ppm", f.lo, f.hi)
		case "set":
			name += fmt.Sprintf(" %g-%g ms", f.lo/1e6, f.hi/1e6)
		case "suspend":
			name += map[int]string{1: ", clock runs", -1: ", clock stands"}[f.longer]
		default:
			name += map[int]string{1: " longer", -1: " shorter"}[f.longer]
		}
		if f.lasts[1] > 0 {
			name += fmt.Sprintf(" %g-%g s", f.lasts[0].Seconds(), f.lasts[1].Seconds())
		}
		if f.Early {
			name = "early " + name
		}
		if f.Jitter != "" {
			name += ", " + f.Jitter
		}
		f.Name = name
		all = append(all, f)
	}
	type spans = [2]time.Duration
	for _, ways := range []int{1, 3} {
		add(Family{Kind: "plateau", Ways: ways, lasts: spans{5 * sec, 133 * sec}})
		add(Family{Kind: "plateau", Ways: ways, lasts: spans{133 * sec, 300 * sec}})
		add(Family{Kind: "plateau", Ways: ways, lasts: spans{28 * sec, 200 * sec}, Early: true})
		for _, kind := range []string{"saw", "sine", "fill and drop"} {
			add(Family{Kind: kind, Ways: ways})
		}
		for _, slope := range [][2]float64{{3, 10}, {10, 30}, {30, 100}, {100, 300}, {300, 1000}} {
			add(Family{
				Kind:  "ramp",
				Ways:  ways,
				lo:    slope[0],
				hi:    slope[1],
				lasts: spans{40 * sec, 200 * sec},
			})
		}
		add(Family{Kind: "ramp", Ways: ways, lo: 3, hi: 30, Early: true})
		add(Family{Kind: "ramp", Ways: ways, lo: 30, hi: 300, Early: true})
		for _, longer := range []int{1, -1} {
			add(Family{Kind: "path for good", Ways: ways, longer: longer})
			add(Family{Kind: "path for good", Ways: ways, longer: longer, Early: true})
			back := Family{Kind: "path and back", Ways: ways, longer: longer}
			back.lasts = spans{5 * sec, 77 * sec}
			add(back)
			back.lasts = spans{77 * sec, 200 * sec}
			add(back)
			add(Family{Kind: "path and back", Ways: ways, longer: longer, Early: true})
			add(Family{Kind: "flaps", Ways: ways, longer: longer})
		}
		add(Family{Kind: "silence", Ways: ways})
	}
	add(Family{Kind: "set", lo: 1e6, hi: 1e7})
	add(Family{Kind: "set", lo: 1e7, hi: 1e9})
	add(Family{Kind: "set", lo: 1e9, hi: 5e9})
	add(Family{Kind: "set", lo: 1e6, hi: 5e9, Early: true})
	add(Family{Kind: "slew", lo: 50, hi: 150})
	add(Family{Kind: "slew", lo: 150, hi: 500})
	add(Family{Kind: "slew", lo: 50, hi: 500, Early: true})
	add(Family{Kind: "stalls"})
	add(Family{Kind: "jitter", Ways: 3})
	add(Family{Kind: "rate", Ways: 3})
	add(Family{Kind: "suspend", longer: 1})
	add(Family{Kind: "suspend", longer: -1})
	add(Family{})
	add(Family{Jitter: "wide"})
	add(Family{Jitter: "gamma"})
	for _, jitter := range []string{"wide", "gamma"} {
		add(Family{Kind: "plateau", Ways: 1, Jitter: jitter})
		add(Family{Kind: "path for good", Ways: 1, Jitter: jitter})
		add(Family{Kind: "path and back", Ways: 3, longer: 1, Jitter: jitter})
		add(Family{Kind: "ramp", Ways: 1, lo: 30, hi: 100, Jitter: jitter})
	}
	return all
}

// World draws a world of the family.
func (f *Family) World(seed uint64) *Drawn {
	use := uint64(crc32.ChecksumIEEE([]byte(f.Name)))
	d := &Drawn{Seed: seed, Dice: simnet.Dice{R: rand.New(rand.NewPCG(seed, use))}}
	d.Reports = d.Span(sec/2, 2*sec)
	d.drawClocks(50, 0.003)
	for side := range d.ways {
		w := &d.ways[side]
		*w = way{base: d.LogSpan(ms, 50*ms), rate: d.LogBetween(15, 60), frame: 1, fifo: true}
		size := d.LogSpan(10*us, 300*us)
		w.delay = simnet.Exp(size)
		switch f.Jitter {
		case "wide":
			size = d.LogSpan(ms, 10*ms)
			w.delay = simnet.Exp(size)
		case "gamma":
			size = d.LogSpan(300*us, 3*ms)
			w.delay = simnet.Gamma(d.Between(1.5, 4), size)
		}
		d.Happens(0, "way", "from %c: %v, jitter %v, %.1f/s",
			'A'+rune(side), w.base.Round(10*us), size.Round(us), w.rate)
	}
	p := plan{
		at:      d.Span(40*sec, 150*sec),
		ways:    f.Ways,
		lo:      f.lo,
		hi:      f.hi,
		lasting: f.lasts,
		longer:  f.longer,
	}
	if f.Early {
		p.at = d.Span(500*ms, 8*sec)
	}
	if p.ways == 1 {
		p.ways += d.R.IntN(2)
	}
	for _, k := range drawnKinds {
		if k.name == f.Kind {
			k.draw(d, p)
		}
	}
	d.Until = min(max(d.over, p.at)+d.Span(60*sec, 120*sec), 600*sec)
	return d
}
