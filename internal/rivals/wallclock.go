// SPDX-License-Identifier: BSD-3-Clause

package rivals

// WallClock is the assumption of abs-send-time, that both wall clocks are right. It is
// granted that somebody set them when the method was first asked: it takes what it is told
// to be near for the truth, once. From then on they are on their own. The zero value is
// ready to use.
type WallClock struct{ pinged }

// RemoteTime implements sim.Estimator.
func (w *WallClock) RemoteTime(localUsec, nearUsec uint64) (uint64, bool) {
	if !w.synced {
		w.set(echo{offset: nearUsec - localUsec})
	}
	return w.pinged.RemoteTime(localUsec, nearUsec)
}
