// These tests prove that pictures can be read on a telephone, on light and on dark pages.

package graph

import (
	"bytes"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"testing"

	"gonum.org/v1/plot/plotter"
)

// TestPictures draws one of each kind, for light and dark pages: as wide as a telephone with
// letters that are legible there, in the theme's colours.
func TestPictures(t *testing.T) {
	dir := t.TempDir()
	curves := []Curve{{Name: "x", Color: RGB(0x0060df), Parts: Parts([]float64{3, 5e3, math.NaN(), 2})}}
	kinds := map[string]func(path string, th Theme) error{
		"lines": func(path string, th Theme) error {
			return Charts(path, th, &Chart{Title: "title", X: Axis{Max: 4}, Y: ErrorAxis("error", 1e4), Curves: curves, Events: []Event{{1, 1, "set"}, {2, 3, "full"}}})
		},
		"dots": func(path string, th Theme) error {
			dots := []plotter.XYs{{{X: 3, Y: 0}, {X: 1e9, Y: 0}}}
			return Charts(path, th, &Chart{Title: "title", X: ErrorAxis("error", 1e4), Y: Axis{Max: 1}, Curves: []Curve{{Name: "x", Color: RGB(0x0060df), Dots: 2, Parts: dots, At: &dots[0][0], Above: true}}})
		},
	}
	for kind, draw := range kinds {
		for _, th := range Themes {
			path := filepath.Join(dir, kind+th.Name+".png")
			if err := draw(path, th); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			img, err := png.Decode(bytes.NewReader(b))
			if err != nil {
				t.Fatal(err)
			}
			if got, want := color.NRGBAModel.Convert(img.At(0, 0)), th.Paper; got != want {
				t.Errorf("%s: the corner is %v, want %v", path, got, want)
			}
			const phone = 375
			if letters := textSize * phone / narrow; letters < 10 || img.Bounds().Dx() < 2*phone {
				t.Errorf("%s: letters of %d pixels, %d pixels wide", path, letters, img.Bounds().Dx())
			}
		}
	}
}
