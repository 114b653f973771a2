// These tests prove that the colours of the methods can be told from the paper.

package play

import (
	"image/color"
	"math"
	"testing"

	"timesync/compare/graph"
)

// TestTone: the colours of all methods stand out against both backgrounds.
func TestTone(t *testing.T) {
	bright := func(c color.Color) float64 { // relative luminance, as in WCAG
		r, g, b, _ := c.RGBA()
		linear := func(v uint32) float64 {
			x := float64(v) / 0xffff
			if x <= 0.04045 {
				return x / 12.92
			}
			return math.Pow((x+0.055)/1.055, 2.4)
		}
		return 0.2126*linear(r) + 0.7152*linear(g) + 0.0722*linear(b)
	}
	for _, th := range graph.Themes {
		tones := []color.Color{ColorOf(Chronyd)}
		for _, column := range Columns() {
			tones = append(tones, ColorOf(column))
		}
		for _, c := range tones {
			x, y := bright(th.Tone(c)), bright(th.Paper)
			if contrast := (max(x, y) + 0.05) / (min(x, y) + 0.05); contrast < 2.5 {
				t.Errorf("%s: %v has a contrast of %.1f", th.Name, c, contrast)
			}
		}
	}
}
