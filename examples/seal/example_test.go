// The example of the documentation: what it prints is what it says.

package seal_test

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"timesync/examples/seal"
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
		payload, owd, _, err := server.Open(datagram, clientAt, now+ahead+delay)
		switch {
		case errors.Is(err, seal.ErrUnproven): // a newcomer, or a recording
			if answer := server.Answer(nil, clientAt, now+ahead+delay, false); answer != nil {
				client.Open(answer, serverAt, now+2*delay)
			}
		case err == nil && now == 2_900_000:
			fmt.Printf("%s, sent %v ago, from %v\n",
				payload, owd.Round(time.Millisecond), server.Peer().Addr)
		}
		if server.Peer().Addr.IsValid() {
			client.Open(server.Seal(nil, nil, now+ahead), serverAt, now+delay)
		}
	}
	remote, ok := client.Link.RemoteTime(3_000_000)
	fmt.Println((time.Duration(remote) * time.Microsecond).Round(time.Millisecond), ok)
	// Output:
	// shot, sent 20ms ago, from 192.0.2.1:1
	// 8s true
}

// Several clients on one socket: a first byte in front of the sealed datagram says whose it
// claims to be, and so which End opens it. Each client has a key of its own, so that a false
// claim is forged. What is unproven gets its answer at once, and is never handed on.
func ExampleEnd_severalClients() {
	keyOf := func(id byte) [32]byte { return [32]byte{1, 2, 3, id} } // secrets, one for each client
	var ends [2]*seal.End                                            // the server's
	for id := range ends {
		ends[id] = seal.New(keyOf(byte(id)), 1)
	}
	var sessions [2]uint32
	serve := func(datagram []byte, from netip.AddrPort, now uint64) (answer []byte) {
		if len(datagram) == 0 || int(datagram[0]) >= len(ends) {
			return nil
		}
		id := datagram[0]
		d, answer, err := ends[id].Take(datagram[1:], from, now, 0)
		if err != nil {
			return answer
		}
		if d.Session != sessions[id] {
			// Forget here what the client said before it started anew.
			sessions[id] = d.Session
			fmt.Printf("client %d begins session %d\n", id, d.Session)
		}
		fmt.Printf("client %d says %s\n", id, d.Payload)
		return ends[id].Seal(nil, nil, now)
	}

	at := netip.MustParseAddrPort("192.0.2.1:1") // both behind one address
	server := netip.MustParseAddrPort("192.0.2.2:2")
	for start, id := range []byte{0, 1, 0} { // the first client starts twice
		client := seal.New(keyOf(id), 0)
		for i := range 2 {
			now := uint64(start*1_000_000 + i*100_000)
			if answer := serve(client.Seal([]byte{id}, []byte("hello"), now), at, now); answer != nil {
				client.Open(answer, server, now)
			}
		}
	}
	// Output:
	// client 0 begins session 1
	// client 0 says hello
	// client 1 begins session 1
	// client 1 says hello
	// client 0 begins session 2
	// client 0 says hello
}
