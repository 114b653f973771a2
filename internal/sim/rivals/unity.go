// SPDX-License-Identifier: BSD-3-Clause

package rivals

import "time"

// Unity is the push of Unity's Netcode for GameObjects (NetworkTimeSystem): once a second
// the server pushes its time, half the transport's round trip is added, and the clock goes
// there at 1 % of the speed of time, or at once if it is more than 0.2 s off. The buffers
// that the clients put on top are left out. The stamp of a datagram counts as the push: 24-bit
// stamps are enough, since worlds judge offsets modulo 67.1 s. The zero value is ready to use.
type Unity struct {
	Silent
	offset uint64 // of the last push, microseconds
	at     uint64 // local time of its arrival
	synced bool
	rtt    uint64 // the transport's, microseconds
	asked  bool   // it is known
	clock  int64  // what the clock still has to go from the target, microseconds
	moved  uint64 // local time at which that was so
}

// OnExchange implements sim.Exchanger: the transport measures its round trip.
func (u *Unity) OnExchange(t1, t2, t3, t4 uint64) {
	u.follow(t4)
	was := u.target()
	u.rtt, u.asked = newEcho(t1, t2, t3, t4).rtt, true
	u.retarget(was)
}

// OnDatagram implements sim.Estimator.
func (u *Unity) OnDatagram(ts24 uint32, recvUsec uint64) (time.Duration, bool) {
	u.follow(recvUsec)
	was, first := u.target(), !u.synced
	if first || recvUsec-u.at >= 1_000_000 {
		u.offset, u.at, u.synced = uint64(ts24)<<stampShift-recvUsec, recvUsec, true
		if !first {
			u.retarget(was)
		}
	}
	return age(ts24, recvUsec+u.target()+uint64(u.clock)), u.asked
}

// target returns the offset at which the clock aims.
func (u *Unity) target() uint64 { return u.offset + u.rtt/2 }

// retarget leaves the clock where it is, for the target was elsewhere, or jumps.
func (u *Unity) retarget(was uint64) {
	const hardReset = 200_000 // microseconds
	u.clock += int64((was-u.target())<<37) >> 37
	if max(u.clock, -u.clock) > hardReset {
		u.clock = 0
	}
}

// follow lets the clock go towards the target until localUsec.
func (u *Unity) follow(localUsec uint64) {
	step := int64(localUsec-u.moved) / 100
	if step == 0 {
		return // too early for a microsecond
	}
	u.moved = localUsec
	if step > 0 { // else the local clock went back
		u.clock = max(u.clock-step, 0) + min(u.clock+step, 0)
	}
}

// RemoteTime implements sim.Estimator.
func (u *Unity) RemoteTime(localUsec, nearUsec uint64) (uint64, bool) {
	u.follow(localUsec)
	return nearest(localUsec+u.target()+uint64(u.clock), nearUsec), u.synced && u.asked
}
