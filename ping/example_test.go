// The examples of the documentation: what they print is what they say.

package ping

import (
	"fmt"
	"io"
	"net"
	"time"
)

// A client and a server over one stream, as a TCP connection or a WebSocket would
// be. The messages have a fixed length; among other messages, put them into frames.
// In a real program both sides read a monotonic clock, such as that of package clock; here
// it is a fixed one, so that the output is always the same.
func Example() {
	client, server := net.Pipe()
	now := uint64(1_000_000)           // the client's clock
	serverNow := uint64(9_000_000_000) // the server's

	// The server answers each request with the times it came and left.
	go func() {
		request := make([]byte, RequestSize)
		for {
			if _, err := io.ReadFull(server, request); err != nil {
				return
			}
			recv := serverNow
			reply, ok := AppendReply(nil, request, 0, recv, serverNow)
			if !ok {
				return // not our protocol
			}
			server.Write(reply)
		}
	}()

	// The client asks whenever it is time, until it knows enough.
	var clock Clock
	reply := make([]byte, ReplySize)
	for clock.Next(now) == 0 {
		client.Write(clock.AppendRequest(nil, now))
		if _, err := io.ReadFull(client, reply); err != nil {
			fmt.Println(err)
			return
		}
		now += 300 // microseconds there and back
		fmt.Println(clock.HandleReply(reply, now))
	}
	client.Close()

	remote, _ := clock.RemoteTime(now + 2_000_000) // two seconds later
	bound, _ := clock.ErrorBound(now)
	fmt.Println(remote, bound, clock.Next(now).Round(10*time.Millisecond))
	// Output:
	// synced
	// 9002000150 213µs 100ms
}

// The projectile of Josh Sutphin's article: the server spawned it and sent where,
// how fast and when; the client moves it forward by the lag.
func ExampleClock_RemoteTime() {
	// The client started later and knows the server's clock from one exchange.
	var clock Clock
	request := clock.AppendRequest(nil, 10_000_000)                  // client time 10 s
	reply, _ := AppendReply(nil, request, 0, 60_050_000, 60_050_000) // 50 ms there
	clock.HandleReply(reply, 10_100_000)                             // 50 ms back

	// The server's message: a projectile at 100 m, 20 m/s, at server time 61 s.
	position := 100.0
	velocity := 20.0
	timestamp := uint64(61_000_000)

	// It arrives at client time 11.25 s.
	networkTime, _ := clock.RemoteTime(11_250_000)
	lag := time.Duration(int64(networkTime-timestamp)) * time.Microsecond
	position += velocity * lag.Seconds()
	fmt.Printf("lag %v, position %.1f m\n", lag.Round(time.Millisecond), position)
	// Output: lag 250ms, position 105.0 m
}
