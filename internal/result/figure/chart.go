package figure

import (
	"fmt"
	"strings"
)

// chart is a panel's data made ready: filtered, counted, and with fitted axes.
// It does not depend on where on the page the panel goes.
type chart struct {
	panel   Panel
	looks   []look
	x, y    ruler
	data    [][]Point // per series, only what the axes can show
	bars    []bar
	dropped int // points no axis could show
	outside int // points beyond the ends, or inside the break
}

// bar is one rectangle of a bar series, in the units of the axes.
type bar struct {
	series    int
	left      float64
	right     float64
	base, top float64
	point     Point
}

// barShare is the part of a category's slot that bars fill.
const barShare = 0.78

func newChart(p Panel) *chart {
	c := &chart{panel: p, looks: p.looks(), data: make([][]Point, len(p.Series))}
	var xs, ys []float64
	for i, s := range p.Series {
		for _, pt := range s.Points {
			// A stack grows upward; a negative part has no place in it.
			if !p.X.showable(pt.X) || !p.Y.showable(pt.Y) || (s.Kind == StackedBars && pt.Y < 0) {
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
	c.x = newRuler(p.X, xs, false)
	c.y = newRuler(p.Y, ys, len(c.bars) > 0)
	c.countOutside()
	return c
}

// stackBars gives every bar its place in the slot of its category: one place for
// each Bars series, one for the stack.
func (c *chart) stackBars() {
	place := make([]int, len(c.looks))
	places, stack := 0, -1
	for i, l := range c.looks {
		switch {
		case l.kind == StackedBars && stack < 0:
			stack = places
			places++
			place[i] = stack
		case l.kind == StackedBars:
			place[i] = stack
		case l.kind == Bars:
			place[i] = places
			places++
		}
	}
	width := barShare / float64(max(places, 1))
	height := map[float64]float64{} // of the stack so far, by category
	for i, l := range c.looks {
		if !l.isBar() {
			continue
		}
		for _, pt := range c.data[i] {
			left := pt.X - barShare/2 + float64(place[i])*width
			b := bar{series: i, left: left, right: left + width, top: pt.Y, point: pt}
			if l.kind == StackedBars {
				b.base = height[pt.X]
				b.top = b.base + pt.Y
				height[pt.X] = b.top
			}
			c.bars = append(c.bars, b)
		}
	}
}

func (c *chart) countOutside() {
	for _, b := range c.bars {
		if !c.y.covers(b.top) {
			c.outside++
		}
	}
	for i, l := range c.looks {
		if l.isBar() {
			continue
		}
		for _, pt := range c.data[i] {
			if !c.x.covers(pt.X) || !c.y.covers(pt.Y) {
				c.outside++
			}
		}
	}
}

func (c *chart) empty() bool {
	for _, pts := range c.data {
		if len(pts) > 0 {
			return false
		}
	}
	return true
}

// notes are the small print: the panel's own, and what is not to be seen.
func (c *chart) notes() string {
	var parts []string
	if c.panel.Note != "" {
		parts = append(parts, c.panel.Note)
	}
	if c.dropped > 0 {
		why := "not finite"
		if c.panel.X.Scale.log() || c.panel.Y.Scale.log() {
			why += ", or not positive on a log axis"
		}
		parts = append(parts, fmt.Sprintf("%s not shown: %s.", plural(c.dropped, "point"), why))
	}
	if c.outside > 0 {
		where := "outside the axes"
		if c.y.broken {
			where += " or inside the axis break"
		}
		parts = append(parts, fmt.Sprintf("%s not shown: %s.", plural(c.outside, "point"), where))
	}
	return strings.Join(parts, "\n")
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// draw lays the chart out in area and draws it. Without a legend of its own
// the panel is part of a figure that has a common one.
func (c *chart) draw(p pen, area rect, ownLegend bool) {
	l := legend{}
	if ownLegend && c.panel.Legend != LegendNone {
		l = c.legend()
	}
	place := c.panel.Legend
	if place == LegendAuto || place == "" {
		place = l.choose(area)
	}
	if place == "" { // short enough for a corner, if one is free
		frame, labels := c.layout(area)
		g := c.geometry(frame)
		if spot, ok := l.corner(frame, &g.ink); ok {
			c.paint(p, frame, labels, g)
			l.draw(p, spot, true)
			return
		}
		place = l.outside(area)
	}
	inner, spot := l.reserve(area, place)
	frame, labels := c.layout(inner)
	c.paint(p, frame, labels, c.geometry(frame))
	if place == LegendRight {
		spot.y1 = frame.y1
	} else if used := l.used(area.w()); frame.x0+used <= area.x1 {
		spot.x0, spot.x1 = frame.x0, frame.x0+area.w() // under the frame, if it is short enough
	}
	l.draw(p, spot, false)
}

// legend lists the named series and the sloped lines.
func (c *chart) legend() legend {
	var l legend
	stacked := len(c.looks) > 0
	for i, k := range c.looks {
		if k.name != "" && len(c.data[i]) > 0 {
			l.entries = append(l.entries, k)
		}
		stacked = stacked && k.kind == StackedBars
	}
	for i, line := range c.panel.Lines {
		if line.Points != nil && line.Label != "" {
			l.entries = append(l.entries, look{name: line.Label, kind: LineKind, bare: true, limit: i + 1})
		}
	}
	l.reversed = stacked // a column then lists the stack as it stands
	return l
}

// paint draws everything inside and around the frame.
func (c *chart) paint(p pen, frame rect, x axisLabels, g *geometry) {
	if c.empty() {
		c.drawLabels(p, frame, axisLabels{})
		p.box(frame, nil, stroke{color: gridGrey, width: 0.8})
		p.text(face{size: 13, color: inkGrey}, frame.center(), centerMid, 0, "no data")
		return
	}
	c.drawGrid(p, frame)
	c.drawBars(p, g)
	c.drawLimits(p, g)
	c.drawSeries(p, g)
	if c.y.broken {
		c.drawBreak(p, frame)
	}
	c.drawAxes(p, frame)
	c.drawLabels(p, frame, x)
	c.drawLimitLabels(p, g)
}
