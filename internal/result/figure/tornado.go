package figure

import (
	"fmt"
	"image/color"
	"math"

	"github.com/kernbench/kernbench/internal/result/draw"
)

func init() {
	Contents.Register(ContentKind{Name: "tornado", New: func() Content { return &Tornado{} },
		Help: "how much each parameter changes a result, the largest effect on top"})
}

// Tornado shows sensitivities: two bars for each parameter, the effect of lowering
// it and of raising it. The label of the panel's x axis names the effect.
type Tornado struct {
	Lowered string       `json:"lowered"` // name of the first bars: "20 % less"
	Raised  string       `json:"raised"`  // name of the second bars
	Bars    []TornadoBar `json:"bars"`    // from top to bottom, the most important parameter first
}

// TornadoBar is one parameter. Changes are in percent; a nil change was not possible.
type TornadoBar struct {
	Name   string   `json:"name"`
	Value  string   `json:"value,omitempty"` // the parameter's own value
	Lower  *float64 `json:"lower,omitempty"`
	Higher *float64 `json:"higher,omitempty"`
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

// Sizes of a tornado in points.
const (
	tornadoRow  = 25.0 // height of a parameter, at most
	tornadoKey  = 22.0 // height of the color key
	tornadoFoot = 36.0 // height of ticks and axis label
	tornadoGap  = 5.0
)

// Prepare implements Content.
func (t *Tornado) Prepare(p Panel) Drawing { return &tornado{t, p} }

type tornado struct {
	*Tornado
	panel Panel
}

// extra returns the height of the panel's title and note.
func (p Panel) extra() (h float64) {
	if p.Title != "" {
		h += 20
	}
	if p.Note != "" {
		h += 18
	}
	return h
}

// Height implements Drawing.
func (t *tornado) Height(_, usual float64) float64 {
	if len(t.Bars) == 0 {
		return usual / 3
	}
	return t.panel.extra() + tornadoKey + tornadoFoot + tornadoRow*float64(len(t.Bars))
}

// Notes implements Drawing.
func (t *tornado) Notes() string { return "" }

// Draw implements Drawing.
func (t *tornado) Draw(p draw.Pen, area draw.Rectangle) {
	if len(t.Bars) == 0 {
		p.Text(labelFace, area.Center(), draw.CenterMid, 0, "nothing has a visible effect")
		return
	}
	frame := t.frame(area)
	row := frame.H() / float64(len(t.Bars))
	lo, hi := t.ends(frame)
	x := func(v float64) float64 { return frame.X0 + (v-lo)/(hi-lo)*frame.W() }
	for _, tick := range (Axis{Unit: Percent}).Ticks(lo, hi, max(2, int(frame.W()/70))) {
		p.Line(gridStroke, draw.Pt(x(tick.Value), frame.Y0), draw.Pt(x(tick.Value), frame.Y1))
		p.Text(tickFace, draw.Pt(x(tick.Value), frame.Y0-tornadoGap), draw.CenterTop, 0, tick.Label)
	}
	p.Text(labelFace, draw.Pt(frame.Center().X, frame.Y0-tornadoFoot+4), draw.CenterBase, 0,
		labelFace.Shorten(t.panel.X.Label, area.W()))
	for i, b := range t.Bars {
		top := frame.Y1 - float64(i)*row
		b.drawName(p, draw.Rect(area.X0, top-row, frame.X0-tornadoGap, top))
		for side, change := range []*float64{b.Lower, b.Higher} {
			y := top - 0.15*row*(1-float64(side)) - float64(side)*row/2
			drawChange(p, x, draw.Rect(frame.X0, y-0.35*row, frame.X1, y), change, draw.Palette[side])
		}
	}
	p.Line(axisStroke, draw.Pt(x(0), frame.Y0), draw.Pt(x(0), frame.Y1))
	DrawKey(p, draw.Pt(frame.X0, area.Y1-tornadoKey/2), []string{t.Lowered, t.Raised})
}

// DrawKey writes a row of names that starts at a point, each after a box in its
// color: the first name gets the first color of the palette.
func DrawKey(p draw.Pen, at draw.Point, names []string) {
	for i, name := range names {
		p.PaletteBox(draw.Rect(at.X, at.Y-4, at.X+10, at.Y+4), i, draw.Stroke{})
		p.Text(noteFace, draw.Pt(at.X+14, at.Y), draw.LeftMid, 0, name)
		at.X += 14 + noteFace.Width(name) + 16
	}
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

// frame returns the area of the bars: what remains beside the names.
func (t *tornado) frame(area draw.Rectangle) draw.Rectangle {
	widest := 0.0
	for _, b := range t.Bars {
		widest = max(widest, tickFace.Width(b.Name), noteFace.Width(b.Value))
	}
	top := area.Y1 - tornadoKey
	bottom := max(area.Y0+tornadoFoot, top-tornadoRow*float64(len(t.Bars)))
	return draw.Rect(area.X0+min(widest, area.W()*0.45)+tornadoGap, bottom, area.X1, top)
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
