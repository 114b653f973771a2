// How a server, a client, a rhythm game and a physics engine use the package. The errors that are
// left out say that a configuration or a message is wrong.

package tick_test

import (
	"fmt"
	"time"

	"timesync/link"
	"timesync/tick"
)

// A server ticks and tells its clients what they need to know.
func Example_server() {
	server, _ := tick.NewServer(tick.ServerConfig{
		Config: tick.Config{Rate: tick.Hz(60)},
		Handlers: tick.Handlers{
			BeforeLoop: func() { /* read the network: inputs for the ticks to come */ },
			Tick: func(s tick.Update) {
				if s.Tick%30 == 0 {
					fmt.Printf("tick %d of %v at %v\n", s.Tick, s.Delta, s.SharedTime.Duration())
				}
			},
			Event: func(e tick.Event) { fmt.Println(e) },
		},
	})

	// In a program: go server.Run(ctx). Here the time is made up.
	now := uint64(5_000_000)
	server.Start(now)
	for range 100 { // frames of 10 ms
		server.Advance(now)
		now += 10_000
	}

	const peer = 7                           // whatever the game calls a connection
	welcome, _ := server.Announce(peer, now) // to every client on approval, and once a second
	message, _ := welcome.AppendBinary(nil)
	fmt.Println("tick", welcome.Tick, "in", len(message), "bytes")

	epoch, _ := server.Epoch()
	hello := tick.Hello{Epoch: epoch, Rate: tick.Hz(60)} // when a client is synchronized
	fmt.Println(server.OnHello(peer, hello))
	server.Advance(now)

	// Ticks that peers claim, and an input that is too late.
	for _, n := range []tick.Tick{30_060, 62, 59} {
		ok, late := server.AcceptInput(peer, epoch, n, now) // the next Welcome says when it came
		fmt.Println(n, ok, late)
	}
	// Output:
	// synced
	// tick 0 of 16.666667ms at 0s
	// tick 30 of 16.666667ms at 500ms
	// tick 60 in 36 bytes
	// <nil>
	// peer 7 synced
	// tick 60 of 16.666667ms at 1s
	// 30060 false false
	// 62 true false
	// 59 false true
}

// A client follows the server by the link of its connection, which every
// datagram feeds, and the Welcome of the server.
func Example_client() {
	var ours, theirs link.Link // the ends of the connection
	const ahead = 7_000_000    // the server's clock, unknown to the client

	client, _ := tick.NewClient(tick.ClientConfig{Handlers: tick.Handlers{
		Tick: func(s tick.Update) {
			// Read the input, play it at once, and send it for s.Tick.
			if s.Tick == 90 {
				fmt.Printf("tick %d: server at %v, shared %v\n", s.Tick, s.ServerTime, s.SharedTime)
			}
		},
		Event: func(e tick.Event) { fmt.Println(e) },
	}}, &ours)

	client.Start(0)
	// from the network
	welcome := tick.Welcome{Epoch: 1, Rate: tick.Hz(60), OriginUsec: ahead, Tick: 3}
	_ = client.OnWelcome(welcome, 50_000)
	// a frame, and 40 ms for a datagram each way
	for now := uint64(100_000); now <= 1_500_000; now += 10_000 {
		theirs.ReadHeader(ours.AppendHeader(nil, now), now+40_000+ahead)
		ours.ReadHeader(theirs.AppendHeader(nil, now+ahead), now+40_000)
		client.Advance(now)
	}
	// With every datagram, until a Welcome says that it was heard.
	if hello, ok := client.Hello(); ok {
		message, _ := hello.AppendBinary(nil)
		fmt.Println("send", len(message), "bytes")
	}
	// For drawing: others in server time, own things between the last two ticks.
	clocks, _ := client.Snapshot(1_500_000)
	fmt.Printf("draw others at %v\n", clocks.ServerTime.Duration().Round(time.Millisecond))
	fmt.Printf("draw own %.1f of a tick after the last\n", client.Fraction(1_500_000))
	// Output:
	// synced
	// tick 90: server at 82.19, shared 85.59
	// send 17 bytes
	// draw others at 1.443s
	// draw own 0.4 of a tick after the last
}

// remote is a server's clock that is ahead of the local one.
type remote struct{ ahead uint64 }

func (r *remote) RemoteTime(localUsec uint64) (uint64, bool) {
	return localUsec + r.ahead, true
}
func (r *remote) MinimumOneWayDelay() (time.Duration, bool) {
	return 20 * time.Millisecond, true
}
func (r *remote) Skew() (ppm float64, ok bool)                     { return 0, true }
func (r *remote) ErrorBound(uint64) (bound time.Duration, ok bool) { return time.Millisecond, true }

// In a rhythm game the clocks must run as the music does: they are never slewed, and
// set at once when they are too far off.
func Example_rhythm() {
	r := &remote{}
	client, _ := tick.NewClient(tick.ClientConfig{
		HardOnly:      true,
		HardThreshold: 50 * time.Millisecond,
		Handlers: tick.Handlers{Event: func(e tick.Event) {
			fmt.Println(e)
			if e.Kind == tick.EventStepped {
				fmt.Println("seek the music by", e.By)
			}
		}},
	}, r)
	client.Start(0)
	_ = client.OnWelcome(tick.Welcome{Epoch: 1, Rate: tick.Hz(60)}, 0)
	client.Advance(0)
	a, _ := client.Snapshot(0)
	r.ahead = 49_000 // within the threshold
	client.Advance(10_000_000 / 60)
	b, _ := client.Snapshot(10_000_000 / 60)
	fmt.Println(b.SharedTime.Sub(a.SharedTime))
	r.ahead = 51_000
	client.Advance(200_000)
	// Output:
	// synced
	// 166.666ms
	// stepped by 51ms, ticks 12 to 17 skipped
	// seek the music by 51ms
}

// A physics engine calls Step in its own fixed step: one tick each, although its
// calls are not exactly on time: none where it is early by a tick or more.
func Example_physics() {
	server, _ := tick.NewServer(tick.ServerConfig{
		Config:   tick.Config{Rate: tick.Hz(50)},
		Handlers: tick.Handlers{Tick: func(s tick.Update) { fmt.Print(s.Tick, " ") }},
	})
	server.Start(0)
	for _, now := range []uint64{1_000, 19_000, 19_500, 43_000, 58_000, 81_000, 160_000} {
		fmt.Print(server.AdvanceOne(now), "\n") // the last call came late, and made up for it
	}
	// Output:
	// 0 1
	// 1 1
	// 0
	// 2 1
	// 3 1
	// 4 1
	// 5 6 7 8 4
}

// Ticks and times convert exactly both ways.
func ExampleRate() {
	ntsc := tick.Rate{Num: 60000, Den: 1001}
	start := ntsc.Duration(60000)
	fmt.Println(start, ntsc.Ticks(start), ntsc.Ticks(start-1))

	t := tick.Hz(60).At(100, 5*time.Millisecond)
	fmt.Println(t, t.Duration(), t.Add(12*time.Millisecond), tick.Hz(30).At(0, t.Duration()))

	// adds ticks and offsets, at the same rate
	sum, _ := t.Plus(tick.Rate{Num: 120, Den: 2}.At(2, 15*time.Millisecond))
	_, err := t.Plus(tick.Hz(50).At(2, 0))
	fmt.Println(sum, err, tick.Time{}.Rate())
	// Output:
	// 16m41s 60000 59999
	// 100.29 1.671666667s 101.01 50.15
	// 103.19 tick: tick rate differs 60/s
}
