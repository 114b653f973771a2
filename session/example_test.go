package session_test

import (
	"fmt"
	"time"

	"timesync/link"
	"timesync/session"
)

// Two peers, 1 and 2. The founder leaves, and the session time goes on.
func Example() {
	var at1, at2 link.Link // each end's view of the other; zero values are ready
	first := session.New(1)
	second := session.New(2)
	const delay, ahead = 20_000, 5_000_000_000 // us; the clock of peer 2 is 83 minutes ahead

	first.Create(1_000_000, 0) // session time 0 is when the clock of peer 1 shows 1 s
	for now := uint64(1_000_000); now < 3_000_000; now += 50_000 {
		at1.ReadHeader(at2.AppendHeader(nil, now+ahead), now+delay)
		var payload []byte
		if now%1_000_000 == 0 { // the host announces itself once a second
			payload, _ = first.Announce(nil, now)
		}
		datagram := append(at1.AppendHeader(nil, now), payload...)
		payload, _, _, _ = at2.ReadHeader(datagram, now+ahead+delay)
		if len(payload) > 0 {
			// The identity 1 comes from the connection, not from the payload.
			if err := second.Accept(1, &at2, payload, now+ahead+delay); err != nil {
				fmt.Println(err)
			}
		}
	}

	second.BecomeHost(ahead + 4_000_000) // peer 1 has left for good
	r, ok := second.Read(ahead + 11_000_000)
	sessionTime := time.Duration(r.Usec) * time.Microsecond
	fmt.Printf("%v, host %d, generation %d, bound %v: %v\n",
		sessionTime.Round(time.Millisecond),
		r.Host,
		r.Generation,
		r.Bound.Round(10*time.Millisecond),
		ok)
	// Output:
	// 10s, host 2, generation 2, bound 20ms: true
}
