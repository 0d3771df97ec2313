package figure

import (
	"fmt"
	"math"

	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/draw"
)

// HeatMap fills a panel with a matrix of colored cells. Both axes of the panel are
// Category axes.
type HeatMap struct {
	Cells [][]Cell // Cells[row][column], row 0 at the top
	Value Axis     // the color scale: label, scale, unit, ends
}

// Cell is one entry of a heat map. A cell with the value NaN is empty.
type Cell struct {
	Value float64
	Text  string // shown instead of the value
}

// Check implements Content.
func (m *HeatMap) Check(p Panel, f Faults) {
	p.X.validate(f.At("x axis"))
	p.Y.validate(f.At("y axis"))
	m.Value.validate(f.At("heat map value"))
	if p.X.Scale != Category || p.Y.Scale != Category {
		f.Add("heat map on scales %q and %q, want category axes", p.X.Scale, p.Y.Scale)
	}
	if m.Value.Scale == Category || m.Value.Break != nil {
		f.Add("heat map value has categories or a break, want a plain linear or log scale")
	}
	if len(m.Cells) != len(p.Y.Categories) {
		f.Add("heat map has %d rows for %d y categories", len(m.Cells), len(p.Y.Categories))
	}
	for i, row := range m.Cells {
		if len(row) != len(p.X.Categories) {
			f.Add("heat map row %d has %d cells for %d x categories", i+1, len(row), len(p.X.Categories))
		}
	}
}

// heat is a prepared heat map: its color scale is fitted to the values.
type heat struct {
	panel   Panel
	matrix  *HeatMap
	value   ruler
	filled  int // cells with a value
	dropped int // values that the color scale cannot show
}

const (
	colorBar  = 12.0 // thickness
	heatRow   = 21.0 // least height of a row with text
	smallText = 6.5  // smallest readable cell text
)

// Prepare implements Content.
func (m *HeatMap) Prepare(p Panel) Drawing { return newHeat(p, m) }

// newHeat collects the values of the cells and fits the color scale to them.
func newHeat(p Panel, m *HeatMap) *heat {
	h := &heat{panel: p, matrix: m}
	var values []float64
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, row := range m.Cells {
		for _, c := range row {
			switch {
			case m.Value.showable(c.Value):
				values = append(values, c.Value)
				lo, hi = min(lo, c.Value), max(hi, c.Value)
			case !math.IsNaN(c.Value): // NaN is an intended empty cell
				h.dropped++
			}
		}
	}
	h.filled = len(values)
	// Unlike an axis, a color scale needs no margin and no zero: the smallest and the
	// largest value get the outermost colors.
	axis := m.Value
	if lo < hi {
		if axis.Min == nil {
			axis.Min = &lo
		}
		if axis.Max == nil {
			axis.Max = &hi
		}
	}
	if axis.Min != nil && axis.Max != nil && *axis.Min >= *axis.Max {
		axis.Min, axis.Max = m.Value.Min, m.Value.Max
	}
	h.value = newRuler(axis, values, false)
	return h
}

// Height implements Drawing: it grows with the number of rows.
func (h *heat) Height(_, usual float64) float64 {
	return max(usual, float64(len(h.panel.Y.Categories))*heatRow+90)
}

// Notes implements Drawing.
func (h *heat) Notes() string {
	if h.dropped == 0 {
		return ""
	}
	why := "not finite"
	if h.matrix.Value.Scale.log() {
		why += ", or not positive on a log scale"
	}
	return fmt.Sprintf("%s not shown: %s.", unit.Plural(h.dropped, "value"), why)
}

// Draw implements Drawing.
func (h *heat) Draw(p draw.Pen, area draw.Rectangle) {
	g := h.layout(area)
	h.drawNames(p, g)
	if h.filled == 0 {
		drawNoData(p, g.frame)
		return
	}
	h.drawCells(p, g)
	h.drawColorBar(p, draw.Rect(g.frame.X1+14, g.frame.Y0, g.frame.X1+14+colorBar, g.frame.Y1))
}

// heatGrid is the layout of a heat map on the page.
type heatGrid struct {
	frame draw.Rectangle
	xAxis ruler
	yAxis ruler
	names axisLabels // of the columns, below
	side  float64    // width of the row names at the left
}

// layout places both axes. The y axis runs downward, like the rows of a matrix.
func (h *heat) layout(area draw.Rectangle) heatGrid {
	g := heatGrid{frame: area, xAxis: newRuler(h.panel.X, nil, false), yAxis: newRuler(h.panel.Y, nil, false)}
	h.value.placeVertical(area.Y0, area.Y1)
	g.frame.X1 -= 14 + colorBar + tickLength + tickGap + h.value.widest() + 4
	if h.matrix.Value.Title() != "" {
		g.frame.X1 -= labelFace.Height(1) + 2
	}
	for _, name := range h.panel.Y.Categories {
		g.side = max(g.side, min(tickFace.Width(name), area.W()*0.25))
	}
	g.frame.X0 += g.side + tickGap + 3
	if h.panel.Y.Title() != "" {
		g.frame.X0 += labelFace.Height(1) + 2
	}
	g.frame.Y1 -= 2
	g.names = g.xAxis.placeCategories(g.frame.X0, g.frame.X1, g.frame.X0-area.X0)
	g.frame.Y0 += g.names.height + tickGap
	if h.panel.X.Title() != "" {
		g.frame.Y0 += labelFace.Height(1) + labelGap
	}
	g.yAxis.from, g.yAxis.to = g.frame.Y1, g.frame.Y0
	g.yAxis.ticks = g.yAxis.marks(0)
	return g
}

