package figure

import (
	"fmt"
	"math"
	"strings"
)

// heat is a heat map made ready: its colour scale fitted.
type heat struct {
	panel   Panel
	value   ruler
	filled  int // cells with a value
	dropped int // values a log colour scale cannot show
}

const (
	colorBar  = 12.0 // thickness
	heatRow   = 21.0 // least height of a row, so that text fits
	smallText = 6.5  // smallest readable cell text
)

func newHeat(p Panel) *heat {
	h := &heat{panel: p}
	var values []float64
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, row := range p.Heat.Cells {
		for _, c := range row {
			switch {
			case p.Heat.Value.showable(c.Value):
				values = append(values, c.Value)
				lo, hi = math.Min(lo, c.Value), math.Max(hi, c.Value)
			case !math.IsNaN(c.Value): // NaN is an empty cell, on purpose
				h.dropped++
			}
		}
	}
	h.filled = len(values)
	// Colours need no margin and no zero: the extremes get the extreme colours.
	axis := p.Heat.Value
	if lo < hi {
		if axis.Min == nil {
			axis.Min = &lo
		}
		if axis.Max == nil {
			axis.Max = &hi
		}
	}
	if axis.Min != nil && axis.Max != nil && *axis.Min >= *axis.Max {
		axis.Min, axis.Max = p.Heat.Value.Min, p.Heat.Value.Max
	}
	h.value = newRuler(axis, values, false)
	return h
}

func (h *heat) notes() string {
	var parts []string
	if h.panel.Note != "" {
		parts = append(parts, h.panel.Note)
	}
	if h.dropped > 0 {
		why := "not finite"
		if h.panel.Heat.Value.Scale.log() {
			why += ", or not positive on a log scale"
		}
		parts = append(parts, fmt.Sprintf("%s not shown: %s.", plural(h.dropped, "value"), why))
	}
	return strings.Join(parts, "\n")
}

func (h *heat) draw(p pen, area rect) {
	g := h.layout(area)
	h.drawNames(p, g)
	if h.filled == 0 {
		p.box(g.frame, nil, stroke{color: gridGrey, width: 0.8})
		p.text(face{size: 13, color: inkGrey}, g.frame.center(), centerMid, 0, "no data")
		return
	}
	h.drawCells(p, g)
	h.drawColorBar(p, rect{g.frame.x1 + 14, g.frame.y0, g.frame.x1 + 14 + colorBar, g.frame.y1})
}

// heatGrid is a heat map on the page.
type heatGrid struct {
	frame rect
	x, y  ruler
	names axisLabels // below
	side  float64    // width of the names at the left
}

// layout places both axes; y runs downward, as matrices are written.
func (h *heat) layout(area rect) heatGrid {
	g := heatGrid{frame: area, x: newRuler(h.panel.X, nil, false), y: newRuler(h.panel.Y, nil, false)}
	h.value.place(area.y0, area.y1, func(string) float64 { return tickFace.size }, 4, 32)
	g.frame.x1 -= 14 + colorBar + tickLength + tickGap + h.value.widest() + 4
	if h.panel.Heat.Value.title() != "" {
		g.frame.x1 -= labelFace.height(1) + 2
	}
	for _, name := range h.panel.Y.Categories {
		g.side = math.Max(g.side, math.Min(tickFace.width(name), area.w()*0.25))
	}
	g.frame.x0 += g.side + tickGap + 3
	if h.panel.Y.title() != "" {
		g.frame.x0 += labelFace.height(1) + 2
	}
	g.frame.y1 -= 2
	g.names = g.x.placeCategories(g.frame.x0, g.frame.x1, g.frame.x0-area.x0)
	g.frame.y0 += g.names.height + tickGap
	if h.panel.X.title() != "" {
		g.frame.y0 += labelFace.height(1) + labelGap
	}
	g.y.from, g.y.to = g.frame.y1, g.frame.y0
	g.y.ticks = g.y.marks(0)
	return g
}

