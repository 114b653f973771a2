// These tests prove that a quantile is a value of that rank.
package stat

import "testing"

func TestQuantile(t *testing.T) {
	v := make([]int, 101)
	for i := range v {
		v[i] = (i * 37) % 101
	}
	for _, want := range []int{0, 1, 50, 99, 100} {
		if got := Quantile(v, float64(want)/100); got != want {
			t.Errorf("of 0 to 100: %d, want %d", got, want)
		}
	}
	if got := Quantile([]float64{2.5}, 0.99); got != 2.5 {
		t.Errorf("of one value: %g", got)
	}
}

func TestSpread(t *testing.T) {
	errs := make([]int64, 0, 101)
	for i := range int64(101) {
		errs = append(errs, (i-100)*(i%2*2-1)) // 0 to 100 with changing signs
	}
	if got, want := SpreadOf(errs), (Spread{101, 50, 99, 100}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := SpreadOf(nil); got != (Spread{}) {
		t.Errorf("of nothing: %+v", got)
	}
}
