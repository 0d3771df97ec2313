package figure

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/draw"
)

// chartContent is the content of a panel without Content: its series and lines.
type chartContent struct{}

// Prepare implements Content.
func (chartContent) Prepare(p Panel) Drawing { return newChart(p) }

// Check implements Content.
func (chartContent) Check(p Panel, f Faults) {
	p.X.validate(f.At("x axis"))
	p.Y.validate(f.At("y axis"))
	if p.Y.Scale == Category {
		f.Add("y axis is a category axis, which only a heat map can have")
	}
	if p.X.Break != nil {
		f.Add("x axis has a break, which only a linear y axis can have")
	}
	for i, s := range p.Series {
		p.validateSeries(f.At("series %d (%q)", i+1, s.Name), s)
	}
	for i, l := range p.Lines {
		l.validate(f.At("line %d (%q)", i+1, l.Label))
	}
}

func (p Panel) validateSeries(f Faults, s Series) {
	oneOf(f, "kind", s.Kind, LineKind, Scatter, Bars, StackedBars)
	if s.Color < 0 {
		f.Add("color %d is negative, want 0 (automatic) or a palette entry from 1", s.Color)
	}
	if marks[s.Kind].bar && p.X.Scale != Category {
		f.Add("%s need a category x axis, have scale %q", s.Kind, p.X.Scale)
	}
	if marks[s.Kind].stacked && p.Y.Scale.log() {
		f.Add("stacked bars on a log axis would show wrong proportions; use a linear y axis")
	}
	for i, pt := range s.Points {
		if pt.Low > pt.High {
			f.Add("point %d: error bar from %g down to %g, want low <= high", i+1, pt.Low, pt.High)
		}
		if p.X.Scale == Category && (pt.X != math.Trunc(pt.X) || pt.X < 0 || pt.X >= float64(len(p.X.Categories))) {
			f.Add("point %d: x = %g is not the index of one of %d categories", i+1, pt.X, len(p.X.Categories))
		}
	}
}

func (l Line) validate(f Faults) {
	count := 0
	for _, is := range []bool{l.X != nil, l.Y != nil, l.Points != nil} {
		if is {
			count++
		}
	}
	if count != 1 {
		f.Add("%d of x, y and points are given, want exactly one", count)
	}
	if l.Points != nil && len(l.Points) < 2 {
		f.Add("%d point, a sloped line needs at least two", len(l.Points))
	}
}

// chart is the prepared data of a panel: filtered, counted, and with fitted axes.
// It does not depend on the panel's position on the page.
type chart struct {
	panel   Panel
	looks   []look
	xAxis   ruler
	yAxis   ruler
	data    [][]Point // per series: the points that the axes can show
	failed  [][]gap   // per series
	bars    []bar
	dropped int  // points that no axis can show
	outside int  // points beyond the ends of the axes or inside the break
	shared  bool // the figure has one legend for all its panels
}

// gap is the place of a point without a value.
type gap struct {
	x     float64
	after int // number of the series' points before it
}

// bar is one rectangle of a bar series, in the units of the axes.
type bar struct {
	series    int
	left      float64
	right     float64
	base, top float64
	point     Point
}

// barShare is the part of a category's slot that the bars fill.
const barShare = 0.78

// newChart filters the points of a panel, computes its bars and fits its axes. A limit
// line widens the axes like data, so that it is always visible.
func newChart(p Panel) *chart {
	c := &chart{panel: p, looks: p.looks(), data: make([][]Point, len(p.Series)), failed: make([][]gap, len(p.Series))}
	var xs, ys []float64
	for i, s := range p.Series {
		for _, pt := range s.Points {
			if pt.Failed && p.X.showable(pt.X) {
				c.failed[i] = append(c.failed[i], gap{pt.X, len(c.data[i])})
				xs = append(xs, pt.X)
				continue
			}
			// A stack grows upward, so it has no place for a negative part.
			if !p.X.showable(pt.X) || !p.Y.showable(pt.Y) || (c.looks[i].stacked && pt.Y < 0) {
				c.dropped++
				continue
			}
			c.data[i] = append(c.data[i], pt)
			xs, ys = append(xs, pt.X), append(ys, pt.Y)
			if pt.Low < pt.High {
				ys = append(ys, pt.Low, pt.High)
			}
		}
	}
	c.stackBars()
	for _, b := range c.bars {
		ys = append(ys, b.top)
	}
	for _, l := range p.Lines {
		if l.X != nil {
			xs = append(xs, *l.X)
		}
		if l.Y != nil {
			ys = append(ys, *l.Y)
		}
		for _, pt := range l.Points {
			xs, ys = append(xs, pt.X), append(ys, pt.Y)
		}
	}
	c.xAxis = newRuler(p.X, xs, false)
	c.yAxis = newRuler(p.Y, ys, len(c.bars) > 0)
	c.countOutside()
	return c
}

