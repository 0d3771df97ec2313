// Package tornado is the figure kind of sensitivities: a line for each parameter, the one that
// matters most at the top, with a bar for what lowering it changes and one for raising it.
package tornado

import (
	"fmt"
	"image/color"
	"math"

	"github.com/kernbench/kernbench/internal/result/draw"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/ticks"
)

// Tornado fills a panel. The label of the panel's x axis says what changes.
type Tornado struct {
	Lowered string `json:"lowered"` // what the bars are of: "20 % less"
	Raised  string `json:"raised"`
	Bars    []Bar  `json:"bars"` // from the top
}

// Bar is one parameter. A change is in per cent; one that was not possible is missing.
type Bar struct {
	Name   string   `json:"name"`
	Value  string   `json:"value,omitempty"` // that it has
	Lower  *float64 `json:"lower,omitempty"`
	Higher *float64 `json:"higher,omitempty"`
}

func init() {
	figure.Contents.Register(figure.ContentKind{
		Name: "tornado",
		Help: "how much each parameter changes a result, the largest effect on top",
		New:  func() figure.Content { return &Tornado{} },
	})
}

// Check implements figure.Content.
func (t *Tornado) Check(p figure.Panel, f figure.Faults) {
	if t.Lowered == "" || t.Raised == "" {
		f.Add("tornado without the names of its bars")
	}
	for i, b := range t.Bars {
		at := f.At("bar %d (%q)", i+1, b.Name)
		if b.Name == "" {
			at.Add("no name")
		}
		if b.Lower == nil && b.Higher == nil {
			at.Add("no change, want at least one")
		}
		for _, v := range []*float64{b.Lower, b.Higher} {
			if v != nil && !(math.Abs(*v) < 1e6) {
				at.Add("a change of %g, want per cent below a million", *v)
			}
		}
	}
}

// The looks, as those of charts.
var (
	nameFace  = draw.Face{Size: 10.5, Color: draw.AxisGrey}
	valueFace = draw.Face{Size: 9, Color: draw.InkGrey}
	labelFace = draw.Face{Size: 11, Color: draw.Black}
	colors    = [2]color.NRGBA{draw.Palette[0], draw.Palette[1]}
	gridLine  = draw.Stroke{Color: draw.GridGrey, Width: 0.6}
	axisLine  = draw.Stroke{Color: draw.AxisGrey, Width: 0.7}
)

const (
	rowHeight  = 25.0 // at most
	headHeight = 22.0 // the legend
	footHeight = 36.0 // ticks and label
	around     = 38.0 // title and note of the panel
	gap        = 5.0
)

// Prepare implements figure.Content.
func (t *Tornado) Prepare(p figure.Panel) figure.Drawing { return &drawing{t, p.X.Label} }

type drawing struct {
	*Tornado
	label string
}

// Height implements figure.Drawing.
func (d *drawing) Height(_, usual float64) float64 {
	if len(d.Bars) == 0 {
		return usual / 3
	}
	return around + headHeight + footHeight + rowHeight*float64(len(d.Bars))
}

// Notes implements figure.Drawing.
func (d *drawing) Notes() string { return "" }

