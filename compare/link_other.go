// SPDX-License-Identifier: BSD-3-Clause

//go:build !linux

package main

import (
	"errors"
	"time"
)

func measureLink(_, _ string, _ time.Duration, _ string) error {
	return errors.New("the real link needs network namespaces, which only Linux has")
}
