package timesync

import "fmt"

func (s *TimeSynchronizer) DebugString() string {
	return fmt.Sprintf("n=%d w=%.2f k=%.0f noise=%.1f gate=%.1f mean=%.1f hold=%.1f own=%.1f peer=%.1f wait=%v steps=%d stale=%.1f R0=%.1f lev=%v g=%.1f", s.n, s.width/1e6, s.slope*1e6, s.noise/1e3, s.gate/1e3, float64(int(s.mean/500))/2, s.hold/1e3, s.own/1e3, s.peer/1e3, s.pending, s.steps, s.stale/1e3, float64(int(s.trusted/500))/2, s.levelN > 60, float64(int(s.peerGate()/400))/2.5)
}
