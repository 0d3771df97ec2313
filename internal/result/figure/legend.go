package figure

import (
	"fmt"
	"math"
	"slices"

	"github.com/kernbench/kernbench/internal/result/draw"
)

// legend names the looks of a chart.
type legend struct {
	entries  []look
	reversed bool // a single column runs from last to first
}

const (
	swatch     = 24.0 // length of the sample line
	swatchGap  = 6.0
	columnGap  = 18.0
	legendRow  = 15.5
	legendPad  = 5.0
	shortList  = 6   // entries that may stand inside the plot
	widePanel  = 500 // points from which a column beside the plot can be spared
	legendPart = 0.45
)

func (l legend) height(rows int) float64 { return float64(rows)*legendRow + 2*legendPad }

// nameWidth is the longest name, cut at limit.
func (l legend) nameWidth(limit float64) float64 {
	w := 0.0
	for _, e := range l.entries {
		w = math.Max(w, legendFace.Width(e.name))
	}
	return math.Min(w, limit)
}

// choose decides where an automatic legend goes; the empty place is a corner of the plot.
func (l legend) choose(area draw.Rectangle) Legend {
	if len(l.entries) <= shortList {
		return ""
	}
	return l.outside(area)
}

// outside decides between beside and below: below while it takes two rows at
// most, since width is what curves need.
func (l legend) outside(area draw.Rectangle) Legend {
	_, rows := l.grid(area.W())
	fits := l.height(len(l.entries)) <= area.H()
	if rows > 2 && area.W() >= widePanel && fits {
		return LegendRight
	}
	return LegendBelow
}

// grid arranges the entries in equal columns over a width.
func (l legend) grid(width float64) (columns, rows int) {
	n := len(l.entries)
	if n == 0 {
		return 1, 0
	}
	cell := swatch + swatchGap + l.nameWidth(width/2) + columnGap
	columns = min(n, max(1, int((width+columnGap-2*legendPad)/cell)))
	rows = (n + columns - 1) / columns
	// Even out, so that 5 entries stand as 3 and 2 rather than 4 and 1.
	return (n + rows - 1) / rows, rows
}

// reserve cuts the legend's place off the area.
func (l legend) reserve(area draw.Rectangle, place Legend) (inner, spot draw.Rectangle) {
	if len(l.entries) == 0 {
		return area, draw.Rectangle{}
	}
	inner, spot = area, area
	if place == LegendRight {
		w := swatch + swatchGap + l.nameWidth(area.W()*0.3) + 2*legendPad
		inner.X1 -= w + 4
		spot.X0 = inner.X1 + 4
		return inner, spot
	}
	_, rows := l.grid(area.W())
	h := math.Min(l.height(rows), area.H()*legendPart)
	inner.Y0 += h
	spot.Y1 = inner.Y0
	return inner, spot
}

// corner looks for a place inside the frame that covers nothing.
func (l legend) corner(frame draw.Rectangle, ink *clutter) (draw.Rectangle, bool) {
	if len(l.entries) == 0 {
		return draw.Rectangle{}, true
	}
	w := swatch + swatchGap + l.nameWidth(frame.W()*0.42) + 2*legendPad
	h := l.height(len(l.entries))
	const off = 7
	left, right := frame.X0+off, frame.X1-off-w
	top, bottom := frame.Y1-off-h, frame.Y0+off
	mid := frame.Center().X - w/2
	if left > right || bottom > top {
		return draw.Rectangle{}, false
	}
	for _, at := range [][2]float64{{left, top}, {right, top}, {right, bottom}, {left, bottom}, {mid, top},
		{mid, bottom}} {
		spot := draw.Rect(at[0], at[1], at[0]+w, at[1]+h)
		if ink.under(spot.Inset(-2)) == 0 {
			return spot, true
		}
	}
	return draw.Rectangle{}, false
}

// draw fills the spot from its upper left corner. Entries that find no room are
// counted in a last line.
func (l legend) draw(p draw.Pen, spot draw.Rectangle, framed bool) {
	if len(l.entries) == 0 {
		return
	}
	if framed {
		p.Box(spot, draw.Veil, draw.Stroke{Color: draw.GridGrey, Width: 0.6})
	}
	columns, rows := l.grid(spot.W())
	room := max(1, int((spot.H()-2*legendPad)/legendRow+slack))
	entries, more := slices.Clone(l.entries), 0
	if columns == 1 && l.reversed {
		slices.Reverse(entries)
	}
	if rows > room {
		keep := room*columns - 1
		entries, more = entries[:keep], len(entries)-keep
	}
	limit := spot.W() / 2 // as in grid, which found the columns with it
	if columns == 1 {
		limit = spot.W() - 2*legendPad - swatch - swatchGap + 0.5
	}
	cell := swatch + swatchGap + l.nameWidth(limit) + columnGap
	place := func(i int) (x, y float64) {
		return spot.X0 + legendPad + float64(i%columns)*cell, spot.Y1 - legendPad - (float64(i/columns)+0.5)*legendRow
	}
	shift := 0.0
	for i, e := range entries {
		x, y := place(i)
		x += shift
		e.drawSwatch(p, x, y)
		name := legendFace.Shorten(e.name, limit)
		p.Text(legendFace, draw.Pt(x+swatch+swatchGap, y), draw.LeftMid, 0, name)
		if rows == 1 { // nothing stands below, so no column need be kept
			shift += swatch + swatchGap + legendFace.Width(name) + columnGap - cell
		}
	}
	if more > 0 {
		x, y := place(len(entries))
		p.Text(legendFace, draw.Pt(x, y), draw.LeftMid, 0, fmt.Sprintf("and %d more", more))
	}
}

// used is the width that draw will fill of a given one.
func (l legend) used(width float64) float64 {
	columns, rows := l.grid(width)
	w := 2*legendPad - columnGap
	if rows == 1 {
		for _, e := range l.entries {
			w += swatch + swatchGap + math.Min(legendFace.Width(e.name), width/2) + columnGap
		}
	} else {
		w += float64(columns) * (swatch + swatchGap + l.nameWidth(width/2) + columnGap)
	}
	return math.Min(w, width)
}

// drawSwatch draws a sample of the look.
func (l look) drawSwatch(p draw.Pen, x, y float64) {
	switch {
	case l.bar:
		p.Box(draw.Rect(x+swatch-15, y-4.5, x+swatch, y+4.5), draw.Palette[l.color], draw.Stroke{})
	default:
		if l.line {
			p.Line(l.stroke(), draw.Pt(x, y), draw.Pt(x+swatch, y))
		}
		if !l.bare {
			l.drawMarker(p, draw.Pt(x+swatch/2, y), false)
		}
	}
}

// sharedLegend merges the legends of all charts, provided that every name has the same
// look everywhere, every look one name, and no panel asks for a place of its own.
func sharedLegend(charts []*chart) (legend, bool) {
	var all legend
	byName := map[string]look{}
	names := map[look]string{}
	with := 0
	for _, c := range charts {
		if c.panel.Legend != "" && c.panel.Legend != LegendAuto {
			return legend{}, false
		}
		l := c.legend()
		if len(l.entries) > 0 {
			with++
		}
		for _, e := range l.entries {
			known, ok := byName[e.name]
			if ok && known != e {
				return legend{}, false
			}
			// Different names that look alike are told apart only by their panel.
			face := e
			face.name = ""
			if other, ok := names[face]; ok && other != e.name {
				return legend{}, false
			}
			names[face] = e.name
			if !ok {
				byName[e.name] = e
				all.entries = append(all.entries, e)
			}
		}
	}
	return all, with > 1
}
