package draw

import (
	"fmt"
	"image/color"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/must"
)

// visions are the ways to see a color: matrices on linear RGB. The matrices of color blindness are from Machado,
// Oliveira and Fernandes (2009), for complete loss of one kind of receptor.
var visions = map[string][3][3]float64{
	"normal vision": {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"protanopia": {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216},
		{-0.003882, -0.048116, 1.051998}},
	"deuteranopia": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413},
		{-0.011820, 0.042940, 0.968881}},
	"tritanopia": {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602},
		{0.004733, 0.691367, 0.303900}},
}

// lab returns the CIE L*a*b* coordinates of a color as somebody sees it.
func lab(c color.NRGBA, vision [3][3]float64) (out [3]float64) {
	var linear, seen [3]float64
	for i, v := range []uint8{c.R, c.G, c.B} {
		if linear[i] = float64(v) / 255 / 12.92; v > 10 {
			linear[i] = math.Pow((float64(v)/255+0.055)/1.055, 2.4)
		}
	}
	for i, row := range vision {
		for k, v := range linear {
			seen[i] += row[k] * v
		}
		seen[i] = min(max(seen[i], 0), 1)
	}
	var xyz [3]float64
	for i, row := range [3][3]float64{{0.4339, 0.3762, 0.1899}, {0.2126, 0.7152, 0.0722}, {0.0178, 0.1095, 0.8727}} {
		for k, v := range seen {
			xyz[i] += row[k] * v
		}
		if xyz[i] > 216.0/24389 {
			xyz[i] = math.Cbrt(xyz[i])
		} else {
			xyz[i] = (24389.0/27*xyz[i] + 16) / 116
		}
	}
	return [3]float64{116*xyz[1] - 16, 500 * (xyz[0] - xyz[1]), 200 * (xyz[1] - xyz[2])}
}

// TestVision checks that the colors of series which nothing else tells apart differ in greyscale and for color-blind
// readers, in both themes. These are the colors of each half of the palette (bars of the second half are hatched), and
// colors that share a marker.
func TestVision(t *testing.T) {
	const markers = 8
	for theme, palette := range map[string][]color.NRGBA{"light": Palette, "dark": darkPalette} {
		if len(palette) != 2*PlainColors {
			t.Fatalf("%s: %d colors", theme, len(palette))
		}
		for i, a := range palette {
			for k := i + 1; k < len(palette); k++ {
				if i/PlainColors != k/PlainColors && k != i+markers {
					continue
				}
				for name, vision := range visions {
					p, q := lab(a, vision), lab(palette[k], vision)
					if name == "normal vision" {
						if d := math.Abs(p[0] - q[0]); d < 8 {
							t.Errorf("%s: colors %d and %d differ by %.1f in lightness, want 8", theme, i, k, d)
						}
					}
					if d := math.Hypot(math.Hypot(p[0]-q[0], p[1]-q[1]), p[2]-q[2]); d < 12 {
						t.Errorf("%s: colors %d and %d differ by %.1f with %s, want 12", theme, i, k, d, name)
					}
				}
			}
		}
	}
}

// TestWebPalette checks that the charts of the web page have the same colors.
func TestWebPalette(t *testing.T) {
	script := string(must.Get(os.ReadFile("../../view/web/assets/chart.js"))(t))
	for _, palette := range [][]color.NRGBA{Palette, darkPalette} {
		names := lists.Map(palette, func(c color.NRGBA) string { return fmt.Sprintf("'#%02X%02X%02X'", c.R, c.G, c.B) })
		if list := "[" + strings.Join(names, ", ") + "]"; !strings.Contains(script, list) {
			t.Errorf("chart.js lacks %s", list)
		}
	}
}

// TestVisionSeesEqualColors checks that the test above notices colors that look alike.
func TestVisionSeesEqualColors(t *testing.T) {
	red, green := lab(RGB(0xC04000), visions["deuteranopia"]), lab(RGB(0x7F7F00), visions["deuteranopia"])
	if d := math.Hypot(red[1]-green[1], red[2]-green[2]); d > 12 {
		t.Errorf("red and green differ by %.1f without green receptors", d)
	}
	if l := lab(White, visions["normal vision"]); math.Abs(l[0]-100) > 0.1 || math.Hypot(l[1], l[2]) > 0.5 {
		t.Errorf("white is %v", l)
	}
}
