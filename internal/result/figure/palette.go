package figure

import (
	"image/color"
	"math"

	"gonum.org/v1/plot/vg"
)

func rgb(hex uint32) color.NRGBA {
	return color.NRGBA{R: uint8(hex >> 16), G: uint8(hex >> 8), B: uint8(hex), A: 255}
}

// The series' colours: Okabe and Ito's set for all kinds of colour vision, without the
// yellow that vanishes on white, continued with three dark ones from Tol's "muted" set.
var palette = []color.NRGBA{
	rgb(0x0072B2), rgb(0xD55E00), rgb(0x009E73), rgb(0xCC79A7), rgb(0xE69F00),
	rgb(0x56B4E9), rgb(0x4D4D4D), rgb(0x882255), rgb(0x999933), rgb(0x332288),
}

// The heat map's colours from low to high: ColorBrewer's YlGnBu, safe for
// colour-blind readers and falling steadily in lightness, so it prints in grey.
var heatColors = []color.NRGBA{
	rgb(0xFFFFD9), rgb(0xEDF8B1), rgb(0xC7E9B4), rgb(0x7FCDBB), rgb(0x41B6C4),
	rgb(0x1D91C0), rgb(0x225EA8), rgb(0x253494), rgb(0x081D58),
}

var (
	white    = rgb(0xFFFFFF)
	black    = rgb(0x1A1A1A)
	inkGrey  = rgb(0x555555) // notes, limit lines
	axisGrey = rgb(0x333333)
	gridGrey = rgb(0xE3E3E3)
	paleGrey = rgb(0xF2F2F2) // empty cells, neutral boxes
	veil     = color.NRGBA{R: 255, G: 255, B: 255, A: 225}
)

// The sizes of text, in points. At the default panel of 900 px a tick label is 14 px high.
var (
	titleFace  = face{size: 14, bold: true, color: black}
	panelFace  = face{size: 12, bold: true, color: black}
	labelFace  = face{size: 11, color: black}
	tickFace   = face{size: 10.5, color: axisGrey}
	legendFace = face{size: 10.5, color: black}
	noteFace   = face{size: 9, color: inkGrey}
	limitFace  = face{size: 9.5, color: inkGrey}
)

var (
	axisStroke   = stroke{color: axisGrey, width: 0.7}
	gridStroke   = stroke{color: gridGrey, width: 0.6}
	seriesDashes = []vg.Length{6, 3}
	// Limit lines differ from series by colour and from each other by dashes.
	limitDashes = [][]vg.Length{{4, 2.5}, {1.2, 2}, {8, 2, 1.5, 2}, {10, 3}}
)

// look is all that tells one series from another.
type look struct {
	name   string
	kind   Kind
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
		l := look{name: s.Name, kind: s.Kind, color: c % len(palette), dashed: s.Dashed, bare: s.NoMarker && s.Kind != Scatter}
		if l.kind == "" {
			l.kind = LineKind
		}
		l.marker = c % len(markers)
		for n := 0; n < len(markers) && taken[used{l.marker, l.dashed}]; n++ {
			l.marker = (l.marker + 1) % len(markers)
		}
		if !l.bare && !l.isBar() {
			taken[used{l.marker, l.dashed}] = true
		}
		list[i] = l
	}
	return list
}

func (l look) isBar() bool { return l.kind == Bars || l.kind == StackedBars }

func (l look) stroke() stroke {
	if l.limit > 0 {
		return limitStroke(l.limit - 1)
	}
	s := stroke{color: palette[l.color], width: 1.7}
	if l.dashed {
		s.dash = seriesDashes
	}
	return s
}

func limitStroke(i int) stroke {
	return stroke{color: inkGrey, width: 1.1, dash: limitDashes[i%len(limitDashes)]}
}

// A marker is a polygon about the origin with corners at about distance 1;
// without corners it is a circle.
var markers = [][]point{
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

func star() []point {
	var corners []point
	for i := range 10 {
		radius := 1.35
		if i%2 == 1 {
			radius = 0.55
		}
		sin, cos := math.Sincos(math.Pi/2 + float64(i)*math.Pi/5)
		corners = append(corners, point{radius * cos, radius * sin})
	}
	return corners
}

const markerRadius = 3.3

// marker draws a look's marker: hollow when dashed, with a thin white rim otherwise,
// so that crowded markers stay apart.
func (p pen) marker(l look, at point) {
	c := palette[l.color]
	fill, rim := c, stroke{color: white, width: 0.6}
	if l.dashed {
		fill, rim = white, stroke{color: c, width: 1.3}
	}
	shape := markers[l.marker]
	if shape == nil {
		p.circle(at, markerRadius, fill, rim)
		return
	}
	corners := make([]point, len(shape))
	for i, s := range shape {
		corners[i] = point{at.x + s.x*markerRadius, at.y + s.y*markerRadius}
	}
	p.polygon(fill, rim, corners...)
}

// mix blends a towards b by t in [0, 1].
func mix(a, b color.NRGBA, t float64) color.NRGBA {
	part := func(x, y uint8) uint8 { return uint8(math.Round(float64(x) + t*(float64(y)-float64(x)))) }
	return color.NRGBA{R: part(a.R, b.R), G: part(a.G, b.G), B: part(a.B, b.B), A: 255}
}

// heatColor gives the colour at t in [0, 1].
func heatColor(t float64) color.NRGBA {
	t = math.Min(math.Max(t, 0), 1) * float64(len(heatColors)-1)
	i := min(int(t), len(heatColors)-2)
	return mix(heatColors[i], heatColors[i+1], t-float64(i))
}

// inkOn gives the text colour that can be read on c (ITU-R BT.601 luma).
func inkOn(c color.NRGBA) color.NRGBA {
	if 0.299*float64(c.R)+0.587*float64(c.G)+0.114*float64(c.B) < 140 {
		return white
	}
	return black
}
