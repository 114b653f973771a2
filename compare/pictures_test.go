// These tests prove that pictures can be read on a telephone, on light and on dark pages.

package main

import (
	"bytes"
	"cmp"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gonum.org/v1/plot/plotter"
)

// TestPictures draws one of each kind, for light and dark pages: as wide as a telephone with
// letters that are legible there, in the theme's colours.
func TestPictures(t *testing.T) {
	dir := t.TempDir()
	curves := []curve{curveOf(ours, parts([]float64{3, 5e3, math.NaN(), 2})...)}
	kinds := map[string]func(path string, th theme) error{
		"lines": func(path string, th theme) error {
			return drawCharts(path, th, &chart{title: "title", x: axis{max: 4}, y: errorAxis("error", 1, 1e4), curves: curves, events: []event{{1, 1, "set"}, {2, 3, "full"}}})
		},
		"strips": func(path string, th theme) error {
			return drawStrips(path, th, "title", errorAxis("error", 1, 1e4), []strip{{"x", screen.ink, []float64{3, 1e9}, 5}})
		},
	}
	for kind, draw := range kinds {
		for _, th := range themes {
			path := filepath.Join(dir, kind+th.name+".png")
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
			if got, want := color.NRGBAModel.Convert(img.At(0, 0)), th.paper; got != want {
				t.Errorf("%s: the corner is %v, want %v", path, got, want)
			}
			const phone = 375
			if letters := textSize * phone / pictureWidth; letters < 10 || img.Bounds().Dx() < 2*phone {
				t.Errorf("%s: letters of %d pixels, %d pixels wide", path, letters, img.Bounds().Dx())
			}
		}
	}
}

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
	for _, th := range themes {
		tones := []color.Color{chronyColor}
		for column := range columns() {
			tones = append(tones, colorOf(column))
		}
		for _, c := range tones {
			x, y := bright(th.tone(c)), bright(th.paper)
			if contrast := (max(x, y) + 0.05) / (min(x, y) + 0.05); contrast < 2.5 {
				t.Errorf("%s: %v has a contrast of %.1f", th.name, c, contrast)
			}
		}
	}
}

// TestThinned: of the points of a long recording those are drawn that stand out.
func TestThinned(t *testing.T) {
	var p plotter.XYs
	for x := range 1000 {
		p = append(p, plotter.XY{X: float64(x)})
	}
	p[333].Y, p[337].Y = 2, -2
	got := thinned(p, 100)
	if len(got) != 20 || !slices.Contains(got, p[333]) || !slices.Contains(got, p[337]) || !slices.IsSortedFunc(got, func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) }) {
		t.Error(got)
	}
	if got := thinned(p, 2); len(got) != 1000 {
		t.Errorf("%d points", len(got))
	}
}
