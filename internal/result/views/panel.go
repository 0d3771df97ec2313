package views

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// drawing makes panels of dots.
type drawing struct {
	x    coord
	y    quantity
	by   []coord
	axis xAxis

	// What the points drawn so far contain, for the note.
	trials, interval bool // error bars that are ranges of trials, or confidence intervals
	hollow, failed   bool // disturbed and failed points
	modes            []modePoint
}

// modePoint is a point whose samples have two modes.
type modePoint struct {
	x     float64
	label string
	modes []stats.Mode
}

// xAxis is the x axis of all panels. It has categories if any value is a text.
type xAxis struct {
	figure.Axis
	slots map[string]float64 // position by value id; nil for a numeric axis
}

// wide is the ratio of the largest to the smallest value above which a linear axis would hide small values.
const wide = 16

// newXAxis chooses the x axis. It has categories if any value is a text, else a logarithmic scale if the
// values span a wide range: to base 2 for bytes and powers of two, else to base 10.
func newXAxis(x coord, dots []dot) xAxis {
	values := make([]value, len(dots))
	numbers := make([]float64, len(dots))
	numeric, bytes := true, len(dots) > 0
	for i, d := range dots {
		values[i], numbers[i] = d.x, d.x.number
		numeric = numeric && d.x.isNum
		bytes = bytes && d.x.kind == point.Bytes
	}
	a := xAxis{Axis: figure.Axis{Label: x.name}}
	if !numeric {
		a.Scale, a.slots = figure.Category, map[string]float64{}
		for i, v := range ordered(values) {
			a.slots[v.id()] = float64(i)
			a.Categories = append(a.Categories, cmp.Or(v.text, `""`)) // show an empty text as ""
		}
		return a
	}
	if bytes {
		a.Unit, a.Label = figure.Bytes, x.name+" (bytes)"
	}
	if spansWide(numbers) {
		a.Scale = figure.Log10
		if bytes || powersOfTwo(numbers) {
			a.Scale = figure.Log2
		}
	}
	return a
}

func (a xAxis) at(v value) float64 {
	if a.slots != nil {
		return a.slots[v.id()]
	}
	return v.number
}

