package figure

import (
	"math"
	"slices"

	"github.com/kernbench/kernbench/internal/result/draw"
)

// geometry is a chart's data on the page, and the ink labels must keep off.
type geometry struct {
	frame  draw.Rectangle
	paths  [][]draw.Point   // per series, the points in order of the data
	bars   []draw.Rectangle // beside chart.bars
	limits [][]draw.Point   // per limit line
	labels []draw.Rectangle // per limit line, zero for none
	ink    clutter
}

// geometry places all data in the frame. The rulers must be on the page already.
func (c *chart) geometry(frame draw.Rectangle) *geometry {
	g := &geometry{frame: frame, paths: make([][]draw.Point, len(c.data))}
	for _, b := range c.bars {
		r := draw.Rect(c.xAxis.at(b.left), c.onPage(b.base), c.xAxis.at(b.right), c.onPage(b.top))
		if r.Y0 > r.Y1 {
			r.Y0, r.Y1 = r.Y1, r.Y0
		}
		g.bars = append(g.bars, r)
		g.ink.addBox(r)
		g.addErrorBar(c, draw.Pt(r.Center().X, 0), b.point)
	}
	for i, l := range c.looks {
		if l.bar {
			continue
		}
		once := covered{}
		for _, pt := range c.data[i] {
			at := draw.Pt(c.xAxis.at(pt.X), c.yAxis.at(pt.Y))
			g.paths[i] = append(g.paths[i], at)
			if len(c.data[i]) > crowded && once.again(c, at, c.visible(l, pt)) {
				continue
			}
			if frame.Has(at) {
				g.ink.addBox(draw.Rect(at.X, at.Y, at.X, at.Y).Inset(-markerRadius))
			}
			g.addErrorBar(c, at, pt)
		}
		if l.line {
			for _, piece := range c.pieces(i, g) {
				g.ink.addPath(thinned(piece))
			}
		}
	}
	for _, l := range c.panel.Lines {
		path := c.limitPath(frame, l)
		g.limits = append(g.limits, path)
		for _, piece := range frame.ClipPath(path) {
			g.ink.addPath(piece)
		}
	}
	for i, l := range c.panel.Lines {
		box := g.limitLabel(l, g.limits[i])
		g.labels = append(g.labels, box)
		if box != (draw.Rectangle{}) {
			g.ink.addBox(box)
		}
	}
	return g
}

// onPage gives the height of v on the page, kept within the frame.
func (c *chart) onPage(v float64) float64 {
	return math.Min(math.Max(c.yAxis.at(v), c.yAxis.from), c.yAxis.to)
}

// limitPath is a limit line from side to side, or through its points; values the
// axes cannot show give no path.
func (c *chart) limitPath(frame draw.Rectangle, l Line) []draw.Point {
	switch {
	case l.X != nil && c.panel.X.showable(*l.X):
		x := c.xAxis.at(*l.X)
		return []draw.Point{draw.Pt(x, frame.Y0), draw.Pt(x, frame.Y1)}
	case l.Y != nil && c.panel.Y.showable(*l.Y):
		y := c.yAxis.at(*l.Y)
		return []draw.Point{draw.Pt(frame.X0, y), draw.Pt(frame.X1, y)}
	}
	var path []draw.Point
	for _, pt := range l.Points {
		if c.panel.X.showable(pt.X) && c.panel.Y.showable(pt.Y) {
			path = append(path, draw.Pt(c.xAxis.at(pt.X), c.yAxis.at(pt.Y)))
		}
	}
	return path
}

// errorBar gives the ends of a draw.Point's error bar on the page. An end beyond the
// axis, or at or below zero on a log axis, stops at the frame.
func (c *chart) errorBar(pt Point) (lo, hi float64, ok bool) {
	if !(pt.Low < pt.High) || !c.panel.Y.showable(pt.High) || math.IsNaN(pt.Low) {
		return 0, 0, false
	}
	lo, hi = c.onPage(pt.Low), c.onPage(pt.High)
	return lo, hi, lo < hi
}

func (g *geometry) addErrorBar(c *chart, at draw.Point, pt Point) {
	if lo, hi, ok := c.errorBar(pt); ok && at.X >= g.frame.X0 && at.X <= g.frame.X1 {
		g.ink.addPath([]draw.Point{draw.Pt(at.X, lo), draw.Pt(at.X, hi)})
	}
}

