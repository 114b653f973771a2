// SPDX-License-Identifier: BSD-3-Clause

//go:build linux

package main

import (
	"os/exec"
	"regexp"
)

// version returns the version of a program.
func version(program string) string {
	out, err := exec.Command(program, "-v").Output()
	if err != nil {
		return "not installed"
	}
	return regexp.MustCompile(`\d+\.[\d.]+`).FindString(string(out))
}
