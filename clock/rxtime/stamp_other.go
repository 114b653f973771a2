// SPDX-License-Identifier: BSD-3-Clause

//go:build !linux

package rxtime

import "net"

// Here the kernel's times are not used. macOS and the BSDs have them to the microsecond
// (SO_TIMESTAMP), but nobody has tried them with this package.
func enable(*net.UDPConn) bool { return false }

func kernelStamp([]byte) (nsec int64, ok bool) { return 0, false }
