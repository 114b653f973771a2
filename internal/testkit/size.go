// SPDX-License-Identifier: BSD-3-Clause

package testkit

import (
	"cmp"
	"flag"
	"fmt"
	"testing"
)

var long bool

func init() {
	if testing.Testing() { // programs, too, import this package, for its quantiles
		const usage = "test as much as all limits ask for: more worlds, longer runs, all pairs"
		flag.BoolVar(&long, "long", false, usage)
	}
}

// Long reports whether the flag -long was given.
func Long() bool { return long }

// Sized returns how much to test: with -short, normally, and with -long.
func Sized[T any](short, normal, many T) T {
	switch {
	case testing.Short():
		return short
	case long:
		return many
	}
	return normal
}

// Count defines a flag and returns how many worlds to play: what the flag says, or else what Sized
// does.
func Count(name, worlds string, short, normal, many int) func() int {
	usage := fmt.Sprintf("%s (default %d, %d with -short, %d with -long)",
		worlds, normal, short, many)
	given := flag.Int(name, 0, usage)
	return func() int { return cmp.Or(*given, Sized(short, normal, many)) }
}
