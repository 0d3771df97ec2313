package floorplan

import (
	"math"

	"github.com/kernbench/kernbench/internal/result/draw"
	"github.com/kernbench/kernbench/internal/result/figure"
)

func init() {
	figure.Contents.Register(figure.ContentKind{
		Name: "chain",
		Help: "the critical path of a simulated kernel: a lane per processing element, a bar per cause",
		New:  func() figure.Content { return &Chain{} },
	})
}

// Chain is a critical path. It has one lane per visit of a PE, in order of time, with
// a bar for each cause. Times are in microseconds.
type Chain struct {
	Causes []string `json:"causes"`
	Lanes  []Lane   `json:"lanes"`
}

// Lane is one visit of the path to a PE.
type Lane struct {
	Name string `json:"name"`
	Note string `json:"note,omitempty"` // written at the end of the lane
	Bars []Bar  `json:"bars"`
}

// Bar is a stretch of time with one cause.
type Bar struct {
	From  float64 `json:"from"`
	To    float64 `json:"to"`
	Cause int     `json:"cause"` // index into Chain.Causes
}

// Check implements figure.Content.
func (c *Chain) Check(_ figure.Panel, f figure.Faults) {
	for _, l := range c.Lanes {
		for _, b := range l.Bars {
			if !(b.From >= 0 && b.To >= b.From) || math.IsInf(b.To, 0) || b.Cause < 0 || b.Cause >= len(c.Causes) {
				f.Add("lane %q: from %g to %g because of cause %d of %d", l.Name, b.From, b.To, b.Cause, len(c.Causes))
			}
		}
	}
}

// Prepare implements figure.Content.
func (c *Chain) Prepare(figure.Panel) figure.Drawing { return c }

const (
	laneHeight = 17.0
	chainFoot  = 46.0 // height of the tick labels and the color key
)

// Height implements figure.Drawing: it grows with the lanes.
func (c *Chain) Height(float64, float64) float64 {
	return laneHeight*float64(max(1, len(c.Lanes))) + chainFoot + 24
}

// Notes implements figure.Drawing.
func (c *Chain) Notes() string { return "" }

var (
	laneFace = draw.Face{Size: 9.5, Color: draw.Black}
	softFace = draw.Face{Size: 9, Color: draw.InkGrey}
)

// Draw implements figure.Drawing.
func (c *Chain) Draw(p draw.Pen, area draw.Rectangle) {
	names, notes, end := 0.0, 0.0, 0.0
	for _, l := range c.Lanes {
		names, notes = max(names, laneFace.Width(l.Name)), max(notes, softFace.Width(l.Note))
		for _, b := range l.Bars {
			end = max(end, b.To)
		}
	}
	if end == 0 {
		p.Text(softFace, area.Center(), draw.CenterMid, 0, "no data")
		return
	}
	names, notes = min(names, area.W()*0.35), min(notes, area.W()*0.35)
	frame := draw.Rect(area.X0+names+8, area.Y0+chainFoot, area.X1-notes-8, area.Y1)
	x := func(t float64) float64 { return frame.X0 + frame.W()*t/end }
	timeTicks(p, frame, end)
	height := frame.H() / float64(len(c.Lanes))
	last := draw.Pt(frame.X0, frame.Y1)
	for i, l := range c.Lanes {
		y := frame.Y1 - (float64(i)+0.5)*height
		if len(l.Bars) > 0 {
			at := draw.Pt(x(l.Bars[0].From), y)
			if i > 0 { // connect it with the lane before
				p.Line(draw.Stroke{Color: draw.InkGrey, Width: 0.9}, draw.Pt(at.X, last.Y), at)
			}
			last = at
		}
		for _, b := range l.Bars {
			p.PaletteBox(draw.Rect(x(b.From), y-height*0.34, max(x(b.To), x(b.From)+0.3), y+height*0.34), b.Cause,
				draw.Stroke{})
		}
		p.Text(laneFace, draw.Pt(area.X0+names, y), draw.RightMid, 0, laneFace.Shorten(l.Name, names))
		p.Text(softFace, draw.Pt(area.X1-notes, y), draw.LeftMid, 0, softFace.Shorten(l.Note, notes))
	}
	figure.DrawKey(p, draw.Pt(area.X0, area.Y0+12), c.Causes)
}
