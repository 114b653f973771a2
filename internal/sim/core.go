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

// StartDatagram starts a datagram as the core wants it: the stamp, and what to report to the peer
// if there is anything.
func StartDatagram(s *timesync.TimeSynchronizer, nowUsec uint64) []byte {
	b := make([]byte, 7, 80)
	timesync.LocalTimeToDatagramTS24(nowUsec).Put(b)
	if d, ok := s.MinDeltaTS24(nowUsec); ok {
		b[3] = 1
		d.Put(b[4:])
	}
	return b
}

// OpenDatagram takes what StartDatagram started off a datagram that arrived, and returns the rest.
func OpenDatagram(s *timesync.TimeSynchronizer, b []byte, nowUsec uint64) []byte {
	s.OnAuthenticatedDatagramTimestamp(timesync.ReadCounter24(b), nowUsec)
	if b[3] == 1 {
		s.OnPeerMinDeltaTS24(timesync.ReadCounter24(b[4:]), nowUsec)
	}
	return b[7:]
}
