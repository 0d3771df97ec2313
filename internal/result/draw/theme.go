package draw

import (
	"bytes"
	"fmt"
	"image/color"
)

// darkPaper is the background of the dark theme.
var darkPaper = RGB(0x14181D)

// darkPalette replaces Palette in the dark theme, color by color.
var darkPalette = []color.NRGBA{
	RGB(0x63B4EE), RGB(0xFFD878), RGB(0xE06E9A), RGB(0x40DDB0), RGB(0x7870D4),
	RGB(0xFF8A3C), RGB(0xB4E4FC), RGB(0x939393), RGB(0xF4B0D4), RGB(0xC4603F),
}

// darkColors returns the colors of the dark theme after the ones that they replace. The colors of heat maps stay.
func darkColors() [][2]color.NRGBA {
	out := [][2]color.NRGBA{{White, darkPaper}, {Black, RGB(0xE6E9ED)}, {InkGrey, RGB(0xA3ADB8)},
		{AxisGrey, RGB(0xC4CCD4)}, {GridGrey, RGB(0x343C46)}, {PaleGrey, RGB(0x242B33)}}
	for i, c := range Palette {
		out = append(out, [2]color.NRGBA{c, darkPalette[i]}, [2]color.NRGBA{Tint(c), Mix(darkPalette[i], darkPaper, 0.75)})
	}
	for i := range loadSteps {
		out = append(out, [2]color.NRGBA{loadColor(i, 0.42, 1), loadColor(i, 0.68, 0.05)})
	}
	return out
}

// darkTheme returns the style sheet of the dark theme for the colors of a picture. The drawing library writes colors
// as style attributes, so the rules select by their text.
func darkTheme(svg []byte) []byte {
	var b bytes.Buffer
	b.WriteString("<style>@media (prefers-color-scheme: dark) {\n")
	hex := func(c color.NRGBA) string { return fmt.Sprintf("#%02X%02X%02X", c.R, c.G, c.B) }
	for _, c := range darkColors() {
		for _, what := range []string{"fill", "stroke"} {
			if name := what + ":" + hex(c[0]); bytes.Contains(svg, []byte(name)) {
				fmt.Fprintf(&b, "[style*=\"%s\"] { %s: %s !important; }\n", name, what, hex(c[1]))
			}
		}
	}
	b.WriteString("}</style>\n")
	return b.Bytes()
}
