// The examples of the documentation: what they print is what they say.

package link_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"timesync"
	"timesync/clock"
	"timesync/link"
)

func Example() {
	var client, server link.Link               // each end's view of the other; zero values are ready
	const delay, ahead = 20_000, 5_000_000_000 // microseconds; the server's clock is 83 minutes ahead
	for now := uint64(1_000_000); now < 2_000_000; now += 100_000 {
		// What AppendHeader appends goes in front of the payload, inside what you encrypt.
		server.ReadHeader(append(client.AppendHeader(nil, now), "input"...), now+ahead+delay)
		client.ReadHeader(append(server.AppendHeader(nil, now+ahead), "state"...), now+delay)
	}
	remote, ok := client.RemoteTime(2_000_000) // the server's clock when the client's shows 2 s
	bound, _ := client.ErrorBound(2_000_000)   // how far off that can be, however unequal the two ways
	shows := time.Duration(remote) * time.Microsecond
	fmt.Println(shows.Round(time.Millisecond), ok, bound.Round(time.Millisecond))
	// Output: 1h23m22s true 20ms
}

// Two peers act at an instant that they agree on, as when they start a song together or
// open a path through two NATs: one of them proposes it in the other's time.
func Example_agreedInstant() {
	var ours, theirs link.Link // of two peers

	// In microseconds. Their clock is 83 minutes ahead.
	const delay, ahead = 20_000, 5_000_000_000
	for now := uint64(1_000_000); now < 2_000_000; now += 100_000 {
		theirs.ReadHeader(ours.AppendHeader(nil, now), now+ahead+delay)
		ours.ReadHeader(theirs.AppendHeader(nil, now+ahead), now+delay)
	}

	// We propose to act half a second from now. The instant is 3 bytes of the next datagram.
	const now, after = 2_000_000, 500_000
	const within = 50 * time.Millisecond
	instant, err := ours.ProposeInstant(now, now+after, within)

	heard := uint64(now + ahead + delay) // on their clock
	at, late := link.AcceptInstant(heard, instant)
	wait := time.Duration(at-heard) * time.Microsecond
	fmt.Println("they act", wait.Round(time.Millisecond), "after they hear it,", err, late)

	// Later than link.MaxAhead an instant would be taken for past, without any sign.
	_, err = ours.ProposeInstant(now, now+17_000_000, within)
	fmt.Println(errors.Is(err, link.ErrAhead))
	// Output:
	// they act 480ms after they hear it, <nil> <nil>
	// true
}

// A client joins when it knows the server's clock, and says why when it cannot.
func ExampleLink_Wait() {
	var client, server link.Link
	go func() { // a real program's receiving goroutine
		const delay, ahead = 20_000, 5_000_000_000 // microseconds
		for now := uint64(1_000_000); now < 2_000_000; now += 100_000 {
			server.ReadHeader(client.AppendHeader(nil, now), now+ahead+delay)
			client.ReadHeader(server.AppendHeader(nil, now+ahead), now+delay)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fmt.Println("known:", client.Wait(ctx, 30*time.Millisecond) == nil)

	cancel() // or a timeout
	err := client.Wait(ctx, 10*time.Millisecond)
	fmt.Println(err)
	fmt.Println(errors.Is(err, context.Canceled), errors.Is(err, timesync.ErrWide))
	// Output:
	// known: true
	// link: context canceled: timesync: the error bound exceeds the tolerance
	// true true
}

// What the server's clock shows, and when it will show something, as a time.Time: clock.Time leads
// there from a reading of this machine's clock, time.UnixMicro from one that counts from 1970.
func ExampleLink_clock() {
	var client, server link.Link
	const delay = 20_000 // microseconds
	now := clock.Now()   // this machine's clock

	// The server's clock counts from 1970.
	serverNow := time.Date(2026, 12, 31, 23, 59, 59, 0, time.UTC)
	ahead := uint64(serverNow.UnixMicro()) - now

	for at := now - 2_000_000; int64(now-at) > 0; at += 100_000 {
		server.ReadHeader(client.AppendHeader(nil, at), at+ahead+delay)
		client.ReadHeader(server.AppendHeader(nil, at+ahead), at+delay)
	}

	remote, _ := client.RemoteTime(now)
	there := time.UnixMicro(int64(remote)).UTC().Round(time.Second)
	fmt.Println("there it is", there.Format(time.DateTime))

	fireworks := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	view, _ := client.Snapshot(now)
	local := view.LocalTime(uint64(fireworks.UnixMicro()))
	fmt.Println("here that is in", clock.Time(local).Sub(clock.Time(now)).Round(time.Millisecond))
	// Output:
	// there it is 2026-12-31 23:59:59
	// here that is in 1s
}
