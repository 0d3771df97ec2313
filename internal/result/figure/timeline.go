package figure

import (
	"github.com/kernbench/kernbench/internal/result/draw"
)

func init() {
	Contents.Register(ContentKind{Name: "timeline", New: func() Content { return &Timeline{} },
		Help: "what each rank does over time"})
}

// Timeline shows rows of colored spans over time. The x axis of the panel names the time and its unit.
type Timeline struct {
	Kinds []string      `json:"kinds"` // names of the colors
	Rows  []TimelineRow `json:"rows"`  // from top to bottom
	End   float64       `json:"end"`   // of the axis, which begins at 0
}

// TimelineRow is one line of a timeline.
type TimelineRow struct {
	Name  string         `json:"name"`
	Spans []TimelineSpan `json:"spans,omitempty"`
}

// TimelineSpan is a time during which a row does one thing.
type TimelineSpan struct {
	Kind int     `json:"kind"` // index in Kinds
	From float64 `json:"from"`
	To   float64 `json:"to"`
	// Bottom and Top are the part of the row's height, from 0 to 1, that the span fills: its share of the time.
	Bottom float64 `json:"bottom,omitempty"`
	Top    float64 `json:"top"`
}

// Check implements Content.
func (t *Timeline) Check(_ Panel, f Faults) {
	if len(t.Kinds) == 0 || !(t.End > 0) {
		f.Add("timeline with %d kinds until %g: want at least one kind, and an end after 0", len(t.Kinds), t.End)
	}
	for i, row := range t.Rows {
		at := f.At("row %d (%q)", i+1, row.Name)
		for _, s := range row.Spans {
			if s.Kind < 0 || s.Kind >= len(t.Kinds) || !(s.From >= 0 && s.From <= s.To && s.To <= t.End*1.0001) {
				at.Add("span of kind %d from %g to %g, want one of %d kinds between 0 and %g", s.Kind, s.From, s.To,
					len(t.Kinds), t.End)
			}
			if !(s.Bottom >= 0 && s.Bottom < s.Top && s.Top <= 1.0001) {
				at.Add("span from %g to %g of the height, want a part between 0 and 1", s.Bottom, s.Top)
			}
		}
	}
}

// Prepare implements Content.
func (t *Timeline) Prepare(p Panel) Drawing { return &timeline{t, p} }

type timeline struct {
	*Timeline
	panel Panel
}

// Sizes of a timeline in points.
const (
	timelineRow = 16.0 // height of a row
	timelineKey = 16.0 // height of a line of the color key
)

// Height implements Drawing.
func (t *timeline) Height(w, _ float64) float64 {
	return t.panel.extra() + timelineKey*float64(t.keyLines(w)) + tornadoFoot + timelineRow*float64(len(t.Rows))
}

// keyPerLine returns how many names of the color key fit a line.
func (t *timeline) keyPerLine(w float64) int {
	widest := 0.0
	for _, name := range t.Kinds {
		widest = max(widest, noteFace.Width(name)+30)
	}
	return max(1, int(w/widest))
}

func (t *timeline) keyLines(w float64) int {
	per := t.keyPerLine(w)
	return (len(t.Kinds) + per - 1) / per
}

// Notes implements Drawing.
func (t *timeline) Notes() string { return "" }

// Draw implements Drawing.
func (t *timeline) Draw(p draw.Pen, area draw.Rectangle) {
	widest := 0.0
	for _, row := range t.Rows {
		widest = max(widest, tickFace.Width(row.Name))
	}
	lines := t.keyLines(area.W())
	top := area.Y1 - timelineKey*float64(lines)
	bottom := max(area.Y0+tornadoFoot, top-timelineRow*float64(len(t.Rows)))
	frame := draw.Rect(area.X0+min(widest, area.W()*0.3)+tornadoGap, bottom, area.X1-12, top)
	x := func(v float64) float64 { return frame.X0 + v/t.End*frame.W() }
	for _, tick := range t.panel.X.Ticks(0, t.End, max(2, int(frame.W()/70))) {
		p.Line(gridStroke, draw.Pt(x(tick.Value), frame.Y0), draw.Pt(x(tick.Value), frame.Y1))
		p.Text(tickFace, draw.Pt(x(tick.Value), frame.Y0-tornadoGap), draw.CenterTop, 0, tick.Label)
	}
	p.Text(labelFace, draw.Pt(frame.Center().X, frame.Y0-tornadoFoot+4), draw.CenterBase, 0,
		labelFace.Shorten(t.panel.X.Label, area.W()))
	height := frame.H() / float64(max(len(t.Rows), 1))
	for i, row := range t.Rows {
		y := frame.Y1 - float64(i)*height
		p.Text(tickFace, draw.Pt(frame.X0-tornadoGap, y-height/2), draw.RightMid, 0, tickFace.Shorten(row.Name, area.W()*0.3))
		for _, s := range row.Spans {
			bottom, full := y-0.9*height, 0.8*height
			p.PaletteBox(draw.Rect(x(s.From), bottom+s.Bottom*full, x(s.To), bottom+s.Top*full), s.Kind, draw.Stroke{})
		}
	}
	p.Line(axisStroke, draw.Pt(frame.X0, frame.Y0), draw.Pt(frame.X0, frame.Y1))
	t.drawKey(p, draw.Rect(frame.X0, top, area.X1, area.Y1))
}

// drawKey writes the names of the colors.
func (t *timeline) drawKey(p draw.Pen, area draw.Rectangle) {
	per := t.keyPerLine(area.W())
	step := area.W() / float64(per)
	for i, name := range t.Kinds {
		at := draw.Pt(area.X0+float64(i%per)*step, area.Y1-timelineKey*(float64(i/per)+0.5))
		p.PaletteBox(draw.Rect(at.X, at.Y-4, at.X+10, at.Y+4), i, draw.Stroke{})
		p.Text(noteFace, draw.Pt(at.X+14, at.Y), draw.LeftMid, 0, name)
	}
}
