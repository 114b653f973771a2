// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"net"
	"net/netip"
	"reflect"
	"time"

	"timesync"
	"timesync/clock"
	"timesync/internal/sim"
	"timesync/rxtime"
)

// subject is this package's synchronizer as the worlds see it. All that the module uses of
// package timesync and its folders stands in this file, but recordings are in recording.go.
type subject struct{ sim.Core }

// ErrorBound implements bounded.
func (s *subject) ErrorBound(localUsec uint64) (time.Duration, bool) {
	return s.Sync.ErrorBound(localUsec)
}

// machineUsec is the machine's clock on the real link.
func machineUsec() uint64 { return clock.Now() }

// kernelReader returns a function that reads datagrams with the kernel's times of receipt, on
// the clock of machineUsec.
func kernelReader(udp *net.UDPConn) func([]byte) (int, netip.AddrPort, uint64, error) {
	return rxtime.NewConn(udp).ReadFrom
}

// inside is the state of a synchronizer for which there is no public method, in
// microseconds: what one needs to see to understand a failure.
type inside struct {
	skew      float64 // minus the slope of the own floor, ppm
	skewError float64 // its standard deviation, ppm
	noise     float64 // mean distance of the fastest datagrams from the floor
	dip       float64 // mean difference of the two fastest datagrams of 0.2 s
	gate      float64 // what is further above the floor is late
	low       float64 // the fastest datagram of the last 0.2 s was so far above it
	late      float64 // for how long all datagrams have been late
	own       float64 // level of the own floor
	peer      float64 // level of the peer's floor
	trip      float64 // the reference round trip
	hold      float64 // the correction for a path that changed
	steps     float64 // discontinuities so far
}

func (s *subject) inside(localUsec uint64) (in inside, ok bool) { return look(&s.Sync, localUsec) }

// look reads the synchronizer's own fields. It goes by their names, so a renamed field is
// a panic that says so; TestInside looks.
func look(s *timesync.TimeSynchronizer, localUsec uint64) (in inside, ok bool) {
	field := func(v reflect.Value, name string) reflect.Value {
		f := v.FieldByName(name)
		if !f.IsValid() {
			panic("timesync has no field " + name + " any more: mend compare/subject.go")
		}
		return f
	}
	number := func(v reflect.Value, name string) float64 { return field(v, name).Float() }
	v := reflect.ValueOf(s).Elem()
	pair := field(v, "pair")
	own := field(pair, "own")
	if number(own, "width") == 0 { // as in pair.begun: no datagram has arrived
		return in, false
	}
	x := float64(int64(localUsec - field(v, "base").Uint()))
	slope := number(own, "slope")
	snapshot, _ := s.Snapshot(localUsec)
	dip, late := number(own, "dip"), number(own, "lateFor")
	in = inside{
		// As in floor.gate: 100 us for two hosts, 8 dips, and what the slope may be wrong since
		// a datagram was near; time in which all are late does not count.
		gate: 100 + 8*dip + 3*number(own, "sigma")*max(x-number(own, "nearAt")-late, 0),
		low:  number(own, "low"),
		skew: -slope * 1e6, skewError: number(own, "sigma") * 1e6,
		noise: number(own, "noise"), dip: dip, late: late,
		own: number(own, "level") + slope*x, peer: number(pair, "peer") - slope*x,
		trip: number(pair, "trip"), hold: number(pair, "hold"),
		steps: float64(snapshot.Steps),
	}
	return in, true
}
