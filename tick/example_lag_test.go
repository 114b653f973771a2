// How a server looks back in time to judge a shot.

package tick_test

import (
	"errors"
	"fmt"
	"math"
	"time"

	"timesync"
	"timesync/link"
	"timesync/tick"
)

// Lag compensation: a player aims at what is on the screen, and that is the server's
// past. So the shot names the instant that was shown, as a TS23 in the server's time, and
// the server looks back where the target was then.
//
// In Unity's Network Time System what a player does is named by predicted time, as the
// ticks of a Client are, and the server converts nothing. But what the player saw was
// server time, which is older by the round trip and the buffers. Josh Sutphin uses his
// network clock the other way round: who receives a stamped projectile moves it forward
// by its age.
func Example_lagCompensation() {
	g := newGallery()
	g.play(2 * time.Second)

	// The shot, on the client: at the target where it is drawn.
	now := g.clientUsec()
	clocks, _ := g.client.Snapshot(now)
	ago := clocks.SharedTime.Sub(clocks.ServerTime) // how old the picture is
	seen, _ := g.ours.ToRemoteTime23(now - uint64(ago.Microseconds()))
	aim := position(clocks.ServerTime.Duration())
	g.play(delay) // on its way

	// On the server.
	now = g.serverUsec
	judge := func(who string, seen timesync.Counter23) {
		age, err := lookBack(&g.theirs, seen, now)
		if err != nil {
			fmt.Printf("%s: %v\n", who, err)
			return
		}
		fmt.Printf("%s: %v ago, %d cm off\n",
			who, age.Round(time.Millisecond), centimeters(g.target(age)-aim))
	}
	second := timesync.NewCounter23(uint64(time.Second / (8 * time.Microsecond)))
	fmt.Printf("without looking back: %d cm off\n", centimeters(g.target(0)-aim))
	judge("an honest player", seen)
	judge("one that claims an older picture", seen.Sub(second))
	judge("one that claims the future", seen.Add(second))

	// A projectile, the other way: the server stamps it in the client's time.
	stamp, _ := g.theirs.ToRemoteTime23(now)
	g.play(delay)
	now = g.clientUsec()
	age := time.Duration(now-timesync.FromLocalTime23(now, stamp)) * time.Microsecond
	fmt.Printf("a projectile of 100 m/s starts %.2f m ahead\n", 100*age.Seconds())
	// Output:
	// without looking back: 45 cm off
	// an honest player: 97ms ago, 0 cm off
	// one that claims an older picture: 250ms ago, -77 cm off
	// one that claims the future: the picture is of the future
	// a projectile of 100 m/s starts 4.00 m ahead
}

// lookBack returns how long before nowUsec the instant was that a peer names, as far as
// it is believed. The peer's clock is known to within the error bound, so that an honest
// instant can lie that far in the future, but no farther. The bound is the server's own:
// no peer is asked how well to believe it.
func lookBack(
	peer *link.Link, seen timesync.Counter23, nowUsec uint64,
) (age time.Duration, err error) {
	const (
		maxBound = 100 * time.Millisecond // half of the longest round trip that can be played with
		maxAge   = 250 * time.Millisecond // who took cover earlier than that is not hit
	)
	bound, ok := peer.ErrorBound(nowUsec)
	age = time.Duration(int64(nowUsec-timesync.FromLocalTime23(nowUsec, seen))) * time.Microsecond
	switch {
	case !ok || bound > maxBound:
		return 0, errors.New("the clock of the player is not known well enough")
	case age < -bound:
		return 0, errors.New("the picture is of the future")
	}
	return min(max(age, 0), maxAge), nil
}

const (
	delay = 40 * time.Millisecond // each way
	ahead = 7_000_000             // the server's clock, unknown to the client, microseconds
)

// position is where the target is at a game time: it runs at 5 m/s.
func position(at time.Duration) (metres float64) { return 5 * at.Seconds() }

// gallery is a server, where a target moves, and a client, and the datagrams between.
type gallery struct {
	server       *tick.Server
	client       *tick.Client
	ours, theirs link.Link             // the client's, and the server's of this client
	serverUsec   uint64                // what the server's clock reads
	track        map[tick.Tick]float64 // where the target was at each tick
}

func newGallery() *gallery {
	g := &gallery{serverUsec: ahead + 1_000_000, track: map[tick.Tick]float64{}}
	onTick := func(s tick.Update) {
		g.track[s.Tick] = position(s.PredictedTime.Duration())
		delete(g.track, s.Tick-60) // a second is longer than anyone may look back
	}
	g.server, _ = tick.NewServer(tick.ServerConfig{Handlers: tick.Handlers{Tick: onTick}})
	g.client, _ = tick.NewClient(tick.ClientConfig{}, &g.ours)
	g.server.Start(g.serverUsec)
	g.client.Start(g.clientUsec())
	return g
}

func (g *gallery) clientUsec() uint64 { return g.serverUsec - ahead }

// play lets time pass, in frames of 10 ms with a datagram each way.
func (g *gallery) play(d time.Duration) {
	const frame = 10_000
	for range d / (frame * time.Microsecond) {
		g.serverUsec += frame
		server := g.serverUsec
		client := g.clientUsec()
		way := uint64(delay.Microseconds())
		g.server.Advance(server)
		g.theirs.ReadHeader(g.ours.AppendHeader(nil, client), server+way)
		g.ours.ReadHeader(g.theirs.AppendHeader(nil, server), client+way)
		if welcome, ok := g.server.Announce(1, server); ok {
			_ = g.client.OnWelcome(welcome, client)
		}
		g.client.Advance(client)
	}
}

// target returns where the target was some time ago, between two ticks if need be.
func (g *gallery) target(ago time.Duration) (metres float64) {
	now, _ := g.server.SharedTime(g.serverUsec)
	then := now.Add(-ago)
	at := g.track[then.Tick()]
	next := g.track[then.Tick()+1]
	if then.Tick() == now.Tick() { // the next tick has not run
		return at
	}
	return at + (next-at)*then.Fraction()
}

func centimeters(m float64) int { return int(math.Round(100 * m)) }
