// SPDX-License-Identifier: BSD-3-Clause

// Package long gives tests the flag -long, and says how many worlds they play.
package testkit

import (
	"cmp"
	"flag"
	"fmt"
	"testing"
)

// Flag says that all is tested that the limits of the tests ask for.
var Flag = flag.Bool("long", false, "test as much as the limits of all tests ask for: more worlds, longer runs, all pairs")

// Sized returns how much to test: with -short, normally, and with -long.
func Sized[T any](short, normal, many T) T {
	switch {
	case testing.Short():
		return short
	case *Flag:
		return many
	}
	return normal
}

// Count defines a flag and returns how many worlds to play: what the flag says, or else what Sized
// does.
func Count(name, worlds string, short, normal, many int) func() int {
	n := flag.Int(name, 0, fmt.Sprintf("%s (default %d, %d with -short, %d with -long)", worlds, normal, short, many))
	return func() int { return cmp.Or(*n, Sized(short, normal, many)) }
}
