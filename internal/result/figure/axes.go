package figure

import "math"

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
func (c *chart) layout(area rect) (rect, axisLabels) {
	frame := area
	frame.y1 -= 5 // half a tick label may stand above the top
	xLabel, yLabel := c.panel.X.title(), c.panel.Y.title()

	// Left margin and bottom margin depend on each other, weakly: the ticks of the y
	// axis are chosen for about the right height first, and again at the end.
	frame.y0 += 2 * labelFace.height(1)
	c.y.place(frame.y0, frame.y1, func(string) float64 { return tickFace.size }, 4, 32)
	frame.x0 += c.y.widest() + tickLength + tickGap
	if yLabel != "" {
		frame.x0 += labelFace.height(1) + 2
	}
	frame.x1 -= 10

	labels := c.layoutX(&frame, area.x0)
	frame.y0 = area.y0 + labels.height + tickLength + tickGap
	if xLabel != "" {
		frame.y0 += labelFace.height(1) + labelGap
	}
	c.y.place(frame.y0, frame.y1, func(string) float64 { return tickFace.size }, 4, 32)
	return frame, labels
}

// layoutX places the x axis and words its labels; the last label may push the
// right side of the frame in. Slanted names may run left as far as page.
func (c *chart) layoutX(frame *rect, page float64) axisLabels {
	if c.panel.X.Scale == Category {
		return c.x.placeCategories(frame.x0, frame.x1, frame.x0-page)
	}
	c.x.place(frame.x0, frame.x1, tickFace.width, 9, 44)
	if n := len(c.x.ticks); n > 0 {
		last := c.x.ticks[n-1]
		if over := c.x.at(last.value) + tickFace.width(last.label)/2 - frame.x1 - 8; over > 0 {
			frame.x1 -= over
			c.x.place(frame.x0, frame.x1, tickFace.width, 9, 44)
		}
	}
	labels := axisLabels{height: tickFace.height(1)}
	for _, t := range c.x.ticks {
		labels.lines = append(labels.lines, []string{t.label})
	}
	return labels
}

// title is the axis label with its unit.
func (a Axis) title() string { return a.Unit.label(a.Label) }

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
		if t.label == "" {
			continue
		}
		half := extent(t.label) / 2
		if at := r.at(t.value); at-half < end+gap {
			if !mend {
				return false
			}
			r.ticks[i].label = ""
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
		w = math.Max(w, tickFace.width(t.label))
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
		labels.lines[i] = tickFace.wrap(t.label, slot-6, 3)
		deepest = max(deepest, len(labels.lines[i]))
		for _, line := range labels.lines[i] {
			whole = whole && !endsCut(line, t.label)
		}
	}
	if whole {
		labels.height = tickFace.height(deepest)
		return labels
	}
	const longest = 110.0
	labels.turned = true
	every := max(1, int(math.Ceil(tickFace.size*1.35/slot)))
	for i, t := range r.ticks {
		labels.lines[i] = nil
		if i%every != 0 {
			continue
		}
		// A slanted name runs down to the left and must not leave the page there.
		room := math.Min(longest, (r.at(t.value)-from+leftRoom)/math.Cos(slant))
		name := tickFace.shorten(t.label, math.Max(room, 30))
		labels.lines[i] = []string{name}
		labels.height = math.Max(labels.height, tickFace.width(name)*math.Sin(slant)+tickFace.size)
	}
	return labels
}

// endsCut reports whether line was shortened, unless the text itself ends so.
func endsCut(line, text string) bool {
	n := len(ellipsis)
	cut := len(line) >= n && line[len(line)-n:] == ellipsis
	return cut && !(len(text) >= n && text[len(text)-n:] == ellipsis)
}

func (c *chart) drawGrid(p pen, frame rect) {
	for _, t := range c.y.ticks {
		if y := c.y.at(t.value); t.label != "" {
			p.line(gridStroke, point{frame.x0, y}, point{frame.x1, y})
		}
	}
	if c.panel.X.Scale == Category {
		return // bars and their gaps divide the plot already
	}
	for _, t := range c.x.ticks {
		if x := c.x.at(t.value); t.label != "" {
			p.line(gridStroke, point{x, frame.y0}, point{x, frame.y1})
		}
	}
}

