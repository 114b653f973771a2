package timesync

import "time"

// TS24 is the stamp of a datagram: the sender's clock in units of 8 us. It wraps
// every 134.2 s (2^27 us), which leaves the 67.1 s on either side of now that the
// synchronizer needs. (TimeSync: LocalTimeToDatagramTS24.)
const (
	ts24Shift = 3  // 2^3 us a unit
	ts24Bits  = 24 // ring width
)

// processStart is where NowUsec counts from.
var processStart = time.Now()

// NowUsec returns the microseconds since the process started, for callers that
// have no clock of their own. It never goes back, wall-clock changes do not move
// it, and on most systems it stands still while the machine sleeps.
func NowUsec() uint64 { return uint64(time.Since(processStart) / time.Microsecond) }

// LocalTimeToDatagramTS24 returns the stamp for a datagram that is sent at
// localUsec, a reading of the local clock in microseconds: localUsec in units of
// 8 us, rounded down, modulo 134.2 s.
func LocalTimeToDatagramTS24(localUsec uint64) Counter24 {
	return NewCounter24(localUsec >> ts24Shift)
}
