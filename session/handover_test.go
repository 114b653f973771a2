package session

import (
	"sync"
	"testing"
	"time"
)

// handovers runs a world in which the host is killed, or gives up, every 6 s: ten times a minute.
// Who is killed starts anew 1 s later, with another clock.
func handovers(t *testing.T, seed uint64, n int, way path, ppm float64) *mesh {
	x := newMesh(t, seed, 5, way, ppm)
	host := x.peers[0]
	for i := range n {
		at := 15*time.Second + time.Duration(i)*6*time.Second
		x.w.At(at, func() {
			// One of those that have been there for a while takes over.
			var next *peer
			for next == nil || next == host || !x.settled(next) {
				next = x.peers[x.rng.IntN(len(x.peers))]
			}
			if old := host; x.rng.IntN(2) == 0 {
				old.alive = false
				x.w.At(at+time.Second, func() { x.restart(old) })
			}
			host = next
			// The others notice that after up to 2 s, or are told.
			x.w.At(at+time.Duration(x.rng.Int64N(int64(2*time.Second))), func() { x.host(next) })
		})
	}
	x.w.Run(15*time.Second + time.Duration(n)*6*time.Second)
	return x
}

// worlds runs n worlds on all processors and adds up what their judges say.
func worlds(n int, run func(i int) *mesh) *judge {
	var wg sync.WaitGroup
	var mu sync.Mutex
	sum := &judge{slack: 1e18}
	next := make(chan int)
	for range 2 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range next {
				x := run(i)
				mu.Lock()
				sum.add(&x.judge)
				mu.Unlock()
			}
		}()
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	return sum
}

func TestHandovers(t *testing.T) {
	for _, c := range []struct {
		name string
		way  path
	}{{"equal ways", bad}, {"unequal ways", unequal}} {
		j := worlds(10, func(i int) *mesh { return handovers(t, 490_000_000+uint64(i), 10, c.way, 50) })
		t.Logf("%s: %v", c.name, j)
	}
}