// spansWide reports whether the values are positive and differ by more than wide.
func spansWide(values []float64) bool {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if finite(v) {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	return lo > 0 && hi/lo > wide
}

func powersOfTwo(values []float64) bool {
	return !slices.ContainsFunc(values, func(v float64) bool {
		frac, _ := math.Frexp(v)
		return frac != 0.5
	})
}

// panel makes a chart of the dots, one series per value of the coordinates in by.
func (d *drawing) panel(in panelDots) figure.Panel {
	p := figure.Panel{Title: in.title, X: d.axis.Axis}
	all := slices.DeleteFunc(seriesOf(in.dots, d.by), func(s panelDots) bool { return !anyGood(s.dots) })
	known := len(d.modes)
	p.Lines, p.Series = d.limits(all, lists.Map(all, d.series))
	p.Series = append(p.Series, modeSeries(d.modes[known:])...)
	p.Y = d.yAxis(p)
	if len(p.Series) == 1 && len(p.Lines) == 0 && all[0].title == "" {
		p.Legend = figure.LegendNone // the axis already names the only curve
	}
	if d.axis.slots != nil {
		kind := categoryKind(p, len(d.axis.slots))
		for i := range p.Series {
			if !p.Series[i].Dashed && p.Series[i].Kind == "" {
				p.Series[i].Kind = kind
			}
		}
	}
	return p
}

// series returns a curve with one point per x. It records which error bars and markers it uses, for the
// note.
func (d *drawing) series(in panelDots) figure.Series {
	s := figure.Series{Name: in.title}
	s.Name = cmp.Or(s.Name, d.y.name)
	for _, here := range split(in.dots, d.x) {
		dots := counting(here.dots)
		pt := merge(d.axis.at(here.dots[0].x), dots)
		d.trials = d.trials || len(dots) > 1
		d.interval = d.interval || len(dots) == 1 && pt.Low < pt.High
		d.hollow, d.failed = d.hollow || pt.Hollow, d.failed || pt.Failed
		s.Points = append(s.Points, pt)
		if at := slices.IndexFunc(dots, func(o dot) bool { return d.modesOf(o) != nil }); at >= 0 {
			label := strings.TrimSpace(in.title + " " + d.x.label(dots[at].x))
			d.modes = append(d.modes, modePoint{pt.X, label, d.modesOf(dots[at])})
		}
	}
	return s
}

// modesOf returns the two modes of the drawn metric in a row, or nil.
func (d *drawing) modesOf(o dot) []stats.Mode {
	if d.y.stat != "" {
		return nil
	}
	return journal.Modes(o.row, d.y.metric)
}

// modeSeries marks both modes of the points that have two.
func modeSeries(points []modePoint) []figure.Series {
	if len(points) == 0 {
		return nil
	}
	s := figure.Series{Name: "two modes", Kind: figure.Scatter, Dashed: true}
	for _, m := range points {
		for _, mode := range m.modes {
			s.Points = append(s.Points, figure.Point{X: m.x, Y: mode.Center})
		}
	}
	return []figure.Series{s}
}

// modesNote lists the modes of the first points that have two, with the shares of the samples.
func (d *drawing) modesNote() string {
	const maxPoints = 3
	texts := lists.Map(d.modes[:min(maxPoints, len(d.modes))], func(m modePoint) string {
		return fmt.Sprintf("%s %s (%.0f %%) and %s (%.0f %%)", m.label, MetricText(m.modes[0].Center, d.y.unit),
			100*m.modes[0].Share, MetricText(m.modes[1].Center, d.y.unit), 100*m.modes[1].Share)
	})
	if more := len(d.modes) - maxPoints; more > 0 {
		texts = append(texts, unit.Plural(more, "more point"))
	}
	return "two modes: " + strings.Join(texts, ", ")
}

// maxBars is the number of bars that fit into a panel.
const maxBars = 40

// categoryKind chooses bars if they fit and the y axis is linear. On a logarithmic axis, the length of a bar
// would be meaningless.
func categoryKind(p figure.Panel, slots int) figure.Kind {
	if p.Y.Scale == figure.Log10 || slots*len(p.Series) > maxBars {
		return figure.Scatter
	}
	return figure.Bars
}

// yAxis chooses the y axis: a logarithmic scale if the values span a wide range, else a linear scale from
// zero.
func (d *drawing) yAxis(p figure.Panel) figure.Axis {
	a := FigureAxis(d.y.name, d.y.unit)
	values := heights(p)
	switch {
	case spansWide(values):
		a.Scale = figure.Log10
	case len(values) > 0 && slices.Min(values) >= 0:
		// Start at zero, so that a small difference does not look large.
		a.Min = new(float64)
	}
	return a
}

// heights returns all finite y values of a panel, including ends of error bars and limits.
func heights(p figure.Panel) (values []float64) {
	add := func(vs ...float64) {
		for _, v := range vs {
			if finite(v) {
				values = append(values, v)
			}
		}
	}
	for _, s := range p.Series {
		for _, pt := range s.Points {
			if pt.Failed {
				continue
			}
			add(pt.Y)
			if pt.Low < pt.High {
				add(pt.Low, pt.High)
			}
		}
	}
	for _, l := range p.Lines {
		if l.Y != nil {
			add(*l.Y)
		}
		for _, pt := range l.Points {
			add(pt.Y)
		}
	}
	return values
}

// commonScale makes panels comparable: if one panel has a logarithmic scale, all panels without zero or
// negative values get one.
func commonScale(panels []figure.Panel) {
	log := slices.ContainsFunc(panels, func(p figure.Panel) bool { return p.Y.Scale == figure.Log10 })
	for i := range panels {
		values := heights(panels[i])
		if p := &panels[i]; log && len(values) > 0 && slices.Min(values) > 0 {
			p.Y.Scale, p.Y.Min = figure.Log10, nil
			for k, s := range p.Series {
				if s.Kind == figure.Bars {
					p.Series[k].Kind = figure.Scatter
				}
			}
		}
	}
}

// limits adds the lower bounds on the times of the rows. A bound that is the same for all series is one
// line. Otherwise each series gets its bound as a dashed line in its color.
func (d *drawing) limits(all []panelDots, series []figure.Series) ([]figure.Line, []figure.Series) {
	if d.y.name != Time {
		return nil, series
	}
	var lines []figure.Line
	for _, name := range limitNames(all) {
		curves := lists.Map(all, func(s panelDots) []figure.Point { return d.limitCurve(s.dots, name) })
		if curve, shared := commonCurve(curves); shared {
			lines = append(lines, limitLine("limit: "+name, curve))
			continue
		}
		for i, curve := range curves {
			if len(curve) > 0 {
				series = append(series, figure.Series{Name: "limit: " + name + " (" + series[i].Name + ")", Points: curve,
					Color: i + 1, Dashed: true, NoMarker: len(curve) > 1})
			}
		}
	}
	return lines, series
}

func limitNames(all []panelDots) []string {
	seen := map[string]bool{}
	for _, s := range all {
		for _, d := range s.dots {
			for name := range d.row.Limits {
				seen[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// limitCurve returns a limit over x. Trials of one point have the same limit; if they
// differ, the smallest is drawn.
func (d *drawing) limitCurve(dots []dot, name string) (curve []figure.Point) {
	for _, here := range split(dots, d.x) {
		best := math.Inf(1)
		for _, dot := range here.dots {
			if v, ok := dot.row.Limits[name]; ok && finite(v) {
				best = min(best, v)
			}
		}
		if finite(best) {
			curve = append(curve, figure.Point{X: d.axis.at(here.dots[0].x), Y: best})
		}
	}
	return curve
}

// commonCurve joins curves if they agree wherever they have the same x.
func commonCurve(curves [][]figure.Point) ([]figure.Point, bool) {
	at := map[float64]float64{}
	for _, curve := range curves {
		for _, pt := range curve {
			if y, seen := at[pt.X]; seen && y != pt.Y {
				return nil, false
			}
			at[pt.X] = pt.Y
		}
	}
	out := lists.Map(slices.Sorted(maps.Keys(at)), func(x float64) figure.Point { return figure.Point{X: x, Y: at[x]} })
	return out, len(out) > 0
}

// limitLine returns a horizontal line if the limit does not depend on x.
func limitLine(label string, curve []figure.Point) figure.Line {
	y := curve[0].Y
	if slices.ContainsFunc(curve, func(p figure.Point) bool { return p.Y != y }) {
		return figure.Line{Label: label, Points: curve}
	}
	return figure.Line{Label: label, Y: &y}
}

// maxTitle is the longest list of coordinates in a title, in bytes. It fits into the two lines of a figure's title.
const maxTitle = 100

// title names the bench and the coordinates that are the same for all dots. If these are too many, the rest is counted.
func title(h *journal.Header, dots []dot, coords, shown []coord) string {
	rows := lists.Map(dots, func(d dot) *journal.Row { return d.row })
	name := h.Bench
	if len(rows) == 0 {
		return name
	}
	var words []string
	for _, c := range coords {
		v := c.value(rows[0])
		switch {
		case c.varies(rows) || slices.Contains(shown, c):
		case c.is(benchField):
			name = v.text
		case c.is(kindField):
			if v.text != string(journal.Measured) && v.has {
				words = append(words, v.text)
			}
		case c.class == optionClass: // usually the bench's defaults
		case c.is(runField, trialField, machineField):
		case v.has:
			words = append(words, c.label(v))
		}
	}
	if len(words) == 0 {
		return name
	}
	text := words[0]
	for i, word := range words[1:] {
		if len(text)+len(word) > maxTitle {
			return fmt.Sprintf("%s: %s and %d more", name, text, len(words)-1-i)
		}
		text += ", " + word
	}
	return name + ": " + text
}

// note explains the error bars and markers, names the coordinates that separate series although the plot did
// not ask for them, and counts the rows that are left out.
func (d *drawing) note(left omissions, added []coord) string {
	var notes []string
	for _, n := range []struct {
		has  bool
		text string
	}{
		{d.trials, "points: median over trials, bars: from the smallest to the largest trial"},
		{d.interval, "bars: 95 % confidence interval of the median"},
		{d.hollow, "hollow: disturbed while measured"},
		{d.failed, "×: the point failed"},
		{len(d.modes) > 0, d.modesNote()},
	} {
		if n.has {
			notes = append(notes, n.text)
		}
	}
	if len(added) > 0 {
		notes = append(notes, "also separated by "+strings.Join(namesOf(added), ", ")+", which would otherwise be mixed")
	}
	var out []string
	for _, s := range journal.Statuses {
		if n := left.byStatus[s]; n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, s))
		}
		delete(left.byStatus, s)
	}
	for _, s := range slices.Sorted(maps.Keys(left.byStatus)) {
		out = append(out, fmt.Sprintf("%d with status %q", left.byStatus[s], s))
	}
	if left.noX > 0 {
		out = append(out, fmt.Sprintf("%d without %s", left.noX, d.x.name))
	}
	if left.noY > 0 {
		out = append(out, fmt.Sprintf("%d without %s", left.noY, d.y.name))
	}
	if len(out) > 0 {
		notes = append(notes, "rows left out: "+strings.Join(out, ", "))
	}
	return strings.Join(notes, "; ")
}
