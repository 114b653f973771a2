// This test proves that a part of a document is replaced and nothing else.

package page

import "testing"

func TestFill(t *testing.T) {
	text := "before\n\n<!-- begin x: by hand -->\nold\n<!-- end x -->\n\nafter\n"
	want := "before\n\n<!-- begin x: by hand -->\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n<!-- end x -->\n\nafter\n"
	parts := map[string]string{"x": Table([][]string{{"a", "b"}, {"1", "2"}})}
	for range 2 { // the second time nothing changes
		var err error
		if text, err = Fill(text, parts); err != nil || text != want {
			t.Errorf("%q, want %q, %v", text, want, err)
		}
	}
	for _, bad := range []string{"", "<!-- begin x: -->\n", "<!-- end x -->\n", "<!-- begin y: -->\n<!-- end y -->\n"} {
		if _, err := Fill(bad, parts); err == nil {
			t.Errorf("%q has no part of that name, and no error", bad)
		}
	}
}
