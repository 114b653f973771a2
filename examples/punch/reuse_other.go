// SPDX-License-Identifier: BSD-3-Clause

//go:build !linux

package main

import (
	"errors"
	"syscall"
)

// reuse would let two TCP connections leave from one port. How differs between systems, and
// was tried on Linux only.
func reuse(string, string, syscall.RawConn) error {
	return errors.New("-tcp works on Linux only")
}
