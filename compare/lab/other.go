// SPDX-License-Identifier: BSD-3-Clause

//go:build !linux

package main

import "errors"

func measureLink(options) error {
	return errors.New("the real link needs network namespaces, which only Linux has")
}

func measureOriginal(options) error {
	return errors.New("the C++ peer is for Linux")
}
