package figure

import (
	"fmt"
	"image/color"
	"math"

	"github.com/kernbench/kernbench/internal/result/draw"
)

// Tornado shows sensitivities: two bars for each parameter, the effect of lowering
// it and of raising it. The label of the panel's x axis names the effect.
type Tornado struct {
	Lowered string       // name of the first bars: "20 % less"
	Raised  string       // name of the second bars
	Bars    []TornadoBar // from top to bottom, the most important parameter first
}

// TornadoBar is one parameter. Changes are in percent; a nil change was not possible.
type TornadoBar struct {
	Name   string
	Value  string // the parameter's own value
	Lower  *float64
	Higher *float64
}

// Check implements Content.
func (t *Tornado) Check(_ Panel, f Faults) {
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

// tornadoRow is the largest height of a parameter in points.
const tornadoRow = 25.0

// Prepare implements Content.
func (t *Tornado) Prepare(p Panel) Drawing { return &tornado{t, p} }

type tornado struct {
	*Tornado
	panel Panel
}

func (t *tornado) key() legend { return colorKey([]string{t.Lowered, t.Raised}) }

// Height implements Drawing.
func (t *tornado) Height(w, usual float64) float64 {
	if len(t.Bars) == 0 {
		return usual / 3
	}
	return t.panel.rowsHeight(t.key(), w, len(t.Bars), tornadoRow)
}

// Notes implements Drawing.
func (t *tornado) Notes() string { return "" }

// Draw implements Drawing.
func (t *tornado) Draw(p draw.Pen, area draw.Rectangle) {
	if len(t.Bars) == 0 {
		p.Text(labelFace, area.Center(), draw.CenterMid, 0, "nothing has a visible effect")
		return
	}
	widest := 0.0
	for _, b := range t.Bars {
		widest = max(widest, tickFace.Width(b.Name), noteFace.Width(b.Value))
	}
	r := newRows(area, t.key(), widest, 0, len(t.Bars), tornadoRow)
	lo, hi := t.ends(r.frame)
	r.drawAxis(p, Axis{Label: t.panel.X.Label, Unit: Percent}, lo, hi)
	for i, b := range t.Bars {
		lane := r.lane(i)
		b.drawName(p, draw.Rect(area.X0, lane.Y0, r.frame.X0-rowsGap, lane.Y1))
		for side, change := range []*float64{b.Lower, b.Higher} {
			y := lane.Y1 - 0.15*r.height*(1-float64(side)) - float64(side)*r.height/2
			drawChange(p, r.x, draw.Rect(lane.X0, y-0.35*r.height, lane.X1, y), change, draw.Palette[side])
		}
	}
	p.Line(axisStroke, draw.Pt(r.x(0), r.frame.Y0), draw.Pt(r.x(0), r.frame.Y1))
	r.drawKey(p, area)
}

// drawName writes the parameter's name and, below it, its value.
func (b TornadoBar) drawName(p draw.Pen, at draw.Rectangle) {
	mid := at.Center().Y
	if b.Value != "" {
		p.Text(noteFace, draw.Pt(at.X1, mid-6), draw.RightMid, 0, noteFace.Shorten(b.Value, at.W()))
		mid += 5
	}
	p.Text(tickFace, draw.Pt(at.X1, mid), draw.RightMid, 0, tickFace.Shorten(b.Name, at.W()))
}

// drawChange draws one bar with its number beyond the end.
func drawChange(p draw.Pen, x func(float64) float64, at draw.Rectangle, change *float64, fill color.NRGBA) {
	if change == nil {
		p.Text(noteFace, draw.Pt(x(0)+3, at.Center().Y), draw.LeftMid, 0, "not possible")
		return
	}
	from, to := x(0), x(*change)
	p.Box(draw.Rect(min(from, to), at.Y0+0.5, max(from, to), at.Y1-0.5), fill, draw.Stroke{})
	text := "0"
	if *change != 0 {
		text = fmt.Sprintf("%+.3g%%", *change)
	}
	if *change < 0 {
		p.Text(noteFace, draw.Pt(to-3, at.Center().Y), draw.RightMid, 0, text)
	} else {
		p.Text(noteFace, draw.Pt(to+3, at.Center().Y), draw.LeftMid, 0, text)
	}
}

// ends returns the range of the axis: all bars, with room for the numbers at their ends.
func (t *tornado) ends(frame draw.Rectangle) (lo, hi float64) {
	for _, b := range t.Bars {
		for _, v := range []*float64{b.Lower, b.Higher} {
			if v != nil {
				lo, hi = min(lo, *v), max(hi, *v)
			}
		}
	}
	if lo == hi {
		hi = 1
	}
	margin := (hi - lo) * min(50/frame.W(), 0.3)
	return lo - margin, hi + margin
}
