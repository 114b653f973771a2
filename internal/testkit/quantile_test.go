// This test proves that a quantile is a value of that rank.
package testkit

import "testing"

func TestSpread(t *testing.T) {
	errs := make([]int64, 0, 100)
	for i := range int64(100) {
		size := 99 - i*37%100 // 0 to 99, each once, in no order
		sign := i%2*2 - 1
		errs = append(errs, size*sign)
	}
	if got, want := SpreadOf(errs), (Spread{100, 50, 98, 99}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := SpreadOf(nil); got != (Spread{}) || Quantile([]float64{2.5}, 0.99) != 2.5 {
		t.Errorf("of nothing: %+v", got)
	}
}