// stackBars computes the bars. Each Bars series has a place of its own in the slot
// of a category; all StackedBars series share one place.
func (c *chart) stackBars() {
	place := make([]int, len(c.looks))
	places, stack := 0, -1
	for i, l := range c.looks {
		switch {
		case l.stacked && stack >= 0:
			place[i] = stack
		case l.bar:
			place[i] = places
			if l.stacked {
				stack = places
			}
			places++
		}
	}
	width := barShare / float64(max(places, 1))
	height := map[float64]float64{} // of each category's stack so far
	for i, l := range c.looks {
		if !l.bar {
			continue
		}
		for _, pt := range c.data[i] {
			left := pt.X - barShare/2 + float64(place[i])*width
			b := bar{series: i, left: left, right: left + width, top: pt.Y, point: pt}
			if l.stacked {
				b.base = height[pt.X]
				b.top = b.base + pt.Y
				height[pt.X] = b.top
			}
			c.bars = append(c.bars, b)
		}
	}
}

// countOutside counts the points that fixed ends or a break of the axes hide.
func (c *chart) countOutside() {
	for _, b := range c.bars {
		if !c.yAxis.covers(b.top) {
			c.outside++
		}
	}
	for i, l := range c.looks {
		if l.bar {
			continue
		}
		for _, pt := range c.data[i] {
			if !c.xAxis.covers(pt.X) || !c.yAxis.covers(pt.Y) {
				c.outside++
			}
		}
	}
}

func (c *chart) empty() bool {
	return !slices.ContainsFunc(c.data, func(points []Point) bool { return len(points) > 0 })
}

// Height implements Drawing.
func (c *chart) Height(_, usual float64) float64 { return usual }

// Notes implements Drawing: it counts the points that are not visible.
func (c *chart) Notes() string {
	var parts []string
	if c.dropped > 0 {
		why := "not finite"
		if c.panel.X.Scale.log() || c.panel.Y.Scale.log() {
			why += ", or not positive on a log axis"
		}
		parts = append(parts, fmt.Sprintf("%s not shown: %s.", unit.Plural(c.dropped, "point"), why))
	}
	if c.outside > 0 {
		where := "outside the axes"
		if c.yAxis.broken {
			where += " or inside the axis break"
		}
		parts = append(parts, fmt.Sprintf("%s not shown: %s.", unit.Plural(c.outside, "point"), where))
	}
	return strings.Join(parts, "\n")
}

// Draw implements Drawing.
func (c *chart) Draw(p draw.Pen, area draw.Rectangle) {
	l := legend{}
	if !c.shared && c.panel.Legend != LegendNone {
		l = c.legend()
	}
	place := c.panel.Legend
	if place == "" {
		if c.drawWithEndLabels(p, area, l) {
			return
		}
		place = l.choose(area)
	}
	plot, spot := l.reserve(area, place)
	frame, labels := c.layout(plot)
	c.paint(p, frame, labels, c.geometry(frame))
	if place == LegendRight {
		spot.Y1 = frame.Y1
	} else if used := l.used(area.W()); frame.X0+used <= area.X1 {
		spot.X0, spot.X1 = frame.X0, frame.X0+area.W() // align a short legend with the frame
	}
	l.draw(p, spot)
}

// legend lists the named series and the limit lines.
func (c *chart) legend() legend {
	var l legend
	stacked := len(c.looks) > 0
	for i, k := range c.looks {
		if k.name != "" && len(c.data[i]) > 0 {
			l.entries = append(l.entries, k)
		}
		stacked = stacked && k.stacked
	}
	for i, line := range c.panel.Lines {
		if line.Label != "" {
			l.entries = append(l.entries, c.limitLook(i))
		}
	}
	l.reversed = stacked // the order of a column is then the order of the stack
	return l
}

// limitLook returns the appearance of a limit line.
func (c *chart) limitLook(i int) look {
	return look{name: c.panel.Lines[i].Label, mark: mark{line: true}, bare: true, limit: i + 1}
}

// drawNoData fills an area that has nothing to show.
func drawNoData(p draw.Pen, area draw.Rectangle) {
	p.Box(area, nil, draw.Stroke{Color: draw.GridGrey, Width: 0.8})
	p.Text(draw.Face{Size: 13, Color: draw.InkGrey}, area.Center(), draw.CenterMid, 0, "no data")
}

// paint draws everything inside and around the frame.
func (c *chart) paint(p draw.Pen, frame draw.Rectangle, x axisLabels, g *geometry) {
	if c.empty() {
		c.drawLabels(p, frame, axisLabels{})
		drawNoData(p, frame)
		return
	}
	c.drawGrid(p, frame)
	c.drawBars(p, g)
	c.drawLimits(p, g)
	c.drawSeries(p, g)
	c.drawFailed(p, g)
	if c.yAxis.broken {
		c.drawBreak(p, frame)
	}
	c.drawAxes(p, frame)
	c.drawLabels(p, frame, x)
}
