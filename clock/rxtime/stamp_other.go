// SPDX-License-Identifier: BSD-3-Clause

//go:build !linux

package rxtime

import "net"

// Without times of the kernel there is nothing to enable or to find. macOS and the BSDs
// have them to the microsecond (SO_TIMESTAMP); nobody has tried them here.
func enable(*net.UDPConn) bool { return false }

func kernelStamp([]byte) (nsec int64, ok bool) { return 0, false }
