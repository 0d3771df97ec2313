package views

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

const (
	// maxSeries is the largest number of series that a reader can tell apart in a panel.
	maxSeries = 12
	// maxPanels is the largest number of panels in a figure. More would be too small.
	maxPanels = 6
)

// Figure returns the figure that the plot asks for. Rows that are not ok, or that have no x or y, are left
// out and counted in a note. Values of different points are never mixed in one curve: a coordinate that
// varies but is not in By also separates series, and a note says so. If there are too many series, the
// figure has several panels, or Figure returns an error.
func (p Plot) Figure(h *journal.Header, rows dataset.Set) (figure.Figure, error) {
	d, dots, left, err := p.resolve(h, rows)
	if err != nil {
		return figure.Figure{}, fmt.Errorf("plot %s: %w", d.Plot, err)
	}
	fig, err := d.figure(dots, left)
	if err != nil {
		return figure.Figure{}, fmt.Errorf("plot %s: %w", d.Plot, err)
	}
	fig.AddCaption(machines(rowsOf(dots)))
	return fig, nil
}

// machines returns a caption that names the machine of each backend if rows of different kinds, such as
// simulated and measured ones, are shown together. Their curves belong to different machines.
func machines(rows dataset.Set) string {
	good := rows.Where(func(r *journal.Row) bool { return r.Status == journal.OK })
	if len(lists.GroupBy(good, func(r *journal.Row) journal.Kind { return r.Kind })) < 2 {
		return ""
	}
	words := lists.Map(good, func(r *journal.Row) string { return r.Backend + ": " + machine.Of(r).Text() })
	return strings.Join(lists.Distinct(words), "; ") + "."
}

// declared reports whether a bench declares the plot. The text of its figure is then in words.
func (p Plot) declared() bool { return p.Name != "" }

// resolve finds the coordinates and metrics of the plot, and their values in the rows.
func (p Plot) resolve(h *journal.Header, rows dataset.Set) (d drawing, dots []dot, left omissions, err error) {
	if h == nil {
		h = &journal.Header{}
	}
	all := rows
	if p.Where != "" {
		if all, err = all.Select(p.Where); err != nil && !p.declared() {
			return d, nil, left, fmt.Errorf("where: %w", err)
		} // rows of a bench may lack a name that it declares
	}
	if all, err = p.pick(h, all); err != nil {
		return d, nil, left, err
	}
	if main, has := mainMetric(h, all); len(p.Y) == 0 {
		if p.Y = []string{dataset.TimeMetric}; has {
			p.Y = []string{main.name}
		}
	}
	d = drawing{Plot: p, bench: h.Bench, coords: all.Coords(h)}
	if d.x, err = p.abscissa(h, all, d.coords); err != nil {
		return d, nil, left, fmt.Errorf("x: %w", err)
	}
	if d.by, err = p.separators(d.coords, d.x); err != nil {
		return d, nil, left, fmt.Errorf("by: %w", err)
	}
	if d.ys, err = p.quantities(h, all); err != nil {
		return d, nil, left, fmt.Errorf("y: %w", err)
	}
	if p.Kind == "stack" || p.Kind == "bars" && p.Share != "" || p.X == Points { // parts that are nowhere leave gaps
		some := lists.Filter(d.ys, func(q quantity) bool { return slices.ContainsFunc(all, q.counts(d.ys)) })
		if len(some) > 0 {
			d.ys = some
		}
	}
	dots, left = collect(all, d.x, d.ys)
	asked := len(d.by)
	d.by = separate(dots, d.x, d.by, d.coords)
	d.added, d.axis = d.by[asked:], p.newXAxis(d.x, dots)
	return d, dots, left, nil
}

// pick returns the rows with the first and last values of the coordinates that the plot names.
func (p Plot) pick(h *journal.Header, rows dataset.Set) (dataset.Set, error) {
	coords := rows.Coords(h)
	for i, name := range slices.Concat(p.First, p.Last) {
		c, err := dataset.FindCoord(coords, name)
		values := c.Values(rows.Good())
		if err != nil || len(values) == 0 {
			return nil, err
		}
		wanted := values[0].ID()
		if i >= len(p.First) {
			wanted = values[len(values)-1].ID()
		}
		rows = rows.Where(func(r *journal.Row) bool { return c.Of(r).ID() == wanted })
	}
	return rows, nil
}

