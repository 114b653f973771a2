// SPDX-License-Identifier: BSD-3-Clause

// Package rivals is what others do to learn a peer's clock, each in one file, faults
// included: the methods with which the project compares itself on identical packets.
// All are a sim.Estimator, and those that ask the peer a sim.Exchanger, so TimeSync's
// counters are plain integers here. Nothing in it is for use.
package rivals

import "time"

const (
	stampShift = 3         // a stamp counts 8 us
	ringMask   = 1<<24 - 1 // a stamp or report has 24 bits
)

// stamp returns the 24-bit stamp of a clock reading in microseconds.
func stamp(usec uint64) uint32 { return uint32(usec>>stampShift) & ringMask }

// nearest returns the reading nearest to near that equals usec modulo 2^26 us, which is
// all that 24-bit stamps tell of an offset: 67.1 s.
func nearest(usec, near uint64) uint64 { return near + uint64(int64((usec-near)<<38)>>38) }

// age returns how long a datagram with that stamp was under way if the remote clock reads
// remoteUsec on arrival. It is known modulo 2^27 us, and may be negative.
func age(ts24 uint32, remoteUsec uint64) time.Duration {
	return time.Duration(int64((remoteUsec-uint64(ts24)<<stampShift)<<37)>>37) * time.Microsecond
}

// Silent is what methods have in common that make no report to the peer.
type Silent struct{}

// MinDelta implements sim.Estimator.
func (Silent) MinDelta(uint64) (uint32, bool) { return 0, false }

// OnPeerMinDelta implements sim.Estimator.
func (Silent) OnPeerMinDelta(uint32, uint64) {}

// pinged is what the estimators from request and response have in common: an offset,
// remote minus local clock.
type pinged struct {
	Silent
	offset uint64 // microseconds, modulo 2^64
	synced bool
	last   uint64 // t1 of the last exchange that was used
	used   bool   // there was one
}

// pingEvery is how often a world's ends ask each other: what netfox does, and others take
// fewer.
const pingEvery = time.Second / 4

// OnDatagram implements sim.Estimator: the stamp's age at the estimated offset.
func (p *pinged) OnDatagram(ts24 uint32, recvUsec uint64) (time.Duration, bool) {
	if !p.synced {
		return 0, false
	}
	return age(ts24, recvUsec+p.offset), true
}

// RemoteTime implements sim.Estimator.
func (p *pinged) RemoteTime(localUsec, _ uint64) (uint64, bool) {
	return localUsec + p.offset, p.synced
}

// due reports whether every has passed since the last exchange that was used, and
// uses this one if so. Half a ping is allowed for the phase.
func (p *pinged) due(t1 uint64, every time.Duration) bool {
	if p.used && t1-p.last < uint64((every-pingEvery/2)/time.Microsecond) {
		return false
	}
	p.last, p.used = t1, true
	return true
}

func (p *pinged) set(offset uint64) { p.offset, p.synced = offset, true }

// echo is an exchange: offset and round trip in microseconds.
type echo struct{ offset, rtt uint64 }

func newEcho(t1, t2, t3, t4 uint64) echo {
	there, back := t2-t1, t3-t4 // offset + delay, offset - delay
	return echo{there + uint64(int64(back-there)>>1), (t4 - t1) - (t3 - t2)}
}
