package draw

import (
	"fmt"
	"image/color"
	"testing"
)

// TestThemes checks that text and curves can be read in both themes: texts on the background and on every filled
// area, curves on the background.
func TestThemes(t *testing.T) {
	dark := map[color.NRGBA]color.NRGBA{}
	for _, pair := range darkColors() {
		if _, has := dark[pair[0]]; has {
			t.Errorf("two rules for %v", pair[0])
		}
		dark[pair[0]] = pair[1]
	}
	in := func(theme string, c color.NRGBA) color.NRGBA {
		if d, has := dark[c]; has && theme == "dark" {
			return d
		}
		return c
	}
	for _, theme := range []string{"light", "dark"} {
		paper := in(theme, White)
		check := func(what string, ink, on color.NRGBA, least float64) {
			t.Helper()
			if got := contrast(in(theme, ink), in(theme, on)); got < least {
				t.Errorf("%s: the contrast of %s is %.2f, want %v", theme, what, got, least)
			}
		}
		for _, ink := range []color.NRGBA{Black, InkGrey, AxisGrey} {
			check("text", ink, White, 4.5)
		}
		check("text on a neutral box", InkOn(PaleGrey), PaleGrey, 4.5)
		for i, c := range Palette {
			check(fmt.Sprint("curve ", i), c, White, 3)
			check(fmt.Sprint("text on color ", i), InkOn(c), c, 4)
			check(fmt.Sprint("text on tint ", i), InkOn(Tint(c)), Tint(c), 4.5)
			check(fmt.Sprint("black text on tint ", i), Black, Tint(c), 4.5)
		}
		for i := range loadSteps - 1 {
			low, high := Load(float64(i)/(loadSteps-1)), Load(float64(i+1)/(loadSteps-1))
			check(fmt.Sprint("load ", i), low, White, 2)
			if a, b := contrast(in(theme, low), paper), contrast(in(theme, high), paper); a >= b {
				t.Errorf("%s: load %d has a contrast of %.2f, and the next larger one %.2f", theme, i, a, b)
			}
		}
		for i := range 21 {
			c := Heat(float64(i) / 20)
			check(fmt.Sprint("text on heat ", i), InkOn(c), c, 4)
		}
		if theme == "dark" && paper == White {
			t.Error("the background is white")
		}
	}
}
