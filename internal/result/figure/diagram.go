package figure

import (
	"image/color"
	"math"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/result/draw"
)

func init() {
	Contents.Register(ContentKind{
		Name: "diagram",
		Help: "boxes and connections",
		New:  func() Content { return &Diagram{} },
	})
}

// Diagram is a free drawing. Its coordinates are arbitrary, x to the right and y
// upward, and are scaled to the panel with their proportions kept. Later shapes
// cover earlier ones.
type Diagram struct {
	Shapes []Shape `json:"shapes"`
}

// Shape is one element of a diagram.
type Shape struct {
	Kind ShapeKind `json:"kind"`
	// X, Y is the centre of a Box, Circle or Text.
	X float64 `json:"x,omitempty"`
	Y float64 `json:"y,omitempty"`
	// W and H are the size of a Box; W is the diameter of a Circle.
	W float64 `json:"w,omitempty"`
	H float64 `json:"h,omitempty"`
	// Points are the corners of a Path or Arrow (head at the last).
	Points [][2]float64 `json:"points,omitempty"`
	// Bend curves a Path or Arrow of two points to its left by this fraction of its length.
	Bend float64 `json:"bend,omitempty"`
	// Trim shortens both ends of a Path or Arrow, so that a link between the centres
	// of two nodes stops at their rims.
	Trim float64 `json:"trim,omitempty"`
	// Text is written in a Box or Circle, shrunk to fit, or over the middle of a Path or Arrow.
	Text   string `json:"text,omitempty"`
	Color  int    `json:"color,omitempty"`  // palette entry from 1; 0 is neutral
	Filled bool   `json:"filled,omitempty"` // a solid color rather than a tint
	Dashed bool   `json:"dashed,omitempty"`
	Bold   bool   `json:"bold,omitempty"` // bold text, thick line
	Both   bool   `json:"both,omitempty"` // an Arrow with a head at either end
}

// ShapeKind is the kind of a shape.
type ShapeKind string

// The shapes of a diagram.
const (
	Box    ShapeKind = "box"
	Circle ShapeKind = "circle"
	Path   ShapeKind = "path"
	Arrow  ShapeKind = "arrow"
	Text   ShapeKind = "text"
)

// Check implements Content.
func (d *Diagram) Check(_ Panel, panel Faults) {
	f := panel.At("diagram")
	for i, s := range d.Shapes {
		s.validate(f.At("shape %d (%s)", i+1, s.Kind))
	}
}

// validate adds the faults of a shape.
func (s Shape) validate(f Faults) {
	for _, v := range []float64{s.X, s.Y, s.W, s.H, s.Bend, s.Trim} {
		if !showable(v) {
			f.Add("a coordinate is %g, want a finite number below 1e100", v)
		}
	}
	for _, p := range s.Points {
		if !showable(p[0]) || !showable(p[1]) {
			f.Add("a corner is (%g, %g), want finite numbers below 1e100", p[0], p[1])
		}
	}
	if s.Color < 0 || s.Trim < 0 {
		f.Add("color %d or trim %g is negative", s.Color, s.Trim)
	}
	switch s.Kind {
	case Box:
		if s.W <= 0 || s.H <= 0 {
			f.Add("size %g x %g, want both positive", s.W, s.H)
		}
	case Circle:
		if s.W <= 0 {
			f.Add("diameter %g, want w > 0", s.W)
		}
	case Path, Arrow:
		if len(s.Points) < 2 {
			f.Add("%d points, want at least two", len(s.Points))
		}
		if s.Bend != 0 && len(s.Points) != 2 {
			f.Add("bend with %d points, want exactly two", len(s.Points))
		}
	case Text:
		if s.Text == "" {
			f.Add("no text")
		}
	default:
		f.Add("unknown shape, want one of %q", []ShapeKind{Box, Circle, Path, Arrow, Text})
	}
}

// bounds returns the extent of all shapes in the diagram's coordinates.
func (d *Diagram) bounds() draw.Rectangle {
	r := draw.Rect(math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1))
	add := func(x, y float64) {
		r = draw.Rect(min(r.X0, x), min(r.Y0, y), max(r.X1, x), max(r.Y1, y))
	}
	for _, s := range d.Shapes {
		w, h := s.W/2, s.H/2
		switch s.Kind {
		case Circle:
			h = w
		case Path, Arrow:
			for _, p := range s.curve(16) {
				add(p.X, p.Y)
			}
			continue
		}
		add(s.X-w, s.Y-h)
		add(s.X+w, s.Y+h)
	}
	// Texts have no extent, so a diagram of one text would have none.
	if side := max(r.W(), r.H()); side < 1/extreme {
		r = r.Inset(-0.5)
	}
	return r
}

