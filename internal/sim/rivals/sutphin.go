// SPDX-License-Identifier: BSD-3-Clause

package rivals

// Sutphin is a handshake (Josh Sutphin, "Accurately syncing Unreal's network clock"):
// half the round trip of the first exchange, once for all. The zero value is ready to use.
type Sutphin struct{ pinged }

// OnExchange implements sim.Exchanger.
func (o *Sutphin) OnExchange(t1, t2, t3, t4 uint64) {
	if !o.synced {
		o.set(newEcho(t1, t2, t3, t4).offset)
	}
}
