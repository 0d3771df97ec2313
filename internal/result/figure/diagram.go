package figure

import (
	"image/color"
	"math"

	"gonum.org/v1/plot/vg"
)

// bounds gives the extent of all shapes in the diagram's own coordinates.
func (d Diagram) bounds() rect {
	r := rect{math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)}
	add := func(x, y float64) {
		r = rect{math.Min(r.x0, x), math.Min(r.y0, y), math.Max(r.x1, x), math.Max(r.y1, y)}
	}
	for _, s := range d.Shapes {
		w, h := s.W/2, s.H/2
		switch s.Kind {
		case Circle:
			h = w
		case Path, Arrow:
			for _, p := range s.curve(16) {
				add(p.x, p.y)
			}
			continue
		}
		add(s.X-w, s.Y-h)
		add(s.X+w, s.Y+h)
	}
	// A lone text or a straight row of them has no extent of its own.
	if side := math.Max(r.w(), r.h()); side < 1/extreme {
		r = r.inset(-0.5)
	}
	return r
}

// curve is the path of a line shape in diagram coordinates, bent and trimmed.
func (s Shape) curve(steps int) []point {
	path := make([]point, len(s.Points))
	for i, p := range s.Points {
		path[i] = point{p[0], p[1]}
	}
	if s.Bend != 0 && len(path) == 2 {
		a, b := path[0], path[1]
		// The control point of a parabola lies twice as far out as its top.
		mid := point{(a.x+b.x)/2 - 2*s.Bend*(b.y-a.y), (a.y+b.y)/2 + 2*s.Bend*(b.x-a.x)}
		path = path[:0]
		for i := range steps + 1 {
			t := float64(i) / float64(steps)
			u := 1 - t
			path = append(path, point{u*u*a.x + 2*u*t*mid.x + t*t*b.x, u*u*a.y + 2*u*t*mid.y + t*t*b.y})
		}
	}
	return reverse(trim(reverse(trim(path, s.Trim)), s.Trim))
}

// trim cuts a length off the start of a path; a path that is too short is left alone.
func trim(path []point, length float64) []point {
	if length <= 0 || pathLength(path) <= 2*length {
		return path
	}
	for i := 1; i < len(path); i++ {
		a, b := path[i-1], path[i]
		d := math.Hypot(b.x-a.x, b.y-a.y)
		if d > length {
			t := length / d
			return append([]point{{a.x + t*(b.x-a.x), a.y + t*(b.y-a.y)}}, path[i:]...)
		}
		length -= d
	}
	return path
}

func pathLength(path []point) float64 {
	sum := 0.0
	for i := 1; i < len(path); i++ {
		sum += math.Hypot(path[i].x-path[i-1].x, path[i].y-path[i-1].y)
	}
	return sum
}

func reverse(path []point) []point {
	out := make([]point, len(path))
	for i, p := range path {
		out[len(path)-1-i] = p
	}
	return out
}

// diagramFont is the size of free text; text in shapes shrinks from it.
const diagramFont = 11.0

// drawing carries a diagram's coordinates to the page.
type drawing struct {
	pen
	from   rect
	origin point // where the lower left corner of from goes
	scale  float64
}

// draw fits the diagram into the area, keeping its proportions.
func (d Diagram) draw(p pen, area rect) {
	if len(d.Shapes) == 0 {
		p.box(area, nil, stroke{color: gridGrey, width: 0.8})
		p.text(face{size: 13, color: inkGrey}, area.center(), centerMid, 0, "no data")
		return
	}
	const margin = 14 // for text that reaches over the outermost shape
	from, room := d.bounds(), area.inset(margin)
	scale := math.Inf(1)
	if from.w() > 0 {
		scale = room.w() / from.w()
	}
	if from.h() > 0 {
		scale = math.Min(scale, room.h()/from.h())
	}
	// A row of three nodes must not become three balloons.
	if largest := d.largest(); largest > 0 {
		scale = math.Min(scale, area.h()/2/largest)
	}
	c := room.center()
	dr := drawing{pen: p, from: from, scale: scale,
		origin: point{c.x - scale*from.w()/2, c.y - scale*from.h()/2}}
	for _, s := range d.Shapes {
		dr.shape(s)
	}
}

// largest gives the size of the biggest node, unless it is the frame round the others.
func (d Diagram) largest() float64 {
	nodes, size := 0, 0.0
	for _, s := range d.Shapes {
		if s.Kind == Circle || s.Kind == Box {
			nodes++
			size = math.Max(size, math.Max(s.W, s.H))
		}
	}
	if b := d.bounds(); size >= math.Max(b.w(), b.h())*0.9 && nodes > 1 {
		return 0
	}
	return size
}