// drawCells paints the matrix. Text shares one size, the largest at which all
// of it fits, and stands upright where that is larger than across the cell; below
// a readable size it is left to the colours.
func (h *heat) drawCells(p pen, g heatGrid) {
	cell := rect{0, 0, g.frame.w() / float64(len(g.x.ticks)), g.frame.h() / float64(len(g.y.ticks))}
	font, turn := tickFace, 0.0
	if font.size = h.textSize(cell.w(), cell.h()); font.size < smallText {
		if upright := h.textSize(cell.h(), cell.w()); upright > font.size {
			font.size, turn = upright, math.Pi/2
		}
	}
	rim := stroke{color: white, width: math.Min(1, cell.h()/12)}
	for i, row := range h.panel.Heat.Cells {
		for k, c := range row {
			at := point{g.x.at(float64(k)), g.y.at(float64(i))}
			fill := paleGrey
			if h.panel.Heat.Value.showable(c.Value) {
				fill = heatColor(h.value.fraction(c.Value))
			}
			p.box(rect{at.x - cell.w()/2, at.y - cell.h()/2, at.x + cell.w()/2, at.y + cell.h()/2}, fill, rim)
			if font.size >= smallText {
				font.color = inkOn(fill)
				p.text(font, at, centerMid, turn, h.cellText(c))
			}
		}
	}
}

// textSize is the largest at which the text of every cell fits into so much room
// along and across its line.
func (h *heat) textSize(along, across float64) float64 {
	font := tickFace
	font.size = math.Min(11, across*0.6)
	widest := 0.0
	for _, row := range h.panel.Heat.Cells {
		for _, c := range row {
			widest = math.Max(widest, font.width(h.cellText(c)))
		}
	}
	if room := along - 6; widest > room {
		font.size *= room / widest
	}
	return font.size
}

func (h *heat) cellText(c Cell) string {
	switch {
	case c.Text != "":
		return c.Text
	case !h.panel.Heat.Value.showable(c.Value):
		return "–"
	}
	u := h.panel.Heat.Value.Unit
	unit := u.prefixFor(math.Abs(c.Value))
	return number(c.Value/unit.size, 3) + unit.suffix
}

func (h *heat) drawColorBar(p pen, bar rect) {
	const slices = 64
	for i := range slices {
		y := bar.y0 + bar.h()*float64(i)/slices
		// Overlap by a little, or seams show between the slices.
		top := math.Min(bar.y1, y+bar.h()/slices+0.4)
		p.box(rect{bar.x0, y, bar.x1, top}, heatColor((float64(i)+0.5)/slices), stroke{})
	}
	p.box(bar, nil, stroke{color: axisGrey, width: 0.5})
	h.value.place(bar.y0, bar.y1, func(string) float64 { return tickFace.size }, 4, 32)
	for _, t := range h.value.ticks {
		y := h.value.at(t.value)
		if t.label != "" {
			p.line(axisStroke, point{bar.x1, y}, point{bar.x1 + tickLength, y})
			p.text(tickFace, point{bar.x1 + tickLength + tickGap, y}, leftMid, 0, t.label)
		}
	}
	if s := h.panel.Heat.Value.title(); s != "" {
		at := point{bar.x1 + tickLength + tickGap + h.value.widest() + 5, bar.center().y}
		p.text(labelFace, at, anchor{0.5, 1}, math.Pi/2, labelFace.shorten(s, bar.h()))
	}
}

func (h *heat) drawNames(p pen, g heatGrid) {
	p.namesBelow(g.x, g.frame.y0-tickGap, g.names)
	every := max(1, int(math.Ceil(tickFace.size*1.1*float64(len(g.y.ticks))/g.frame.h())))
	for i, t := range g.y.ticks {
		if i%every == 0 {
			p.text(tickFace, point{g.frame.x0 - tickGap - 2, g.y.at(t.value)}, rightMid, 0, tickFace.shorten(t.label, g.side))
		}
	}
	if s := h.panel.X.title(); s != "" {
		at := point{g.frame.center().x, g.frame.y0 - tickGap - g.names.height - labelFace.height(1) + 2 - labelGap}
		p.text(labelFace, at, anchor{0.5, 0}, 0, labelFace.shorten(s, g.frame.w()+20))
	}
	if s := h.panel.Y.title(); s != "" {
		at := point{g.frame.x0 - tickGap - 2 - g.side - 5, g.frame.center().y}
		p.text(labelFace, at, anchor{0.5, 0}, math.Pi/2, labelFace.shorten(s, g.frame.h()+20))
	}
}