// figure lays out the panels.
func (d *drawing) figure(dots []dot, left omissions) (fig figure.Figure, err error) {
	all := d.by
	panels, err := d.layOut(dots, all)
	if err != nil {
		return fig, err
	}
	fig.Panels = lists.Map(panels, d.panel)
	commonScale(fig.Panels)
	commonColors(fig.Panels)
	fig.Name, fig.Title = d.stem(), title(d.bench, dots, d.coords, append([]dataset.Coord{d.x.coord}, all...))
	if d.declared() {
		fig.Name, fig.Title, fig.Caption = d.Name, expand(d.Title, rowsOf(dots)), expand(d.Caption, rowsOf(dots))
	}
	d.addNote(&fig, left)
	return fig, nil
}

// addNote adds the note about error bars, markers and omitted rows.
func (d *drawing) addNote(fig *figure.Figure, left omissions) {
	fig.Columns, _ = strconv.Atoi(d.Columns)
	note := d.note(left)
	switch {
	case len(fig.Panels) == 1:
		fig.Panels[0].Note = note
	case d.declared():
		if note != "" {
			fig.AddCaption(strings.ToUpper(note[:1]) + note[1:] + ".")
		}
	default:
		if note != "" {
			note += "; "
		}
		fig.Caption = note + "each panel has a scale of its own"
		fig.Columns = 2 // three panels side by side would be small on a page
	}
}

// abscissa is the x of a plot.
type abscissa struct {
	name  string
	coord dataset.Coord // the zero coord if x is a metric, or Points
	value func(*journal.Row) dataset.Value
}

// abscissa resolves the x of the plot: a coordinate, Points, or else a metric.
func (p Plot) abscissa(h *journal.Header, rows dataset.Set, coords []dataset.Coord) (abscissa, error) {
	c, err := dataset.FindCoord(coords, p.X)
	if err == nil {
		return abscissa{c.Name, c, c.Of}, nil
	}
	if p.X == Points {
		name := p.pointName(rows.Good(), coords, p.label(Points))
		return abscissa{name: Points, value: func(r *journal.Row) dataset.Value {
			return dataset.Value{Point: point.StringValue(name(r)), Has: true}
		}}, nil
	}
	q, unknown := quantityOf(h, rows, p.X)
	if p.X == "" || unknown != nil || len(q.in(rows)) == 0 {
		return abscissa{}, err
	}
	return abscissa{name: q.name, value: func(r *journal.Row) dataset.Value {
		v, _, _, has := q.value(r)
		if p.Units["x"] == string(figure.Bytes) {
			return dataset.Value{Point: point.BytesValue(int64(v)), Has: has}
		}
		return dataset.Value{Point: point.FloatValue(v), Has: has}
	}}, nil
}

// separators resolves the coordinates that separate panels and series.
func (p Plot) separators(coords []dataset.Coord, x abscissa) (by []dataset.Coord, err error) {
	for _, name := range slices.Concat(p.Panel, p.By) {
		c, err := dataset.FindCoord(coords, name)
		switch {
		case err != nil:
			return nil, err
		case c == x.coord:
			return nil, fmt.Errorf("%s is both x and by", name)
		case !slices.Contains(by, c):
			by = append(by, c)
		}
	}
	return by, nil
}

// quantities resolves the metrics of the plot.
func (p Plot) quantities(h *journal.Header, rows dataset.Set) ([]quantity, error) {
	names := p.Y
	if p.X == Points { // rows of a bench may lack a metric that it declares
		known := lists.Filter(names, func(name string) bool { _, err := quantityOf(h, rows, name); return err == nil })
		if len(known) > 0 {
			names = known
		}
	}
	return lists.TryMap(names, func(name string) (quantity, error) {
		q, err := quantityOf(h, rows, name)
		if p.Share != "" {
			whole := quantity{metric: p.Share}
			q.factors, q.unit = append(q.factors, factor{number: 100}, factor{over: true,
				of: func(r *journal.Row) (float64, bool) { v, _, _, has := whole.absolute(r); return v, has }}), "%"
		}
		if q.unit = cmp.Or(p.Units["y"], q.unit); p.Over != "" {
			q.unit = ""
		}
		return q, err
	})
}

// dot is one value of a row in a plot.
type dot struct {
	row          *journal.Row
	x            dataset.Value
	metric       int // index of the plot's metrics
	y, low, high float64
	failed       bool // it has no value, so the curve has a gap
}

// omissions counts the rows that a plot does not show.
type omissions struct {
	byStatus map[journal.Status]int
	noX, noY int
}

