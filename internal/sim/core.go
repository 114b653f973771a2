package sim

import (
	"time"

	"timesync"
)

// Core is the module's synchronizer as an Estimator. The zero value is ready.
type Core struct{ Sync timesync.TimeSynchronizer }

func (c *Core) OnDatagram(ts24 uint32, recvUsec uint64) (time.Duration, bool) {
	return c.Sync.OnAuthenticatedDatagramTimestamp(timesync.Counter24(ts24), recvUsec)
}

func (c *Core) MinDelta(localUsec uint64) (uint32, bool) {
	d, ok := c.Sync.MinDeltaTS24(localUsec)
	return uint32(d), ok
}

func (c *Core) OnPeerMinDelta(delta uint32, recvUsec uint64) {
	c.Sync.OnPeerMinDeltaTS24(timesync.Counter24(delta), recvUsec)
}

func (c *Core) RemoteTime(localUsec, nearUsec uint64) (uint64, bool) {
	remote, ok := c.Sync.RemoteTime(localUsec)
	return nearUsec + uint64(int64((remote-nearUsec)<<38)>>38), ok
}

func (c *Core) MinOWD() (time.Duration, bool) { return c.Sync.MinimumOneWayDelay() }
