// SPDX-License-Identifier: BSD-3-Clause

//go:build !linux

package main

import (
	"errors"
	"syscall"
)

// reuse would let two TCP connections use one local port. Systems differ in how, and only Linux
// was tried.
func reuse(string, string, syscall.RawConn) error {
	return errors.New("-tcp works on Linux only")
}
