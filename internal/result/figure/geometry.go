package figure

import (
	"math"

	"github.com/kernbench/kernbench/internal/result/draw"
)

// geometry is a chart's data in page coordinates.
type geometry struct {
	frame  draw.Rectangle
	paths  [][]draw.Point   // per series, the points in data order
	bars   []draw.Rectangle // per element of chart.bars
	limits [][]draw.Point   // per limit line
}

// geometry places all data in the frame. The rulers must have been placed before.
func (c *chart) geometry(frame draw.Rectangle) *geometry {
	g := &geometry{frame: frame, paths: make([][]draw.Point, len(c.data))}
	for _, b := range c.bars {
		base, top := c.heightOf(b.base), c.heightOf(b.top)
		r := draw.Rect(c.xAxis.at(b.left), min(base, top), c.xAxis.at(b.right), max(base, top))
		g.bars = append(g.bars, r)
	}
	for i, l := range c.looks {
		if l.bar {
			continue
		}
		for _, pt := range c.data[i] {
			g.paths[i] = append(g.paths[i], draw.Pt(c.xAxis.at(pt.X), c.yAxis.at(pt.Y)))
		}
	}
	for _, l := range c.panel.Lines {
		g.limits = append(g.limits, c.limitPath(frame, l))
	}
	return g
}

// heightOf returns the vertical position of v, clamped to the frame.
func (c *chart) heightOf(v float64) float64 {
	return min(max(c.yAxis.at(v), c.yAxis.from), c.yAxis.to)
}

// limitPath returns a limit line from side to side, or through its points. Values
// that the axes cannot show have no path.
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

// errorBar returns the ends of a point's error bar on the page. An end beyond the
// axis, or at or below zero on a log axis, is clamped to the frame.
func (c *chart) errorBar(pt Point) (lo, hi float64, ok bool) {
	if !(pt.Low < pt.High) || !c.panel.Y.showable(pt.High) || math.IsNaN(pt.Low) {
		return 0, 0, false
	}
	lo, hi = c.heightOf(pt.Low), c.heightOf(pt.High)
	return lo, hi, lo < hi
}

func (c *chart) drawBars(p draw.Pen, g *geometry) {
	for i, b := range c.bars {
		r := g.bars[i]
		if r.H() <= 0 {
			continue
		}
		color := c.looks[b.series].color
		if b.point.Hollow {
			p.Box(r.Inset(0.8), draw.White, draw.Stroke{Color: draw.Palette[color], Width: 1.6})
			continue
		}
		p.PaletteBox(r, color, draw.Stroke{Color: draw.White, Width: 0.6})
	}
	// The rim makes error bars visible on bars of any color.
	for _, s := range []draw.Stroke{{Color: draw.White, Width: 2.3}, {Color: draw.Black, Width: 0.9}} {
		for i, b := range c.bars {
			c.drawErrorBar(p, g.frame, g.bars[i].Center().X, b.point, s)
		}
	}
}

func (c *chart) drawLimits(p draw.Pen, g *geometry) {
	for i, path := range g.limits {
		for _, piece := range g.frame.ClipPath(path) {
			p.Line(limitStroke(i), piece...)
		}
	}
}

// drawSeries draws all lines first, then all error bars and markers, so that no
// line hides the points of another series.
func (c *chart) drawSeries(p draw.Pen, g *geometry) {
	for i, l := range c.looks {
		if !l.line {
			continue
		}
		for _, piece := range c.pieces(i, g) {
			for _, part := range strokes(piece) {
				p.Line(l.stroke(), part...)
			}
		}
	}
	for i, l := range c.looks {
		if l.bar {
			continue
		}
		thin := draw.Stroke{Color: draw.Palette[l.color], Width: 1}
		for k, at := range g.paths[i] {
			pt := c.data[i][k]
			c.drawErrorBar(p, g.frame, at.X, pt, thin)
			// A single point always has a marker: it has no line to be seen by.
			if (!l.bare || len(g.paths[i]) == 1) && g.frame.Has(at) {
				l.drawMarker(p, at, pt.Hollow)
			}
		}
	}
}

// strokes cuts a path into parts of up to 100 points, because the time to draw a
// part grows with the square of its length. Neighbouring parts share a segment, so
// that every corner lies inside one of them.
func strokes(path []draw.Point) (parts [][]draw.Point) {
	const maxPoints = 100
	for len(path) > maxPoints {
		parts = append(parts, path[:maxPoints])
		path = path[maxPoints-2:]
	}
	return append(parts, path)
}

// pieces returns the line of a series inside the frame, cut at its gaps.
func (c *chart) pieces(series int, g *geometry) (out [][]draw.Point) {
	path, from := g.paths[series], 0
	for _, gap := range c.failed[series] {
		out = append(out, g.frame.ClipPath(path[from:gap.after])...)
		from = gap.after
	}
	return append(out, g.frame.ClipPath(path[from:])...)
}

// drawFailed draws a cross at the bottom of the frame for every point without a
// value. Crosses of several series at the same x are stacked.
func (c *chart) drawFailed(p draw.Pen, g *geometry) {
	const half, step = 3, 9
	crosses := map[float64]float64{} // number of crosses so far, by x
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

// drawErrorBar draws an error bar with caps at its ends.
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
