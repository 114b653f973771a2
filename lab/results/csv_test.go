package results

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestCSV: what is written is read again, but for decimals that nobody needs, and numbers that
// are none.
func TestCSV(t *testing.T) {
	type row struct {
		Name  string  `csv:"name"`
		Value float64 `csv:"value,omitempty"`
	}
	path := filepath.Join(t.TempDir(), "x.csv")
	none, err := ReadCSV[row](path)
	if err != nil || len(none) != 0 {
		t.Errorf("a file that does not exist: %v, %v", none, err)
	}
	rows := []row{
		{"a, b", 1.5},
		{"rounded", 0.123456},
		{"small", 1e-9},
		{"large", 1e12},
		{"never", math.NaN()},
		{"too long", math.Inf(1)},
	}
	err = WriteCSV(path, rows)
	text, bad := os.ReadFile(path)
	const want = "name,value\n\"a, b\",1.5\nrounded,0.1235\nsmall,0\n" +
		"large,1000000000000\nnever,\ntoo long,\n"
	if err = errors.Join(err, bad); err != nil || string(text) != want {
		t.Fatalf("%v; %q, want %q", err, text, want)
	}
	rows = []row{
		{"a, b", 1.5},
		{"rounded", 0.1235},
		{"small", 0},
		{"large", 1e12},
		{"never", 0},
		{"too long", 0},
	}
	if again, err := ReadCSV[row](path); err != nil || !slices.Equal(again, rows) {
		t.Errorf("%v, want %v, %v", again, rows, err)
	}
	if err := os.WriteFile(path, []byte("name,value\nx,none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadCSV[row](path); err == nil {
		t.Error("a value that is no number, and no error")
	}
}