// collect returns dots for the rows that have x and some of the metrics, and for the failed rows that have x. It counts
// all other rows. If no dot has a value, it returns no dots.
func collect(rows dataset.Set, x abscissa, ys []quantity) (dots []dot, left omissions) {
	left.byStatus = map[journal.Status]int{}
	for _, r := range rows {
		d := dot{row: r, x: x.value(r)}
		if d.row.Status != journal.OK {
			left.byStatus[d.row.Status]++
		}
		switch d.failed = d.row.Status.Bad() && d.x.Has; {
		case !d.failed && d.row.Status != journal.OK:
			continue
		case !d.x.Has:
			left.noX++
			continue
		}
		before := len(dots)
		for k, q := range ys {
			var has bool
			d.metric = k
			if d.y, d.low, d.high, has = q.value(d.row); has || d.failed {
				dots = append(dots, d)
			}
		}
		if len(dots) == before {
			left.noY++
		}
	}
	if !anyGood(dots) {
		return nil, left
	}
	return dots, left
}

// anyGood reports whether any dot has a value. There is no curve of failures alone.
func anyGood(dots []dot) bool {
	return slices.ContainsFunc(dots, func(d dot) bool { return !d.failed })
}

func rowsOf(dots []dot) dataset.Set {
	return lists.Map(dots, func(d dot) *journal.Row { return d.row })
}

// separate adds coordinates to by until rows with the same x in one series differ only in their trial and
// their machine (which the run determines). It does not add a coordinate that changes together with another
// one (zipped axes).
func separate(dots []dot, x abscissa, by []dataset.Coord, coords []dataset.Coord) []dataset.Coord {
	by = slices.Clip(by)
	for _, c := range coords {
		if c == x.coord || slices.Contains(by, c) || c.Circumstance() {
			continue
		}
		first := map[string]string{} // first value of c, by series and x
		for _, d := range dots {
			at, v := identify(d.row, by)+d.x.ID(), c.Of(d.row).ID()
			if old, seen := first[at]; seen && old != v {
				by = append(by, c)
				break
			}
			first[at] = v
		}
	}
	return by
}

// identify identifies a row by its values at the coordinates.
func identify(r *journal.Row, coords []dataset.Coord) string {
	var b strings.Builder
	for _, c := range coords {
		fmt.Fprintf(&b, "%q ", c.Of(r).ID())
	}
	return b.String()
}

// layOut returns the panels, and sets the coordinates that separate series within a panel. If there are too many
// series for one panel, one coordinate separates panels instead. A bench that declares panels has chosen them.
func (d *drawing) layOut(dots []dot, by []dataset.Coord) (panels []panelDots, err error) {
	total := countSeries(dots, by)
	outer := len(d.Panel)
	if d.Kind == "stack" {
		outer = len(by) // two stacks cannot share a slot
	}
	if d.by = by[outer:]; outer > 0 {
		return lists.Map(d.split(dots, by[:outer]), func(p panelDots) panelDots {
			return panelDots{d.join(d.panelTitle(p.dots), p.title), p.dots}
		}), nil
	}
	if total <= maxSeries {
		return []panelDots{{title: d.panelTitle(dots), dots: dots}}, nil
	}
	// The user wants to compare the values of the first coordinates in one panel, so try the last one first.
	for i, c := range slices.Backward(by) {
		d.by = slices.Delete(slices.Clone(by), i, i+1)
		panels = slices.DeleteFunc(d.split(dots, []dataset.Coord{c}), func(p panelDots) bool { return !anyGood(p.dots) })
		largest := 0
		for _, p := range panels {
			largest = max(largest, countSeries(p.dots, d.by))
		}
		if len(panels) <= maxPanels && largest <= maxSeries {
			return panels, nil
		}
	}
	if d.by = by; d.declared() {
		return []panelDots{{title: d.panelTitle(dots), dots: dots}}, nil
	}
	return nil, fmt.Errorf("%d series, one for each %s that occurs, are too many to tell apart (at most %d in a "+
		"panel, %d panels): plot fewer rows, or put the one with most values on x",
		total, strings.Join(dataset.Names(by), ", "), maxSeries, maxPanels)
}

// panelTitle returns the declared title of a panel, with the values of its rows. {first} stands for a series.
func (d *drawing) panelTitle(dots []dot) string {
	const series = "{first}"
	before, after, has := strings.Cut(d.Labels["panel"], series)
	if has {
		return expand(before, rowsOf(dots)) + series + expand(after, rowsOf(dots))
	}
	return expand(before, rowsOf(dots))
}

// panelDots are the dots of one panel or series.
type panelDots struct {
	title string
	dots  []dot
}

