// These benchmarks measure whether a call costs more than it may, and what a datagram costs a
// server of many peers, beside the caches. All costs are measured in turns with those of a
// baseline, a few thousand calls each, because a shared machine changes its pace from one
// millisecond to the next. What counts is the median of the ratios. The streams are checked to be
// right before anything is measured.
package bench

import (
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"timesync"
	"timesync/internal/sim/rivals"
	"timesync/internal/testkit"
	"timesync/jitter"
)

// duel measures two costs in turns.
type duel struct {
	calls      int          // in a turn
	prepare    func()       // before a turn, not timed
	ours, base func(n int)  // make n calls
	costs      [2][]float64 // of ours and the baseline, ns a call, by turn
	ratios     []float64
}

func (d *duel) turn() {
	d.prepare()
	t0 := time.Now()
	d.ours(d.calls)
	t1 := time.Now()
	d.base(d.calls)
	t2 := time.Now()
	ours, base := float64(t1.Sub(t0)), max(float64(t2.Sub(t1)), 1)
	d.costs[0] = append(d.costs[0], ours/float64(d.calls))
	d.costs[1] = append(d.costs[1], base/float64(d.calls))
	d.ratios = append(d.ratios, ours/base)
}

// bench reports the median costs and the median ratio.
func (d *duel) bench(b *testing.B) {
	d.turn() // fills the caches
	d.costs, d.ratios = [2][]float64{}, nil
	for b.Loop() {
		d.turn()
	}
	b.ReportMetric(testkit.Quantile(d.costs[0], 0.5), "ns/op")
	b.ReportMetric(testkit.Quantile(d.costs[1], 0.5), "base-ns/op")
	b.ReportMetric(testkit.Quantile(d.ratios, 0.5), "ratio")
}

// datagram is what arrives.
type datagram struct {
	ts24 timesync.Counter24
	recv uint64
}

func next(s *Stream) datagram {
	sent, recv := s.Next()
	return datagram{timesync.LocalTimeToDatagramTS24(sent), recv}
}

// report returns what the peer reports. An original may report a number of remainder 2 by 3; beside
// one there is no fast path.
func report(s *Stream) timesync.Counter24 {
	minDelta := timesync.LocalTimeToDatagramTS24(s.Report())
	if minDelta%3 == 2 {
		minDelta = minDelta.Inc()
	}
	return minDelta
}

// off returns by how much a remote time is off, us: it is known modulo 67.1 s.
func off(got, truth uint64) int64 { return int64((got-truth)<<38) >> 38 }

// run brings a synchronizer and the baseline to where they are after d.
func run(
	t testing.TB, s *Stream, ours *timesync.TimeSynchronizer, base *rivals.Original,
	d time.Duration,
) {
	t.Helper()
	for range int(d/time.Second) * 60 {
		both(s, ours, base, next(s))
	}
	truth := s.Remote(s.Now)
	if got, ok := ours.RemoteTime(s.Now); !ok || off(got, truth) < -2000 || off(got, truth) > 2000 {
		t.Fatalf("RemoteTime is %d us off, ok %v", off(got, truth), ok)
	}
	baseline := timesync.Counter23(base.Remote23(s.Now))
	if got := baseline.Distance(timesync.NewCounter23(truth >> 3)); max(got, -got) > 500 {
		t.Fatalf("the baseline is %d units off", got)
	}
}

// both hands a datagram to both, and a report every 2 s.
func both(s *Stream, ours *timesync.TimeSynchronizer, base *rivals.Original, d datagram) {
	ours.OnAuthenticatedDatagramTimestamp(d.ts24, d.recv)
	base.Datagram(uint32(d.ts24), d.recv)
	if s.N%120 == 5 {
		ours.OnPeerMinDeltaTS24(report(s), d.recv)
		base.OnPeerMinDelta(uint32(report(s)), 0)
	}
}

// sink keeps results alive.
var sink uint64

// each makes n calls. The compiler inlines it, and with it the call.
func each(n int, call func(i uint64) uint64) {
	sum := uint64(0)
	for i := range uint64(n) {
		sum += call(i)
	}
	sink += sum
}

