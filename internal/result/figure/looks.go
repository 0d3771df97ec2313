package figure

import (
	"math"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/result/draw"
)

// The sizes of text, in points. At the default panel of 900 px a tick label is 14 px high.
var (
	titleFace  = draw.Face{Size: 14, Bold: true, Color: draw.Black}
	panelFace  = draw.Face{Size: 12, Bold: true, Color: draw.Black}
	labelFace  = draw.Face{Size: 11, Color: draw.Black}
	tickFace   = draw.Face{Size: 10.5, Color: draw.AxisGrey}
	legendFace = draw.Face{Size: 10.5, Color: draw.Black}
	noteFace   = draw.Face{Size: 9, Color: draw.InkGrey}
	limitFace  = draw.Face{Size: 9.5, Color: draw.InkGrey}
)

var (
	axisStroke   = draw.Stroke{Color: draw.AxisGrey, Width: 0.7}
	gridStroke   = draw.Stroke{Color: draw.GridGrey, Width: 0.6}
	seriesDashes = []float64{6, 3}
	// Limit lines differ from series by colour and from each other by dashes.
	limitDashes = [][]float64{{4, 2.5}, {1.2, 2}, {8, 2, 1.5, 2}, {10, 3}}
)

// mark is how a kind of series is drawn.
type mark struct {
	line    bool // the points are joined
	dots    bool // the points are marked, whatever the series says
	bar     bool // a rectangle in the slot of its category
	stacked bool // on those of the same category
}

// marks has every kind of series. All other code asks for these properties.
var marks = []markOf{
	{LineKind, mark{line: true}},
	{Scatter, mark{dots: true}},
	{Bars, mark{bar: true}},
	{StackedBars, mark{bar: true, stacked: true}},
}

type markOf struct {
	kind Kind
	mark
}

// kindNames are the kinds in the order of marks.
func kindNames() []Kind { return lists.Map(marks, func(m markOf) Kind { return m.kind }) }

// mark finds how a kind is drawn; an empty or unknown one is a line.
func (k Kind) mark() mark {
	m, known := lists.First(marks, func(m markOf) bool { return m.kind == k })
	if !known {
		return marks[0].mark
	}
	return m.mark
}

// look is all that tells one series from another.
type look struct {
	name string
	mark
	color  int // index into the palette
	marker int // index into the marker shapes
	dashed bool
	bare   bool // no markers
	limit  int  // 1 + index of limitDashes for a limit line, else 0
}

// looks gives every series of a panel a look of its own: colour by wish or
// place, and a marker that no other series of that line style has, since colours alone
// are lost in greyscale.
func (p Panel) looks() []look {
	list := make([]look, len(p.Series))
	type used struct {
		marker int
		dashed bool
	}
	taken := map[used]bool{}
	for i, s := range p.Series {
		c := i
		if s.Color > 0 {
			c = s.Color - 1
		}
		l := look{name: s.Name, mark: s.Kind.mark(), color: c % len(draw.Palette), dashed: s.Dashed}
		l.bare = s.NoMarker && !l.dots
		l.marker = c % len(markers)
		for n := 0; n < len(markers) && taken[used{l.marker, l.dashed}]; n++ {
			l.marker = (l.marker + 1) % len(markers)
		}
		if !l.bare && !l.bar {
			taken[used{l.marker, l.dashed}] = true
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
	if l.dashed {
		s.Dash = seriesDashes
	}
	return s
}

func limitStroke(i int) draw.Stroke {
	return draw.Stroke{Color: draw.InkGrey, Width: 1.1, Dash: limitDashes[i%len(limitDashes)]}
}

// A marker is a polygon about the origin with corners at about distance 1;
// without corners it is a circle.
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

// drawMarker draws a look's marker: hollow when dashed or in doubt, with a thin white rim
// otherwise, so that crowded markers stay apart.
func (l look) drawMarker(p draw.Pen, at draw.Point, doubt bool) {
	c := draw.Palette[l.color]
	fill, rim := c, draw.Stroke{Color: draw.White, Width: 0.6}
	if l.dashed || doubt {
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
