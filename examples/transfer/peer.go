// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"time"

	"timesync/clock"
	"timesync/examples/internal/program"
	"timesync/examples/seal"
	"timesync/examples/transfer/ledbat"
	"timesync/internal/stat"
)

const (
	gameEvery = time.Second / 60
	// So long the receiver answers after its end, if answers get lost.
	linger    = 2 * time.Second
	socketBuf = 4 << 20 // bytes: what may arrive while the machine is busy
)

// peer is one end: a socket, the seal, the game's datagrams, and the sender or receiver.
type peer struct {
	*program.Socket
	end   *seal.End
	dial  netip.AddrPort // not valid: it listens
	out   io.Writer
	begun time.Time
	wake  chan struct{} // a message came: perhaps more may be sent

	mu       sync.Mutex
	sender   *sender // one of them is nil
	receiver *receiver
	// One-way delays of the game's datagrams since the last line.
	game []time.Duration
	last uint64 // bytes at the last line
	err  error
	done bool
}

// run works until the file is there, something fails, or ctx ends.
func (p *peer) run(ctx context.Context) error {
	// Fewer losses on a busy machine, if it is allowed.
	_ = p.UDP.SetReadBuffer(socketBuf)
	p.begun, p.wake = time.Now(), make(chan struct{}, 1)
	p.Go(func() { seal.Receive(p.Rx, p.take) })
	p.Every(gameEvery, func() { p.send(make([]byte, gameLen)) })
	p.Every(time.Second, p.tell)
	p.loop(ctx)
	p.mu.Lock()
	if p.err == nil && !p.done {
		p.err = errors.New("interrupted; run both ends again to go on")
	}
	if p.sender != nil && p.err != nil {
		p.send(over(p.err.Error()))
	}
	p.mu.Unlock()
	p.Close()
	p.tell()
	if p.receiver != nil && !p.done {
		p.receiver.store.close() // what was written is there
	}
	return p.err
}

// loop sends what is due until the end.
func (p *peer) loop(ctx context.Context) {
	var lingered <-chan time.Time
	for {
		p.mu.Lock()
		wait := p.pump()
		ended := p.done || p.err != nil
		p.mu.Unlock()
		if ended && p.sender != nil {
			return
		}
		if ended && lingered == nil {
			lingered = time.After(linger)
		}
		select {
		case <-ctx.Done():
			return
		case <-lingered:
			return
		case <-time.After(wait):
		case <-p.wake:
		}
	}
}

// pump sends what may be sent and returns how long to wait.
func (p *peer) pump() (wait time.Duration) {
	const most = time.Second
	if p.receiver != nil {
		p.done, p.err = p.receiver.poll(clock.Now())
		return most / 10
	}
	for p.done = p.sender.over; !p.done && p.err == nil; {
		var message []byte
		if message, wait, p.err = p.sender.poll(clock.Now()); message == nil {
			return min(wait, most)
		}
		p.send(message)
	}
	return most
}

// send seals and sends.
func (p *peer) send(message []byte) {
	p.Write(p.end.Seal(nil, message, clock.Now()), cmp.Or(p.dial, p.end.Peer().Addr))
}

// take takes a datagram.
func (p *peer) take(datagram []byte, from netip.AddrPort, recvUsec uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
	d, answer, err := p.end.Take(datagram, from, recvUsec, patience*time.Microsecond)
	if answer != nil {
		p.Write(answer, from)
	}
	if err == seal.ErrRefused {
		p.err = errors.New("the receiver serves another sender")
	}
	if err != nil {
		return
	}
	if len(d.Payload) > 0 && d.Payload[0] == kindGame && d.Known {
		p.game = append(p.game, d.OWD)
	}
	now := clock.Now()
	if p.sender != nil {
		p.err = cmp.Or(p.err, p.sender.take(d.Payload, now))
		return
	}
	snapshot, _ := p.end.Link.Snapshot(recvUsec)
	delay := ledbat.NewDelay(d.OWD, snapshot.Steps, d.Known)
	if answer := p.receiver.take(d.Payload, delay, now); answer != nil {
		p.send(answer)
	}
}

// tell prints the progress of the last second.
func (p *peer) tell() {
	p.mu.Lock()
	defer p.mu.Unlock()
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	var file pieces
	queue, p99 := "", 0.0
	if s := p.sender; s != nil {
		file = s.pieces
		if queueing, base := s.cc.Queueing(); base > 0 {
			queue = fmt.Sprintf("  queue %.1f ms beyond %.1f ms  %d lost", ms(queueing), ms(base), s.losses)
		}
	} else if s := p.receiver.store; s != nil {
		file = s.pieces
	}
	if len(p.game) > 0 {
		p99 = ms(stat.Quantile(p.game, 0.99))
	}
	bytes := file.bytes()
	rate := float64(bytes-min(p.last, bytes)) * 8 / 1e6
	fmt.Fprintf(p.out, "%5.0f s  %.1f of %.1f MB  %.2f Mbit/s%s  game at p99 %.1f ms under way\n",
		time.Since(p.begun).Seconds(), float64(bytes)/1e6, float64(file.Size)/1e6, rate, queue, p99)
	p.last, p.game = bytes, p.game[:0]
}