// words are what other goroutines may write.
type words [3]atomic.Uint64

// sum is a call that reads them, and does next to nothing with them.
//
//go:noinline
func (w *words) sum(x uint64) uint64 { return x + w[0].Load() ^ w[1].Load() + w[2].Load() }

// cost is a call, and what it may cost: limit times what it is compared with.
type cost struct {
	name  string
	limit float64
	duel
}

// costs returns all calls but those that the compiler inlines, see TestInlined of
// internal/repotest. One is also compared with a datagram of the original, which takes 24 ns where
// atomic stores are slow (Xeon) and 7 to 8 ns where they are not (EPYC): there ours takes as long.
// All but those of forgedCosts are compared with a call of words.sum, which takes 1 ns at 3.6 GHz,
// so their limits are nanoseconds there. It does what they do, only less, so whoever else uses the
// core slows both alike.
func costs(t testing.TB) []cost {
	const calls, peers = 4096, 64
	feeds := NewStreams(peers + 1)
	var ours timesync.TimeSynchronizer
	var base rivals.Original
	s := &feeds[peers]
	run(t, s, &ours, &base, 200*time.Second)
	now := uint64(0)
	batch := make([]datagram, calls)
	sent := make([]time.Duration, calls)
	prepare := func() {
		for i := range batch {
			batch[i] = next(s)
			sent[i] = time.Duration(s.Now) * time.Microsecond
		}
		now = s.Now + 100_000
		d := batch[0]
		ours.OnPeerMinDeltaTS24(report(s), d.recv)
		base.OnPeerMinDelta(uint32(report(s)), 0)
	}
	datagrams := func(n int) {
		sum := uint32(0)
		for _, d := range batch[:n] {
			sum += base.Datagram(uint32(d.ts24), d.recv)
		}
		sink += uint64(sum)
	}
	received := func(n int) {
		sum := time.Duration(0)
		for _, d := range batch[:n] {
			owd, _ := ours.OnAuthenticatedDatagramTimestamp(d.ts24, d.recv)
			sum += owd
		}
		sink += uint64(sum)
	}
	var estimator jitter.Estimator
	arrived := func(n int) {
		for i, d := range batch[:n] {
			estimator.Add(sent[i], time.Duration(d.recv)*time.Microsecond)
		}
		wait, _ := estimator.Wait()
		sink += uint64(wait)
	}
	many, manyBase := make([]timesync.TimeSynchronizer, peers), make([]rivals.Original, peers)
	for i := range many {
		run(t, &feeds[i], &many[i], &manyBase[i], 100*time.Second)
	}
	reports := make([]datagram, peers)
	var w words
	sums := func(n int) {
		each(n, func(i uint64) uint64 { return w.sum(now + i<<8) })
	}
	call := func(name string, limit float64, ours func(n int)) cost {
		return cost{name, limit, duel{calls: calls, prepare: prepare, base: sums, ours: ours}}
	}
	all := []cost{
		// 19 to 25, of which 5 are the fits of the slope, half a microsecond each
		call("OnAuthenticatedDatagramTimestamp", 40, received),
		// 1.1 where the baseline's stores cost 27 ns, more where they cost 9 ns.
		{
			name:  "OnAuthenticatedDatagramTimestamp/windowed minimum",
			limit: 3,
			duel:  duel{calls: calls, prepare: prepare, base: datagrams, ours: received},
		},
		// 2.4: an arrival sorts the last delays and counts in a histogram. Games and media have one
		// arrival for each piece.
		{
			name:  "jitter.Estimator.Add/datagram",
			limit: 15,
			duel:  duel{calls: calls, prepare: prepare, base: received, ours: arrived},
		},
		// 210 to 290: a report of ours is a sample of its way. Each call is another peer's, so caches
		// count, and machines differ by more than they do in the others. There is one a second.
		{"OnPeerMinDeltaTS24", 500, duel{calls: peers, prepare: func() {
			prepare()
			for i := range many {
				for range 120 {
					d := next(&feeds[i])
					many[i].OnAuthenticatedDatagramTimestamp(d.ts24, d.recv)
				}
				reports[i] = datagram{report(&feeds[i]), feeds[i].Now + Delay}
			}
		}, base: sums, ours: func(int) {
			for i, r := range reports {
				many[i].OnPeerMinDeltaTS24(r.ts24, r.recv)
			}
		}}},
		call("ToRemoteTime23", 5, func(n int) {
			each(n, func(i uint64) uint64 { ts, _ := ours.ToRemoteTime23(now + i<<8); return uint64(ts) })
		}),
		call("ToRemoteTime16", 5, func(n int) {
			each(n, func(i uint64) uint64 { ts, _ := ours.ToRemoteTime16(now + i<<8); return uint64(ts) })
		}),
		call("RemoteTime", 5, func(n int) {
			each(n, func(i uint64) uint64 { remote, _ := ours.RemoteTime(now + i<<8); return remote })
		}),
		call("MinimumOneWayDelay", 10, func(n int) {
			each(n, func(i uint64) uint64 {
				delay, _ := ours.MinimumOneWayDelay()
				return uint64(delay) + i
			})
		}),
		call("MinDeltaTS24", 10, func(n int) {
			each(n, func(i uint64) uint64 {
				delta, _ := ours.MinDeltaTS24(now + i<<8)
				return uint64(delta)
			})
		}),
	}
	return append(all, forgedCosts(t)...)
}

