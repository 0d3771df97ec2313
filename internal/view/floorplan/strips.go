package floorplan

import (
	"math"

	"github.com/kernbench/kernbench/internal/result/draw"
	"github.com/kernbench/kernbench/internal/result/figure"
)

func init() {
	figure.Contents.Register(figure.ContentKind{
		Name: "strips",
		Help: "loads over time, one strip below the other",
		New:  func() figure.Content { return &Strips{} },
	})
}

// Strips shows loads over time. Each has a strip of its own, because links that wait for each other have the same load,
// and curves in one frame would cover each other.
type Strips struct {
	Step  float64 `json:"step"` // time from one value to the next, in microseconds
	Lanes []Strip `json:"lanes"`
}

// Strip is a load over time.
type Strip struct {
	Name string    `json:"name"`
	Note string    `json:"note,omitempty"` // written at the end of the strip
	Load []float64 `json:"load"`           // in percent
}

// Check implements figure.Content.
func (c *Strips) Check(_ figure.Panel, f figure.Faults) {
	if !(c.Step > 0) || math.IsInf(c.Step, 0) {
		f.Add("a value every %g µs, want a positive time", c.Step)
	}
	for _, l := range c.Lanes {
		for _, v := range l.Load {
			if !(v >= 0 && v <= 100) {
				f.Add("strip %q: a load of %g %%, want 0 to 100", l.Name, v)
			}
		}
	}
}

// Prepare implements figure.Content.
func (c *Strips) Prepare(figure.Panel) figure.Drawing { return c }

const (
	stripHeight = 24.0
	stripFoot   = 40.0 // height of the tick labels and the title of the axis
)

// Height implements figure.Drawing: it grows with the strips.
func (c *Strips) Height(float64, float64) float64 {
	return stripHeight*float64(max(1, len(c.Lanes))) + stripFoot + 24
}

// Notes implements figure.Drawing.
func (c *Strips) Notes() string { return "" }

// Draw implements figure.Drawing.
func (c *Strips) Draw(p draw.Pen, area draw.Rectangle) {
	names, notes, end := 0.0, 0.0, 0.0
	for _, l := range c.Lanes {
		names, notes = max(names, laneFace.Width(l.Name)), max(notes, softFace.Width(l.Note))
		end = max(end, c.Step*float64(len(l.Load)))
	}
	if end == 0 {
		p.Text(softFace, area.Center(), draw.CenterMid, 0, "no data")
		return
	}
	names, notes = min(names, area.W()*0.35), min(notes, area.W()*0.35)
	frame := draw.Rect(area.X0+names+8, area.Y0+stripFoot, area.X1-notes-8, area.Y1)
	timeTicks(p, frame, end)
	p.Text(softFace, draw.Pt(frame.Center().X, area.Y0+10), draw.CenterMid, 0, "time since the start")
	height := frame.H() / float64(len(c.Lanes))
	for i, l := range c.Lanes {
		bottom := frame.Y1 - (float64(i)+0.92)*height
		x := func(k int) float64 { return frame.X0 + frame.W()*c.Step*float64(k)/end }
		outline := []draw.Point{draw.Pt(frame.X0, bottom)}
		for k, v := range l.Load {
			y := bottom + 0.84*height*v/100
			outline = append(outline, draw.Pt(x(k), y), draw.Pt(x(k+1), y))
		}
		outline = append(outline, draw.Pt(x(len(l.Load)), bottom))
		p.Polygon(draw.Palette[0], draw.Stroke{}, outline...)
		for _, level := range []float64{0, 1} { // 0 and 100 %
			y, color := bottom+0.84*height*level, draw.InkGrey
			if level > 0 {
				color = draw.GridGrey
			}
			p.Line(draw.Stroke{Color: color, Width: 0.6}, draw.Pt(frame.X0, y), draw.Pt(frame.X1, y))
		}
		mid := bottom + 0.42*height
		p.Text(laneFace, draw.Pt(area.X0+names, mid), draw.RightMid, 0, laneFace.Shorten(l.Name, names))
		p.Text(softFace, draw.Pt(area.X1-notes, mid), draw.LeftMid, 0, softFace.Shorten(l.Note, notes))
	}
}

// timeTicks draws the lines and labels of a time axis from 0 to end below a frame.
func timeTicks(p draw.Pen, frame draw.Rectangle, end float64) {
	for _, t := range (figure.Axis{Unit: figure.Micros}).Ticks(0, end, int(frame.W()/70)) {
		x := frame.X0 + frame.W()*t.Value/end
		p.Line(draw.Stroke{Color: draw.GridGrey, Width: 0.7}, draw.Pt(x, frame.Y0), draw.Pt(x, frame.Y1))
		p.Text(softFace, draw.Pt(x, frame.Y0-4), draw.CenterTop, 0, t.Label)
	}
}
