// Package draw puts lines, shapes and text on a page and writes it as PNG or SVG.
//
// It deals with positions, colors and letters. Axes and data are the business of
// package figure. It is the only importer of the plotting library: kinds of
// figures in other packages draw with a [Pen].
package draw

import (
	"image/color"
	"math"
	"strings"
	"sync"

	"codeberg.org/go-fonts/liberation/liberationsansbold"
	"codeberg.org/go-fonts/liberation/liberationsansregular"
	xfont "golang.org/x/image/font"
	"golang.org/x/image/font/opentype"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/texttab"
)

// Pen draws on a page of either format.
type Pen struct{ page vg.Canvas }

// Stroke is the style of a line. A width of 0 draws nothing.
type Stroke struct {
	Color color.Color
	Width float64
	Dash  []float64 // alternating lengths of dashes and gaps; nil for a solid line
}

// Face is the style of text, with its size in points.
type Face struct {
	Size  float64
	Bold  bool
	Color color.Color
}

// Anchor is the part of a text that is placed at a given point.
type Anchor struct{ X, Y float64 } // 0 left or bottom, 0.5 middle, 1 right or top

// The anchors that figures use.
var (
	LeftMid    = Anchor{0, 0.5}
	RightMid   = Anchor{1, 0.5}
	CenterTop  = Anchor{0.5, 1}
	CenterBase = Anchor{0.5, 0}
	CenterMid  = Anchor{0.5, 0.5}
	LeftTop    = Anchor{0, 1}
	LeftBottom = Anchor{0, 0}
)

// Vertical measures of Liberation Sans in units of the font size: the distance of
// lines, and how far letters reach above and below the baseline.
const (
	leading   = 1.25
	capHeight = 0.72
	descent   = 0.21
)

// sans parses the two fonts once. The plotting library's own font collection would
// add ten more fonts to the binary.
var sans = sync.OnceValue(func() [2]*opentype.Font {
	var fonts [2]*opentype.Font
	for i, ttf := range [][]byte{liberationsansregular.TTF, liberationsansbold.TTF} {
		f, err := opentype.Parse(ttf)
		if err != nil {
			panic("draw: embedded font is damaged: " + err.Error())
		}
		fonts[i] = f
	}
	return fonts
})

// font returns the face as the plotting library's type.
func (f Face) font() font.Face {
	d := font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Length(f.Size)}
	i := 0
	if f.Bold {
		d.Weight = xfont.WeightBold
		i = 1
	}
	return font.Face{Font: d, Face: sans()[i]}
}

// Width returns the width of one line of text.
func (f Face) Width(s string) float64 {
	ff := f.font()
	return float64(ff.Width(clean(s)))
}

// Height returns the height of n lines.
func (f Face) Height(n int) float64 { return float64(n) * f.Size * leading }

// clean makes control characters and invalid UTF-8, which neither file format allows, and directions of text visible.
func clean(s string) string { return spaces.Replace(texttab.Visible(s)) }

var spaces = strings.NewReplacer("\t", " ", "\n", " ")

// Text writes one line, rotated by angle (in radians) about the point.
func (p Pen) Text(f Face, at Point, a Anchor, angle float64, s string) {
	s = clean(s)
	if s == "" {
		return
	}
	dx := -a.X * f.Width(s)
	// The vertical middle is the middle of capitals and digits, which looks centred.
	dy := -a.Y*f.Size*(capHeight+descent) + f.Size*descent
	if a.Y == 0.5 {
		dy = -f.Size * capHeight / 2
	}
	p.page.SetColor(f.Color)
	if angle == 0 {
		p.page.FillString(f.font(), vgPoint(Pt(at.X+dx, at.Y+dy)), s)
		return
	}
	p.page.Push()
	p.page.Translate(vgPoint(at))
	p.page.Rotate(angle)
	p.page.FillString(f.font(), vgPoint(Pt(dx, dy)), s)
	p.page.Pop()
}

// Lines writes several lines below each other. The anchor refers to the whole block.
func (p Pen) Lines(f Face, at Point, a Anchor, lines []string) {
	top := at.Y + (1-a.Y)*f.Height(len(lines))
	for i, s := range lines {
		mid := top - (float64(i)+0.5)*f.Size*leading
		p.Text(f, Pt(at.X, mid), Anchor{a.X, 0.5}, 0, s)
	}
}

// Line draws a line through the points.
func (p Pen) Line(s Stroke, path ...Point) {
	if len(path) < 2 || s.Width <= 0 {
		return
	}
	p.outline(s, polygon(path, false))
}

