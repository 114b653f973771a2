// SPDX-License-Identifier: BSD-3-Clause

package rxtime

import (
	"math/bits"
	"net"
	"syscall"
)

// enable asks the kernel for a control message with the receive time of each datagram.
func enable(udp *net.UDPConn) bool {
	raw, err := udp.SyscallConn()
	if err != nil {
		return false
	}
	enabled := false
	err = raw.Control(func(fd uintptr) {
		for _, option := range []int{timestampNew, timestampOld} {
			if enabled {
				return
			}
			enabled = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, option, 1) == nil
		}
	})
	return err == nil && enabled
}

// kernelStamp is stampOf for this machine.
func kernelStamp(control []byte) (nsec int64, ok bool) {
	return stampOf(control, bits.UintSize/8, syscall.SOL_SOCKET)
}