// countSeries counts the series that have a value.
func countSeries(dots []dot, by []dataset.Coord) int {
	type series struct {
		of     string
		metric int
	}
	seen := map[series]bool{}
	for _, d := range dots {
		if !d.failed {
			seen[series{identify(d.row, by), d.metric}] = true
		}
	}
	return len(seen)
}

// bucket groups the dots by a value, in the order of the values.
func bucket(dots []dot, of func(dot) dataset.Value) (values []dataset.Value, groups map[string][]dot) {
	groups = map[string][]dot{}
	for _, d := range dots {
		v := of(d)
		values = append(values, v)
		groups[v.ID()] = append(groups[v.ID()], d)
	}
	return dataset.Ordered(values), groups
}

// split splits the dots by all coordinates. The first coordinate changes slowest.
func (d *drawing) split(dots []dot, by []dataset.Coord) []panelDots {
	out := []panelDots{{dots: dots}}
	for _, c := range by {
		var finer []panelDots
		for _, s := range out {
			values, groups := bucket(s.dots, func(d dot) dataset.Value { return c.Of(d.row) })
			names := lists.Map(values, func(v dataset.Value) string { return d.name(c, v) })
			for i, v := range values {
				text := names[i]
				same := lists.Filter(names, func(n string) bool { return n == text })
				if _, sha := v.Point.File(); sha != "" && len(same) > 1 { // a file before and after an edit
					text += fmt.Sprintf(" (%.8s)", sha)
				}
				finer = append(finer, panelDots{d.join(s.title, text), groups[v.ID()]})
			}
		}
		out = finer
	}
	return out
}

// splitSeries splits the dots of a panel into those of its series.
func (d *drawing) splitSeries(dots []dot) (out []panelDots) {
	for _, s := range d.split(dots, d.by) {
		if len(d.ys) == 1 {
			out = append(out, s)
			continue
		}
		for k, q := range d.ys {
			of := lists.Filter(s.dots, func(d dot) bool { return d.metric == k })
			out = append(out, panelDots{d.join(s.title, d.label(q.name)), of})
		}
	}
	return out
}

// join joins parts of the name of a series or panel.
func (p Plot) join(parts ...string) string {
	sep := " "
	if p.declared() {
		sep = ", "
	}
	return strings.Join(lists.NonEmpty(parts...), sep)
}

// name returns the part of the name of a series or panel that says which value it has at a coordinate.
func (p Plot) name(c dataset.Coord, v dataset.Value) string {
	if p.declared() {
		return p.words(c, v)
	}
	return cmp.Or(c.Label(v), "no "+c.Name)
}

// words names a value as people would: 8 ranks, bf16, inplace. It is "" if the row does not have the coordinate, and
// for false.
func (p Plot) words(c dataset.Coord, v dataset.Value) string {
	switch {
	case !v.Has:
		return ""
	case c.Is(dataset.NumRanks):
		return unit.Plural(int(v.Point.Int()), "rank")
	case v.Point.Kind() == point.Bool:
		if v.Point.Bool() {
			return p.label(c.Name)
		}
		return ""
	case strings.Contains(p.label(c.Name), "{}"):
		return strings.ReplaceAll(p.label(c.Name), "{}", v.Text())
	case v.Point.Kind().Numeric() || c.Class == dataset.Variable:
		return p.label(c.Name) + " " + v.Text()
	case v.Point.Kind() == point.String:
		file, sha := v.Point.File()
		if sha != "" {
			file = path.Base(file)
		}
		return cmp.Or(file, v.Text())
	}
	return v.Text()
}

// counting returns the dots at one x that dataset.Set.Counting selects: the undisturbed ones, if there are any.
func counting(dots []dot) []dot {
	rows := rowsOf(dots).Counting()
	return lists.Filter(dots, func(d dot) bool { return slices.Contains(rows, d.row) })
}

// merge returns one point for the dots at one x: a single row with its confidence interval, or the median of
// several trials with their range. If there are no dots, all rows at this x have failed.
func (d *drawing) merge(at float64, dots []dot) figure.Point {
	if len(dots) == 0 {
		return figure.Point{X: at, Y: math.NaN(), Failed: true}
	}
	hollow := !slices.ContainsFunc(dots, func(d dot) bool { return !d.row.Disturbed() })
	if len(dots) == 1 || derived(dots) {
		return figure.Point{X: at, Y: dots[0].y, Low: dots[0].low, High: dots[0].high, Hollow: hollow}
	}
	values := lists.Map(dots, func(d dot) float64 { return d.y })
	return figure.Point{X: at, Y: d.ys[dots[0].metric].median(rowsOf(dots)), Low: slices.Min(values),
		High: slices.Max(values), Hollow: hollow}
}
