// SPDX-License-Identifier: BSD-3-Clause

package rivals

import "time"

// WallClock is the assumption of abs-send-time, that both wall clocks are right. It is
// granted that somebody set them when the method was first asked: it takes what it is told
// to be near for the truth, once. From then on they are on their own. The zero value is
// ready to use.
type WallClock struct {
	silent
	offset uint64 // microseconds
	set    bool
}

// OnDatagram implements sim.Estimator: the stamp's age by the wall clock.
func (w *WallClock) OnDatagram(ts24 uint32, recvUsec uint64) (time.Duration, bool) {
	return age(ts24, recvUsec+w.offset), w.set
}

// RemoteTime implements sim.Estimator.
func (w *WallClock) RemoteTime(localUsec, nearUsec uint64) (uint64, bool) {
	if !w.set {
		w.offset, w.set = nearUsec-localUsec, true
	}
	return localUsec + w.offset, true
}
