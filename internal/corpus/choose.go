// SPDX-License-Identifier: BSD-3-Clause

package main

import (
	"bytes"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
)

// features reads a coverage profile. A block that ran is one feature for each power of 2 in how
// often: an input that goes round a loop many times is another one than an input that goes round
// once.
func features(profile []byte) (all []string) {
	for line := range bytes.Lines(profile) {
		fields := bytes.Fields(line)
		if len(fields) != 3 {
			continue // the mode
		}
		times, err := strconv.ParseUint(string(fields[2]), 10, 64)
		if err != nil {
			continue
		}
		for power := range bits.Len64(times) {
			all = append(all, fmt.Sprint(string(fields[0]), power))
		}
	}
	return all
}

// choose returns the names of the inputs to keep: those that people named, and then, again and
// again, the one that adds most to what is covered, the smaller one of two.
func choose(covers map[string][]string, text map[string][]byte) map[string]bool {
	chosen, covered := map[string]bool{}, map[string]bool{}
	keep := func(name string) {
		chosen[name] = true
		for _, feature := range covers[name] {
			covered[feature] = true
		}
	}
	var names []string
	for name := range covers {
		if !hash.MatchString(name) {
			keep(name)
			continue
		}
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if d := len(text[a]) - len(text[b]); d != 0 {
			return d
		}
		return bytes.Compare([]byte(a), []byte(b))
	})
	for len(chosen) < most {
		best, adds := "", 0
		for _, name := range names {
			added := 0
			for _, feature := range covers[name] {
				if !covered[feature] {
					added++
				}
			}
			if added > adds {
				best, adds = name, added
			}
		}
		if best == "" {
			break
		}
		keep(best)
	}
	return chosen
}
