// SPDX-License-Identifier: BSD-3-Clause

// These tests prove that a player's side takes what comes from the other, and nothing else.

package main

import (
	"io"
	"log"
	"math/rand"
	"net/netip"
	"slices"
	"testing"
	"time"

	"timesync/examples/seal"
	"timesync/internal/badnet"
	"timesync/tick"
)

var somewhere = netip.MustParseAddrPort("127.0.0.1:9") // nobody listens

// server is a server whose time the test advances. It began 10 s ago.
type server struct {
	*serverSide
	begin, epoch uint64
	end          *seal.End // that of player 1; both ends have proven that they live
}

func newServerSide(t *testing.T) *server {
	t.Helper()
	side := newServer(open(t, netip.AddrPort{}), [32]byte{})
	now := side.clock.Now()
	s := &server{serverSide: side, begin: now - 10_000_000, end: connection([32]byte{}, 0, 0)}
	s.ticks.Start(s.begin)
	s.epoch, _ = s.ticks.Epoch()
	s.write = func(answer []byte, _ netip.AddrPort) { s.end.Open(answer, somewhere, now) }
	s.send(0, nil, now)
	return s
}

// start returns when tick n starts.
func (s *server) start(n tick.Tick) uint64 {
	return s.begin + uint64(tick.Hz(ticksPerSecond).Duration(n).Microseconds()) + 1
}

// send sends what player 1 has sealed, as from player number id + 1.
func (s *server) send(id byte, payload []byte, now uint64) {
	s.take(s.end.Seal([]byte{id}, payload, now), somewhere, now)
}

func open(t *testing.T, server netip.AddrPort) *node {
	n := newNode(config{}, badnet.Loopback(), server, log.New(io.Discard, "", 0))
	t.Cleanup(func() { n.Close() })
	return n
}

// Each input counts once: in time or late.
func TestInputs(t *testing.T) {
	s := newServerSide(t)
	p := s.players[0]
	p.reset(1)
	enter := func(newest tick.Tick, recvUsec uint64) {
		held := [resent]buttons{right, right, right, right}
		s.enter(p, input{Epoch: s.epoch, Newest: newest, Held: held}, recvUsec)
	}
	for n := tick.Tick(10); n <= 40; n++ {
		at := s.start(n)
		if n != 20 && n != 21 && n != 30 { // in time; those three only with those that follow
			enter(n, at-5_000)
		}
		s.ticks.Advance(at)
		switch n {
		case 15:
			enter(15, at) // again
			enter(17, at) // early, and then again
		case 21:
			enter(21, at+100) // with 20: both are late
		case 30:
			enter(30, at+2_000) // late
		}
	}
	if want := (counts{InTime: 28, Late: 3}); s.counts != want {
		t.Errorf("%+v, want %+v", s.counts, want)
	}
	// What was held goes on while nothing comes.
	if got, want := s.figures[0], figure(min(31*stride, yard)); got != want {
		t.Errorf("at %v, want %v", got, want)
	}
}

// Whatever comes, sealed or not, is refused or played, and neither side fails.
func TestAnyBytes(t *testing.T) {
	s, p := newServerSide(t), newPlayer(open(t, somewhere), [32]byte{}, 0)
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewSource(seed))
	for i := range 5000 {
		b := make([]byte, rng.Intn(120))
		rng.Read(b)
		now := s.start(tick.Tick(i / 50))
		s.take(slices.Clone(b), somewhere, now)
		p.take(slices.Clone(b), somewhere, now)
		s.send(0, b, now)
		near := tick.Tick(i/50 + rng.Intn(100) - 50)
		for _, newest := range []tick.Tick{near, tick.Tick(rng.Uint64())} { // right, but for the numbers
			s.send(0, append(encode(input{Epoch: s.epoch, Newest: newest}), b...), now)
		}
		s.ticks.Advance(now)
	}
	before := s.counts.InTime
	// Afterwards one can play as if nothing had been.
	for n := tick.Tick(100); n < 150; n++ {
		s.send(0, encode(input{Epoch: s.epoch, Newest: n}), s.start(n)-100)
		s.ticks.Advance(s.start(n))
	}
	ticks := s.ledger.ticks
	if ticks.ran != 150 || ticks.unreported != 0 || s.counts.InTime != before+50 {
		t.Errorf("%+v, %+v", ticks, s.counts)
	}
	if n := len(s.players[0].inputs); n > 500 {
		t.Errorf("%d inputs are remembered", n)
	}
}

// No player can speak for another, and nobody else at all.
func TestImpostor(t *testing.T) {
	s := newServerSide(t)
	now := s.start(1)
	s.send(1, encode(input{}), now)
	s.send(maxPlayers, encode(input{}), now)
	s.take(seal.New([32]byte{9}, 0).Seal([]byte{0}, encode(input{}), now), somewhere, now)
	if slices.ContainsFunc(s.players[:], func(p *player) bool { return p.session != 0 }) {
		t.Error("somebody is there")
	}
	s.send(0, encode(input{}), now)
	if s.players[0].session == 0 {
		t.Error("the one player is not")
	}
}

// A figure moves by its buttons, and stays in the yard. A player who predicted right is left
// alone, and one who did not goes on from where the server says, with all that was held since.
func TestCorrect(t *testing.T) {
	at := figure(yard - 1).move(right).move(right)
	if at != yard || at.move(left) != yard-stride || at.move(left|right) != yard || at.move(0) != at {
		t.Errorf("at %v", at)
	}
	p := newPlayer(open(t, somewhere), [32]byte{}, 0)
	p.correct(7, 100) // the first word of the server
	for n := tick.Tick(10); n <= 20; n++ {
		p.me, p.newest = p.me.move(right), n
		p.past[n] = right
	}
	p.correct(12, 100+3*stride)
	if p.counts.Corrected != 0 || p.me != 100+11*stride {
		t.Errorf("%d corrections, at %v", p.counts.Corrected, p.me)
	}
	p.correct(14, 105+4*stride) // an input was not there in time
	p.correct(15, 105+5*stride)
	if p.counts.Corrected != 1 || p.me != 105+10*stride {
		t.Errorf("%d corrections, at %v", p.counts.Corrected, p.me)
	}
}

// What is shown lies between the states that have arrived, where the time says.
func TestSeen(t *testing.T) {
	p := newPlayer(open(t, somewhere), [32]byte{}, 0)
	for _, n := range []tick.Tick{10, 11, 14} {
		s := state{Tick: n}
		s.Figures[3], s.Figures[4] = figure(n)*100, -figure(n)*100
		p.states[n], p.latest = s, n
	}
	for _, tt := range []struct {
		at   float64 // tick
		want figure
		ok   bool
	}{
		{10, 1000, true}, {10.5, 1050, true}, {11, 1100, true}, {12.5, 1250, true}, {13.75, 1375, true},
		{14.2, 1400, false}, {20, 1400, false}, {9, 0, false}, {1000, 0, false}, {-1000, 0, false},
	} {
		at := tick.Hz(ticksPerSecond).At(0, time.Duration(tt.at*float64(time.Second)/ticksPerSecond+1))
		got, ok := p.seen(at)
		if off := got[3] - tt.want; ok != tt.ok || off < -1 || off > 1 || got[4] != -got[3] {
			t.Errorf("at %v: %v, %v; want %v, %v", tt.at, got[3], ok, tt.want, tt.ok)
		}
	}
}
