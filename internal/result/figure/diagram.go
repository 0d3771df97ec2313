package figure

import (
	"image/color"
	"math"
	"slices"

	"github.com/kernbench/kernbench/internal/result/draw"
)

// Diagram shows square nodes and arrows between them. A node has sides of length 1, x runs to the right and y upward.
// The drawing is scaled to the panel with its proportions kept.
type Diagram struct {
	Nodes []Node
	Links []Link // below the nodes
}

// Node is a square with a text, which shrinks to fit.
type Node struct {
	X, Y   float64 // of the center
	Text   string
	Color  int  // palette entry from 1; 0 is neutral
	Filled bool // a solid color rather than a tint
}

// Link is an arrow.
type Link struct {
	From, To [2]float64
	Bend     float64 // curves it to its left by this fraction of its length
	Trim     float64 // shortens both ends, so that it stops at the rims of its nodes
	Both     bool    // it has a head at either end
	Color    int     // palette entry from 1; 0 is neutral
}

// Check implements Content.
func (d *Diagram) Check(_ Panel, panel Faults) {
	f := panel.At("diagram")
	for i, n := range d.Nodes {
		if !showable(n.X) || !showable(n.Y) || n.Color < 0 {
			f.Add("node %d: color %d at (%g, %g), want no negative color and finite numbers below 1e100", i+1, n.Color,
				n.X, n.Y)
		}
	}
	for i, l := range d.Links {
		finite := !slices.ContainsFunc([]float64{l.From[0], l.From[1], l.To[0], l.To[1], l.Bend, l.Trim},
			func(v float64) bool { return !showable(v) })
		if !finite || l.Color < 0 || l.Trim < 0 {
			f.Add("link %d: color %d from %g to %g, bent by %g and trimmed by %g, want no negative color or trim and "+
				"finite numbers below 1e100", i+1, l.Color, l.From, l.To, l.Bend, l.Trim)
		}
	}
}

// bounds returns the extent of the diagram in its own coordinates.
func (d *Diagram) bounds() draw.Rectangle {
	r := draw.Rect(math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1))
	add := func(x, y float64) {
		r = draw.Rect(min(r.X0, x), min(r.Y0, y), max(r.X1, x), max(r.Y1, y))
	}
	for _, n := range d.Nodes {
		add(n.X-0.5, n.Y-0.5)
		add(n.X+0.5, n.Y+0.5)
	}
	for _, l := range d.Links {
		for _, p := range l.curve() {
			add(p.X, p.Y)
		}
	}
	return r
}

// curve returns the path of a link in diagram coordinates, bent and trimmed.
func (l Link) curve() []draw.Point {
	const steps = 32
	a, b := draw.Pt(l.From[0], l.From[1]), draw.Pt(l.To[0], l.To[1])
	path := []draw.Point{a, b}
	if l.Bend != 0 {
		// The control point of a parabola lies twice as far out as its apex.
		mid := draw.Pt((a.X+b.X)/2-2*l.Bend*(b.Y-a.Y), (a.Y+b.Y)/2+2*l.Bend*(b.X-a.X))
		path = path[:0]
		for i := range steps + 1 {
			t := float64(i) / float64(steps)
			u := 1 - t
			path = append(path, draw.Pt(u*u*a.X+2*u*t*mid.X+t*t*b.X, u*u*a.Y+2*u*t*mid.Y+t*t*b.Y))
		}
	}
	return reverse(trim(reverse(trim(path, l.Trim)), l.Trim))
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

// Prepare implements Content.
func (d *Diagram) Prepare(Panel) Drawing { return d }

// Height implements Drawing: it keeps the proportions of the diagram.
func (d *Diagram) Height(w, usual float64) float64 {
	b := d.bounds()
	if !(b.W() > 0) {
		return usual
	}
	return min(max(w*b.H()/b.W()+40, usual*0.5), w*0.9)
}

// Notes implements Drawing.
func (d *Diagram) Notes() string { return "" }

// Draw implements Drawing.
func (d *Diagram) Draw(p draw.Pen, area draw.Rectangle) {
	if len(d.Nodes) == 0 {
		drawNoData(p, area)
		return
	}
	const margin = 14
	from, inner := d.bounds(), area.Inset(margin)
	scale := min(inner.W()/from.W(), inner.H()/from.H(), area.H()/2) // few nodes do not fill the panel
	c := inner.Center()
	at := func(q draw.Point) draw.Point {
		return draw.Pt(c.X+scale*(q.X-from.Center().X), c.Y+scale*(q.Y-from.Center().Y))
	}
	for _, l := range d.Links {
		path := l.curve()
		for i := range path {
			path[i] = at(path[i])
		}
		line, _ := paletteEntry(l.Color)
		drawArrow(p, draw.Stroke{Color: line, Width: 1.2}, path, l.Both)
	}
	for _, n := range d.Nodes {
		line, fill := paletteEntry(n.Color)
		if n.Filled {
			fill = line
		}
		center := at(draw.Pt(n.X, n.Y))
		p.Box(draw.Rect(center.X, center.Y, center.X, center.Y).Inset(-scale/2), fill, draw.Stroke{Color: line, Width: 1.2})
		n.drawText(p, center, scale, draw.InkOn(fill))
	}
}

// paletteEntry returns a color, counted from 1, and its tint; 0 is neutral.
func paletteEntry(i int) (line, fill color.NRGBA) {
	if i == 0 {
		return draw.InkGrey, draw.PaleGrey
	}
	line = draw.Palette[(i-1)%len(draw.Palette)]
	return line, draw.Tint(line)
}

// drawText writes the text into a square, in a smaller font if necessary. Text that would be too small to read is
// omitted.
func (n Node) drawText(p draw.Pen, at draw.Point, side float64, ink color.NRGBA) {
	f := draw.Face{Size: 11, Color: ink}
	lines := f.Wrap(n.Text, math.Inf(1), 20)
	if len(lines) == 0 {
		return
	}
	shrink := min(1, (side-2)/f.Height(len(lines)))
	for _, line := range lines {
		shrink = min(shrink, (side-4)/f.Width(line))
	}
	if f.Size *= shrink; f.Size >= 5 {
		p.Lines(f, at, draw.CenterMid, lines)
	}
}

// drawArrow draws a line with a head at its end, or at both ends.
func drawArrow(p draw.Pen, s draw.Stroke, path []draw.Point, both bool) {
	const head = 8.2
	// The shaft ends inside the head, so that its blunt end does not show at the tip.
	shaft := reverse(trim(reverse(path), head*0.7))
	drawHead(p, s, path, head)
	if both {
		shaft = trim(shaft, head*0.7)
		drawHead(p, s, reverse(path), head)
	}
	p.Line(s, shaft...)
}

// drawHead draws a filled head at the end of the path. It points in the direction of
// the path's last piece, as long as the head.
func drawHead(p draw.Pen, s draw.Stroke, path []draw.Point, size float64) {
	tip, tail := path[len(path)-1], path[0]
	if pathLength(path) > 2*size {
		tail = trim(reverse(path), size)[0]
	}
	dx, dy := tip.X-tail.X, tip.Y-tail.Y
	n := math.Hypot(dx, dy)
	if n == 0 {
		return
	}
	dx, dy = dx/n*size, dy/n*size
	p.Polygon(s.Color, draw.Stroke{}, tip,
		draw.Pt(tip.X-dx-dy*0.42, tip.Y-dy+dx*0.42),
		draw.Pt(tip.X-dx+dy*0.42, tip.Y-dy-dx*0.42))
}
