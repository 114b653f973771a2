// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"os"
	"syscall"
	"unsafe"
)

// unread returns how many bytes are in a pipe. ok is false if it is none: of a file nobody takes
// any.
func unread(pipe *os.File) (bytes int, ok bool) {
	info, err := pipe.Stat()
	if err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		return 0, false
	}
	conn, err := pipe.SyscallConn()
	if err != nil {
		return 0, false
	}
	var n int32 // a C int
	var errno syscall.Errno
	err = conn.Control(func(fd uintptr) {
		// FIONREAD has the same number as TIOCINQ.
		at := uintptr(unsafe.Pointer(&n))
		_, _, errno = syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCINQ, at)
	})
	return int(n), err == nil && errno == 0
}
