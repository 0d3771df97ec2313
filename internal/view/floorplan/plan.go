package floorplan

import (
	"image/color"
	"math"

	"github.com/kernbench/kernbench/internal/accel/profile"
	"github.com/kernbench/kernbench/internal/result/draw"
	"github.com/kernbench/kernbench/internal/result/figure"
)

// Plan is a floor plan whose links are colored by their load.
type Plan struct {
	profile.Plan
	Links []Wire
	Most  float64 // the load of the darkest color, in percent
}

// Wire is a directed link. The wires of both directions are drawn side by side.
type Wire struct {
	Line [4]float64 // x and y of the start, x and y of the end, in mm
	Load float64    // in percent
}

const (
	above     = 0.045 // room above the plan for the cables to the switch, as part of its width
	scaleRoom = 34.0  // height of the color scale
)

// Check implements figure.Content.
func (p *Plan) Check(_ figure.Panel, f figure.Faults) {
	if !(p.W > 0 && p.H > 0 && p.Most > 0) || math.IsInf(p.W*p.H*p.Most, 0) {
		f.Add("a floor plan of %g x %g mm with loads up to %g %%: want positive numbers", p.W, p.H, p.Most)
	}
}

// Prepare implements figure.Content.
func (p *Plan) Prepare(figure.Panel) figure.Drawing { return p }

// Height implements figure.Drawing: it keeps the proportions.
func (p *Plan) Height(w, _ float64) float64 { return w*(p.H+above*p.W)/p.W + scaleRoom }

// Notes implements figure.Drawing.
func (p *Plan) Notes() string { return "" }

// sheet maps millimetres, y downward, to the page.
type sheet struct {
	draw.Pen
	origin draw.Point
	scale  float64
}

func (s sheet) at(x, y float64) draw.Point {
	return draw.Pt(s.origin.X+s.scale*x, s.origin.Y-s.scale*y)
}

// Draw implements figure.Drawing.
func (p *Plan) Draw(pen draw.Pen, area draw.Rectangle) {
	top := above * p.W
	scale := min(area.W()/p.W, (area.H()-scaleRoom)/(p.H+top))
	left := area.Center().X - scale*p.W/2
	s := sheet{pen, draw.Pt(left, area.Y1-scale*top), scale}
	rim := draw.Stroke{Color: draw.GridGrey, Width: 0.8}
	for _, b := range p.Boxes {
		fill := draw.White // links of all colors are visible on it
		if b.Kind == "hbm" || b.Kind == "pe" {
			fill = draw.PaleGrey
		}
		corner, opposite := s.at(b.X, b.Y), s.at(b.X+b.W, b.Y+b.H)
		pen.Box(draw.Rect(corner.X, opposite.Y, opposite.X, corner.Y), fill, rim)
	}
	s.names(p)
	for _, l := range p.Links {
		s.link(l.Line, draw.Load(l.Load/p.Most))
	}
	p.drawScale(pen, draw.Rect(left, area.Y0, left+scale*p.W, area.Y0+scaleRoom))
}

// names writes the name of each cube in its middle and of the IO chiplet in its corner.
func (s sheet) names(p *Plan) {
	face := draw.Face{Size: 8, Color: draw.InkGrey}
	for _, b := range p.Boxes {
		switch {
		case face.Width(b.Name) > s.scale*b.W:
		case b.Kind == "cube":
			s.Text(face, s.at(b.X+b.W/2, b.Y+b.H/2), draw.CenterMid, 0, b.Name)
		case b.Kind == "io":
			corner := s.at(b.X, b.Y)
			s.Text(face, draw.Pt(corner.X+4, corner.Y-face.Size), draw.LeftMid, 0, b.Name)
		}
	}
}

// link draws a directed link with a head at its end, shifted to the right of the line
// between its ends.
func (s sheet) link(line [4]float64, c color.Color) {
	a, b := s.at(line[0], line[1]), s.at(line[2], line[3])
	dx, dy := b.X-a.X, b.Y-a.Y
	n := math.Hypot(dx, dy)
	if n == 0 {
		return
	}
	dx, dy = dx/n, dy/n
	const aside, width, head = 1.5, 1.9, 3.4
	off := func(p draw.Point, along, across float64) draw.Point {
		return draw.Pt(p.X+dx*along+dy*across, p.Y+dy*along-dx*across) // to its right
	}
	tip := off(b, 0, aside)
	h := min(head, n)
	s.Line(draw.Stroke{Color: c, Width: width}, off(a, 0, aside), off(tip, -h, 0))
	s.Polygon(c, draw.Stroke{}, tip, off(tip, -h, 1.8), off(tip, -h, -1.4))
}

// drawScale draws the color scale with its ticks.
func (p *Plan) drawScale(pen draw.Pen, area draw.Rectangle) {
	const height, parts = 8.0, 64
	face := draw.Face{Size: 9, Color: draw.InkGrey}
	label := "sending, share of the kernel's time"
	bar := draw.Rect(area.X0+face.Width(label)+12, area.Y0+14, min(area.X1, area.X0+face.Width(label)+260),
		area.Y0+14+height)
	pen.Text(face, draw.Pt(area.X0, bar.Center().Y), draw.LeftMid, 0, label)
	for i := range parts {
		x := bar.X0 + bar.W()*float64(i)/parts
		part := draw.Rect(x, bar.Y0, min(bar.X1, x+2*bar.W()/parts), bar.Y1) // the next part covers half of it
		pen.Box(part, draw.Load((float64(i)+0.5)/parts), draw.Stroke{})
	}
	for _, t := range (figure.Axis{Unit: figure.Percent}).Ticks(0, p.Most, 4) {
		pen.Text(face, draw.Pt(bar.X0+bar.W()*t.Value/p.Most, bar.Y0-3), draw.CenterTop, 0, t.Label)
	}
}
