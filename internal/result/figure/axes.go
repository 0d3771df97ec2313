package figure

import (
	"math"
	"strings"

	"github.com/kernbench/kernbench/internal/result/draw"
)

const (
	tickLength  = 3.5
	minorLength = 2
	tickGap     = 3.0 // between a mark and its label
	labelGap    = 4.0 // between tick labels and the axis label below them
)

// axisLabels are the tick labels below the frame as they will be written.
type axisLabels struct {
	lines  [][]string // per tick, empty for none
	turned bool       // slanted, one line each
	height float64
}

// slant of category names that do not fit side by side.
const slant = math.Pi / 4

// layout finds the frame of the plot in area: what is left after the labels.
func (c *chart) layout(area draw.Rectangle) (draw.Rectangle, axisLabels) {
	frame := area
	frame.Y1 -= 5 // half a tick label may stand above the top
	xLabel, yLabel := c.panel.X.title(), c.panel.Y.title()

	// Left margin and bottom margin depend on each other, weakly: the ticks of the y
	// axis are chosen for about the right height first, and again at the end.
	frame.Y0 += 2 * labelFace.Height(1)
	c.yAxis.place(frame.Y0, frame.Y1, func(string) float64 { return tickFace.Size }, 4, 32)
	frame.X0 += c.yAxis.widest() + tickLength + tickGap
	if yLabel != "" {
		frame.X0 += labelFace.Height(1) + 2
	}
	frame.X1 -= 10

	labels := c.layoutX(&frame, area.X0)
	frame.Y0 = area.Y0 + labels.height + tickLength + tickGap
	if xLabel != "" {
		frame.Y0 += labelFace.Height(1) + labelGap
	}
	c.yAxis.place(frame.Y0, frame.Y1, func(string) float64 { return tickFace.Size }, 4, 32)
	return frame, labels
}

// layoutX places the x axis and words its labels; the last label may push the
// right side of the frame in. Slanted names may run left as far as page.
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

// title is the axis label with its unit.
func (a Axis) title() string { return a.Unit.Label(a.Label) }

// place puts the ruler on the page and chooses as many ticks as fit: labels of the given
// extent keep gap apart, and none is wanted more often than every spacing points.
func (r *ruler) place(from, to float64, extent func(string) float64, gap, spacing float64) {
	r.from, r.to = from, to
	for n := max(2, int((to-from)/spacing)); n >= 2; n-- {
		r.ticks = r.marks(n)
		if r.apart(extent, gap, false) {
			return
		}
	}
	r.apart(extent, gap, true)
}

// apart reports whether no two labels come closer than gap; with mend it
// removes those that do.
func (r *ruler) apart(extent func(string) float64, gap float64, mend bool) bool {
	end := math.Inf(-1)
	for i, t := range r.ticks {
		if t.Label == "" {
			continue
		}
		half := extent(t.Label) / 2
		if at := r.at(t.Value); at-half < end+gap {
			if !mend {
				return false
			}
			r.ticks[i].Label = ""
		} else {
			end = at + half
		}
	}
	return true
}

// widest measures the longest tick label.
func (r *ruler) widest() float64 {
	w := 0.0
	for _, t := range r.ticks {
		w = math.Max(w, tickFace.Width(t.Label))
	}
	return w
}

// placeCategories words the names below a category axis: side by side on up to
// three lines if whole, slanted if not, and only every k-th if there are too many.
func (r *ruler) placeCategories(from, to, leftRoom float64) axisLabels {
	r.from, r.to = from, to
	r.ticks = r.marks(0)
	slot := (to - from) / float64(len(r.ticks))
	labels := axisLabels{lines: make([][]string, len(r.ticks))}
	deepest, whole := 1, true
	for i, t := range r.ticks {
		labels.lines[i] = tickFace.Wrap(t.Label, slot-6, 3)
		deepest = max(deepest, len(labels.lines[i]))
		for _, line := range labels.lines[i] {
			whole = whole && !endsCut(line, t.Label)
		}
	}
	if whole {
		labels.height = tickFace.Height(deepest)
		return labels
	}
	const longest = 110.0
	labels.turned = true
	every := max(1, int(math.Ceil(tickFace.Size*1.35/slot)))
	for i, t := range r.ticks {
		labels.lines[i] = nil
		if i%every != 0 {
			continue
		}
		// A slanted name runs down to the left and must not leave the page there.
		room := math.Min(longest, (r.at(t.Value)-from+leftRoom)/math.Cos(slant))
		name := tickFace.Shorten(t.Label, math.Max(room, 30))
		labels.lines[i] = []string{name}
		labels.height = math.Max(labels.height, tickFace.Width(name)*math.Sin(slant)+tickFace.Size)
	}
	return labels
}

// endsCut reports whether line was shortened, unless the text itself ends so.
func endsCut(line, text string) bool {
	return strings.HasSuffix(line, draw.Ellipsis) && !strings.HasSuffix(text, draw.Ellipsis)
}

