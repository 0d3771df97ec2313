package figure

import (
	"fmt"
	"math"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/result/draw"
)

// Faces of text, sizes in points. In a panel of 900 px a tick label is 14 px high.
var (
	titleFace  = draw.Face{Size: 14, Bold: true, Color: draw.Black}
	panelFace  = draw.Face{Size: 12, Bold: true, Color: draw.Black}
	labelFace  = draw.Face{Size: 11, Color: draw.Black}
	tickFace   = draw.Face{Size: 10.5, Color: draw.AxisGrey}
	legendFace = draw.Face{Size: 10.5, Color: draw.Black}
	noteFace   = draw.Face{Size: 9, Color: draw.InkGrey}
)

var (
	axisStroke   = draw.Stroke{Color: draw.AxisGrey, Width: 0.7}
	gridStroke   = draw.Stroke{Color: draw.GridGrey, Width: 0.6}
	seriesDashes = []float64{6, 3}
	// Limit lines differ from series by color and from each other by dashes.
	limitDashes = [][]float64{{4, 2.5}, {1.2, 2}, {8, 2, 1.5, 2}, {10, 3}}
)

// mark holds the properties of a kind of series.
type mark struct {
	line    bool // a line joins the points
	dots    bool // the points have markers even if the series sets NoMarker
	bar     bool // a rectangle in the slot of its category
	stacked bool // on top of the other bars of the same category
}

// marks has every kind of series. Other code asks for these properties only.
var marks = map[Kind]mark{
	"": {line: true}, LineKind: {line: true},
	Scatter: {dots: true},
	Bars:    {bar: true}, StackedBars: {bar: true, stacked: true},
}

// look is the appearance of a series.
type look struct {
	name string
	mark
	color  int // index into the palette
	marker int // index into markers
	dashed bool
	bare   bool // no markers
	limit  int  // for a limit line, its index in limitDashes plus 1; else 0
}

// looks chooses the appearance of every series of a panel: the color by Color or
// position, and a marker that no other series with the same line style has,
// because colors are lost in greyscale.
func (p Panel) looks() []look {
	list := make([]look, len(p.Series))
	type used struct {
		marker int
		dashed bool
	}
	inUse := map[used]bool{}
	for i, s := range p.Series {
		c := i
		if s.Color > 0 {
			c = s.Color - 1
		}
		l := look{name: s.Name, mark: marks[s.Kind], color: c % len(draw.Palette), dashed: s.Dashed}
		l.bare = s.NoMarker && !l.dots
		l.marker = c % len(markers)
		for n := 0; n < len(markers) && inUse[used{l.marker, l.dashed}]; n++ {
			l.marker = (l.marker + 1) % len(markers)
		}
		if !l.bare && !l.bar {
			inUse[used{l.marker, l.dashed}] = true
		}
		list[i] = l
	}
	return list
}

func (l look) stroke() draw.Stroke {
	if l.limit > 0 {
		return limitStroke(l.limit - 1)
	}
	s := draw.Stroke{Color: draw.Palette[l.color], Width: 1.7}
	switch {
	case l.dashed:
		s.Dash = seriesDashes
	case l.bare && l.line && l.color >= draw.PlainColors: // no marker tells it from a line of another color
		s.Dash = []float64{8, 2, 2, 2}
	}
	return s
}

func limitStroke(i int) draw.Stroke {
	return draw.Stroke{Color: draw.InkGrey, Width: 1.1, Dash: limitDashes[i%len(limitDashes)]}
}

// markers are polygons about the origin with corners at a distance of about 1. One
// without corners is a circle. They are filled with a rim, unlike the library's
// glyphs, so that crowded markers stay apart.
var markers = [][][2]float64{
	nil, // circle
	{{-.85, -.85}, {.85, -.85}, {.85, .85}, {-.85, .85}}, // square
	{{-1.05, -.8}, {1.05, -.8}, {0, 1.15}},               // triangle
	{{0, -1.25}, {1.05, 0}, {0, 1.25}, {-1.05, 0}},       // diamond
	{{-1.05, .8}, {0, -1.15}, {1.05, .8}},                // triangle, point down
	{{-.4, -1.15}, {.4, -1.15}, {.4, -.4}, {1.15, -.4}, {1.15, .4}, {.4, .4},
		{.4, 1.15}, {-.4, 1.15}, {-.4, .4}, {-1.15, .4}, {-1.15, -.4}, {-.4, -.4}}, // plus
	star(),
	{{-1.3, -.5}, {1.3, -.5}, {1.3, .5}, {-1.3, .5}}, // flat bar
}

func star() [][2]float64 {
	var corners [][2]float64
	for i := range 10 {
		radius := 1.35
		if i%2 == 1 {
			radius = 0.55
		}
		sin, cos := math.Sincos(math.Pi/2 + float64(i)*math.Pi/5)
		corners = append(corners, [2]float64{radius * cos, radius * sin})
	}
	return corners
}

const markerRadius = 3.3

// drawMarker draws a marker: hollow if the line is dashed or the point hollow, else
// filled with a thin white rim.
func (l look) drawMarker(p draw.Pen, at draw.Point, hollow bool) {
	c := draw.Palette[l.color]
	fill, rim := c, draw.Stroke{Color: draw.White, Width: 0.6}
	if l.dashed || hollow {
		fill, rim = draw.White, draw.Stroke{Color: c, Width: 1.3}
	}
	shape := markers[l.marker]
	if shape == nil {
		p.Circle(at, markerRadius, fill, rim)
		return
	}
	corner := func(c [2]float64) draw.Point { return draw.Pt(at.X+c[0]*markerRadius, at.Y+c[1]*markerRadius) }
	p.Polygon(fill, rim, lists.Map(shape, corner)...)
}

