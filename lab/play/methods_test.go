// These tests prove that the colours of the methods can be told from the paper.

package play

import (
	"image/color"
	"math"
	"testing"

	"timesync/lab/results"
)

// TestTone: the colours of all methods stand out against both backgrounds.
func TestTone(t *testing.T) {
	bright := func(c color.Color) float64 { // relative luminance, as in WCAG but near black
		linear := func(v uint32) float64 { return math.Pow((float64(v)/0xffff+0.055)/1.055, 2.4) }
		r, g, b, _ := c.RGBA()
		return 0.2126*linear(r) + 0.7152*linear(g) + 0.0722*linear(b)
	}
	for _, th := range results.Themes {
		for _, column := range append(Columns(), Chronyd) {
			x, y := bright(th.Tone(ColorOf(column))), bright(th.Paper)
			if contrast := (max(x, y) + 0.05) / (min(x, y) + 0.05); contrast < 2.5 {
				t.Errorf("%s: %s has a contrast of %.1f", th.Name, column, contrast)
			}
		}
	}
}
