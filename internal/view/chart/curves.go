package chart

import (
	"math"
	"strings"

	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/ticks"
)

// canvas is the plotted area: a character and the series it belongs to, -1 for none.
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

// set puts a character at a place, row 0 at the bottom.
func (c *canvas) set(x, y int, r rune, series int) {
	if x >= 0 && x < c.width && y >= 0 && y < rows {
		c.runes[rows-1-y][x], c.owner[rows-1-y][x] = r, series
	}
}

// path dots the way between two places, where nothing is yet.
func (c *canvas) path(x0, y0, x1, y1 int, r rune, series int) {
	for x := x0 + 1; x < x1; x++ {
		y := int(math.Round(float64(y0) + float64(y1-y0)*float64(x-x0)/float64(x1-x0)))
		if y >= 0 && y < rows && x >= 0 && x < c.width && c.runes[rows-1-y][x] == ' ' {
			c.set(x, y, r, series)
		}
	}
}

// curves draws a panel whose x axis has numbers.
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
	x, hasX := newScale(p.X, xs, false)
	y, hasY := newScale(p.Y, ys, true)
	if !hasX || !hasY {
		return s.line("(nothing to draw)")
	}
	g := s.glyphs()
	labels, gutter := s.yLabels(y)
	c := newCanvas(s.Width - gutter - 2)
	s.plot(c, p.Series, x, y, g)
	var b strings.Builder
	if text := ticks.Unit(p.Y.Unit).Label(p.Y.Label); text != "" {
		b.WriteString(s.line(text))
	}
	for row := range rows {
		label, mark := labels[row], '│'
		switch {
		case label != "":
			mark = g.up
		case !s.Unicode:
			mark = '|'
		}
		b.WriteString(strings.Repeat(" ", gutter-texttab.Width(label)) + label + " " + string(mark))
		b.WriteString(strings.TrimRight(s.row(c, row), " ") + "\n")
	}
	b.WriteString(s.xAxis(x, gutter, c.width, g))
	if text := ticks.Unit(p.X.Unit).Label(p.X.Label); text != "" {
		text = texttab.Shorten(s.plain(text), c.width)
		b.WriteString(strings.Repeat(" ", gutter+2+max(0, (c.width-texttab.Width(text))/2)) + text + "\n")
	}
	if len(p.Series) > 1 || p.Series[0].Name != "" && p.Series[0].Name != p.Y.Label {
		b.WriteString(s.legend(p.Series, g.markers))
	}
	return b.String()
}

// plot puts the series onto the canvas: first the ways, then the points upon them.
func (s Style) plot(c *canvas, series []figure.Series, x, y scale, g glyphs) {
	at := func(sc scale, v float64, length int) int { return int(math.Round(sc.share(v) * float64(length-1))) }
	for i, one := range series {
		last := -1
		var lastX, lastY int
		for k, pt := range one.Points {
			if pt.Failed || !x.shows(pt.X) || !y.shows(pt.Y) {
				last = -1
				continue
			}
			px, py := at(x, pt.X, c.width), at(y, pt.Y, rows)
			if last >= 0 && one.Kind != figure.Scatter {
				c.path(lastX, lastY, px, py, g.path, i)
			}
			last, lastX, lastY = k, px, py
		}
	}
	for i, one := range series {
		for _, pt := range one.Points {
			switch {
			case pt.Failed && x.shows(pt.X):
				c.set(at(x, pt.X, c.width), 0, g.no, i)
			case x.shows(pt.X) && y.shows(pt.Y):
				c.set(at(x, pt.X, c.width), at(y, pt.Y, rows), g.markers[i%len(g.markers)], i)
			}
		}
	}
}

// row is a line of the canvas, coloured.
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

// yLabels are the labels by row, the top one first, and how wide they are.
func (s Style) yLabels(y scale) (labels [rows]string, width int) {
	for _, t := range y.ticks(rows / 2) {
		row := rows - 1 - int(math.Round(y.share(t.Value)*(rows-1)))
		labels[row] = s.plain(t.Label)
		width = max(width, texttab.Width(labels[row]))
	}
	return labels, width
}

// xAxis is the line below the plot, and the labels below that.
func (s Style) xAxis(x scale, gutter, width int, g glyphs) string {
	line, labels := []rune(strings.Repeat(string(g.across), width)), []rune(strings.Repeat(" ", width+gutter+2))
	free := 0 // the first place that no label has taken
	for _, t := range x.ticks(width / 10) {
		at := int(math.Round(x.share(t.Value) * float64(width-1)))
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
