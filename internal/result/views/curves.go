package views

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"
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
func (p Plot) Figure(h *journal.Header, rows []journal.Row) (figure.Figure, error) {
	p.Y = cmp.Or(p.Y, Time)
	fig, err := p.figure(h, rows)
	if err != nil {
		return figure.Figure{}, fmt.Errorf("plot %s: %w", p, err)
	}
	fig.AddCaption(machines(rows))
	return fig, nil
}

// machines returns a caption that names the machine of each backend if rows of different kinds, such as
// simulated and measured ones, are shown together. Their curves belong to different machines.
func machines(rows []journal.Row) string {
	good := dataset.Good(rows)
	if len(dataset.GroupBy(good, func(r *journal.Row) journal.Kind { return r.Kind })) < 2 {
		return ""
	}
	words := lists.Map(good, func(r *journal.Row) string { return r.Backend + ": " + machineOf(r) })
	return strings.Join(lists.Distinct(words), "; ") + "."
}

// figure resolves the names of the plot and lays out its panels.
func (p Plot) figure(h *journal.Header, rows []journal.Row) (fig figure.Figure, err error) {
	if h == nil {
		h = &journal.Header{}
	}
	coords := coordsOf(h, rows)
	x, err := findCoord(coords, p.X)
	if err != nil {
		return fig, fmt.Errorf("x: %w", err)
	}
	var by []coord
	for _, name := range p.By {
		c, err := findCoord(coords, name)
		switch {
		case err != nil:
			return fig, fmt.Errorf("by: %w", err)
		case c == x:
			return fig, fmt.Errorf("%s is both x and by", name)
		case !slices.Contains(by, c):
			by = append(by, c)
		}
	}
	y, err := quantityOf(h, rows, p.Y)
	if err != nil {
		return fig, fmt.Errorf("y: %w", err)
	}
	dots, left := collect(rows, x, y)
	all := separate(dots, x, by, coords)
	panels, within, err := layOut(dots, all)
	if err != nil {
		return fig, err
	}
	d := drawing{x: x, y: y, by: within, axis: newXAxis(x, dots)}
	fig.Panels = lists.Map(panels, d.panel)
	commonScale(fig.Panels)
	fig.Name = p.stem()
	fig.Title = title(h, dots, coords, append([]coord{x}, all...))
	if note := d.note(left, all[len(by):]); len(fig.Panels) == 1 {
		fig.Panels[0].Note = note
	} else {
		if note != "" {
			note += "; "
		}
		fig.Caption = note + "each panel has a scale of its own"
		fig.Columns = 2 // three panels side by side would be small on a page
	}
	return fig, nil
}

// dot is one row of a plot.
type dot struct {
	row          *journal.Row
	x            value
	y, low, high float64
	failed       bool // it has no value, so the curve has a gap
}

// omissions counts the rows that a plot does not show.
type omissions struct {
	byStatus map[journal.Status]int
	noX, noY int
}

