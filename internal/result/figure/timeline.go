package figure

import (
	"cmp"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/result/draw"
)

// Timeline shows rows of colored spans over time. The x axis of the panel names the time and its unit.
type Timeline struct {
	Kinds  []string      // names of the colors; a single one needs no key
	Rows   []TimelineRow // from top to bottom
	End    float64       // of the axis, which begins at 0
	Joined bool          // each row goes on where the row above ends: a line leads to it
}

// TimelineRow is one line of a timeline.
type TimelineRow struct {
	Name  string
	Note  string // written at the end of the row
	Spans []TimelineSpan
}

// TimelineSpan is a time during which a row does one thing.
type TimelineSpan struct {
	Kind     int // index in Kinds
	From, To float64
	// Bottom and Top are the part of the row's height, from 0 to 1, that the span fills: its share of the time.
	Bottom, Top float64
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

// timelineRow is the height of a row in points.
const timelineRow = 18.0

func (t *timeline) key() legend {
	if len(t.Kinds) < 2 {
		return legend{}
	}
	return colorKey(t.Kinds)
}

// Height implements Drawing.
func (t *timeline) Height(w, _ float64) float64 {
	return t.panel.rowsHeight(t.key(), w, len(t.Rows), timelineRow)
}

// Notes implements Drawing.
func (t *timeline) Notes() string { return "" }

// Draw implements Drawing.
func (t *timeline) Draw(p draw.Pen, area draw.Rectangle) {
	names, notes := 0.0, 0.0
	for _, row := range t.Rows {
		names, notes = max(names, tickFace.Width(row.Name)), max(notes, noteFace.Width(row.Note))
	}
	r := newRows(area, t.key(), names, notes, len(t.Rows), timelineRow)
	r.drawAxis(p, t.panel.X, 0, t.End)
	var last draw.Point
	for i, row := range t.Rows {
		lane := r.lane(i).Inset(0.1 * r.height)
		mid := lane.Center().Y
		p.Text(tickFace, draw.Pt(r.frame.X0-rowsGap, mid), draw.RightMid, 0, tickFace.Shorten(row.Name, r.names))
		p.Text(noteFace, draw.Pt(r.frame.X1+rowsGap, mid), draw.LeftMid, 0, noteFace.Shorten(row.Note, r.notes))
		for _, y := range []float64{lane.Y0, lane.Y1} {
			p.Line(gridStroke, draw.Pt(r.frame.X0, y), draw.Pt(r.frame.X1, y))
		}
		if t.Joined && len(row.Spans) > 0 {
			first := slices.MinFunc(row.Spans, func(a, b TimelineSpan) int { return cmp.Compare(a.From, b.From) })
			at := draw.Pt(r.x(first.From), mid)
			if i > 0 {
				p.Line(axisStroke, draw.Pt(at.X, last.Y), at)
			}
			last = at
		}
		for _, s := range row.Spans {
			from := r.x(s.From)
			p.PaletteBox(draw.Rect(from, lane.Y0+s.Bottom*lane.H(), max(r.x(s.To), from+0.3), lane.Y0+s.Top*lane.H()), s.Kind,
				draw.Stroke{})
		}
	}
	p.Line(axisStroke, draw.Pt(r.frame.X0, r.frame.Y0), draw.Pt(r.frame.X0, r.frame.Y1))
	r.drawKey(p, area)
}

// rows is the layout of a panel with rows below each other: their names are at the left, notes at the right, the key of
// the colors above, and the axis below.
type rows struct {
	frame        draw.Rectangle
	names, notes float64 // room for them
	height       float64 // of a row
	key          legend
	lo, hi       float64 // ends of the axis
}

const (
	rowsAxis = 36.0 // height of the ticks and the label of the axis
	rowsGap  = 5.0
)

// colorKey names the first colors of the palette.
func colorKey(names []string) (l legend) {
	l.entries = lists.Map(lists.Range[int](len(names)), func(i int) look {
		return look{name: names[i], mark: mark{bar: true}, color: i % len(draw.Palette)}
	})
	return l
}

// rowsHeight returns the height of a panel with n rows of a height, with its title and note.
func (p Panel) rowsHeight(key legend, w float64, n int, row float64) float64 {
	_, lines := key.grid(w)
	h := key.height(lines) + rowsAxis + row*float64(n)
	if p.Title != "" {
		h += 20
	}
	if p.Note != "" {
		h += 18
	}
	return h
}

// newRows lays out n rows of at most this height, with names and notes of these widths.
func newRows(area draw.Rectangle, key legend, names, notes float64, n int, most float64) rows {
	_, lines := key.grid(area.W())
	top := area.Y1 - key.height(lines)
	bottom := max(area.Y0+rowsAxis, top-most*float64(n))
	r := rows{key: key, names: min(names, area.W()*0.4), notes: min(notes, area.W()*0.3)}
	r.frame = draw.Rect(area.X0+r.names+rowsGap, bottom, area.X1-max(r.notes+2*rowsGap, 12), top)
	r.height = r.frame.H() / float64(max(n, 1))
	return r
}

// lane returns the area of a row, without its name.
func (r *rows) lane(i int) draw.Rectangle {
	top := r.frame.Y1 - float64(i)*r.height
	return draw.Rect(r.frame.X0, top-r.height, r.frame.X1, top)
}

func (r *rows) x(v float64) float64 { return r.frame.X0 + (v-r.lo)/(r.hi-r.lo)*r.frame.W() }

// drawAxis draws the axis below the rows, from lo to hi.
func (r *rows) drawAxis(p draw.Pen, axis Axis, lo, hi float64) {
	r.lo, r.hi = lo, hi
	for _, tick := range axis.Ticks(lo, hi, max(2, int(r.frame.W()/70))) {
		x := r.x(tick.Value)
		p.Line(gridStroke, draw.Pt(x, r.frame.Y0), draw.Pt(x, r.frame.Y1))
		p.Text(tickFace, draw.Pt(x, r.frame.Y0-rowsGap), draw.CenterTop, 0, tick.Label)
	}
	p.Text(labelFace, draw.Pt(r.frame.Center().X, r.frame.Y0-rowsAxis+4), draw.CenterBase, 0,
		labelFace.Shorten(axis.Label, r.frame.W()))
}

// drawKey names the colors above the rows.
func (r *rows) drawKey(p draw.Pen, area draw.Rectangle) {
	r.key.draw(p, draw.Rect(area.X0, r.frame.Y1, area.X1, area.Y1))
}