// Polygon fills and outlines the area between the corners. A nil fill is transparent.
func (p Pen) Polygon(fill color.Color, s Stroke, corners ...Point) {
	p.shape(fill, s, polygon(corners, true))
}

// Box fills and outlines a rectangle.
func (p Pen) Box(r Rectangle, fill color.Color, s Stroke) {
	p.Polygon(fill, s, Pt(r.X0, r.Y0), Pt(r.X1, r.Y0), Pt(r.X1, r.Y1), Pt(r.X0, r.Y1))
}

// PaletteBox fills a rectangle with a color of the palette, counted from 0, and outlines it. It hatches the colors
// that can be mistaken for an earlier one without color.
func (p Pen) PaletteBox(r Rectangle, i int, s Stroke) {
	i %= len(Palette)
	p.Box(r, Palette[i], s)
	if i < PlainColors {
		return
	}
	const step = 5
	for x := r.X0 - r.H() + step/2; x < r.X1; x += step {
		for _, piece := range r.ClipPath([]Point{{x, r.Y0}, {x + r.H(), r.Y1}}) {
			p.Line(Stroke{Color: White, Width: 1.1}, piece...)
		}
	}
}

// Circle fills and outlines a circle.
func (p Pen) Circle(c Point, radius float64, fill color.Color, s Stroke) {
	var path vg.Path
	path.Move(vgPoint(Pt(c.X+radius, c.Y)))
	path.Arc(vgPoint(c), vg.Length(radius), 0, 2*math.Pi)
	path.Close()
	p.shape(fill, s, path)
}

// shape fills and then outlines a closed path. A nil fill is transparent.
func (p Pen) shape(fill color.Color, s Stroke, path vg.Path) {
	if fill != nil {
		p.page.SetColor(fill)
		p.page.Fill(path)
	}
	if s.Width > 0 {
		p.outline(s, path)
	}
}

func (p Pen) outline(s Stroke, path vg.Path) {
	p.page.SetColor(s.Color)
	dashes := lists.Map(s.Dash, func(d float64) vg.Length { return vg.Length(d) })
	p.page.SetLineWidth(vg.Length(s.Width))
	p.page.SetLineDash(dashes, 0)
	p.page.Stroke(path)
}

func polygon(corners []Point, closed bool) vg.Path {
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

func vgPoint(p Point) vg.Point { return vg.Point{X: vg.Length(p.X), Y: vg.Length(p.Y)} }

// Ellipsis replaces omitted text.
const Ellipsis = "…"

// Shorten fits a name into the width by omitting its middle, because the names of a
// sweep usually begin alike and differ at the end.
func (f Face) Shorten(s string, width float64) string {
	return f.squeeze(clean(s), width, 0.55)
}

// squeeze replaces as little of s as necessary with an ellipsis. head is the fraction
// of the remaining text that comes from the start of s.
func (f Face) squeeze(s string, width, head float64) string {
	if f.Width(s) <= width {
		return s
	}
	runes := []rune(s)
	short := Ellipsis
	for keep := 1; keep < len(runes); keep++ {
		n := int(math.Ceil(float64(keep) * head))
		left := strings.TrimRight(string(runes[:n]), " ,;:-_/(")
		right := strings.TrimLeft(string(runes[len(runes)-(keep-n):]), " ")
		try := left + Ellipsis + right
		if f.Width(try) > width {
			break
		}
		short = try
	}
	return short
}

// Wrap breaks text into at most limit lines of the width. Lines break at spaces, at
// newlines, and after the separators in names such as ring_all-reduce/fp16. Text
// that does not fit is cut off with an ellipsis.
func (f Face) Wrap(s string, width float64, limit int) []string {
	var lines []string
	for hard := range strings.SplitSeq(s, "\n") {
		line := ""
		for _, piece := range pieces(clean(hard)) {
			last := len(lines) >= limit-1 // it is cut off instead
			if line != "" && !last && f.Width(strings.TrimRight(line+piece, " ")) > width {
				lines = append(lines, strings.TrimRight(line, " "))
				line = ""
			}
			line += piece
		}
		if line = strings.TrimRight(line, " "); line != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) > limit {
		// Put further lines of the text into the last line, which then gets an ellipsis.
		lines = append(lines[:limit-1:limit-1], strings.Join(lines[limit-1:], " "))
	}
	for i, line := range lines {
		lines[i] = f.squeeze(line, width, 1)
	}
	return lines
}

// pieces cuts a line where it may be broken. A separator stays with the piece before it.
func pieces(s string) []string {
	var list []string
	start := 0
	for i, r := range s {
		if strings.ContainsRune(" -_/,;", r) {
			list = append(list, s[start:i+1])
			start = i + 1
		}
	}
	return append(list, s[start:])
}
