package portal

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Whatever colour the operator chose, what is written in it and on it can be read.
func TestAnyAccentCanBeRead(t *testing.T) {
	t.Parallel()
	check := func(fail func(string, ...any), accent string) {
		var l, d, li, di, ls, ds string
		css := strings.NewReplacer(":root{--accent:light-dark(", "", ");--accent-ink:light-dark(", " ", ");--accent-soft:light-dark(", " ",
			",", " ", ")}", "").Replace(theme(accent))
		if n, err := fmt.Sscan(css, &l, &d, &li, &di, &ls, &ds); n != 6 || err != nil {
			fail("%s: %q", accent, css)
			return
		}
		pairs := [][2]string{{l, li}, {l, ls}, {d, di}, {d, ds}, {"#1b1d21", ls}, {"#e8e9eb", ds}}
		for _, ground := range []string{"#ffffff", "#faf9f7", "#f2f0ec"} {
			pairs = append(pairs, [2]string{l, ground})
		}
		for _, ground := range []string{"#1d1f23", "#16171a", "#131417"} {
			pairs = append(pairs, [2]string{d, ground})
		}
		for _, pair := range pairs {
			if c := contrast(colourOf(pair[0]), colourOf(pair[1])); c < readable {
				fail("%s: %s on %s has %.2f:1", accent, pair[0], pair[1], c)
			}
		}
	}
	for _, accent := range []string{"#000000", "#ffffff", "#ffff00", "#0000ff", "#FF0000", "#777777", "#2f6fde"} {
		check(t.Errorf, accent)
	}
	rapid.Check(t, func(r *rapid.T) {
		check(r.Errorf, fmt.Sprintf("#%06x", rapid.IntRange(0, 0xffffff).Draw(r, "accent")))
	})
}

// A colour that can be read already stays what it is.
func TestAGoodAccentStays(t *testing.T) {
	t.Parallel()
	if css := theme("#1f4fbf"); !strings.Contains(css, "--accent:light-dark(#1f4fbf,") {
		t.Error(css)
	}
	if css := theme(""); strings.Contains(css, "accent") {
		t.Error(css)
	}
	// What black on white and white on black have, and two published examples.
	for pair, want := range map[[2]string]string{{"#000000", "#ffffff"}: "21.00", {"#777777", "#ffffff"}: "4.48", {"#767676", "#ffffff"}: "4.54"} {
		if got := fmt.Sprintf("%.2f", contrast(colourOf(pair[0]), colourOf(pair[1]))); got != want {
			t.Errorf("%v: %s, not %s", pair, got, want)
		}
	}
}
