package figure

import "math"

// geometry is a chart's data on the page, and the ink labels must keep off.
type geometry struct {
	frame  rect
	paths  [][]point // per series, the points in order of the data
	bars   []rect    // beside chart.bars
	limits [][]point // per limit line
	labels []rect    // per limit line, zero for none
	ink    clutter
}

// geometry places all data in the frame. The rulers must be on the page already.
func (c *chart) geometry(frame rect) *geometry {
	g := &geometry{frame: frame, paths: make([][]point, len(c.data))}
	for _, b := range c.bars {
		r := rect{c.x.at(b.left), c.onPage(b.base), c.x.at(b.right), c.onPage(b.top)}
		if r.y0 > r.y1 {
			r.y0, r.y1 = r.y1, r.y0
		}
		g.bars = append(g.bars, r)
		g.ink.addBox(r)
		g.addErrorBar(c, point{r.center().x, 0}, b.point)
	}
	for i, l := range c.looks {
		if l.isBar() {
			continue
		}
		for _, pt := range c.data[i] {
			at := point{c.x.at(pt.X), c.y.at(pt.Y)}
			g.paths[i] = append(g.paths[i], at)
			if frame.has(at) {
				g.ink.addBox(rect{at.x, at.y, at.x, at.y}.inset(-markerRadius))
			}
			g.addErrorBar(c, at, pt)
		}
		if l.kind == LineKind {
			for _, piece := range frame.clipPath(g.paths[i]) {
				g.ink.addPath(piece)
			}
		}
	}
	for _, l := range c.panel.Lines {
		path := c.limitPath(frame, l)
		g.limits = append(g.limits, path)
		for _, piece := range frame.clipPath(path) {
			g.ink.addPath(piece)
		}
	}
	for i, l := range c.panel.Lines {
		box := g.limitLabel(l, g.limits[i])
		g.labels = append(g.labels, box)
		if box != (rect{}) {
			g.ink.addBox(box)
		}
	}
	return g
}

// onPage gives the height of v on the page, kept within the frame.
func (c *chart) onPage(v float64) float64 {
	return math.Min(math.Max(c.y.at(v), c.y.from), c.y.to)
}

// limitPath is a limit line from side to side, or through its points; values the
// axes cannot show give no path.
func (c *chart) limitPath(frame rect, l Line) []point {
	switch {
	case l.X != nil && c.panel.X.showable(*l.X):
		x := c.x.at(*l.X)
		return []point{{x, frame.y0}, {x, frame.y1}}
	case l.Y != nil && c.panel.Y.showable(*l.Y):
		y := c.y.at(*l.Y)
		return []point{{frame.x0, y}, {frame.x1, y}}
	}
	var path []point
	for _, pt := range l.Points {
		if c.panel.X.showable(pt.X) && c.panel.Y.showable(pt.Y) {
			path = append(path, point{c.x.at(pt.X), c.y.at(pt.Y)})
		}
	}
	return path
}

// errorBar gives the ends of a point's error bar on the page. An end beyond the
// axis, or at or below zero on a log axis, stops at the frame.
func (c *chart) errorBar(pt Point) (lo, hi float64, ok bool) {
	if !(pt.Low < pt.High) || !c.panel.Y.showable(pt.High) || math.IsNaN(pt.Low) {
		return 0, 0, false
	}
	lo, hi = c.onPage(pt.Low), c.onPage(pt.High)
	return lo, hi, lo < hi
}

func (g *geometry) addErrorBar(c *chart, at point, pt Point) {
	if lo, hi, ok := c.errorBar(pt); ok && at.x >= g.frame.x0 && at.x <= g.frame.x1 {
		g.ink.addPath([]point{{at.x, lo}, {at.x, hi}})
	}
}

func (c *chart) drawBars(p pen, g *geometry) {
	for i, b := range c.bars {
		r := g.bars[i]
		if r.h() <= 0 {
			continue
		}
		p.box(r, palette[c.looks[b.series].color], stroke{color: white, width: 0.6})
	}
	for i, b := range c.bars {
		p.errorBar(c, g.frame, g.bars[i].center().x, b.point, stroke{color: black, width: 0.9})
	}
}

