// SPDX-License-Identifier: BSD-3-Clause

//go:build linux || darwin || freebsd

package main

import (
	"os"
	"syscall"
	"unsafe"
)

// terminalColumns asks the terminal; 0 if it does not say.
func terminalColumns(f *os.File) int {
	var size struct{ rows, columns, x, y uint16 }
	conn, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	_ = conn.Control(func(fd uintptr) { // with an error, size stays 0
		syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size)))
	})
	return int(size.columns)
}
