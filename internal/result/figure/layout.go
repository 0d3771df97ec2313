package figure

import (
	"math"
	"strings"

	"github.com/kernbench/kernbench/internal/result/draw"
)

// Axes are laid out here and not by the plotting library, which neither wraps nor
// slants the names of categories, does not drop labels that would collide, and
// knows no broken axes.

const (
	tickLength  = 3.5
	minorLength = 2
	tickGap     = 3.0 // between a tick and its label
	labelGap    = 4.0 // between the tick labels and the axis label below them
)

// axisLabels are the wrapped tick labels of the x axis.
type axisLabels struct {
	lines   [][]string // per tick; empty for a tick without a label
	slanted bool       // one line each, turned by slant
	height  float64
}

// slant is the angle of category names that do not fit side by side.
const slant = math.Pi / 4

// layout returns the frame of the plot: the part of area that its labels leave free.
func (c *chart) layout(area draw.Rectangle) (draw.Rectangle, axisLabels) {
	frame := area
	frame.Y1 -= 5 // the topmost tick label stands half above the frame

	// The left margin depends on the y ticks, and these on the bottom margin. The y
	// ticks are chosen for about the right height first, and again at the end.
	frame.Y0 += 2 * labelFace.Height(1)
	c.yAxis.placeVertical(frame.Y0, frame.Y1)
	frame.X0 += c.yAxis.widest() + tickLength + tickGap
	if c.panel.Y.Title() != "" {
		frame.X0 += labelFace.Height(1) + 2
	}
	frame.X1 -= 10

	labels := c.layoutX(&frame, area.X0)
	frame.Y0 = area.Y0 + labels.height + tickLength + tickGap
	if c.panel.X.Title() != "" {
		frame.Y0 += labelFace.Height(1) + labelGap
	}
	c.yAxis.placeVertical(frame.Y0, frame.Y1)
	return frame, labels
}

// layoutX places the x axis and its labels. A long last label moves the right side
// of the frame inward. Slanted names may reach left as far as the page.
func (c *chart) layoutX(frame *draw.Rectangle, page float64) axisLabels {
	if c.panel.X.Scale == Category {
		return c.xAxis.placeCategories(frame.X0, frame.X1, frame.X0-page)
	}
	c.xAxis.place(frame.X0, frame.X1, tickFace.Width, 9, 44)
	if n := len(c.xAxis.ticks); n > 0 {
		last := c.xAxis.ticks[n-1]
		if over := c.xAxis.at(last.Value) + tickFace.Width(last.Label)/2 - frame.X1 - 8; over > 0 {
			frame.X1 -= over
			c.xAxis.place(frame.X0, frame.X1, tickFace.Width, 9, 44)
		}
	}
	labels := axisLabels{height: tickFace.Height(1)}
	for _, t := range c.xAxis.ticks {
		labels.lines = append(labels.lines, []string{t.Label})
	}
	return labels
}

// placeCategories lays out the names below a category axis: side by side on up to
// three lines if they fit in full, slanted if not, and only every k-th name if
// there are too many.
func (r *ruler) placeCategories(from, to, leftRoom float64) axisLabels {
	r.from, r.to = from, to
	r.ticks = r.marks(0)
	slot := (to - from) / float64(len(r.ticks))
	labels := axisLabels{lines: make([][]string, len(r.ticks))}
	deepest, fits := 1, true
	for i, t := range r.ticks {
		labels.lines[i] = tickFace.Wrap(t.Label, slot-6, 3)
		deepest = max(deepest, len(labels.lines[i]))
		for _, line := range labels.lines[i] {
			cut := strings.HasSuffix(line, draw.Ellipsis) && !strings.HasSuffix(t.Label, draw.Ellipsis)
			fits = fits && !cut
		}
	}
	if fits {
		labels.height = tickFace.Height(deepest)
		return labels
	}
	const longest = 110.0
	labels.slanted = true
	every := max(1, int(math.Ceil(tickFace.Size*1.35/slot)))
	for i, t := range r.ticks {
		labels.lines[i] = nil
		if i%every != 0 {
			continue
		}
		// A slanted name runs down to the left and must not leave the page there.
		room := min(longest, (r.at(t.Value)-from+leftRoom)/math.Cos(slant))
		name := tickFace.Shorten(t.Label, max(room, 30))
		labels.lines[i] = []string{name}
		labels.height = max(labels.height, tickFace.Width(name)*math.Sin(slant)+tickFace.Size)
	}
	return labels
}

// drawGrid draws lines across the plot at the labelled ticks.
func (c *chart) drawGrid(p draw.Pen, frame draw.Rectangle) {
	for _, t := range c.yAxis.ticks {
		if y := c.yAxis.at(t.Value); t.Label != "" {
			p.Line(gridStroke, draw.Pt(frame.X0, y), draw.Pt(frame.X1, y))
		}
	}
	if c.panel.X.Scale == Category {
		return // the bars and their gaps divide the plot already
	}
	for _, t := range c.xAxis.ticks {
		if x := c.xAxis.at(t.Value); t.Label != "" {
			p.Line(gridStroke, draw.Pt(x, frame.Y0), draw.Pt(x, frame.Y1))
		}
	}
}

