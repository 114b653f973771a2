// The quick start of the documentation: doc.go has its body.

package tick_test

import (
	"fmt"

	"timesync/link"
	"timesync/tick"
)

func Example() {
	var atClient, atServer link.Link // the two ends of a connection; see package link
	server, _ := tick.NewServer(tick.ServerConfig{})
	client, _ := tick.NewClient(tick.ClientConfig{Handlers: tick.Handlers{
		Tick: func(s tick.Update) { /* read the input, play it, send it with s.Tick */ },
	}}, &atClient)

	const delay, ahead, player = 30_000, 5_000_000, 1 // us, us; the server's name for the client
	server.Start(ahead)
	client.Start(0)
	for now := uint64(0); now < 2_000_000; now += 10_000 { // frames of 10 ms, client's clock
		// A datagram each way, with Hello or Welcome as its payload.
		atServer.ReadHeader(atClient.AppendHeader(nil, now), now+ahead+delay)
		if hello, ok := client.Hello(); ok {
			server.OnHello(player, hello)
		}
		atClient.ReadHeader(atServer.AppendHeader(nil, now+ahead), now+delay)
		if welcome, ok := server.Announce(player, now+ahead); ok && now%1_000_000 == 0 {
			client.OnWelcome(welcome, now+delay)
		}
		server.Advance(now + ahead) // runs the ticks that are due
		client.Advance(now)
	}

	clocks, _ := client.Snapshot(2_008_000)
	fmt.Println("others at tick", clocks.ServerTime.Tick(),
		"now", clocks.SharedTime.Tick(),
		"play", clocks.PredictedTime.Tick())
	// Output: others at tick 117 now 120 play 124
}
