// SPDX-License-Identifier: BSD-3-Clause

//go:build linux

package main

import (
	"os/exec"
	"regexp"
	"strings"
)

// version returns the version of a program that is installed.
func version(program string) string {
	out, err := exec.Command(program, "-v").Output()
	if err != nil {
		return ""
	}
	return regexp.MustCompile(`\d+\.[\d.]+`).FindString(string(out))
}

// rivalVersions names what is installed.
func rivalVersions() string {
	var versions []string
	for _, program := range []string{"chronyd", "ptp4l"} {
		if v := version(program); v != "" {
			versions = append(versions, program+" "+v)
		} else {
			versions = append(versions, program+" is not installed")
		}
	}
	return strings.Join(versions, ", ")
}