// drawAxes draws the two axes, with a gap at a break, and a line at zero if there are
// values on both sides of it.
func (c *chart) drawAxes(p draw.Pen, frame draw.Rectangle) {
	p.Line(axisStroke, draw.Pt(frame.X0, frame.Y0), draw.Pt(frame.X1, frame.Y0))
	if c.yAxis.broken {
		low, high := breakSpan(frame)
		p.Line(axisStroke, draw.Pt(frame.X0, frame.Y0), draw.Pt(frame.X0, low))
		p.Line(axisStroke, draw.Pt(frame.X0, high), draw.Pt(frame.X0, frame.Y1))
	} else {
		p.Line(axisStroke, draw.Pt(frame.X0, frame.Y0), draw.Pt(frame.X0, frame.Y1))
	}
	if c.yAxis.lo < 0 && c.yAxis.hi > 0 && !c.panel.Y.Scale.log() {
		zero := c.yAxis.at(0)
		p.Line(axisStroke, draw.Pt(frame.X0, zero), draw.Pt(frame.X1, zero))
	}
}

// breakSpan returns the positions between which a broken y axis is cut.
func breakSpan(frame draw.Rectangle) (low, high float64) {
	return frame.Y0 + breakFrom*frame.H(), frame.Y0 + breakTo*frame.H()
}

// drawBreak clears a strip across the plot, so that bars and lines look cut, and
// marks its edges at the axis with slashes.
func (c *chart) drawBreak(p draw.Pen, frame draw.Rectangle) {
	low, high := breakSpan(frame)
	p.Box(draw.Rect(frame.X0-1, low, frame.X1+1, high), draw.White, draw.Stroke{})
	edge := draw.Stroke{Color: draw.RGB(0xB0B0B0), Width: 0.6}
	for _, y := range []float64{low, high} {
		p.Line(edge, draw.Pt(frame.X0, y), draw.Pt(frame.X1, y))
		p.Line(axisStroke, draw.Pt(frame.X0-4, y-2.5), draw.Pt(frame.X0+4, y+2.5))
	}
}

// drawLabels draws ticks, tick labels and axis labels. Without x labels there is
// no data, and only the axis labels are drawn.
func (c *chart) drawLabels(p draw.Pen, frame draw.Rectangle, x axisLabels) {
	if len(x.lines) > 0 {
		for _, t := range c.xAxis.ticks {
			at := c.xAxis.at(t.Value)
			p.Line(axisStroke, draw.Pt(at, frame.Y0), draw.Pt(at, frame.Y0-t.length()))
		}
		x.draw(p, c.xAxis, frame.Y0-tickLength-tickGap)
		for _, t := range c.yAxis.ticks {
			at := c.yAxis.at(t.Value)
			p.Line(axisStroke, draw.Pt(frame.X0-t.length(), at), draw.Pt(frame.X0, at))
			p.Text(tickFace, draw.Pt(frame.X0-tickLength-tickGap, at), draw.RightMid, 0, t.Label)
		}
	}
	c.panel.drawTitles(p, frame, tickLength+tickGap+x.height, tickLength+tickGap+c.yAxis.widest())
}

func (t Tick) length() float64 {
	if t.Label == "" {
		return minorLength
	}
	return tickLength
}

// draw writes the labels of a horizontal axis with their upper edge at top.
func (l axisLabels) draw(p draw.Pen, r ruler, top float64) {
	for i, t := range r.ticks {
		x := r.at(t.Value)
		if !l.slanted {
			p.Lines(tickFace, draw.Pt(x, top), draw.CenterTop, l.lines[i])
			continue
		}
		for _, name := range l.lines[i] {
			p.Text(tickFace, draw.Pt(x+3, top-2), draw.RightMid, slant, name)
		}
	}
}

// drawTitles writes the labels of both axes outside the tick labels, which take
// the given room below and left of the frame. Labels may be a little longer than
// their side of the frame.
func (p Panel) drawTitles(pen draw.Pen, frame draw.Rectangle, below, left float64) {
	if s := p.X.Title(); s != "" {
		at := draw.Pt(frame.Center().X, frame.Y0-below-labelFace.Height(1)+2-labelGap)
		pen.Text(labelFace, at, draw.CenterBase, 0, labelFace.Shorten(s, frame.W()+20))
	}
	if s := p.Y.Title(); s != "" {
		at := draw.Pt(frame.X0-left-5, frame.Center().Y)
		pen.Text(labelFace, at, draw.CenterBase, math.Pi/2, labelFace.Shorten(s, frame.H()+20))
	}
}