func (c *chart) drawGrid(p draw.Pen, frame draw.Rectangle) {
	for _, t := range c.yAxis.ticks {
		if y := c.yAxis.at(t.Value); t.Label != "" {
			p.Line(gridStroke, draw.Pt(frame.X0, y), draw.Pt(frame.X1, y))
		}
	}
	if c.panel.X.Scale == Category {
		return // bars and their gaps divide the plot already
	}
	for _, t := range c.xAxis.ticks {
		if x := c.xAxis.at(t.Value); t.Label != "" {
			p.Line(gridStroke, draw.Pt(x, frame.Y0), draw.Pt(x, frame.Y1))
		}
	}
}

func (c *chart) drawAxes(p draw.Pen, frame draw.Rectangle) {
	p.Line(axisStroke, draw.Pt(frame.X0, frame.Y0), draw.Pt(frame.X1, frame.Y0))
	if c.yAxis.broken {
		cut := breakSpan(frame)
		p.Line(axisStroke, draw.Pt(frame.X0, frame.Y0), draw.Pt(frame.X0, cut[0]))
		p.Line(axisStroke, draw.Pt(frame.X0, cut[1]), draw.Pt(frame.X0, frame.Y1))
	} else {
		p.Line(axisStroke, draw.Pt(frame.X0, frame.Y0), draw.Pt(frame.X0, frame.Y1))
	}
	if lo := c.yAxis.lo; lo < 0 && c.yAxis.hi > 0 && !c.panel.Y.Scale.log() {
		zero := c.yAxis.at(0)
		p.Line(axisStroke, draw.Pt(frame.X0, zero), draw.Pt(frame.X1, zero))
	}
}

// breakSpan gives the page positions between which a broken y axis is cut.
func breakSpan(frame draw.Rectangle) [2]float64 {
	return [2]float64{frame.Y0 + breakFrom*frame.H(), frame.Y0 + breakTo*frame.H()}
}

// drawBreak wipes a strip over the whole plot, so that bars and lines are seen
// to be cut, and marks its edges at the axis with slashes.
func (c *chart) drawBreak(p draw.Pen, frame draw.Rectangle) {
	cut := breakSpan(frame)
	p.Box(draw.Rect(frame.X0-1, cut[0], frame.X1+1, cut[1]), draw.White, draw.Stroke{})
	edge := draw.Stroke{Color: draw.RGB(0xB0B0B0), Width: 0.6}
	for _, y := range cut {
		p.Line(edge, draw.Pt(frame.X0, y), draw.Pt(frame.X1, y))
		p.Line(axisStroke, draw.Pt(frame.X0-4, y-2.5), draw.Pt(frame.X0+4, y+2.5))
	}
}

// drawLabels draws tick marks, tick labels and axis labels.
func (c *chart) drawLabels(p draw.Pen, frame draw.Rectangle, x axisLabels) {
	if len(x.lines) > 0 {
		c.drawTicksX(p, frame, x)
		c.drawTicksY(p, frame)
	}
	c.panel.drawTitles(p, frame, tickLength+tickGap+x.height, tickLength+tickGap+c.yAxis.widest())
}

// drawTitles writes the labels of both axes beyond those of the ticks, which take so much room. They are
// shortened to their side; a little more than the frame is free.
func (p Panel) drawTitles(pen draw.Pen, frame draw.Rectangle, below, left float64) {
	if s := p.X.title(); s != "" {
		at := draw.Pt(frame.Center().X, frame.Y0-below-labelFace.Height(1)+2-labelGap)
		pen.Text(labelFace, at, draw.CenterBase, 0, labelFace.Shorten(s, frame.W()+20))
	}
	if s := p.Y.title(); s != "" {
		at := draw.Pt(frame.X0-left-5, frame.Center().Y)
		pen.Text(labelFace, at, draw.CenterBase, math.Pi/2, labelFace.Shorten(s, frame.H()+20))
	}
}

func (c *chart) drawTicksX(p draw.Pen, frame draw.Rectangle, labels axisLabels) {
	for _, t := range c.xAxis.ticks {
		x := c.xAxis.at(t.Value)
		length := tickLength
		if t.Label == "" {
			length = minorLength
		}
		p.Line(axisStroke, draw.Pt(x, frame.Y0), draw.Pt(x, frame.Y0-length))
	}
	namesBelow(p, c.xAxis, frame.Y0-tickLength-tickGap, labels)
}

// namesBelow writes the tick labels of a horizontal axis, hanging from top.
func namesBelow(p draw.Pen, r ruler, top float64, labels axisLabels) {
	for i, t := range r.ticks {
		x := r.at(t.Value)
		if !labels.turned {
			p.Lines(tickFace, draw.Pt(x, top), draw.CenterTop, labels.lines[i])
			continue
		}
		for _, name := range labels.lines[i] {
			p.Text(tickFace, draw.Pt(x+3, top-2), draw.RightMid, slant, name)
		}
	}
}

func (c *chart) drawTicksY(p draw.Pen, frame draw.Rectangle) {
	for _, t := range c.yAxis.ticks {
		y := c.yAxis.at(t.Value)
		length := tickLength
		if t.Label == "" {
			length = minorLength
		}
		p.Line(axisStroke, draw.Pt(frame.X0-length, y), draw.Pt(frame.X0, y))
		p.Text(tickFace, draw.Pt(frame.X0-tickLength-tickGap, y), draw.RightMid, 0, t.Label)
	}
}