func (c *chart) drawAxes(p pen, frame rect) {
	p.line(axisStroke, point{frame.x0, frame.y0}, point{frame.x1, frame.y0})
	if c.y.broken {
		cut := breakSpan(frame)
		p.line(axisStroke, point{frame.x0, frame.y0}, point{frame.x0, cut[0]})
		p.line(axisStroke, point{frame.x0, cut[1]}, point{frame.x0, frame.y1})
	} else {
		p.line(axisStroke, point{frame.x0, frame.y0}, point{frame.x0, frame.y1})
	}
	if lo := c.y.lo; lo < 0 && c.y.hi > 0 && !c.panel.Y.Scale.log() {
		zero := c.y.at(0)
		p.line(axisStroke, point{frame.x0, zero}, point{frame.x1, zero})
	}
}

// breakSpan gives the page positions between which a broken y axis is cut.
func breakSpan(frame rect) [2]float64 {
	return [2]float64{frame.y0 + breakFrom*frame.h(), frame.y0 + breakTo*frame.h()}
}

// drawBreak wipes a strip over the whole plot, so that bars and lines are seen
// to be cut, and marks its edges at the axis with slashes.
func (c *chart) drawBreak(p pen, frame rect) {
	cut := breakSpan(frame)
	p.box(rect{frame.x0 - 1, cut[0], frame.x1 + 1, cut[1]}, white, stroke{})
	edge := stroke{color: rgb(0xB0B0B0), width: 0.6}
	for _, y := range cut {
		p.line(edge, point{frame.x0, y}, point{frame.x1, y})
		p.line(axisStroke, point{frame.x0 - 4, y - 2.5}, point{frame.x0 + 4, y + 2.5})
	}
}

// drawLabels draws tick marks, tick labels and axis labels.
func (c *chart) drawLabels(p pen, frame rect, x axisLabels) {
	if len(x.lines) > 0 {
		c.drawTicksX(p, frame, x)
		c.drawTicksY(p, frame)
	}
	// Axis labels are shortened to their side; a little more than the frame is free.
	if s := c.panel.X.title(); s != "" {
		at := point{frame.center().x, frame.y0 - tickLength - tickGap - x.height - labelFace.height(1) + 2 - labelGap}
		p.text(labelFace, at, anchor{0.5, 0}, 0, labelFace.shorten(s, frame.w()+20))
	}
	if s := c.panel.Y.title(); s != "" {
		at := point{frame.x0 - tickLength - tickGap - c.y.widest() - 5, frame.center().y}
		p.text(labelFace, at, anchor{0.5, 0}, math.Pi/2, labelFace.shorten(s, frame.h()+20))
	}
}

func (c *chart) drawTicksX(p pen, frame rect, labels axisLabels) {
	for _, t := range c.x.ticks {
		x := c.x.at(t.value)
		length := tickLength
		if t.label == "" {
			length = minorLength
		}
		p.line(axisStroke, point{x, frame.y0}, point{x, frame.y0 - length})
	}
	p.namesBelow(c.x, frame.y0-tickLength-tickGap, labels)
}

// namesBelow writes the tick labels of a horizontal axis, hanging from top.
func (p pen) namesBelow(r ruler, top float64, labels axisLabels) {
	for i, t := range r.ticks {
		x := r.at(t.value)
		if !labels.turned {
			p.lines(tickFace, point{x, top}, centerTop, labels.lines[i])
			continue
		}
		for _, name := range labels.lines[i] {
			p.text(tickFace, point{x + 3, top - 2}, rightMid, slant, name)
		}
	}
}

func (c *chart) drawTicksY(p pen, frame rect) {
	for _, t := range c.y.ticks {
		y := c.y.at(t.value)
		length := tickLength
		if t.label == "" {
			length = minorLength
		}
		p.line(axisStroke, point{frame.x0 - length, y}, point{frame.x0, y})
		p.text(tickFace, point{frame.x0 - tickLength - tickGap, y}, rightMid, 0, t.label)
	}
}
