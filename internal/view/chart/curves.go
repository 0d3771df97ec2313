package chart

import (
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/result/figure"
)

// scale maps the values of an axis to fractions of its length. Unlike the axes of a
// figure it has no margins: a terminal has no columns to spare.
type scale struct {
	lo, hi float64
	log    bool
	axis   figure.Axis
}

// newScale fits an axis to the values that it can show, and reports whether there are any.
func newScale(axis figure.Axis, values []float64, fromZero bool) (scale, bool) {
	s := scale{lo: math.Inf(1), hi: math.Inf(-1), axis: axis, log: axis.Scale == figure.Log2 || axis.Scale == figure.Log10}
	for _, v := range values {
		if s.shows(v) {
			s.lo, s.hi = min(s.lo, v), max(s.hi, v)
		}
	}
	if s.lo > s.hi {
		return s, false
	}
	if !s.log && fromZero && s.lo > 0 && s.lo < 0.6*s.hi {
		s.lo = 0
	}
	if axis.Min != nil && s.shows(*axis.Min) {
		s.lo = *axis.Min
	}
	if axis.Max != nil && s.shows(*axis.Max) {
		s.hi = *axis.Max
	}
	if s.lo >= s.hi { // put a single value in the middle
		if s.log {
			s.lo, s.hi = s.lo/2, s.lo*2
		} else {
			half := max(math.Abs(s.lo)/2, 1e-9)
			s.lo, s.hi = s.lo-half, s.lo+half
		}
	}
	return s, true
}

func (s scale) shows(v float64) bool {
	return !math.IsNaN(v) && !math.IsInf(v, 0) && (!s.log || v > 0)
}

func (s scale) fraction(v float64) float64 {
	if s.log {
		return math.Log(v/s.lo) / math.Log(s.hi/s.lo)
	}
	return (v - s.lo) / (s.hi - s.lo)
}

// cell returns the index of the cell for v on an axis of the given length.
func (s scale) cell(v float64, length int) int {
	return int(math.Round(s.fraction(v) * float64(length-1)))
}

// ticks returns about n labelled ticks within the scale.
func (s scale) ticks(n int) []figure.Tick {
	return lists.Filter(s.axis.Ticks(s.lo, s.hi, n), func(t figure.Tick) bool {
		at := s.fraction(t.Value)
		return t.Label != "" && at > -1e-9 && at < 1+1e-9
	})
}

// canvas is the plotted area. Each cell has a character and the series that it
// belongs to, -1 for none.
type canvas struct {
	width int
	runes [rows][]rune
	owner [rows][]int
}

func newCanvas(width int) *canvas {
	c := &canvas{width: width}
	for y := range rows {
		c.runes[y], c.owner[y] = []rune(strings.Repeat(" ", width)), make([]int, width)
		for x := range width {
			c.owner[y][x] = -1
		}
	}
	return c
}

// has reports whether the cell lies on the canvas. Row 0 is at the bottom.
func (c *canvas) has(x, y int) bool { return x >= 0 && x < c.width && y >= 0 && y < rows }

// set puts a character into a cell.
func (c *canvas) set(x, y int, r rune, series int) {
	if c.has(x, y) {
		c.runes[rows-1-y][x], c.owner[rows-1-y][x] = r, series
	}
}

// path dots the line between two cells, but only empty cells.
func (c *canvas) path(x0, y0, x1, y1 int, r rune, series int) {
	for y := min(y0, y1) + 1; x0 == x1 && y < max(y0, y1); y++ {
		c.path(x0-1, y, x0+1, y, r, series)
	}
	for x := x0 + 1; x < x1; x++ {
		y := int(math.Round(float64(y0) + float64(y1-y0)*float64(x-x0)/float64(x1-x0)))
		if c.has(x, y) && c.runes[rows-1-y][x] == ' ' {
			c.set(x, y, r, series)
		}
	}
}

// curves draws a panel with a numeric x axis.
func (s Style) curves(p figure.Panel) string {
	var xs, ys []float64
	for _, series := range p.Series {
		for _, pt := range series.Points {
			if pt.Failed {
				xs = append(xs, pt.X)
			} else if !math.IsNaN(pt.X) && !math.IsNaN(pt.Y) {
				xs, ys = append(xs, pt.X), append(ys, pt.Y)
			}
		}
	}
	for _, l := range p.Lines {
		xs, ys = append(xs, valueOf(l.X)...), append(ys, valueOf(l.Y)...)
		for _, pt := range l.Points {
			xs, ys = append(xs, pt.X), append(ys, pt.Y)
		}
	}
	x, hasX := newScale(p.X, xs, false)
	y, hasY := newScale(p.Y, ys, true)
	if !hasX || !hasY {
		return s.line("(nothing to draw)")
	}
	g := s.glyphs()
	labels, gutter := s.yLabels(y)
	c := newCanvas(s.Width - gutter - 2)
	limits := lists.Map(p.Lines, func(l figure.Line) figure.Series { return limit(l, x, y) })
	series := slices.Concat(p.Series, limits)
	c.plot(series, x, y, g)
	var b strings.Builder
	b.WriteString(s.line(p.Y.Title()))
	for row, label := range labels {
		mark := g.side
		if label != "" {
			mark = g.sideTick
		}
		b.WriteString(strings.Repeat(" ", gutter-texttab.Width(label)) + label + " " + string(mark))
		b.WriteString(strings.TrimRight(s.row(c, row), " ") + "\n")
	}
	b.WriteString(s.xAxis(x, gutter, c.width, g))
	if text := p.X.Title(); text != "" {
		text = texttab.Shorten(s.plain(text), c.width)
		b.WriteString(strings.Repeat(" ", gutter+2+max(0, (c.width-texttab.Width(text))/2)) + text + "\n")
	}
	if len(series) > 1 || series[0].Name != "" && strings.TrimSuffix(series[0].Name, "_us") != p.Y.Label {
		b.WriteString(s.legend(series, g.forSeries(series)))
	}
	return b.String()
}