// legend lists the looks of a chart with their names. The plotting library's
// legend has one column at a fixed corner; this one has as many columns as fit.
type legend struct {
	entries  []look
	reversed bool // a single column runs from last to first
}

// Sizes of a legend in points.
const (
	swatch     = 24.0 // length of the sample line
	swatchGap  = 6.0
	columnGap  = 18.0
	legendRow  = 15.5
	legendPad  = 5.0
	widePanel  = 500 // a panel this wide has room for a legend beside the plot
	legendPart = 0.45
)

func (l legend) height(rows int) float64 { return float64(rows)*legendRow + 2*legendPad }

// nameWidth returns the width of the longest name, at most limit.
func (l legend) nameWidth(limit float64) float64 {
	w := 0.0
	for _, e := range l.entries {
		w = max(w, legendFace.Width(e.name))
	}
	return min(w, limit)
}

// choose chooses between beside and below the plot. Below is better up to two
// rows, because curves need the width.
func (l legend) choose(area draw.Rectangle) Legend {
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
	// Balance the rows: 5 entries as 3 and 2 rather than 4 and 1.
	return (n + rows - 1) / rows, rows
}

// reserve divides the area into the plot's part and the legend's part.
func (l legend) reserve(area draw.Rectangle, place Legend) (plot, spot draw.Rectangle) {
	if len(l.entries) == 0 {
		return area, draw.Rectangle{}
	}
	plot, spot = area, area
	if place == LegendRight {
		w := swatch + swatchGap + l.nameWidth(area.W()*0.3) + 2*legendPad
		plot.X1 -= w + 4
		spot.X0 = plot.X1 + 4
		return plot, spot
	}
	_, rows := l.grid(area.W())
	plot.Y0 += min(l.height(rows), area.H()*legendPart)
	spot.Y1 = plot.Y0
	return plot, spot
}

// draw fills the spot from its upper left corner. A last line counts the entries
// that did not fit.
func (l legend) draw(p draw.Pen, spot draw.Rectangle) {
	if len(l.entries) == 0 {
		return
	}
	columns, rows := l.grid(spot.W())
	rowsThatFit := max(1, int((spot.H()-2*legendPad)/legendRow+slack))
	entries, more := slices.Clone(l.entries), 0
	if columns == 1 && l.reversed {
		slices.Reverse(entries)
	}
	if rows > rowsThatFit {
		keep := rowsThatFit*columns - 1
		entries, more = entries[:keep], len(entries)-keep
	}
	limit := spot.W() / 2 // the same limit as in grid
	if columns == 1 {
		limit = spot.W() - 2*legendPad - swatch - swatchGap + 0.5
	}
	cell := swatch + swatchGap + l.nameWidth(limit) + columnGap
	place := func(i int) draw.Point {
		return draw.Pt(spot.X0+legendPad+float64(i%columns)*cell, spot.Y1-legendPad-(float64(i/columns)+0.5)*legendRow)
	}
	shift := 0.0
	for i, e := range entries {
		at := place(i)
		at.X += shift
		e.drawSwatch(p, at)
		name := legendFace.Shorten(e.name, limit)
		p.Text(legendFace, draw.Pt(at.X+swatch+swatchGap, at.Y), draw.LeftMid, 0, name)
		if rows == 1 { // a single row needs no aligned columns
			shift += swatch + swatchGap + legendFace.Width(name) + columnGap - cell
		}
	}
	if more > 0 {
		p.Text(legendFace, place(len(entries)), draw.LeftMid, 0, fmt.Sprintf("and %d more", more))
	}
}

// used returns how much of the width draw will fill.
func (l legend) used(width float64) float64 {
	columns, rows := l.grid(width)
	w := 2*legendPad - columnGap
	if rows == 1 {
		for _, e := range l.entries {
			w += swatch + swatchGap + min(legendFace.Width(e.name), width/2) + columnGap
		}
	} else {
		w += float64(columns) * (swatch + swatchGap + l.nameWidth(width/2) + columnGap)
	}
	return min(w, width)
}

// drawSwatch draws a sample of the look whose left end is at the point.
func (l look) drawSwatch(p draw.Pen, at draw.Point) {
	if l.bar {
		p.PaletteBox(draw.Rect(at.X+swatch-15, at.Y-4.5, at.X+swatch, at.Y+4.5), l.color, draw.Stroke{})
		return
	}
	if l.line {
		p.Line(l.stroke(), at, draw.Pt(at.X+swatch, at.Y))
	}
	if !l.bare {
		l.drawMarker(p, draw.Pt(at.X+swatch/2, at.Y), false)
	}
}

// sharedLegend merges the legends of all charts into one. It refuses if a name has
// different looks, a look has different names, a panel asks for a place of its own,
// or no two charts have an entry in common.
func sharedLegend(charts []*chart) (legend, bool) {
	var all legend
	byName := map[string]look{}
	names := map[look]string{}
	common := false
	for _, c := range charts {
		if c.panel.Legend != "" {
			return legend{}, false
		}
		for _, e := range c.legend().entries {
			unnamed := e
			unnamed.name = ""
			other, sameLook := names[unnamed]
			known, ok := byName[e.name]
			if ok && known != e || sameLook && other != e.name {
				return legend{}, false
			}
			names[unnamed] = e.name
			common = common || ok
			if !ok {
				byName[e.name] = e
				all.entries = append(all.entries, e)
			}
		}
	}
	return all, common
}