// curve returns the path of a Path or Arrow in diagram coordinates, bent and trimmed.
func (s Shape) curve(steps int) []draw.Point {
	path := lists.Map(s.Points, func(p [2]float64) draw.Point { return draw.Pt(p[0], p[1]) })
	if s.Bend != 0 && len(path) == 2 {
		a, b := path[0], path[1]
		// The control point of a parabola lies twice as far out as its apex.
		mid := draw.Pt((a.X+b.X)/2-2*s.Bend*(b.Y-a.Y), (a.Y+b.Y)/2+2*s.Bend*(b.X-a.X))
		path = path[:0]
		for i := range steps + 1 {
			t := float64(i) / float64(steps)
			u := 1 - t
			path = append(path, draw.Pt(u*u*a.X+2*u*t*mid.X+t*t*b.X, u*u*a.Y+2*u*t*mid.Y+t*t*b.Y))
		}
	}
	return reverse(trim(reverse(trim(path, s.Trim)), s.Trim))
}

// trim cuts a length off the start of a path, unless the path is too short.
func trim(path []draw.Point, length float64) []draw.Point {
	if length <= 0 || pathLength(path) <= 2*length {
		return path
	}
	for i := 1; i < len(path); i++ {
		a, b := path[i-1], path[i]
		d := math.Hypot(b.X-a.X, b.Y-a.Y)
		if d > length {
			t := length / d
			return append([]draw.Point{draw.Pt(a.X+t*(b.X-a.X), a.Y+t*(b.Y-a.Y))}, path[i:]...)
		}
		length -= d
	}
	return path
}

func pathLength(path []draw.Point) float64 {
	sum := 0.0
	for i := 1; i < len(path); i++ {
		sum += math.Hypot(path[i].X-path[i-1].X, path[i].Y-path[i-1].Y)
	}
	return sum
}

func reverse(path []draw.Point) []draw.Point {
	out := slices.Clone(path)
	slices.Reverse(out)
	return out
}

// diagramFont is the font size of free text and the largest size of text in shapes.
const diagramFont = 11.0

// drawing maps a diagram's coordinates to the page.
type drawing struct {
	draw.Pen
	from   draw.Rectangle
	origin draw.Point // position of from's lower left corner
	scale  float64
}

// Prepare implements Content.
func (d *Diagram) Prepare(Panel) Drawing { return d }

// Height implements Drawing: it keeps the proportions of the diagram.
func (d *Diagram) Height(w, usual float64) float64 {
	if len(d.Shapes) == 0 {
		return usual
	}
	b := d.bounds()
	if b.W() == 0 {
		return usual
	}
	return min(max(w*b.H()/b.W()+40, usual*0.5), w*0.9)
}

// Notes implements Drawing.
func (d *Diagram) Notes() string { return "" }

// Draw implements Drawing.
func (d *Diagram) Draw(p draw.Pen, area draw.Rectangle) {
	if len(d.Shapes) == 0 {
		drawNoData(p, area)
		return
	}
	const margin = 14 // for text that is wider than the outermost shape
	from, inner := d.bounds(), area.Inset(margin)
	scale := math.Inf(1)
	if from.W() > 0 {
		scale = inner.W() / from.W()
	}
	if from.H() > 0 {
		scale = min(scale, inner.H()/from.H())
	}
	// Few nodes are not scaled up to the size of the panel.
	if largest := d.largest(); largest > 0 {
		scale = min(scale, area.H()/2/largest)
	}
	c := inner.Center()
	dr := drawing{Pen: p, from: from, scale: scale,
		origin: draw.Pt(c.X-scale*from.W()/2, c.Y-scale*from.H()/2)}
	for _, s := range d.Shapes {
		dr.shape(s)
	}
}

// largest returns the size of the largest node, or 0 if that node encloses the others.
func (d *Diagram) largest() float64 {
	nodes, size := 0, 0.0
	for _, s := range d.Shapes {
		if s.Kind == Circle || s.Kind == Box {
			nodes++
			size = max(size, max(s.W, s.H))
		}
	}
	if b := d.bounds(); size >= max(b.W(), b.H())*0.9 && nodes > 1 {
		return 0
	}
	return size
}

func (d drawing) at(x, y float64) draw.Point {
	return draw.Pt(d.origin.X+d.scale*(x-d.from.X0), d.origin.Y+d.scale*(y-d.from.Y0))
}

