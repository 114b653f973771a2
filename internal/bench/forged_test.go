package bench

import (
	"bytes"
	"net/netip"
	"testing"

	"timesync/examples/seal"
)

// forgedCosts returns what it costs an end to refuse a datagram, compared with what one costs that
// it takes: a flood of forged datagrams must not be worse than one of honest ones.
func forgedCosts(t testing.TB) (all []cost) {
	const calls, payload, delay = 256, 100, 20_000
	key, from := [32]byte{1}, netip.MustParseAddrPort("192.0.2.1:1")
	client, server := seal.New(key, 0), seal.New(key, 1)
	now := uint64(1_000_000_000)
	sealed := func() []byte {
		now += 1000
		return client.Seal(nil, make([]byte, payload), now)
	}
	for known := false; !known; {
		_, answer, _ := server.Take(sealed(), from, now+delay, 0)
		client.Open(answer, from, now+2*delay)
		client.Open(server.Seal(nil, nil, now), from, now+delay)
		_, known = server.Link.Snapshot(now)
	}
	replayed := sealed()
	if _, _, err := server.Take(bytes.Clone(replayed), from, now+delay, 0); err != nil {
		t.Fatal(err)
	}
	recorded := seal.New(key, 0).Seal(nil, make([]byte, payload), now)

	var honest, bad [calls][]byte
	take := func(datagrams *[calls][]byte, accepted bool) func(n int) {
		return func(n int) {
			for _, b := range datagrams[:n] {
				d, _, err := server.Take(b, from, now+delay, 0)
				if (err == nil) != accepted {
					t.Fatalf("taken: %v, want %v", err, accepted)
				}
				sink += uint64(len(d.Payload))
			}
		}
	}
	for _, kind := range []struct {
		name  string
		forge func(genuine []byte) []byte
		limit float64
	}{
		{"forged", func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, 1},
		{"replayed", func([]byte) []byte { return bytes.Clone(replayed) }, 1},
		// This one draws a random number.
		{"recorded", func([]byte) []byte { return bytes.Clone(recorded) }, 1.5},
	} {
		prepare := func() {
			for i := range honest {
				honest[i] = sealed()
				bad[i] = kind.forge(bytes.Clone(honest[i]))
			}
		}
		d := duel{
			calls:   calls,
			prepare: prepare,
			base:    take(&honest, true),
			ours:    take(&bad, false),
		}
		name := "seal: one that is " + kind.name + " over one that is taken"
		all = append(all, cost{name, kind.limit, d})
	}
	return all
}