// Draw implements figure.Drawing.
func (d *drawing) Draw(p draw.Pen, area draw.Rectangle) {
	if len(d.Bars) == 0 {
		p.Text(labelFace, area.Center(), draw.CenterMid, 0, "nothing has a visible effect")
		return
	}
	frame := d.frame(area)
	row := frame.H() / float64(len(d.Bars))
	lo, hi := d.ends(frame)
	x := func(v float64) float64 { return frame.X0 + (v-lo)/(hi-lo)*frame.W() }
	for _, tick := range ticks.Linear(ticks.Percent, lo, hi, max(2, int(frame.W()/70))) {
		p.Line(gridLine, draw.Pt(x(tick.Value), frame.Y0), draw.Pt(x(tick.Value), frame.Y1))
		p.Text(nameFace, draw.Pt(x(tick.Value), frame.Y0-gap), draw.CenterTop, 0, tick.Label)
	}
	p.Text(labelFace, draw.Pt(frame.Center().X, frame.Y0-footHeight+4), draw.CenterBase, 0,
		labelFace.Shorten(d.label, area.W()))
	for i, b := range d.Bars {
		top := frame.Y1 - float64(i)*row
		d.drawNames(p, draw.Rect(area.X0, top-row, frame.X0-gap, top), b)
		for side, change := range []*float64{b.Lower, b.Higher} {
			y := top - 0.15*row*(1-float64(side)) - float64(side)*row/2
			bar(p, x, draw.Rect(frame.X0, y-0.35*row, frame.X1, y), change, colors[side])
		}
	}
	p.Line(axisLine, draw.Pt(x(0), frame.Y0), draw.Pt(x(0), frame.Y1))
	at := frame.X0
	for side, name := range []string{d.Lowered, d.Raised} {
		mid := area.Y1 - headHeight/2
		p.Box(draw.Rect(at, mid-4, at+12, mid+4), colors[side], draw.Stroke{})
		p.Text(nameFace, draw.Pt(at+16, mid), draw.LeftMid, 0, name)
		at += 16 + nameFace.Width(name) + 18
	}
}

// drawNames writes a parameter's name and value before its bars.
func (d *drawing) drawNames(p draw.Pen, at draw.Rectangle, b Bar) {
	mid := at.Center().Y
	if b.Value == "" {
		p.Text(nameFace, draw.Pt(at.X1, mid), draw.RightMid, 0, nameFace.Shorten(b.Name, at.W()))
		return
	}
	p.Text(nameFace, draw.Pt(at.X1, mid+5), draw.RightMid, 0, nameFace.Shorten(b.Name, at.W()))
	p.Text(valueFace, draw.Pt(at.X1, mid-6), draw.RightMid, 0, valueFace.Shorten(b.Value, at.W()))
}

// bar draws one change with its number beyond the end.
func bar(p draw.Pen, x func(float64) float64, at draw.Rectangle, change *float64, fill color.NRGBA) {
	if change == nil {
		p.Text(valueFace, draw.Pt(x(0)+3, at.Center().Y), draw.LeftMid, 0, "not possible")
		return
	}
	from, to := x(0), x(*change)
	p.Box(draw.Rect(min(from, to), at.Y0+0.5, max(from, to), at.Y1-0.5), fill, draw.Stroke{})
	if *change < 0 {
		p.Text(valueFace, draw.Pt(to-3, at.Center().Y), draw.RightMid, 0, number(*change))
	} else {
		p.Text(valueFace, draw.Pt(to+3, at.Center().Y), draw.LeftMid, 0, number(*change))
	}
}

func number(v float64) string {
	if v == 0 {
		return "0"
	}
	return fmt.Sprintf("%+.3g%%", v)
}

// frame is what is left beside the names.
func (d *drawing) frame(area draw.Rectangle) draw.Rectangle {
	widest := 0.0
	for _, b := range d.Bars {
		widest = max(widest, nameFace.Width(b.Name), valueFace.Width(b.Value))
	}
	top := area.Y1 - headHeight
	return draw.Rect(area.X0+min(widest, area.W()*0.45)+gap, max(area.Y0+footHeight, top-rowHeight*float64(len(d.Bars))),
		area.X1, top)
}

// ends of the axis: all bars, and room for the numbers at their ends.
func (d *drawing) ends(frame draw.Rectangle) (lo, hi float64) {
	for _, b := range d.Bars {
		for _, v := range []*float64{b.Lower, b.Higher} {
			if v != nil {
				lo, hi = min(lo, *v), max(hi, *v)
			}
		}
	}
	if lo == hi {
		hi = 1
	}
	room := (hi - lo) * min(50/frame.W(), 0.3)
	lo -= room
	return lo, hi + room
}