// colors returns the outline, fill and text color of a shape.
func (s Shape) colors() (line, fill, ink color.NRGBA) {
	line, fill = draw.InkGrey, draw.PaleGrey
	if s.Color > 0 {
		line = draw.Palette[(s.Color-1)%len(draw.Palette)]
		fill = draw.Tint(line)
	}
	if s.Filled {
		fill = line
	}
	return line, fill, draw.InkOn(fill)
}

// shape draws one element of the diagram.
func (d drawing) shape(s Shape) {
	line, fill, ink := s.colors()
	outline := draw.Stroke{Color: line, Width: 1.2}
	if s.Bold {
		outline.Width = 2.4
	}
	if s.Dashed {
		outline.Dash = []float64{4, 2.5}
	}
	font := draw.Face{Size: diagramFont, Bold: s.Bold, Color: ink}
	center := d.at(s.X, s.Y)
	switch s.Kind {
	case Box:
		w, h := s.W*d.scale, s.H*d.scale
		d.Box(draw.Rect(center.X-w/2, center.Y-h/2, center.X+w/2, center.Y+h/2), fill, outline)
		d.inside(font, center, w-4, h-2, s.Text)
	case Circle:
		diameter := s.W * d.scale
		d.Circle(center, diameter/2, fill, outline)
		d.inside(font, center, diameter*0.82, diameter*0.6, s.Text)
	case Text:
		font.Color = draw.Black
		if s.Color > 0 {
			font.Color = line
		}
		lines := font.Wrap(s.Text, math.Inf(1), 20)
		d.Lines(font, center, draw.CenterMid, lines)
	case Path, Arrow:
		d.link(s, outline)
	}
}

// inside writes text into a shape, in a smaller font if necessary. Text that would
// be too small to read is omitted.
func (d drawing) inside(f draw.Face, at draw.Point, w, h float64, text string) {
	lines := f.Wrap(text, math.Inf(1), 20)
	if len(lines) == 0 {
		return
	}
	shrink := min(1, h/f.Height(len(lines)))
	for _, line := range lines {
		shrink = min(shrink, w/f.Width(line))
	}
	if f.Size *= shrink; f.Size >= 5 {
		d.Lines(f, at, draw.CenterMid, lines)
	}
}

// link draws a Path or Arrow with its heads and its text.
func (d drawing) link(s Shape, outline draw.Stroke) {
	path := s.curve(32)
	for i, p := range path {
		path[i] = d.at(p.X, p.Y)
	}
	shaft := path
	if s.Kind == Arrow {
		head := 7 + outline.Width
		// The shaft ends inside the head, so that its blunt end does not show at the tip.
		shaft = reverse(trim(reverse(shaft), head*0.7))
		d.arrowHead(path, head, outline)
		if s.Both {
			back := reverse(path)
			shaft = trim(shaft, head*0.7)
			d.arrowHead(back, head, outline)
		}
	}
	d.Line(outline, shaft...)
	if s.Text == "" {
		return
	}
	f := draw.Face{Size: diagramFont - 1, Bold: s.Bold, Color: draw.Black}
	a, b := path[(len(path)-1)/2], path[len(path)/2]
	mid := draw.Pt((a.X+b.X)/2, (a.Y+b.Y)/2)
	lines := f.Wrap(s.Text, math.Inf(1), 20)
	w := 0.0
	for _, line := range lines {
		w = max(w, f.Width(line))
	}
	d.Box(draw.Rect(mid.X-w/2-2, mid.Y-f.Height(len(lines))/2, mid.X+w/2+2, mid.Y+f.Height(len(lines))/2), draw.Veil,
		draw.Stroke{})
	d.Lines(f, mid, draw.CenterMid, lines)
}

// arrowHead draws a filled head at the end of the path. It points in the direction of
// the path's last piece, as long as the head.
func (d drawing) arrowHead(path []draw.Point, size float64, outline draw.Stroke) {
	tip := path[len(path)-1]
	total := pathLength(path)
	if total == 0 {
		return
	}
	tail := path[0]
	if total > 2*size {
		tail = trim(reverse(path), size)[0]
	}
	dx, dy := tip.X-tail.X, tip.Y-tail.Y
	n := math.Hypot(dx, dy)
	if n == 0 {
		return
	}
	dx, dy = dx/n*size, dy/n*size
	d.Polygon(outline.Color, draw.Stroke{}, tip,
		draw.Pt(tip.X-dx-dy*0.42, tip.Y-dy+dx*0.42),
		draw.Pt(tip.X-dx+dy*0.42, tip.Y-dy-dx*0.42))
}