// valueOf returns the value of a pointer as a list, which is empty for nil.
func valueOf(v *float64) []float64 {
	if v == nil {
		return nil
	}
	return []float64{*v}
}

// limit returns a limit line as a series without markers, from side to side or through its points.
func limit(l figure.Line, x, y scale) figure.Series {
	points := l.Points
	switch {
	case l.X != nil:
		points = []figure.Point{{X: *l.X, Y: y.lo}, {X: *l.X, Y: y.hi}}
	case l.Y != nil:
		points = []figure.Point{{X: x.lo, Y: *l.Y}, {X: x.hi, Y: *l.Y}}
	}
	return figure.Series{Name: l.Label, NoMarker: true, Points: points}
}

// plot draws the curves of the data first, then limits and fits where there is room, and the points last.
func (c *canvas) plot(series []figure.Series, x, y scale, g glyphs) {
	marks := g.forSeries(series)
	for _, lines := range []bool{false, true} {
		for i, one := range series {
			if isLine(one) != lines || one.Kind == figure.Scatter {
				continue
			}
			glyph := g.path
			if lines {
				glyph = marks[i]
			}
			c.join(one, i, x, y, glyph)
		}
	}
	for i, one := range series {
		for _, pt := range one.Points {
			switch {
			case pt.Failed && x.shows(pt.X):
				c.set(x.cell(pt.X, c.width), 0, g.no, i)
			case !isLine(one) && x.shows(pt.X) && y.shows(pt.Y):
				mark := marks[i]
				if pt.Hollow {
					mark = g.hollow
				}
				c.set(x.cell(pt.X, c.width), y.cell(pt.Y, rows), mark, i)
			}
		}
	}
}

// join draws the line through the points of a series into empty cells. The points of a limit or a fit are part
// of its line.
func (c *canvas) join(one figure.Series, i int, x, y scale, glyph rune) {
	joined := false // whether the point before is visible
	var lastX, lastY int
	for _, pt := range one.Points {
		if pt.Failed || !x.shows(pt.X) || !y.shows(pt.Y) {
			joined = false
			continue
		}
		px, py := x.cell(pt.X, c.width), y.cell(pt.Y, rows)
		if joined {
			c.path(lastX, lastY, px, py, glyph, i)
		}
		if isLine(one) {
			c.path(px-1, py, px+1, py, glyph, i)
		}
		joined, lastX, lastY = true, px, py
	}
}

// row returns a line of the canvas in color.
func (s Style) row(c *canvas, row int) string {
	var b strings.Builder
	for x := 0; x < c.width; {
		end := x + 1
		for end < c.width && c.owner[row][end] == c.owner[row][x] {
			end++
		}
		b.WriteString(s.paint(string(c.runes[row][x:end]), c.owner[row][x]))
		x = end
	}
	return b.String()
}

// yLabels returns the label of each row, from the top, and the width of the longest.
func (s Style) yLabels(y scale) (labels [rows]string, width int) {
	for _, t := range y.ticks(rows / 2) {
		row := rows - 1 - y.cell(t.Value, rows)
		labels[row] = s.plain(t.Label)
		width = max(width, texttab.Width(labels[row]))
	}
	return labels, width
}

// xAxis returns the line below the plot and the labels below the line.
func (s Style) xAxis(x scale, gutter, width int, g glyphs) string {
	line, labels := []rune(strings.Repeat(string(g.across), width)), []rune(strings.Repeat(" ", width+gutter+2))
	free := 0 // the first column behind the labels so far
	for _, t := range x.ticks(width / 10) {
		at := x.cell(t.Value, width)
		line[at] = g.tick
		text := []rune(s.plain(t.Label))
		from := min(max(gutter+2+at-len(text)/2, 0), len(labels)-len(text))
		if from >= free {
			copy(labels[from:], text)
			free = from + len(text) + 1
		}
	}
	return strings.Repeat(" ", gutter+1) + string(g.corner) + string(line) + "\n" +
		strings.TrimRight(string(labels), " ") + "\n"
}
