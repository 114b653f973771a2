// The example of the documentation: what it prints is what it says.

package seal_test

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"timesync/examples/internal/seal"
)

// Two ends in memory. A real program reads datagrams from a socket, and writes to the
// address that it dialled, or where it listens to that of Peer.
func Example() {
	const delay, ahead = 20_000, 5_000_000 // microseconds; the server's clock is ahead
	clientAt := netip.MustParseAddrPort("192.0.2.1:1")
	serverAt := netip.MustParseAddrPort("192.0.2.2:2")
	key := [32]byte{1, 2, 3} // a secret that both know
	client, server := seal.New(key, 0), seal.New(key, 1)

	for now := uint64(1_000_000); now < 3_000_000; now += 100_000 {
		datagram := client.Seal(nil, []byte("shot"), now)
		payload, owd, err := server.Open(datagram, clientAt, now+ahead+delay)
		switch {
		case errors.Is(err, seal.ErrUnproven): // a newcomer, or a recording
			if answer := server.Answer(nil, clientAt, now+ahead+delay, false); answer != nil {
				client.Open(answer, serverAt, now+2*delay)
			}
		case err == nil && now == 2_900_000:
			fmt.Printf("%s, sent %v ago, from %v\n", payload, owd.Round(time.Millisecond), server.Peer())
		}
		if server.Peer().IsValid() {
			client.Open(server.Seal(nil, nil, now+ahead), serverAt, now+delay)
		}
	}
	remote, ok := client.Link.RemoteTime(3_000_000)
	fmt.Println((time.Duration(remote) * time.Microsecond).Round(time.Millisecond), ok)
	// Output:
	// shot, sent 20ms ago, from 192.0.2.1:1
	// 8s true
}
