// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"timesync/clock"
	"timesync/examples/seal"
	"timesync/examples/transfer/ledbat"
	"timesync/internal/stat"
	"timesync/rxtime"
)

const (
	gameEvery = time.Second / 60
	// So long the receiver answers after its end, if answers get lost.
	linger    = 2 * time.Second
	socketBuf = 4 << 20 // bytes: what may arrive while the machine is busy
)

// peer is one end: a socket, the seal, the game's datagrams, and the sender or receiver.
type peer struct {
	end    *seal.End
	conn   *net.UDPConn
	dial   netip.AddrPort // not valid: it listens
	report func(progress)
	begun  time.Time

	mu       sync.Mutex
	sender   *sender // one of them is nil
	receiver *receiver
	// One-way delays of the game's datagrams since the last report.
	game []time.Duration
	last uint64        // bytes at the last report
	wake chan struct{} // a message came: perhaps more may be sent
	err  error
	done bool
}

// run works until the file is there, something fails, or ctx ends.
func (p *peer) run(ctx context.Context) error {
	// Fewer losses on a busy machine, if it is allowed.
	_ = p.conn.SetReadBuffer(socketBuf)
	p.wake = make(chan struct{}, 1)
	var tasks sync.WaitGroup
	tasks.Go(func() { seal.Receive(rxtime.NewConn(p.conn), p.take) })
	p.begun = time.Now()
	p.loop(ctx)
	p.mu.Lock()
	err := p.err
	if err == nil && !p.done {
		err = errors.New("interrupted; run both ends again to go on")
	}
	if p.sender != nil && err != nil {
		p.send(over(err.Error()))
	}
	p.tell()
	p.mu.Unlock()
	p.conn.Close()
	tasks.Wait()
	if p.receiver != nil && !p.done {
		p.receiver.store.close() // what was written is there
	}
	return err
}

// loop sends what is due until the end.
func (p *peer) loop(ctx context.Context) {
	game, second := time.NewTicker(gameEvery), time.NewTicker(time.Second)
	defer game.Stop()
	defer second.Stop()
	var over time.Time
	for {
		p.mu.Lock()
		wait := p.pump()
		ended := p.done || p.err != nil
		p.mu.Unlock()
		if ended && over.IsZero() {
			over = time.Now()
		}
		if ended && (p.sender != nil || time.Since(over) > linger) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		case <-p.wake:
		case <-game.C:
			p.send(make([]byte, gameLen))
		case <-second.C:
			p.mu.Lock()
			p.tell()
			p.mu.Unlock()
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

// send seals and sends. An error is a loss like any other: the network may come back.
func (p *peer) send(message []byte) {
	if to := cmp.Or(p.dial, p.end.Peer().Addr); to.IsValid() {
		datagram := p.end.Seal(nil, message, clock.Now())
		_, _ = p.conn.WriteToUDPAddrPort(datagram, to)
	}
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
		_, _ = p.conn.WriteToUDPAddrPort(answer, from)
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

// progress is a line of the display, and of -json.
type progress struct {
	Seconds     float64
	Bytes, Size uint64  // that the receiver has, and of the file
	Rate        float64 // of the file, in the last second, Mbit/s
	Queue, Base float64 // sender: queueing delay and base delay, ms
	Lost        int     // sender: datagrams taken for lost
	GameP99     float64 // one-way delay of the game's datagrams to this end, ms
}

func (s progress) String() string {
	line := fmt.Sprintf("%5.0f s  %.1f of %.1f MB  %.2f Mbit/s", s.Seconds, float64(s.Bytes)/1e6, float64(s.Size)/1e6, s.Rate)
	if s.Base > 0 {
		line += fmt.Sprintf("  queue %.1f ms beyond %.1f ms  %d lost", s.Queue, s.Base, s.Lost)
	}
	return line + fmt.Sprintf("  game at p99 %.1f ms under way", s.GameP99)
}

// tell reports the progress of the last second.
func (p *peer) tell() {
	now := progress{Seconds: time.Since(p.begun).Seconds()}
	if s := p.sender; s != nil {
		queueing, base := s.cc.Queueing()
		now.Bytes, now.Size, now.Queue, now.Base, now.Lost = s.offer.without(s.left), s.offer.Size, ms(queueing), ms(base), s.losses
	} else if s := p.receiver.store; s != nil {
		now.Bytes, now.Size = s.offer.without(s.left), s.offer.Size
	}
	if len(p.game) > 0 {
		now.GameP99 = ms(stat.Quantile(p.game, 0.99))
	}
	now.Rate = float64(now.Bytes-min(p.last, now.Bytes)) * 8 / 1e6
	p.last, p.game = now.Bytes, p.game[:0]
	p.report(now)
}
