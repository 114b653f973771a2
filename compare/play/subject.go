// SPDX-License-Identifier: BSD-3-Clause

package play

import (
	"net"
	"net/netip"
	"time"

	"timesync/clock"
	"timesync/internal/sim"
	"timesync/rxtime"
)

// Subject is this package's synchronizer as the worlds see it. All that the module uses of
// package timesync and its folders stands in this file, but recordings are in recording.go.
type Subject struct{ sim.Core }

// ErrorBound implements bounded.
func (s *Subject) ErrorBound(localUsec uint64) (time.Duration, bool) {
	return s.Sync.ErrorBound(localUsec)
}

// MachineUsec is the machine's clock on the real link.
func MachineUsec() uint64 { return clock.Now() }

// KernelReader returns a function that reads datagrams with the kernel's times of receipt, on
// the clock of MachineUsec.
func KernelReader(udp *net.UDPConn) func([]byte) (int, netip.AddrPort, uint64, error) {
	return rxtime.NewConn(udp).ReadFrom
}
