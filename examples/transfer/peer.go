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
	"timesync/examples/seal"
	"timesync/examples/transfer/ledbat"
	"timesync/internal/program"
)

const (
	gameEvery = time.Second / 60
	// So long the receiver answers after its end, if answers get lost.
	linger    = 2 * time.Second
	socketBuf = 4 << 20 // bytes: what may arrive while the machine is busy
	// After this time a role is asked again, whatever it waits for.
	look  = 20 * time.Millisecond
	shown = 100 * time.Microsecond // to so much delays are rounded
)

// role is what an end does: it sends a file or receives one. It knows no socket and no clock:
// times are local readings in microseconds. The error io.EOF says that all is there.
type role interface {
	// poll returns what to send, valid until the next call, or how long to wait for that, if it is
	// known.
	poll(nowUsec uint64) (message []byte, wait time.Duration, err error)
	// take takes a message of the other end, with what is known of its delay, and returns the answer,
	// if there is one.
	take(message []byte, delay ledbat.Delay, nowUsec uint64) (answer []byte, err error)
	// progress returns what there is of the file, and what else to print.
	progress() (there pieces, more string)
}

// peer is one end: a socket, the seal, the game's datagrams, and what it does.
type peer struct {
	*program.Socket
	end   *seal.End
	dial  netip.AddrPort // not valid: it listens
	out   io.Writer
	begun time.Time
	wake  chan struct{} // a message came: perhaps more may be sent

	mu sync.Mutex
	role
	game time.Duration // the longest delay of the game's datagrams since the last line
	last uint64        // bytes at the last line
	err  error
}

// run works until the file is there, something fails, or ctx ends.
func (p *peer) run(ctx context.Context) error {
	// Fewer losses on a busy machine, if it is allowed.
	_ = p.UDP.SetReadBuffer(socketBuf)
	p.begun, p.wake = time.Now(), make(chan struct{}, 1)
	p.Go(func() { seal.Receive(p, p.receive) })
	p.Every(gameEvery, func() { p.send(make([]byte, gameLen)) })
	p.Every(time.Second, p.tell)
	p.loop(ctx)
	if !p.dial.IsValid() {
		program.Sleep(ctx, linger) // receive answers meanwhile
	}
	p.mu.Lock()
	err := cmp.Or(p.err, errors.New("interrupted: run both ends again to resume"))
	if err == io.EOF {
		err = nil
	} else if p.dial.IsValid() {
		p.send(over(err))
	}
	p.mu.Unlock()
	p.Close()
	p.tell()
	return err
}

// loop sends what is due until the end.
func (p *peer) loop(ctx context.Context) {
	for ctx.Err() == nil {
		wait, ended := p.pump()
		if ended {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		case <-p.wake:
		}
	}
}

// pump sends what may be sent and returns how long to wait.
func (p *peer) pump() (wait time.Duration, ended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.err == nil {
		var message []byte
		message, wait, p.err = p.poll(clock.Now())
		if message == nil {
			break
		}
		p.send(message)
	}
	return cmp.Or(wait, look), p.err != nil
}

// send seals and sends.
func (p *peer) send(message []byte) {
	p.Write(p.end.Seal(nil, message, clock.Now()), cmp.Or(p.dial, p.end.Peer().Addr))
}

// receive takes a datagram.
func (p *peer) receive(datagram []byte, from netip.AddrPort, recvUsec uint64) {
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
		p.err = errors.New("the receiver is busy with another sender")
	}
	if err != nil {
		return
	}
	if len(d.Payload) > 0 && d.Payload[0] == kindGame && d.Known {
		p.game = max(p.game, d.OWD)
	}
	snapshot, _ := p.end.Link.Snapshot(recvUsec)
	delay := ledbat.NewDelay(d.OWD, snapshot.Steps, d.Known)
	answer, err = p.take(d.Payload, delay, clock.Now())
	p.err = cmp.Or(p.err, err)
	if answer != nil {
		p.send(answer)
	}
}

// tell prints the progress of the last second.
func (p *peer) tell() {
	p.mu.Lock()
	defer p.mu.Unlock()
	file, more := p.progress()
	bytes := file.bytes()
	rate := float64(bytes-min(p.last, bytes)) * 8 / 1e6
	there, all := float64(bytes)/1e6, float64(file.size)/1e6
	fmt.Fprintf(p.out, "%5.0f s  %.1f of %.1f MB  %.2f Mbit/s%s  game up to %v under way\n",
		time.Since(p.begun).Seconds(), there, all, rate, more, p.game.Round(shown))
	p.last, p.game = bytes, 0
}
