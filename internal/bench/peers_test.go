// This benchmark measures what a datagram costs a server of many peers, beside the caches.
package bench

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"timesync"
	"timesync/internal/rivals"
)

// assign copies what vet, for its atomics, would not have copied.
func assign[T any](to, from *T) { *to = *from }

// BenchmarkPeers: many peers in one slice, each with 60 datagrams a second that come
// in random order, as they do to a server.
func BenchmarkPeers(b *testing.B) {
	for _, peers := range []int{1000, 10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(peers), func(b *testing.B) {
			if testing.Short() && peers > 100_000 || bits.UintSize < 64 {
				b.Skip("needs 500 MB")
			}
			// Peers in a steady state: copies of some that got there.
			const models, calls = 64, 4096
			feeds := NewStreams(models)
			model, modelBase := make([]timesync.TimeSynchronizer, models), make([]rivals.Original, models)
			for i := range model {
				run(b, &feeds[i], &model[i], &modelBase[i], time.Duration(100+i)*time.Second)
			}
			end := feeds[models-1].Now
			for i := range model { // until they all have the same time
				for feeds[i].Now < end {
					both(&feeds[i], &model[i], &modelBase[i], next(&feeds[i]))
				}
			}
			var before, between, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			ours := make([]timesync.TimeSynchronizer, peers)
			runtime.ReadMemStats(&between)
			base := make([]rivals.Original, peers)
			runtime.ReadMemStats(&after)
			for i := range ours {
				assign(&ours[i], &model[i%models])
				assign(&base[i], &modelBase[i%models])
			}
			rng := rand.New(rand.NewPCG(7, 7))
			s := &feeds[0]
			now, sent := end, 0
			batch, who := make([]datagram, calls), make([]uint32, calls)
			d := duel{
				calls: calls,
				prepare: func() {
					for i := range batch {
						sent++
						now = end + uint64(sent)*16_667/uint64(peers)
						who[i] = rng.Uint32N(uint32(peers))
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
			b.ReportMetric(float64(between.HeapAlloc-before.HeapAlloc)/float64(peers), "B/peer")
			b.ReportMetric(float64(after.HeapAlloc-between.HeapAlloc)/float64(peers), "base-B/peer")
			runtime.KeepAlive(ours)
			runtime.KeepAlive(base)
		})
	}
}
