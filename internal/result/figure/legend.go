package figure

import (
	"fmt"
	"math"
	"slices"
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
		w = math.Max(w, legendFace.width(e.name))
	}
	return math.Min(w, limit)
}

// choose decides where an automatic legend goes; the empty place is a corner of the plot.
func (l legend) choose(area rect) Legend {
	if len(l.entries) <= shortList {
		return ""
	}
	return l.outside(area)
}

// outside decides between beside and below: below while it takes two rows at
// most, since width is what curves need.
func (l legend) outside(area rect) Legend {
	_, rows := l.grid(area.w())
	fits := l.height(len(l.entries)) <= area.h()
	if rows > 2 && area.w() >= widePanel && fits {
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
func (l legend) reserve(area rect, place Legend) (inner, spot rect) {
	if len(l.entries) == 0 {
		return area, rect{}
	}
	inner, spot = area, area
	if place == LegendRight {
		w := swatch + swatchGap + l.nameWidth(area.w()*0.3) + 2*legendPad
		inner.x1 -= w + 4
		spot.x0 = inner.x1 + 4
		return inner, spot
	}
	_, rows := l.grid(area.w())
	h := math.Min(l.height(rows), area.h()*legendPart)
	inner.y0 += h
	spot.y1 = inner.y0
	return inner, spot
}

// corner looks for a place inside the frame that covers nothing.
func (l legend) corner(frame rect, ink *clutter) (rect, bool) {
	if len(l.entries) == 0 {
		return rect{}, true
	}
	w := swatch + swatchGap + l.nameWidth(frame.w()*0.42) + 2*legendPad
	h := l.height(len(l.entries))
	const off = 7
	left, right := frame.x0+off, frame.x1-off-w
	top, bottom := frame.y1-off-h, frame.y0+off
	mid := frame.center().x - w/2
	if left > right || bottom > top {
		return rect{}, false
	}
	for _, at := range []point{{left, top}, {right, top}, {right, bottom}, {left, bottom}, {mid, top}, {mid, bottom}} {
		spot := rect{at.x, at.y, at.x + w, at.y + h}
		if ink.under(spot.inset(-2)) == 0 {
			return spot, true
		}
	}
	return rect{}, false
}

// draw fills the spot from its upper left corner. Entries that find no room are
// counted in a last line.
func (l legend) draw(p pen, spot rect, framed bool) {
	if len(l.entries) == 0 {
		return
	}
	if framed {
		p.box(spot, veil, stroke{color: gridGrey, width: 0.6})
	}
	columns, rows := l.grid(spot.w())
	room := max(1, int((spot.h()-2*legendPad)/legendRow+slack))
	entries, more := slices.Clone(l.entries), 0
	if columns == 1 && l.reversed {
		slices.Reverse(entries)
	}
	if rows > room {
		keep := room*columns - 1
		entries, more = entries[:keep], len(entries)-keep
	}
	limit := spot.w() / 2 // as in grid, which found the columns with it
	if columns == 1 {
		limit = spot.w() - 2*legendPad - swatch - swatchGap + 0.5
	}
	cell := swatch + swatchGap + l.nameWidth(limit) + columnGap
	place := func(i int) (x, y float64) {
		return spot.x0 + legendPad + float64(i%columns)*cell, spot.y1 - legendPad - (float64(i/columns)+0.5)*legendRow
	}
	shift := 0.0
	for i, e := range entries {
		x, y := place(i)
		x += shift
		p.swatch(e, x, y)
		name := legendFace.shorten(e.name, limit)
		p.text(legendFace, point{x + swatch + swatchGap, y}, leftMid, 0, name)
		if rows == 1 { // nothing stands below, so no column need be kept
			shift += swatch + swatchGap + legendFace.width(name) + columnGap - cell
		}
	}
	if more > 0 {
		x, y := place(len(entries))
		p.text(legendFace, point{x, y}, leftMid, 0, fmt.Sprintf("and %d more", more))
	}
}

// used is the width that draw will fill of a given one.
func (l legend) used(width float64) float64 {
	columns, rows := l.grid(width)
	w := 2*legendPad - columnGap
	if rows == 1 {
		for _, e := range l.entries {
			w += swatch + swatchGap + math.Min(legendFace.width(e.name), width/2) + columnGap
		}
	} else {
		w += float64(columns) * (swatch + swatchGap + l.nameWidth(width/2) + columnGap)
	}
	return math.Min(w, width)
}

// swatch draws a sample of the look.
func (p pen) swatch(l look, x, y float64) {
	switch {
	case l.isBar():
		p.box(rect{x + swatch - 15, y - 4.5, x + swatch, y + 4.5}, palette[l.color], stroke{})
	default:
		if l.kind == LineKind {
			p.line(l.stroke(), point{x, y}, point{x + swatch, y})
		}
		if !l.bare {
			p.marker(l, point{x + swatch/2, y})
		}
	}
}

// sharedLegend merges the legends of all panels, provided that every name has the same
// look everywhere, every look one name, and no panel asks for a place of its own.
func sharedLegend(charts []*chart) (legend, bool) {
	var all legend
	byName := map[string]look{}
	names := map[look]string{}
	with := 0
	for _, c := range charts {
		if c == nil {
			continue
		}
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
