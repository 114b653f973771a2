package main

import (
	"container/heap"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	relayDelay  = 30 * time.Millisecond
	jitterFloor = 0.4  // of the largest jitter: 4 of 10 ms
	reorderRate = 0.02 // datagrams held back long enough for others to overtake
	reorderHold = 30 * time.Millisecond
	attackRate  = 0.1 // injected datagrams for each that is forwarded
)

// relay is the network between the two peers of the demo, and the attacker on it.
type relay struct {
	conns      [2]*net.UDPConn   // conns[i] faces peer i
	peers      [2]netip.AddrPort // and this is where peer i is
	recordings [2][]byte         // of an earlier session of the other peer, for peer i
	jitter     time.Duration     // the largest
	loss       float64           // 0 to 1
	extra      [2]time.Duration  // for what comes from peer i
	attack     atomic.Bool       // inject

	mu       sync.Mutex
	rng      *rand.Rand
	queue    parcels
	injected [2]map[error]int // delivered to peer i, by the error that each deserves
	turn     int

	wake  chan struct{} // the head of the queue has changed
	stop  chan struct{}
	tasks sync.WaitGroup
}

// parcel is a datagram under way to peer to. kind is nil, or what an injected one
// must be refused as.
type parcel struct {
	due  time.Time
	to   int
	data []byte
	kind error
}

type parcels []parcel

func (q parcels) Len() int           { return len(q) }
func (q parcels) Less(i, j int) bool { return q[i].due.Before(q[j].due) }
func (q parcels) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *parcels) Push(x any)        { *q = append(*q, x.(parcel)) }
func (q *parcels) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	*q = (*q)[:last]
	return x
}

func (r *relay) start() {
	r.wake, r.stop = make(chan struct{}, 1), make(chan struct{})
	r.injected = [2]map[error]int{{}, {}}
	r.tasks.Go(r.deliver)
	for i := range r.conns {
		r.tasks.Go(func() { r.receive(i) })
	}
}

func (r *relay) close() {
	close(r.stop)
	for _, conn := range r.conns {
		conn.Close()
	}
	r.tasks.Wait()
}

func (r *relay) receive(from int) {
	buf := make([]byte, 2048)
	for {
		n, addr, err := r.conns[from].ReadFromUDPAddrPort(buf)
		now := time.Now()
		if err != nil {
			select {
			case <-r.stop:
				return
			case <-time.After(time.Millisecond):
				continue
			}
		}
		if addr == r.peers[from] {
			r.forward(from, append([]byte(nil), buf[:n]...), now)
		}
	}
}

func (r *relay) forward(from int, data []byte, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	to := 1 - from
	jitter := float64(r.jitter) * (jitterFloor + (1-jitterFloor)*r.rng.Float64())
	due := now.Add(relayDelay + r.extra[from] + time.Duration(jitter))
	if r.rng.Float64() < reorderRate {
		due = due.Add(time.Duration((0.5 + r.rng.Float64()) * float64(reorderHold)))
	}
	lost := r.rng.Float64() < r.loss
	if !lost {
		heap.Push(&r.queue, parcel{due, to, data, nil})
	}
	if r.attack.Load() && r.rng.Float64() < attackRate {
		r.inject(to, data, now, due, lost)
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// inject takes the kinds in turn. A forged datagram goes ahead of the true one: an
// early stamp is what would move a clock that believed it.
func (r *relay) inject(to int, data []byte, now, due time.Time, lost bool) {
	p := parcel{now, to, append([]byte(nil), data...), nil}
	switch r.turn++; r.turn % 4 {
	case 0:
		p.kind = ErrForged
		// Any bit but those of the length, which would make it look cut short.
		i := r.rng.IntN(len(data) - 2)
		if i >= headerLen-2 {
			i += 2
		}
		p.data[i] ^= 1 << r.rng.IntN(8)
	case 1:
		if lost {
			return // nobody has seen the true one: that would be a late delivery
		}
		p.kind, p.due = ErrReplayed, due.Add(5*time.Millisecond+time.Duration(r.rng.Int64N(3e8)))
	case 2:
		p.kind, p.data = ErrTruncated, p.data[:r.rng.IntN(len(data))]
	case 3:
		p.kind, p.data = ErrUnproven, append([]byte(nil), r.recordings[to]...)
	}
	heap.Push(&r.queue, p)
}

// deliver writes each datagram when it is due. Timers may be a millisecond late
// where sleeping is counted in milliseconds, so the last one passes awake.
func (r *relay) deliver() {
	const awake = time.Millisecond
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		r.mu.Lock()
		wait := time.Hour
		if len(r.queue) > 0 {
			wait = time.Until(r.queue[0].due)
		}
		if wait <= 0 {
			p := heap.Pop(&r.queue).(parcel)
			if p.kind != nil {
				r.injected[p.to][p.kind]++
			}
			r.mu.Unlock()
			_, _ = r.conns[p.to].WriteToUDPAddrPort(p.data, r.peers[p.to]) // an error is a loss
			continue
		}
		r.mu.Unlock()
		if wait <= awake {
			select {
			case <-r.stop:
				return
			default:
				runtime.Gosched()
			}
			continue
		}
		timer.Reset(wait - awake)
		select {
		case <-r.stop:
			return
		case <-r.wake:
		case <-timer.C:
		}
	}
}

// injections returns how many datagrams of that kind went to peer i.
func (r *relay) injections(i int, kind error) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.injected[i][kind]
}