func (c *chart) drawLimits(p pen, g *geometry) {
	for i, path := range g.limits {
		for _, piece := range g.frame.clipPath(path) {
			p.line(limitStroke(i), piece...)
		}
	}
}

// drawSeries draws all lines, then all error bars and markers, so that no line
// hides another series' points.
func (c *chart) drawSeries(p pen, g *geometry) {
	for i, l := range c.looks {
		if l.kind != LineKind {
			continue
		}
		for _, piece := range g.frame.clipPath(g.paths[i]) {
			p.line(l.stroke(), piece...)
		}
	}
	for i, l := range c.looks {
		if l.isBar() {
			continue
		}
		thin := stroke{color: palette[l.color], width: 1}
		for k, at := range g.paths[i] {
			p.errorBar(c, g.frame, at.x, c.data[i][k], thin)
			// A bare line through a single point would leave nothing to see.
			if (!l.bare || len(g.paths[i]) == 1) && g.frame.has(at) {
				p.marker(l, at)
			}
		}
	}
}

func (p pen) errorBar(c *chart, frame rect, x float64, pt Point, s stroke) {
	lo, hi, ok := c.errorBar(pt)
	if !ok || x < frame.x0 || x > frame.x1 {
		return
	}
	const half = 3
	p.line(s, point{x, lo}, point{x, hi})
	// A clamped end has no cap: the bar goes on beyond the frame.
	if c.y.covers(pt.Low) {
		p.line(s, point{x - half, lo}, point{x + half, lo})
	}
	if c.y.covers(pt.High) {
		p.line(s, point{x - half, hi}, point{x + half, hi})
	}
}

// drawLimitLabels writes along the horizontal and vertical lines.
func (c *chart) drawLimitLabels(p pen, g *geometry) {
	for i, l := range c.panel.Lines {
		box := g.labels[i]
		if box == (rect{}) {
			continue
		}
		room, angle := box.w(), 0.0
		if l.X != nil {
			room, angle = box.h(), math.Pi/2
		}
		p.box(box, veil, stroke{})
		p.text(limitFace, box.center(), centerMid, angle, limitFace.shorten(l.Label, room))
	}
}

// limitLabel finds the place along a horizontal or vertical line where its
// label covers least; the zero rect means that there is none.
func (g *geometry) limitLabel(l Line, path []point) rect {
	if l.Label == "" || len(path) == 0 {
		return rect{}
	}
	frame := g.frame
	const gap, margin = 2, 4
	long := math.Min(limitFace.width(l.Label)+2, 0.6*math.Max(frame.w(), frame.h()))
	high := limitFace.size + 1
	along := [...]float64{1, 0, 0.75, 0.5, 0.25} // where on the line, best first
	var tries []rect
	switch {
	case l.Y != nil:
		long = math.Min(long, frame.w()-2*margin)
		y := path[0].y
		for _, t := range along {
			x := frame.x0 + margin + t*(frame.w()-2*margin-long)
			tries = append(tries, rect{x, y + gap, x + long, y + gap + high}, rect{x, y - gap - high, x + long, y - gap})
		}
	case l.X != nil:
		long = math.Min(long, frame.h()-2*margin)
		x := path[0].x
		for _, t := range along {
			y := frame.y0 + margin + t*(frame.h()-2*margin-long)
			tries = append(tries, rect{x - gap - high, y, x - gap, y + long}, rect{x + gap, y, x + gap + high, y + long})
		}
	}
	best, least := rect{}, math.MaxInt
	for _, try := range tries {
		if !frame.has(point{try.x0, try.y0}) || !frame.has(point{try.x1, try.y1}) {
			continue
		}
		if n := g.ink.under(try); n < least {
			best, least = try, n
		}
	}
	return best
}
