// SPDX-License-Identifier: BSD-3-Clause

// The example of the documentation: what it prints is what it says.

package link_test

import (
	"fmt"

	"timesync/link"
)

// Two peers in memory. A real program seals what AppendHeader and the payload make, sends
// it, and opens it at the other end before it calls Open.
func Example() {
	const delay, ahead = 20_000, 1 << 50 // microseconds; the server's clock is 35 years ahead
	var client, server link.Link         // one for each connection; zero values are ready

	exchange := func(now uint64, shot string) (received string) {
		datagram := append(client.AppendHeader(nil, now), shot...)
		payload, _, _, err := server.Open(datagram, now+ahead+delay)
		if err != nil {
			return err.Error()
		}
		client.Open(server.AppendHeader(nil, now+ahead), now+delay)
		return string(payload)
	}
	for now := uint64(1_000_000); now < 2_000_000; now += 100_000 {
		exchange(now, "")
	}
	fmt.Println(exchange(2_000_000, "bang"))

	remote, ok := client.RemoteTime(3_000_000)
	fmt.Println((remote-3_000_000-ahead+500)/1000, "ms off,", ok)
	bound, _ := client.ErrorBound(3_000_000)
	fmt.Println("known to", bound.Milliseconds(), "ms")
	// Output:
	// bang
	// 0 ms off, true
	// known to 21 ms
}