func (c *chart) drawBars(p draw.Pen, g *geometry) {
	for i, b := range c.bars {
		r := g.bars[i]
		if r.H() <= 0 {
			continue
		}
		color := draw.Palette[c.looks[b.series].color]
		if b.point.Hollow {
			p.Box(r.Inset(0.8), draw.White, draw.Stroke{Color: color, Width: 1.6})
			continue
		}
		p.Box(r, color, draw.Stroke{Color: draw.White, Width: 0.6})
	}
	for i, b := range c.bars {
		c.drawErrorBar(p, g.frame, g.bars[i].Center().X, b.point, draw.Stroke{Color: draw.Black, Width: 0.9})
	}
}

func (c *chart) drawLimits(p draw.Pen, g *geometry) {
	for i, path := range g.limits {
		for _, piece := range g.frame.ClipPath(path) {
			p.Line(limitStroke(i), piece...)
		}
	}
}

// drawSeries draws all lines, then all error bars and markers, so that no line
// hides another series' points.
func (c *chart) drawSeries(p draw.Pen, g *geometry) {
	for i, l := range c.looks {
		if !l.line {
			continue
		}
		for _, piece := range c.pieces(i, g) {
			for _, part := range strokes(thinned(piece)) {
				p.Line(l.stroke(), part...)
			}
		}
	}
	for i, l := range c.looks {
		if l.bar {
			continue
		}
		thin := draw.Stroke{Color: draw.Palette[l.color], Width: 1}
		once := covered{}
		for k, at := range g.paths[i] {
			pt := c.data[i][k]
			if len(c.data[i]) > crowded {
				pt = c.visible(l, pt)
				if once.again(c, at, pt) {
					continue
				}
			}
			c.drawErrorBar(p, g.frame, at.X, pt, thin)
			// A bare line through a single point would leave nothing to see.
			if (!l.bare || len(g.paths[i]) == 1) && g.frame.Has(at) {
				l.drawMarker(p, at, pt.Hollow)
			}
		}
	}
}

// From this many points on, those of a series lie on each other.
const crowded = 500

// covered are the places of markers and error bars, to two pixels.
type covered map[[5]int]bool

// visible is the point without its error bar where the marker covers all of that.
func (c *chart) visible(l look, pt Point) Point {
	low, high, ok := c.errorBar(pt)
	if !ok || l.bare {
		return pt
	}
	if at := c.yAxis.at(pt.Y); at-low <= markerRadius && high-at <= markerRadius {
		pt.Low, pt.High = 0, 0
	}
	return pt
}

// again reports whether there is one already that looks the same, and notes it.
func (o covered) again(c *chart, at draw.Point, pt Point) bool {
	low, high, _ := c.errorBar(pt)
	place := [5]int{int(at.X / 2), int(at.Y / 2), int(low / 2), int(high / 2)}
	if pt.Hollow {
		place[4] = 1
	}
	was := o[place]
	o[place] = true
	return was
}

// thinned is a path that looks the same with at most four points of each half pixel of
// width: where it enters, its lowest and highest point, and where it leaves.
func thinned(path []draw.Point) []draw.Point {
	if len(path) <= crowded {
		return path
	}
	var out []draw.Point
	for from := 0; from < len(path); {
		to, low, high := from+1, from, from
		for ; to < len(path) && math.Floor(2*path[to].X) == math.Floor(2*path[from].X); to++ {
			if path[to].Y < path[low].Y {
				low = to
			}
			if path[to].Y > path[high].Y {
				high = to
			}
		}
		kept := []int{from, low, high, to - 1}
		slices.Sort(kept)
		for _, k := range slices.Compact(kept) {
			out = append(out, path[k])
		}
		from = to
	}
	return out
}

// strokes cuts a path into parts that are drawn one by one: the time for each grows with the square of
// its points. Parts share a segment, so that every corner is within one of them.
func strokes(path []draw.Point) (parts [][]draw.Point) {
	const most = 100
	for len(path) > most {
		parts = append(parts, path[:most])
		path = path[most-2:]
	}
	return append(parts, path)
}

// pieces are the line of a series within the frame, in pieces where it has gaps.
func (c *chart) pieces(series int, g *geometry) (out [][]draw.Point) {
	path, from := g.paths[series], 0
	for _, gap := range c.failed[series] {
		out = append(out, g.frame.ClipPath(path[from:gap.after])...)
		from = gap.after
	}
	return append(out, g.frame.ClipPath(path[from:])...)
}

// drawFailed draws a cross at the foot of the frame for every point without a value,
// those of several series above each other.
func (c *chart) drawFailed(p draw.Pen, g *geometry) {
	const half, step = 3, 9
	crosses := map[float64]float64{} // so far, by x
	for i, l := range c.looks {
		for _, gap := range c.failed[i] {
			if !c.xAxis.covers(gap.x) {
				continue
			}
			at := draw.Pt(c.xAxis.at(gap.x), g.frame.Y0+step*(crosses[gap.x]+0.8))
			crosses[gap.x]++
			s := draw.Stroke{Color: draw.Palette[l.color], Width: 1.6}
			p.Line(s, draw.Pt(at.X-half, at.Y-half), draw.Pt(at.X+half, at.Y+half))
			p.Line(s, draw.Pt(at.X-half, at.Y+half), draw.Pt(at.X+half, at.Y-half))
		}
	}
}

