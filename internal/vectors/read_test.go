// This file reads what was recorded from the C++ original (testdata/README.md).

package vectors

import (
	"bufio"
	"compress/gzip"
	"iter"
	"os"
	"strconv"
	"strings"
	"testing"
)

const testdata = "../../testdata/"

// Lines returns the lines of a recorded file behind its header.
func Lines(t testing.TB, name string) iter.Seq[string] {
	return func(yield func(line string) bool) {
		f, err := os.Open(testdata + name + ".gz")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		lines, n := bufio.NewScanner(z), 0
		for lines.Scan() {
			if n++; n > 1 && !yield(lines.Text()) {
				return
			}
		}
		if err := lines.Err(); err != nil || n < 100 {
			t.Fatalf("%s: %d lines, %v", name, n, err)
		}
	}
}

// Rows returns the lines of a CSV file with their numbers. Signed ones come as their two's complement,
// and what is no number is 0.
func Rows(t testing.TB, name string) iter.Seq2[string, []uint64] {
	return func(yield func(line string, v []uint64) bool) {
		for line := range Lines(t, name) {
			var v []uint64
			for field := range strings.SplitSeq(line, ",") {
				u, err := strconv.ParseUint(field, 10, 64)
				if err != nil {
					i, _ := strconv.ParseInt(field, 10, 64)
					u = uint64(i)
				}
				v = append(v, u)
			}
			if !yield(line, v) {
				return
			}
		}
	}
}