func (d drawing) at(x, y float64) point {
	return point{d.origin.x + d.scale*(x-d.from.x0), d.origin.y + d.scale*(y-d.from.y0)}
}

// colors gives outline, fill and text colour of a shape.
func (s Shape) colors() (line, fill, ink color.NRGBA) {
	line, fill = inkGrey, paleGrey
	if s.Color > 0 {
		line = palette[(s.Color-1)%len(palette)]
		fill = mix(line, white, 0.8)
	}
	if s.Filled {
		fill = line
	}
	return line, fill, inkOn(fill)
}

func (d drawing) shape(s Shape) {
	line, fill, ink := s.colors()
	outline := stroke{color: line, width: 1.2}
	if s.Bold {
		outline.width = 2.4
	}
	if s.Dashed {
		outline.dash = []vg.Length{4, 2.5}
	}
	font := face{size: diagramFont, bold: s.Bold, color: ink}
	center := d.at(s.X, s.Y)
	switch s.Kind {
	case Box:
		w, h := s.W*d.scale, s.H*d.scale
		d.box(rect{center.x - w/2, center.y - h/2, center.x + w/2, center.y + h/2}, fill, outline)
		d.inside(font, center, w-4, h-2, s.Text)
	case Circle:
		diameter := s.W * d.scale
		d.circle(center, diameter/2, fill, outline)
		d.inside(font, center, diameter*0.82, diameter*0.6, s.Text)
	case Text:
		font.color = black
		if s.Color > 0 {
			font.color = line
		}
		lines := font.wrap(s.Text, math.Inf(1), 20)
		d.lines(font, center, centerMid, lines)
	case Path, Arrow:
		d.link(s, outline)
	}
}

// inside writes text into a shape, smaller where it must be; what would be too
// small to read is left out.
func (d drawing) inside(f face, at point, w, h float64, text string) {
	lines := f.wrap(text, math.Inf(1), 20)
	if len(lines) == 0 {
		return
	}
	shrink := math.Min(1, h/f.height(len(lines)))
	for _, line := range lines {
		shrink = math.Min(shrink, w/f.width(line))
	}
	if f.size *= shrink; f.size >= 5 {
		d.lines(f, at, centerMid, lines)
	}
}

// link draws a path with its arrow heads and its text.
func (d drawing) link(s Shape, outline stroke) {
	path := s.curve(32)
	for i, p := range path {
		path[i] = d.at(p.x, p.y)
	}
	shaft := path
	if s.Kind == Arrow {
		head := 7 + outline.width
		// The shaft ends inside the head, or its blunt end would show at the tip.
		shaft = reverse(trim(reverse(shaft), head*0.7))
		d.arrowHead(path, head, outline)
		if s.Both {
			back := reverse(path)
			shaft = trim(shaft, head*0.7)
			d.arrowHead(back, head, outline)
		}
	}
	d.line(outline, shaft...)
	if s.Text == "" {
		return
	}
	f := face{size: diagramFont - 1, bold: s.Bold, color: black}
	a, b := path[(len(path)-1)/2], path[len(path)/2]
	mid := point{(a.x + b.x) / 2, (a.y + b.y) / 2}
	lines := f.wrap(s.Text, math.Inf(1), 20)
	w := 0.0
	for _, line := range lines {
		w = math.Max(w, f.width(line))
	}
	d.box(rect{mid.x - w/2 - 2, mid.y - f.height(len(lines))/2, mid.x + w/2 + 2, mid.y + f.height(len(lines))/2}, veil, stroke{})
	d.lines(f, mid, centerMid, lines)
}

// arrowHead draws a filled head at the end of the path, pointing the way the path
// runs over the length of the head.
func (d drawing) arrowHead(path []point, size float64, outline stroke) {
	tip := path[len(path)-1]
	total := pathLength(path)
	if total == 0 {
		return
	}
	tail := path[0]
	if total > 2*size {
		tail = trim(reverse(path), size)[0]
	}
	dx, dy := tip.x-tail.x, tip.y-tail.y
	n := math.Hypot(dx, dy)
	if n == 0 {
		return
	}
	dx, dy = dx/n*size, dy/n*size
	d.polygon(outline.color, stroke{}, tip,
		point{tip.x - dx - dy*0.42, tip.y - dy + dx*0.42},
		point{tip.x - dx + dy*0.42, tip.y - dy - dx*0.42})
}
