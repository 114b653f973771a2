// How a program tests a protocol that keeps time by package link: two ends with goroutines of their
// own run in a bubble of testing/synctest, over a network in memory. Ten seconds of traffic take no
// time, and the result does not depend on how busy the machine is.
package link_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"timesync/link"
)

// player is one end, as in a game: it sends 60 datagrams a second, and receives.
type player struct {
	link.Link
	nowUsec func() uint64 // in the bubble no two ends have the same clock, as elsewhere
	inbox   chan []byte
}

func newPlayer(aheadUsec uint64) *player {
	start := time.Now()
	return &player{
		nowUsec: func() uint64 { return uint64(time.Since(start).Microseconds()) + aheadUsec },
		inbox:   make(chan []byte, 100),
	}
}

// run is the protocol: what a real program does with a socket.
func (p *player) run(ctx context.Context, send func(datagram []byte)) {
	frame := time.NewTicker(time.Second / 60)
	defer frame.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-frame.C:
			send(append(p.AppendHeader(nil, p.nowUsec()), "input"...))
		case datagram := <-p.inbox:
			p.ReadHeader(datagram, p.nowUsec())
		}
	}
}

// network delivers datagrams to an inbox: each takes the delay and up to a fifth more, and one of
// twenty is lost.
func network(rng *rand.Rand, delay time.Duration, inbox chan<- []byte) (send func([]byte)) {
	return func(datagram []byte) {
		if rng.IntN(20) > 0 {
			jitter := time.Duration(rng.Int64N(int64(delay / 5)))
			time.AfterFunc(delay+jitter, func() { inbox <- datagram })
		}
	}
}

// TestInBubble is such a test: both players know the other's clock within half a second, to 2 ms
// after ten.
func TestInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const seed = 1
		a, b := newPlayer(0), newPlayer(5_000_000_000) // clocks 83 minutes apart
		ctx, stop := context.WithCancel(t.Context())
		go a.run(ctx, network(rand.New(rand.NewPCG(seed, 'a')), 30*time.Millisecond, b.inbox))
		go b.run(ctx, network(rand.New(rand.NewPCG(seed, 'b')), 30*time.Millisecond, a.inbox))

		soon, cancel := context.WithTimeout(ctx, time.Second/2)
		defer cancel()
		for _, p := range []*player{a, b} {
			if err := p.Wait(soon, 50*time.Millisecond); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		}

		time.Sleep(10 * time.Second)
		remote, ok := a.RemoteTime(a.nowUsec())
		off := time.Duration(remote-b.nowUsec()) * time.Microsecond
		if !ok || off.Abs() > 2*time.Millisecond {
			t.Errorf("seed %d: a knows b's clock to %v, %v", seed, off, ok)
		}
		stop()
	})
}
