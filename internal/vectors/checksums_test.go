// This test proves that the golden vectors are those that were recorded.
package vectors

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestChecksums: the recordings are those that testdata/README.md names, none is missing,
// and none is without a name.
func TestChecksums(t *testing.T) {
	readme, err := os.ReadFile(testdata + "README.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(testdata + "*.gz")
	if err != nil || len(files) != strings.Count(string(readme), ".gz\n") {
		t.Errorf("%d files, %d checksums, %v", len(files), strings.Count(string(readme), ".gz\n"), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if line := fmt.Sprintf("\n    %x  %s\n", sha256.Sum256(data), filepath.Base(file)); !strings.Contains(string(readme), line) {
			t.Errorf("testdata/README.md does not have the line%s", line)
		}
	}
}