// drawCells draws the matrix. The text of all cells has the same size, the largest
// that fits. It is turned upright if it can be larger that way, and omitted if it
// would be too small to read.
func (h *heat) drawCells(p draw.Pen, g heatGrid) {
	cell := draw.Rect(0, 0, g.frame.W()/float64(len(g.xAxis.ticks)), g.frame.H()/float64(len(g.yAxis.ticks)))
	font, turn := tickFace, 0.0
	if font.Size = h.textSize(cell.W(), cell.H()); font.Size < smallText {
		if upright := h.textSize(cell.H(), cell.W()); upright > font.Size {
			font.Size, turn = upright, math.Pi/2
		}
	}
	rim := draw.Stroke{Color: draw.White, Width: min(1, cell.H()/12)}
	for i, row := range h.matrix.Cells {
		for k, c := range row {
			at := draw.Pt(g.xAxis.at(float64(k)), g.yAxis.at(float64(i)))
			fill := draw.PaleGrey
			if h.matrix.Value.showable(c.Value) {
				fill = draw.Heat(h.value.fraction(c.Value))
			}
			p.Box(draw.Rect(at.X-cell.W()/2, at.Y-cell.H()/2, at.X+cell.W()/2, at.Y+cell.H()/2), fill, rim)
			if font.Size >= smallText {
				font.Color = draw.InkOn(fill)
				p.Text(font, at, draw.CenterMid, turn, h.cellText(c))
			}
		}
	}
}

// textSize returns the largest font size at which the text of every cell fits into
// the given length and height.
func (h *heat) textSize(length, height float64) float64 {
	font := tickFace
	font.Size = min(11, height*0.6)
	widest := 0.0
	for _, row := range h.matrix.Cells {
		for _, c := range row {
			widest = max(widest, font.Width(h.cellText(c)))
		}
	}
	if width := length - 6; widest > width {
		font.Size *= width / widest
	}
	return font.Size
}

// cellText returns the text of a cell: its own, or its value in three digits.
func (h *heat) cellText(c Cell) string {
	switch {
	case c.Text != "":
		return c.Text
	case !h.matrix.Value.showable(c.Value):
		return "–"
	}
	return h.matrix.Value.Unit.formatDigits(c.Value, 3)
}

func (h *heat) drawColorBar(p draw.Pen, bar draw.Rectangle) {
	const slices = 64
	for i := range slices {
		y := bar.Y0 + bar.H()*float64(i)/slices
		// The next slice covers half of it: seams would show between slices that only touch.
		top := min(bar.Y1, y+2*bar.H()/slices)
		p.Box(draw.Rect(bar.X0, y, bar.X1, top), draw.Heat((float64(i)+0.5)/slices), draw.Stroke{})
	}
	p.Box(bar, nil, draw.Stroke{Color: draw.AxisGrey, Width: 0.5})
	h.value.placeVertical(bar.Y0, bar.Y1)
	for _, t := range h.value.ticks {
		y := h.value.at(t.Value)
		if t.Label != "" {
			p.Line(axisStroke, draw.Pt(bar.X1, y), draw.Pt(bar.X1+tickLength, y))
			p.Text(tickFace, draw.Pt(bar.X1+tickLength+tickGap, y), draw.LeftMid, 0, t.Label)
		}
	}
	if s := h.matrix.Value.Title(); s != "" {
		at := draw.Pt(bar.X1+tickLength+tickGap+h.value.widest()+5, bar.Center().Y)
		p.Text(labelFace, at, draw.CenterTop, math.Pi/2, labelFace.Shorten(s, bar.H()))
	}
}

func (h *heat) drawNames(p draw.Pen, g heatGrid) {
	g.names.draw(p, g.xAxis, g.frame.Y0-tickGap)
	every := max(1, int(math.Ceil(tickFace.Size*1.1*float64(len(g.yAxis.ticks))/g.frame.H())))
	for i, t := range g.yAxis.ticks {
		if i%every == 0 {
			p.Text(tickFace, draw.Pt(g.frame.X0-tickGap-2, g.yAxis.at(t.Value)), draw.RightMid, 0,
				tickFace.Shorten(t.Label, g.side))
		}
	}
	h.panel.drawTitles(p, g.frame, tickGap+g.names.height, tickGap+2+g.side)
}
