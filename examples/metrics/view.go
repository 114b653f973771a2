// SPDX-License-Identifier: BSD-3-Clause

package metrics

import (
	"sync"

	"timesync"
)

// View is the Clock of a peer that only another machine hears, such as a camera behind a relay. The
// relay sends what it knows, as Snapshot.AppendBinary writes it. Show it as any other peer:
//
//	view := metrics.NewView(&connectionToRelay)
//	collector.Add("camera", view)
//	err := view.Arrived(datagram[:63])
//
// What is shown adds up both parts: the bound is that of the relay's clock plus that of the
// camera's. Any goroutine may use a View at any time.
type View struct {
	relay Clock

	mu    sync.Mutex
	view  timesync.Snapshot
	seen  bool
	known uint32 // Steps of the chain, when it was last seen
	steps uint32 // how often that changed
}

// NewView makes a View. relay is what knows the clock of the machine that sends the snapshots.
// Make another one when that machine restarts: its snapshots are then about another clock.
func NewView(relay Clock) *View { return &View{relay: relay} }

// Arrived takes a snapshot that the relay sent. It must be proven to come from there. The error is
// that of Snapshot.UnmarshalBinary; then the View keeps what it has.
func (v *View) Arrived(snapshot []byte) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.view.UnmarshalBinary(snapshot)
}

// Snapshot implements Clock.
func (v *View) Snapshot(localUsec uint64) (snapshot timesync.Snapshot, ok bool) {
	toRelay, _ := v.relay.Snapshot(localUsec) // the zero value while unknown
	v.mu.Lock()
	defer v.mu.Unlock()
	snapshot = toRelay.Then(v.view)
	if !snapshot.Known() {
		return snapshot, false
	}
	// In a chain Steps is no count, but it changes with each step.
	if v.seen && snapshot.Steps != v.known {
		v.steps++
	}
	v.seen = true
	v.known = snapshot.Steps
	snapshot.Steps = v.steps
	return snapshot, true
}