// BenchmarkCosts prints what each call costs, as a multiple of its baseline, and what it may
// cost: .ci/costs judges.
func BenchmarkCosts(b *testing.B) {
	for _, c := range costs(b) {
		b.Run(c.name, func(b *testing.B) {
			c.bench(b)
			b.ReportMetric(c.limit, "limit")
		})
	}
}

// assign copies what vet, for its atomics, would not have copied.
func assign[T any](to, from *T) { *to = *from }

// BenchmarkPeers: a million peers in one slice, each with 60 datagrams a second that come
// in random order, as they do to a server.
func BenchmarkPeers(b *testing.B) {
	if testing.Short() || bits.UintSize < 64 {
		b.Skip("needs 600 MB")
	}
	// Peers in a steady state: copies of some that got there.
	const models, calls, peers = 64, 4096, 1_000_000
	feeds := NewStreams(models)
	ours, base := make([]timesync.TimeSynchronizer, peers), make([]rivals.Original, peers)
	for i := range models {
		run(b, &feeds[i], &ours[i], &base[i], time.Duration(100+i)*time.Second)
	}
	end := feeds[models-1].Now
	for i := range models { // until they all have the same time
		for feeds[i].Now < end {
			both(&feeds[i], &ours[i], &base[i], next(&feeds[i]))
		}
	}
	for i := models; i < peers; i++ {
		assign(&ours[i], &ours[i%models])
		assign(&base[i], &base[i%models])
	}
	rng := rand.New(rand.NewPCG(7, 7))
	s, sent := &feeds[0], uint64(0)
	batch, who := make([]datagram, calls), make([]uint32, calls)
	d := duel{
		calls: calls,
		prepare: func() {
			for i := range batch {
				sent++
				now := end + sent*16_667/peers
				who[i] = rng.Uint32N(peers)
				delay := Delay + uint64(s.Jitter[rng.Uint32N(Jitters)])
				batch[i] = datagram{timesync.LocalTimeToDatagramTS24(s.Remote(now)), now + delay}
			}
		},
		ours: func(int) {
			sum := time.Duration(0)
			for i, d := range batch {
				owd, _ := ours[who[i]].OnAuthenticatedDatagramTimestamp(d.ts24, d.recv)
				sum += owd
			}
			sink += uint64(sum)
		},
		base: func(int) {
			sum := uint32(0)
			for i, d := range batch {
				sum += base[who[i]].Datagram(uint32(d.ts24), d.recv)
			}
			sink += uint64(sum)
		},
	}
	d.bench(b)
}