func (c *chart) drawErrorBar(p draw.Pen, frame draw.Rectangle, x float64, pt Point, s draw.Stroke) {
	lo, hi, ok := c.errorBar(pt)
	if !ok || x < frame.X0 || x > frame.X1 {
		return
	}
	const half = 3
	p.Line(s, draw.Pt(x, lo), draw.Pt(x, hi))
	// A clamped end has no cap: the bar goes on beyond the frame.
	if c.yAxis.covers(pt.Low) {
		p.Line(s, draw.Pt(x-half, lo), draw.Pt(x+half, lo))
	}
	if c.yAxis.covers(pt.High) {
		p.Line(s, draw.Pt(x-half, hi), draw.Pt(x+half, hi))
	}
}

// drawLimitLabels writes along the horizontal and vertical lines.
func (c *chart) drawLimitLabels(p draw.Pen, g *geometry) {
	for i, l := range c.panel.Lines {
		box := g.labels[i]
		if box == (draw.Rectangle{}) {
			continue
		}
		room, angle := box.W(), 0.0
		if l.X != nil {
			room, angle = box.H(), math.Pi/2
		}
		p.Box(box, draw.Veil, draw.Stroke{})
		p.Text(limitFace, box.Center(), draw.CenterMid, angle, limitFace.Shorten(l.Label, room))
	}
}

// limitLabel finds the place along a horizontal or vertical line where its
// label covers least; the zero draw.Rectangle means that there is none.
func (g *geometry) limitLabel(l Line, path []draw.Point) draw.Rectangle {
	if l.Label == "" || len(path) == 0 {
		return draw.Rectangle{}
	}
	frame := g.frame
	const gap, margin = 2, 4
	long := math.Min(limitFace.Width(l.Label)+2, 0.6*math.Max(frame.W(), frame.H()))
	high := limitFace.Size + 1
	along := [...]float64{1, 0, 0.75, 0.5, 0.25} // where on the line, best first
	var tries []draw.Rectangle
	switch {
	case l.Y != nil:
		long = math.Min(long, frame.W()-2*margin)
		y := path[0].Y
		for _, t := range along {
			x := frame.X0 + margin + t*(frame.W()-2*margin-long)
			tries = append(tries, draw.Rect(x, y+gap, x+long, y+gap+high), draw.Rect(x, y-gap-high, x+long, y-gap))
		}
	case l.X != nil:
		long = math.Min(long, frame.H()-2*margin)
		x := path[0].X
		for _, t := range along {
			y := frame.Y0 + margin + t*(frame.H()-2*margin-long)
			tries = append(tries, draw.Rect(x-gap-high, y, x-gap, y+long), draw.Rect(x+gap, y, x+gap+high, y+long))
		}
	}
	best, least := draw.Rectangle{}, math.MaxInt
	for _, try := range tries {
		if !frame.Has(draw.Pt(try.X0, try.Y0)) || !frame.Has(draw.Pt(try.X1, try.Y1)) {
			continue
		}
		if n := g.ink.under(try); n < least {
			best, least = try, n
		}
	}
	return best
}

// clutter remembers where ink already is, so that labels can keep off it.
type clutter struct {
	dots  []draw.Point
	boxes []draw.Rectangle
}

// spacing of the dots that stand for a line; finer than any label is high.
const clutterStep = 3

func (c *clutter) addPath(path []draw.Point) {
	for i, p := range path {
		if i == 0 {
			c.dots = append(c.dots, p)
			continue
		}
		q := path[i-1]
		n := math.Ceil(math.Hypot(p.X-q.X, p.Y-q.Y) / clutterStep)
		for k := 1.0; k <= n; k++ {
			c.dots = append(c.dots, draw.Pt(q.X+(p.X-q.X)*k/n, q.Y+(p.Y-q.Y)*k/n))
		}
	}
}

func (c *clutter) addBox(r draw.Rectangle) { c.boxes = append(c.boxes, r) }

// under counts what r would cover; a box weighs as much as a long stretch of line.
func (c *clutter) under(r draw.Rectangle) int {
	n := 0
	for _, d := range c.dots {
		if r.Has(d) {
			n++
		}
	}
	for _, b := range c.boxes {
		if r.Overlaps(b) {
			n += 20
		}
	}
	return n
}
