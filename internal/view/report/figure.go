package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"

	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/rowset"
)

const (
	// maxSeries is how many series of one panel can still be told apart.
	maxSeries = 12
	// maxPanels is how many panels stand in one figure without shrinking it.
	maxPanels = 6
)

// Figure draws the rows as the plot asks. Rows that are not ok, or lack x or y,
// are left out and counted under the panel. A coordinate that varies but was
// not named is never mixed into one curve: it sets series apart, too, and a note
// says so. More series than can be told apart become panels, or an error.
func (p Plot) Figure(h *journal.Header, rows []journal.Row) (figure.Figure, error) {
	p.Y = cmp.Or(p.Y, headline)
	fig, err := p.figure(h, rows)
	if err != nil {
		return figure.Figure{}, fmt.Errorf("plot %s: %w", p, err)
	}
	fig.AddCaption(machines(rows))
	return fig, nil
}

// machines says on what the rows of each backend were made, where some are simulated and
// others measured: their curves are of different machines.
func machines(rows []journal.Row) string {
	good := rowset.Good(rows)
	if len(rowset.GroupBy(good, func(r *journal.Row) journal.Kind { return r.Kind })) < 2 {
		return ""
	}
	words := lists.Map(good, func(r *journal.Row) string { return r.Backend + ": " + machineOf(r) })
	return strings.Join(lists.Distinct(words), "; ") + "."
}

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
		fig.Columns = 2 // three abreast would be small on a page
	}
	return fig, nil
}

// dot is one row as a plot sees it.
type dot struct {
	row          *journal.Row
	x            value
	y, low, high float64
	failed       bool // a point without a value: its place is left free
}

// omissions counts the rows that a plot could not show.
type omissions struct {
	byStatus map[journal.Status]int
	noX, noY int
}

func collect(rows []journal.Row, x coord, y quantity) (dots []dot, left omissions) {
	left.byStatus = map[journal.Status]int{}
	for i := range rows {
		d := dot{row: &rows[i], x: x.of(&rows[i])}
		var ok bool
		d.y, d.low, d.high, ok = y.of(d.row)
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

// anyGood reports whether there is a value among the dots: failures alone make no curve.
func anyGood(dots []dot) bool {
	return slices.ContainsFunc(dots, func(d dot) bool { return !d.failed })
}

// separate returns by and the further coordinates that are needed so that no
// two rows of one series and x differ in anything but their trial, and the machine, which the
// run tells. One that
// moves along with x or another (a zip) adds nothing and is not returned.
func separate(dots []dot, x coord, by []coord, coords []coord) []coord {
	by = slices.Clip(by)
	for _, c := range coords {
		if c == x || slices.Contains(by, c) || c.class == fieldClass && (c.key == trialField || c.key == machineField) {
			continue
		}
		first := map[string]string{} // by series and x, the value of c
		for _, d := range dots {
			at, v := key(d.row, append(slices.Clip(by), x)), c.of(d.row).id()
			if old, seen := first[at]; seen && old != v {
				by = append(by, c)
				break
			}
			first[at] = v
		}
	}
	return by
}

// key is the identity of a row as far as the coordinates tell.
func key(r *journal.Row, coords []coord) string {
	var b strings.Builder
	for _, c := range coords {
		fmt.Fprintf(&b, "%q ", c.of(r).id())
	}
	return b.String()
}

// layOut decides which coordinates make series and whether one makes panels.
// Each panel comes with its title.
func layOut(dots []dot, by []coord) (panels []panelDots, within []coord, err error) {
	total := countSeries(dots, by)
	if total <= maxSeries {
		return []panelDots{{dots: dots}}, by, nil
	}
	// From the end: what was named first is what the reader wants to compare.
	for i, c := range slices.Backward(by) {
		within = slices.Delete(slices.Clone(by), i, i+1)
		panels = slices.DeleteFunc(split(dots, c), func(p panelDots) bool { return !anyGood(p.dots) })
		most := 0
		for _, p := range panels {
			most = max(most, countSeries(p.dots, within))
		}
		if len(panels) <= maxPanels && most <= maxSeries {
			return panels, within, nil
		}
	}
	names := lists.Map(by, func(c coord) string { return c.name })
	return nil, nil, fmt.Errorf("%d series, one for each %s that occurs, are too many to tell apart (at most %d in a "+
		"panel, %d panels): "+
		"plot fewer rows, or put the one with most values on x", total, strings.Join(names, ", "), maxSeries, maxPanels)
}

type panelDots struct {
	title string
	dots  []dot
}

func countSeries(dots []dot, by []coord) int {
	seen := map[string]bool{}
	for _, d := range dots {
		if !d.failed {
			seen[key(d.row, by)] = true
		}
	}
	return len(seen)
}

// split groups the dots by the values of one coordinate, in their order.
func split(dots []dot, c coord) []panelDots {
	values := make([]value, len(dots))
	groups := map[string][]dot{}
	for i, d := range dots {
		values[i] = c.of(d.row)
		groups[values[i].id()] = append(groups[values[i].id()], d)
	}
	var out []panelDots
	for _, v := range ordered(values) {
		name := cmp.Or(c.label(v), "no "+c.name)
		out = append(out, panelDots{name, groups[v.id()]})
	}
	return out
}

// seriesOf splits the dots by all the coordinates, the first one changing
// slowest.
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

// counting are the dots at one x whose values count.
func counting(dots []dot) []dot {
	rows := lists.Map(dots, func(d dot) *journal.Row { return d.row })
	rows = journal.Counting(rows)
	return slices.DeleteFunc(slices.Clone(dots), func(d dot) bool { return !slices.Contains(rows, d.row) })
}

// merge makes one point of the rows at one x that count: a single row with its interval,
// or the median of several trials with their range. Without any, all have failed.
func merge(at float64, dots []dot) figure.Point {
	if len(dots) == 0 {
		return figure.Point{X: at, Y: math.NaN(), Failed: true}
	}
	hollow := !slices.ContainsFunc(dots, func(d dot) bool { return d.row.Disturbed() == "" })
	if len(dots) == 1 {
		return figure.Point{X: at, Y: dots[0].y, Low: dots[0].low, High: dots[0].high, Hollow: hollow}
	}
	// its warning is about the interval, which is not drawn
	s, _ := stats.Summarize(lists.Map(dots, func(d dot) float64 { return d.y }))
	return figure.Point{X: at, Y: s.P50, Low: s.Min, High: s.Max, Hollow: hollow}
}
