package draw

import (
	"image/color"
	"math"
	"slices"
)

// RGB returns the opaque color of a number such as 0x0072B2.
func RGB(hex uint32) color.NRGBA {
	return color.NRGBA{R: uint8(hex >> 16), G: uint8(hex >> 8), B: uint8(hex), A: 255}
}

// Palette holds the colors of series, after Okabe and Ito and after Tol. The first five differ in lightness, so that
// they also differ in greyscale, and so do the last five. All can be told apart by color-blind readers.
var Palette = []color.NRGBA{
	RGB(0x006BA6), RGB(0xCC8500), RGB(0x882255), RGB(0x008F68), RGB(0x332288),
	RGB(0xB04900), RGB(0x459CCD), RGB(0x4D4D4D), RGB(0xB86091), RGB(0x661100),
}

// PlainColors is the number of colors at the beginning of the palette that differ in lightness. So do the colors
// after them, but not from these: whoever draws them adds a marker, dashes or hatching.
const PlainColors = 5

// The colors of everything that is not data.
var (
	White    = RGB(0xFFFFFF)
	Black    = RGB(0x1A1A1A)
	InkGrey  = RGB(0x555555) // notes, limit lines
	AxisGrey = RGB(0x333333)
	GridGrey = RGB(0xE3E3E3)
	PaleGrey = RGB(0xF2F2F2) // empty cells, neutral boxes
)

// Mix blends a towards b by t in [0, 1].
func Mix(a, b color.NRGBA, t float64) color.NRGBA {
	part := func(x, y uint8) uint8 { return uint8(math.Round(float64(x) + t*(float64(y)-float64(x)))) }
	return color.NRGBA{R: part(a.R, b.R), G: part(a.G, b.G), B: part(a.B, b.B), A: 255}
}

// Tint returns a pale version of a color of the palette, for areas with text.
func Tint(c color.NRGBA) color.NRGBA { return Mix(c, White, 0.8) }

// contrast returns the contrast of two colors (WCAG 2.2): 1 for equal ones, 21 for black and white.
func contrast(a, b color.NRGBA) float64 {
	luminance := func(c color.NRGBA) (sum float64) {
		for i, v := range []uint8{c.R, c.G, c.B} {
			x := float64(v) / 255
			if x <= 0.04045 {
				x /= 12.92
			} else {
				x = math.Pow((x+0.055)/1.055, 2.4)
			}
			sum += x * []float64{0.2126, 0.7152, 0.0722}[i]
		}
		return sum
	}
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// InkOn returns the text color that is readable on c: White or Black, whichever differs more. On a color that the dark
// theme of an SVG file replaces, the ink is replaced too. On other colors it is nearly White or Black and stays.
func InkOn(c color.NRGBA) color.NRGBA {
	pale := slices.ContainsFunc(Palette, func(p color.NRGBA) bool { return c == Tint(p) })
	dark := contrast(White, c) > contrast(Black, c)
	switch {
	case pale || c == White || c == PaleGrey || c == GridGrey:
		return Black
	case dark && slices.Contains(Palette, c):
		return White // the dark theme has a lighter color there, and a dark one instead of White
	case dark:
		return RGB(0xFFFFFE)
	}
	return RGB(0x1A1A1B)
}

// heatColors is ColorBrewer's YlGnBu from low to high. It is safe for color-blind
// readers, and its lightness decreases steadily, so it also works in grey.
var heatColors = []color.NRGBA{
	RGB(0xFFFFD9), RGB(0xEDF8B1), RGB(0xC7E9B4), RGB(0x7FCDBB), RGB(0x41B6C4),
	RGB(0x1D91C0), RGB(0x225EA8), RGB(0x253494), RGB(0x081D58),
}

// Heat returns the heat map color at t in [0, 1]. Its red part is even, so that it never equals a color of Load.
func Heat(t float64) color.NRGBA {
	t = min(max(t, 0), 1) * float64(len(heatColors)-1)
	i := min(int(t), len(heatColors)-2)
	c := Mix(heatColors[i], heatColors[i+1], t-float64(i))
	c.R &^= 1
	return c
}

// loadSteps is the number of colors of Load. The dark theme has a rule for each.
const loadSteps = 24

// Load returns the color of a line with a load t in [0, 1]. The largest load stands out most: it is the darkest on
// white paper and, in the dark theme, the lightest.
func Load(t float64) color.NRGBA {
	return loadColor(int(min(max(t, 0), 1)*(loadSteps-1)+0.5), 0.42, 1)
}

// loadColor returns the color of a step on a part of the scale of Heat.
func loadColor(step int, from, to float64) color.NRGBA {
	c := Heat(from + (to-from)*float64(step)/(loadSteps-1))
	c.R |= 1
	return c
}
