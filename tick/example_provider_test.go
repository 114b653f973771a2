// A Provider of one's own, and slow motion.

package tick_test

import (
	"fmt"
	"time"

	"timesync/tick"
)

// fixedLead is the sample of Unity's Network Time System: all clocks run at the rate of the local
// clock, predicted time 100 ms ahead of server time, whatever the remote clock says later.
type fixedLead struct{}

const lead = 100 * time.Millisecond

func (fixedLead) InitializeClient(s *tick.Steering) {
	s.ServerTime.At = s.SharedTime.At // what the first Welcome and the remote clock say
	s.PredictedTime.At = s.ServerTime.At + lead
	s.ServerTime.Pace = tick.Pace{}
	s.SharedTime.Pace = tick.Pace{}
	s.PredictedTime.Pace = tick.Pace{}
}

func (fixedLead) AdvanceTime(s *tick.Steering) bool {
	s.ServerTime.Pace = tick.Pace{}
	s.SharedTime.Pace = tick.Pace{}
	s.PredictedTime.Pace = tick.Pace{}
	return true // no hard correction
}

// advance lets the client's time pass from one time to before another. The server says each second
// what its tick is.
func advance(client *tick.Client, server *remote, from, to uint64) {
	for now := from; now < to; now += 10_000 {
		if usec, _ := server.RemoteTime(now); now%1_000_000 == 0 {
			t := tick.Hz(60).Ticks(time.Duration(usec) * time.Microsecond)
			_ = client.OnWelcome(tick.Welcome{Epoch: 1, Rate: tick.Hz(60), Tick: t}, now)
		}
		client.Advance(now)
	}
}

// A game with a time of its own replaces how the clocks of a client begin and advance.
func ExampleProvider() {
	server := &remote{ahead: 5_000_000} // the server's clock
	client, _ := tick.NewClient(tick.ClientConfig{
		Config:   tick.Config{Provider: fixedLead{}},
		Handlers: tick.Handlers{Event: func(e tick.Event) { fmt.Println(e) }},
	}, server)
	client.Start(0)
	advance(client, server, 0, 5_000_000)
	server.ahead += 300_000 // the built-in one would step
	advance(client, server, 5_000_000, 10_010_000)
	clocks, _ := client.Snapshot(10_000_000)
	fmt.Println("server", clocks.ServerTime.Duration(),
		"predicted", clocks.PredictedTime.Duration())
	// Output:
	// synced
	// server 15s predicted 15.1s
}

// sharedTicks runs ticks in the time that all peers share, as netfox does: tick 1000 is then the
// same moment for everybody, and inputs for a tick arrive after it.
type sharedTicks struct{}

func (sharedTicks) InitializeClient(s *tick.Steering) { s.PredictedTime.At = s.SharedTime.At }

func (sharedTicks) AdvanceTime(s *tick.Steering) bool {
	for _, c := range []*tick.Steered{&s.SharedTime, &s.ServerTime} {
		c.Pace.Slew = c.Target - c.At
		c.Pace.SlewPPM = 10_000
	}
	s.PredictedTime.Pace = s.SharedTime.Pace
	s.PredictedTime.Pace.Slew = s.SharedTime.Target - s.PredictedTime.At
	return true
}

// A client whose ticks run in the shared time, 20 ms away from its server.
func ExampleProvider_sharedTicks() {
	server := &remote{ahead: 5_000_000}
	client, _ := tick.NewClient(tick.ClientConfig{Config: tick.Config{Provider: sharedTicks{}}},
		server)
	client.Start(0)
	advance(client, server, 0, 10_010_000)
	clocks, _ := client.Snapshot(10_000_000)
	fmt.Println("shared", clocks.SharedTime.Tick(), "predicted", clocks.PredictedTime.Tick())
	// Output: shared 900 predicted 900
}

// Slow motion is part of the game's state, not of game time: from a tick on, which a message names,
// each peer lets a tick move the world by half as much. Datagrams do not travel slower then, so
// the clocks and their buffers stay what they are.
func Example_slowMotion() {
	const from, to = 120, 240 // the server has told everybody well before
	var world time.Duration   // how far the world has moved
	onTick := func(t tick.Update) {
		step := t.Delta
		if t.Tick >= from && t.Tick < to {
			step /= 2
		}
		world += step
	}
	server, _ := tick.NewServer(tick.ServerConfig{Handlers: tick.Handlers{Tick: onTick}})
	server.Start(0)
	for now := uint64(0); now < 6_000_000; now += 10_000 {
		server.Advance(now)
	}
	shared, _ := server.SharedTime(6_000_000)
	fmt.Println("game time", shared.Duration(), "world", world.Round(time.Millisecond))
	// Output: game time 6s world 5s
}
