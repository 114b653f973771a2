// This file reads what testdata has: what was recorded from the C++ original (testdata/README.md),
// and the vectors of the wire.

package vectors

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
)

const testdata = "../../testdata/"

// must ends the test if something fails that is to work.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// unpacked returns what is in a file, which is packed if its name ends with gz.
func unpacked(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(testdata + name)
	must(t, err)
	if strings.HasSuffix(name, ".gz") {
		z, err := gzip.NewReader(bytes.NewReader(b))
		must(t, err)
		b, err = io.ReadAll(z)
		must(t, err)
	}
	return b
}

// rows returns the lines of a CSV file behind its header. Signed numbers come as their two's
// complement, and what is no number is 0.
func rows(t *testing.T, name string) (all [][]uint64) {
	t.Helper()
	records, err := csv.NewReader(bytes.NewReader(unpacked(t, name))).ReadAll()
	if err != nil || len(records) < 100 {
		t.Fatalf("%s: %d lines, %v", name, len(records), err)
	}
	for _, record := range records[1:] {
		v := make([]uint64, len(record))
		for i, field := range record {
			signed, err := strconv.ParseInt(field, 10, 64)
			if v[i] = uint64(signed); err != nil {
				v[i], _ = strconv.ParseUint(field, 10, 64)
			}
		}
		all = append(all, v)
	}
	return all
}

// lines returns the lines of a file of JSON.
func lines[T any](t *testing.T, name string) (all []T) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(unpacked(t, name)))
	for d.More() {
		var line T
		if err := d.Decode(&line); err != nil {
			t.Fatalf("%s, line %d: %v", name, len(all)+1, err)
		}
		all = append(all, line)
	}
	if len(all) < 500 {
		t.Fatalf("%s has only %d lines", name, len(all))
	}
	return all
}
