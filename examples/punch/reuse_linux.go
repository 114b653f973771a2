// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"cmp"
	"syscall"
)

// reuse lets two TCP connections use one local port: to the server and to the peer.
func reuse(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	})
	return cmp.Or(err, failed)
}
