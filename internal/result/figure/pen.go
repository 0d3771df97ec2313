package figure

import (
	"image/color"
	"math"
	"strings"
	"sync"
	"unicode"

	"codeberg.org/go-fonts/liberation/liberationsansbold"
	"codeberg.org/go-fonts/liberation/liberationsansregular"
	xfont "golang.org/x/image/font"
	"golang.org/x/image/font/opentype"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
)

// pen draws on a page of either format.
type pen struct{ page vg.Canvas }

// stroke is how a line looks; a width of 0 draws nothing.
type stroke struct {
	color color.Color
	width float64
	dash  []vg.Length
}

// face is how text looks.
type face struct {
	size  float64
	bold  bool
	color color.Color
}

// anchor says which part of a text stands at the given point.
type anchor struct{ x, y float64 } // 0 left or bottom, 0.5 middle, 1 right or top

var (
	leftMid    = anchor{0, 0.5}
	rightMid   = anchor{1, 0.5}
	centerTop  = anchor{0.5, 1}
	centerMid  = anchor{0.5, 0.5}
	leftTop    = anchor{0, 1}
	leftBottom = anchor{0, 0}
)

// Text is set on lines of this height, in units of the font size. The letters of
// Liberation Sans reach capHeight above and descent below the baseline.
const (
	leading   = 1.25
	capHeight = 0.72
	descent   = 0.21
)

// sans parses the two fonts once. Only these are linked in: the plotting
// library's own collection would add ten more to the binary.
var sans = sync.OnceValue(func() [2]*opentype.Font {
	var fonts [2]*opentype.Font
	for i, ttf := range [][]byte{liberationsansregular.TTF, liberationsansbold.TTF} {
		f, err := opentype.Parse(ttf)
		if err != nil {
			panic("figure: embedded font is damaged: " + err.Error())
		}
		fonts[i] = f
	}
	return fonts
})

func (f face) font() font.Face {
	d := font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Length(f.size)}
	i := 0
	if f.bold {
		d.Weight = xfont.WeightBold
		i = 1
	}
	return font.Face{Font: d, Face: sans()[i]}
}

// width measures one line of text.
func (f face) width(s string) float64 {
	ff := f.font()
	return float64(ff.Width(clean(s)))
}

// height is the space n lines take.
func (f face) height(n int) float64 { return float64(n) * f.size * leading }

// clean removes what neither format can hold: control characters and broken UTF-8.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n':
			return ' '
		case unicode.IsControl(r), r == 0xFFFE, r == 0xFFFF:
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// text writes one line, turned by angle (radians) about the point.
func (p pen) text(f face, at point, a anchor, angle float64, s string) {
	s = clean(s)
	if s == "" {
		return
	}
	dx := -a.x * f.width(s)
	// Middle means the middle of capitals and digits, which is what the eye centres.
	dy := -a.y*f.size*(capHeight+descent) + f.size*descent
	if a.y == 0.5 {
		dy = -f.size * capHeight / 2
	}
	p.page.SetColor(f.color)
	if angle == 0 {
		p.page.FillString(f.font(), vgPoint(point{at.x + dx, at.y + dy}), s)
		return
	}
	p.page.Push()
	p.page.Translate(vgPoint(at))
	p.page.Rotate(angle)
	p.page.FillString(f.font(), vgPoint(point{dx, dy}), s)
	p.page.Pop()
}

// lines writes several lines below each other; the anchor holds for the block.
func (p pen) lines(f face, at point, a anchor, lines []string) {
	top := at.y + (1-a.y)*f.height(len(lines))
	for i, s := range lines {
		mid := top - (float64(i)+0.5)*f.size*leading
		p.text(f, point{at.x, mid}, anchor{a.x, 0.5}, 0, s)
	}
}

func (p pen) line(s stroke, path ...point) {
	if len(path) < 2 || s.width <= 0 {
		return
	}
	p.outline(s, polygon(path, false))
}

func (p pen) polygon(fill color.Color, s stroke, corners ...point) {
	p.shape(fill, s, polygon(corners, true))
}

func (p pen) box(r rect, fill color.Color, s stroke) {
	p.polygon(fill, s, point{r.x0, r.y0}, point{r.x1, r.y0}, point{r.x1, r.y1}, point{r.x0, r.y1})
}

func (p pen) circle(c point, radius float64, fill color.Color, s stroke) {
	var path vg.Path
	path.Move(vgPoint(point{c.x + radius, c.y}))
	path.Arc(vgPoint(c), vg.Length(radius), 0, 2*math.Pi)
	path.Close()
	p.shape(fill, s, path)
}

// shape fills and then outlines a closed path; a nil fill leaves it open to see through.
func (p pen) shape(fill color.Color, s stroke, path vg.Path) {
	if fill != nil {
		p.page.SetColor(fill)
		p.page.Fill(path)
	}
	if s.width > 0 {
		p.outline(s, path)
	}
}

func (p pen) outline(s stroke, path vg.Path) {
	p.page.SetColor(s.color)
	p.page.SetLineWidth(vg.Length(s.width))
	p.page.SetLineDash(s.dash, 0)
	p.page.Stroke(path)
}

func polygon(corners []point, closed bool) vg.Path {
	var path vg.Path
	for i, c := range corners {
		if i == 0 {
			path.Move(vgPoint(c))
		} else {
			path.Line(vgPoint(c))
		}
	}
	if closed {
		path.Close()
	}
	return path
}

func vgPoint(p point) vg.Point { return vg.Point{X: vg.Length(p.x), Y: vg.Length(p.y)} }
