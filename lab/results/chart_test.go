// These tests prove that pictures can be read on a telephone, on light and on dark pages.

package results

import (
	"bytes"
	"errors"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"testing"

	"gonum.org/v1/plot/plotter"
)

// TestMicros: a time is written with the digits that count, and never with an exponent.
func TestMicros(t *testing.T) {
	for us, want := range map[float64]string{
		math.NaN(): "never",
		0.4:        "0 us",
		99.4:       "99 us",
		99.6:       "0.1 ms",
		9949:       "9.9 ms",
		9951:       "10 ms",
		1.5e6:      "1.5 s",
		300e6:      "300 s",
		999.4e6:    "999 s",
		999.6e6:    "1000 s",
		4000e6:     "4000 s",
		86400e6:    "86400 s",
	} {
		if got := Micros(us); got != want {
			t.Errorf("%g us: %s, want %s", us, got, want)
		}
	}
}

// TestPictures draws one of each kind, for light and dark pages: as wide as a telephone with
// letters that are legible there, in the theme's colours.
func TestPictures(t *testing.T) {
	path := filepath.Join(t.TempDir(), "picture.png")
	gap := plotter.XYs{{X: 0, Y: 3}, {X: 1, Y: 5e3}, {X: 2, Y: math.NaN()}, {X: 3, Y: 2}}
	lines := &Chart{
		Title:  "lines",
		X:      Axis{Max: 4},
		Y:      ErrorAxis(1e4),
		Curves: []Curve{{Name: "x", Color: RGB(0x0060df), Parts: Split(gap, 1)}},
		Events: []Event{{1, 1, "set"}, {2, 3, "full"}},
	}
	xys := plotter.XYs{{X: 3, Y: 0}, {X: 1e9, Y: 0}}
	dots := &Chart{
		Title: "dots",
		X:     ErrorAxis(1e4),
		Y:     Axis{Max: 1},
		Curves: []Curve{{
			Name:  "x",
			Color: RGB(0x0060df),
			Dots:  2,
			Parts: []plotter.XYs{xys},
			At:    &xys[0],
			Above: true,
		}},
	}
	for _, chart := range []*Chart{lines, dots} {
		for _, th := range Themes {
			err := Draw(path, th, chart)
			b, bad := os.ReadFile(path)
			img, worse := png.Decode(bytes.NewReader(b))
			if err := errors.Join(err, bad, worse); err != nil {
				t.Fatal(err)
			}
			if got, want := color.NRGBAModel.Convert(img.At(0, 0)), th.Paper; got != want {
				t.Errorf("%s, %s: the corner is %v, want %v", chart.Title, th.Name, got, want)
			}
			const phone = 375
			if letters := textSize * phone / narrow; letters < 10 || img.Bounds().Dx() < 2*phone {
				t.Errorf("%s, %s: letters of %d pixels, %d pixels wide",
					chart.Title, th.Name, letters, img.Bounds().Dx())
			}
		}
	}
}