// collect returns dots for the rows that have x and y, and for the failed rows that have x. It counts all
// other rows. If no dot has a value, it returns no dots.
func collect(rows []journal.Row, x coord, y quantity) (dots []dot, left omissions) {
	left.byStatus = map[journal.Status]int{}
	for i := range rows {
		d := dot{row: &rows[i], x: x.value(&rows[i])}
		var ok bool
		d.y, d.low, d.high, ok = y.value(d.row)
		switch {
		case d.row.Status.Bad() && d.x.has:
			d.failed = true
			dots = append(dots, d)
			left.byStatus[d.row.Status]++
		case d.row.Status != journal.OK:
			left.byStatus[d.row.Status]++
		case !d.x.has:
			left.noX++
		case !ok:
			left.noY++
		default:
			dots = append(dots, d)
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

// separate adds coordinates to by until rows with the same x in one series differ only in their trial and
// their machine (which the run determines). It does not add a coordinate that changes together with another
// one (zipped axes).
func separate(dots []dot, x coord, by []coord, coords []coord) []coord {
	by = slices.Clip(by)
	for _, c := range coords {
		if c == x || slices.Contains(by, c) || c.is(trialField, machineField) {
			continue
		}
		first := map[string]string{} // first value of c, by series and x
		for _, d := range dots {
			at, v := key(d.row, append(slices.Clip(by), x)), c.value(d.row).id()
			if old, seen := first[at]; seen && old != v {
				by = append(by, c)
				break
			}
			first[at] = v
		}
	}
	return by
}

// key identifies a row by its values at the coordinates.
func key(r *journal.Row, coords []coord) string {
	var b strings.Builder
	for _, c := range coords {
		fmt.Fprintf(&b, "%q ", c.value(r).id())
	}
	return b.String()
}

// layOut returns the panels, and the coordinates that separate series within a panel. If there are too many
// series for one panel, one coordinate separates panels instead.
func layOut(dots []dot, by []coord) (panels []panelDots, within []coord, err error) {
	total := countSeries(dots, by)
	if total <= maxSeries {
		return []panelDots{{dots: dots}}, by, nil
	}
	// The user wants to compare the values of the first coordinates in one panel, so try the last one first.
	for i, c := range slices.Backward(by) {
		within = slices.Delete(slices.Clone(by), i, i+1)
		panels = slices.DeleteFunc(split(dots, c), func(p panelDots) bool { return !anyGood(p.dots) })
		largest := 0
		for _, p := range panels {
			largest = max(largest, countSeries(p.dots, within))
		}
		if len(panels) <= maxPanels && largest <= maxSeries {
			return panels, within, nil
		}
	}
	return nil, nil, fmt.Errorf("%d series, one for each %s that occurs, are too many to tell apart (at most %d in a "+
		"panel, %d panels): plot fewer rows, or put the one with most values on x",
		total, strings.Join(namesOf(by), ", "), maxSeries, maxPanels)
}

// panelDots are the dots of one panel or series.
type panelDots struct {
	title string
	dots  []dot
}

// countSeries counts the series that have a value.
func countSeries(dots []dot, by []coord) int {
	seen := map[string]bool{}
	for _, d := range dots {
		if !d.failed {
			seen[key(d.row, by)] = true
		}
	}
	return len(seen)
}

// split groups the dots by the values of one coordinate, in the order of the values.
func split(dots []dot, c coord) []panelDots {
	values := make([]value, len(dots))
	groups := map[string][]dot{}
	for i, d := range dots {
		values[i] = c.value(d.row)
		groups[values[i].id()] = append(groups[values[i].id()], d)
	}
	var out []panelDots
	for _, v := range ordered(values) {
		name := cmp.Or(c.label(v), "no "+c.name)
		out = append(out, panelDots{name, groups[v.id()]})
	}
	return out
}

// seriesOf splits the dots by all coordinates. The first coordinate changes slowest.
func seriesOf(dots []dot, by []coord) []panelDots {
	out := []panelDots{{dots: dots}}
	for _, c := range by {
		var finer []panelDots
		for _, s := range out {
			for _, part := range split(s.dots, c) {
				part.title = strings.TrimSpace(s.title + " " + part.title)
				finer = append(finer, part)
			}
		}
		out = finer
	}
	return out
}

// counting returns the dots at one x that dataset.Set.Counting selects: the undisturbed ones, if there are any.
func counting(dots []dot) []dot {
	rows := dataset.Set(lists.Map(dots, func(d dot) *journal.Row { return d.row })).Counting()
	return lists.Filter(dots, func(d dot) bool { return slices.Contains(rows, d.row) })
}

// merge returns one point for the dots at one x: a single row with its confidence interval, or the median of
// several trials with their range. If there are no dots, all rows at this x have failed.
func merge(at float64, dots []dot) figure.Point {
	if len(dots) == 0 {
		return figure.Point{X: at, Y: math.NaN(), Failed: true}
	}
	hollow := !slices.ContainsFunc(dots, func(d dot) bool { return d.row.Disturbed() == "" })
	if len(dots) == 1 {
		return figure.Point{X: at, Y: dots[0].y, Low: dots[0].low, High: dots[0].high, Hollow: hollow}
	}
	// Ignore the warning: it is about the confidence interval, which is not drawn.
	s, _ := stats.Summarize(lists.Map(dots, func(d dot) float64 { return d.y }))
	return figure.Point{X: at, Y: s.P50, Low: s.Min, High: s.Max, Hollow: hollow}
}
