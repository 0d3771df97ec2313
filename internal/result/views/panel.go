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
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// drawing makes panels of dots.
type drawing struct {
	Plot
	bench  string
	coords []dataset.Coord
	x      abscissa
	ys     []quantity
	by     []dataset.Coord // separate series
	added  []dataset.Coord // those of by that the plot does not name
	axis   xAxis

	common  *unit.TimeUnit // of all times in a table; nil: each has its own
	largest float64        // time in that table

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

// newXAxis chooses the x axis. It has categories if any value is a text, or if there are bars. Else the scale is
// logarithmic if the values span a wide range: to base 2 for bytes and powers of two, else to base 10.
func (p Plot) newXAxis(x abscissa, dots []dot) xAxis {
	values := make([]dataset.Value, len(dots))
	numbers := make([]float64, len(dots))
	bytes := len(dots) > 0
	for i, d := range dots {
		values[i] = d.x
		numbers[i], _ = d.x.Number()
		bytes = bytes && d.x.Point.Kind() == point.Bytes
	}
	text := cmp.Or(p.Labels["x"], p.label(x.name))
	a := xAxis{Axis: figure.Axis{Label: text}}
	if len(dots) > 0 && !numeric(values) || slices.Contains(slotted, p.Kind) {
		a.Scale, a.slots = figure.Category, map[string]float64{}
		for i, v := range dataset.Ordered(values) {
			a.slots[v.ID()] = float64(i)
			a.Categories = append(a.Categories, cmp.Or(v.Text(), `""`)) // show an empty text as ""
		}
		return a
	}
	if bytes {
		a.Unit = figure.Bytes
		if text == x.name {
			a.Label += " (bytes)"
		}
	}
	switch {
	case p.XScale == "linear" || p.XScale == "" && !spansWide(numbers):
	case bytes || powersOfTwo(numbers):
		a.Scale = figure.Log2
	default:
		a.Scale = figure.Log10
	}
	return a
}

// slotted are the kinds with a slot for each value of x.
var slotted = []string{"bars", "stack", "heat"}

func (a xAxis) at(v dataset.Value) float64 {
	if a.slots != nil {
		return a.slots[v.ID()]
	}
	n, _ := v.Number()
	return n
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

// panel makes a chart of the dots, one series per value of the coordinates in by and per metric.
func (d *drawing) panel(in panelDots) figure.Panel {
	p := figure.Panel{Title: in.title, X: d.axis.Axis}
	all := slices.DeleteFunc(d.splitSeries(in.dots), func(s panelDots) bool { return !anyGood(s.dots) })
	if d.Kind == "heat" {
		return d.heat(p, all)
	}
	if d.onIdeal(in.dots) {
		return figure.Panel{}
	}
	known := len(d.modes)
	p.Lines, p.Series = d.limits(all, lists.Map(all, d.series))
	if d.Over != "" {
		if len(p.Series) < 2 {
			return figure.Panel{}
		}
		p.Title = strings.ReplaceAll(p.Title, "{first}", p.Series[0].Name)
		p.Series = overFirst(p.Series)
	}
	p.Lines = append(p.Lines, d.ideal(in.dots)...)
	p.Series = append(p.Series, modeSeries(d.modes[known:])...)
	p.Y = d.yAxis(p)
	if len(p.Series) == 1 && len(p.Lines) == 0 && all[0].title == "" {
		p.Legend = figure.LegendNone // the axis already names the only curve
	}
	kind := map[string]figure.Kind{"points": figure.Scatter, "bars": figure.Bars, "stack": figure.StackedBars}[d.Kind]
	if d.axis.slots != nil && d.Kind == "" {
		kind = categoryKind(p, len(d.axis.slots))
	}
	for i := range p.Series {
		if !p.Series[i].Dashed && p.Series[i].Kind == "" {
			p.Series[i].Kind = kind
		}
	}
	return p
}

// overFirst divides series by the first one. Points without a partner there are left out.
func overFirst(series []figure.Series) []figure.Series {
	first := map[float64]float64{}
	for _, p := range series[0].Points {
		first[p.X] = p.Y
	}
	for i, s := range series {
		s.Points = lists.Filter(s.Points, func(p figure.Point) bool { return first[p.X] > 0 })
		series[i].Points = lists.Map(s.Points, func(p figure.Point) figure.Point {
			p.Y, p.Low, p.High = p.Y/first[p.X], 0, 0 // the interval of a ratio is not known
			return p
		})
	}
	return series
}

// commonColors makes a color mean the same value in all panels.
func commonColors(panels []figure.Panel) {
	var maps []*figure.HeatMap
	low, high := 0.0, 0.0
	for _, p := range panels {
		if h, is := p.Content.(*figure.HeatMap); is {
			maps = append(maps, h)
			for _, line := range h.Cells {
				for _, c := range line {
					if finite(c.Value) {
						low, high = min(low, c.Value), max(high, c.Value)
					}
				}
			}
		}
	}
	for _, h := range maps {
		if len(maps) > 1 && low < high {
			h.Value.Min, h.Value.Max = &low, &high
		}
	}
}

// heat makes a matrix of the dots: a line for each series, and a column for each x.
func (d *drawing) heat(p figure.Panel, all []panelDots) figure.Panel {
	h := &figure.HeatMap{Value: FigureAxis(d.label(d.ys[0].name), d.ys[0].unit)}
	p.Y = figure.Axis{Label: d.Labels["y"], Scale: figure.Category}
	for _, s := range all {
		p.Y.Categories = append(p.Y.Categories, s.title)
		line := slices.Repeat([]figure.Cell{{Value: math.NaN()}}, len(d.axis.slots))
		for _, pt := range d.series(s).Points {
			line[int(pt.X)] = figure.Cell{Value: pt.Y}
			if pt.Hollow {
				line[int(pt.X)].Text = "(" + h.Value.Unit.Format(pt.Y) + ")"
			}
		}
		h.Cells = append(h.Cells, line)
	}
	if len(h.Cells) > 0 {
		p.Content = h
	}
	return p
}

// series returns a curve with one point per x. It records which error bars and markers it uses, for the
// note.
func (d *drawing) series(in panelDots) figure.Series {
	s := figure.Series{Name: in.title}
	if first := in.dots[0].row; s.Name == "" && len(d.by) > 0 { // values that have no words, such as false
		s.Name = d.join(lists.Map(d.by, func(c dataset.Coord) string { return c.Label(c.Of(first)) })...)
	}
	s.Name = cmp.Or(s.Name, d.label(d.ys[0].name))
	values, groups := bucket(in.dots, func(d dot) dataset.Value { return d.x })
	for _, x := range values {
		dots := counting(groups[x.ID()])
		pt := d.merge(d.axis.at(x), dots)
		if d.Kind == "stack" {
			pt.Low, pt.High = 0, 0 // the bars of parts would stand beside their parts
		}
		d.trials = d.trials || len(dots) > 1 && d.Kind != "stack" && !derived(dots)
		d.interval = d.interval || len(dots) == 1 && pt.Low < pt.High && d.ys[dots[0].metric].sampled(dots[0].row)
		d.hollow, d.failed = d.hollow || pt.Hollow, d.failed || pt.Failed
		s.Points = append(s.Points, pt)
		if at := slices.IndexFunc(dots, func(o dot) bool { return d.modesOf(o) != nil }); at >= 0 {
			label := strings.TrimSpace(in.title + " " + d.x.coord.Label(x))
			d.modes = append(d.modes, modePoint{pt.X, label, d.modesOf(dots[at])})
		}
	}
	return s
}

// derived reports whether all trials of a point have one value with one interval, which a bench derived from all of
// them.
func derived(dots []dot) bool {
	return len(dots) > 1 && !slices.ContainsFunc(dots, func(d dot) bool {
		return d.y != dots[0].y || d.low != dots[0].low || d.high != dots[0].high
	})
}

// modesOf returns the two modes of the drawn metric in a row, or nil.
func (d *drawing) modesOf(o dot) []stats.Mode {
	if q := d.ys[o.metric]; q.stat == "" && len(q.factors) == 0 && d.Over == "" {
		return journal.Modes(o.row, q.metric)
	}
	return nil
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
		return fmt.Sprintf("%s %s (%.0f %%) and %s (%.0f %%)", m.label, MetricText(m.modes[0].Center, d.ys[0].unit),
			100*m.modes[0].Share, MetricText(m.modes[1].Center, d.ys[0].unit), 100*m.modes[1].Share)
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
	text := d.label(d.ys[0].name)
	switch {
	case len(d.ys) > 1:
		text = "value"
	case d.Over != "":
		text = "ratio of " + text + " to the first"
	}
	a := FigureAxis(cmp.Or(d.Labels["y"], text), d.ys[0].unit)
	values := heights(p)
	switch {
	case d.Ideal == "x" && d.axis.Scale != figure.Category: // so that the ideal is the diagonal
		a.Scale = d.axis.Scale
	case d.YScale == "log" || d.YScale == "" && d.Kind != "stack" && a.Unit != figure.Percent && spansWide(values):
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

// maxTitle is the longest list of coordinates in a title, in bytes. It fits into the two lines of a figure's title.
const maxTitle = 100

// title names the bench and the coordinates that are the same for all dots. If these are too many, the rest is counted.
func title(name string, dots []dot, coords, shown []dataset.Coord) string {
	rows := rowsOf(dots)
	if len(rows) == 0 {
		return name
	}
	var words []string
	for _, c := range coords {
		v := c.Of(rows[0])
		switch {
		case c.Varies(rows) || slices.Contains(shown, c):
		case c.Is(dataset.Bench):
			name = v.Text()
		case c.Is(dataset.Kind):
			if v.Text() != string(journal.Measured) && v.Has {
				words = append(words, v.Text())
			}
		case c.Class == dataset.Option: // usually the bench's defaults
		case c.Circumstance() || c.Is(dataset.Run, dataset.Build):
		case v.Has:
			words = append(words, c.Label(v))
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
func (d *drawing) note(left omissions) string {
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
	if len(d.added) > 0 && !d.declared() {
		notes = append(notes, "also separated by "+strings.Join(dataset.Names(d.added), ", ")+
			", which would otherwise be mixed")
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
	if left.noX > 0 && !d.declared() {
		out = append(out, fmt.Sprintf("%d without %s", left.noX, d.x.name))
	}
	if left.noY > 0 && !d.declared() {
		out = append(out, fmt.Sprintf("%d without %s", left.noY, strings.Join(d.Y, ", ")))
	}
	if len(out) > 0 {
		notes = append(notes, "rows left out: "+strings.Join(out, ", "))
	}
	return strings.Join(notes, "; ")
}
