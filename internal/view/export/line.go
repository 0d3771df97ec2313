package export

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/texttab"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Line is one line of a table: the trials of one point, or one row.
type Line struct {
	Cells []string // as text, by column
	Rows  dataset.Set
}

// lines groups the rows by point in order of appearance. With perTrial each row is a line.
func lines(rows dataset.Set, perTrial bool) []Line {
	points := lists.Map(rows, func(r *journal.Row) dataset.Set { return dataset.Set{r} })
	if !perTrial {
		points = rows.Points()
	}
	return lists.Map(points, func(p dataset.Set) Line { return Line{Rows: p} })
}

// severity orders statuses: failures are more severe than results, and results than points that were not run.
var severity = map[journal.Status]int{journal.Skipped: 0, journal.NotExecuted: 1, journal.OK: 2, journal.Timeout: 3,
	journal.Failed: 4}

// Status returns the most severe status. A point is ok only if no trial failed.
func (l Line) Status() journal.Status { return worstOf(l.Rows).Status }

func worstOf(rows dataset.Set) *journal.Row {
	return slices.MaxFunc(rows, func(a, b *journal.Row) int { return severity[a.Status] - severity[b.Status] })
}

// status returns the worst status, with the number of such trials unless all trials have it.
func (l Line) status() string {
	worst := l.Status()
	n := l.Rows.Counts()[worst]
	if n == len(l.Rows) {
		return string(worst)
	}
	return fmt.Sprintf("%s %d/%d", worst, n, len(l.Rows))
}

// quality returns how many of the ok trials were disturbed, or "" if none was.
func (l Line) quality() string {
	good := len(l.Rows.Good())
	disturbed := good - len(l.Rows.Good().Undisturbed())
	switch disturbed {
	case 0:
		return ""
	case good:
		return string(journal.QualityDisturbed)
	}
	return fmt.Sprintf("%s %d/%d", journal.QualityDisturbed, disturbed, good)
}

// median returns the median of a metric over the trials that journal.Counting selects.
func (l Line) median(metric string) (float64, bool) {
	if len(l.Rows) == 1 { // a shortcut for most lines of a large table
		v, has := l.Rows[0].Metrics[metric]
		return v, has && l.Rows[0].Status == journal.OK
	}
	good := l.Rows.Counting()
	return good.Median(metric), len(good.Values(metric)) > 0
}

// spread returns half the width of a launch's 95 % interval in percent of its median. For several trials it
// is the median over the trials that count.
func (l Line) spread(metric string) string {
	v, ok := dataset.MedianBy(l.Rows.Counting(), func(r *journal.Row) (float64, bool) { return spreadOf(r, metric) })
	if !ok {
		return ""
	}
	return percentText(v)
}

// remarks returns where and why the point failed, then the conditions of all trials as footnotes. Two modes
// are left out if the table has a column for them.
func (l Line) remarks(modesShown bool, footnote func(journal.Condition) string) []string {
	var parts []string
	bad := lists.Filter(l.Rows, func(r *journal.Row) bool { return r.Status != journal.OK })
	if len(bad) > 0 {
		parts = lists.NonEmpty(texttab.Plain(worstOf(bad).Why()))
	}
	for _, r := range l.Rows {
		for _, c := range r.Conditions {
			if !modesShown || c.Code != journal.CodeModes {
				parts = append(parts, texttab.Plain(footnote(c)))
			}
		}
	}
	return lists.Distinct(parts)
}

// visible returns a value for a table, in which the empty text is shown as quotes.
func visible(s string) string {
	if s == "" {
		return `""`
	}
	return texttab.Plain(s)
}

// text returns the cell of a line in a table: numbers rounded, sizes shortened, control
// characters escaped.
func (c Column) text(l Line) string {
	r := l.Rows[0]
	switch c.Role {
	case Axis:
		return coordText(r.Point, c.Key)
	case Option:
		return coordText(r.Options, c.Key)
	case Env:
		if e, ok := r.Env.Get(c.Key); ok {
			return visible(e.Text())
		}
		return ""
	case Trial:
		if c.aggregate {
			return strconv.Itoa(len(l.Rows))
		}
	case Kind: // of numbers
		if !slices.ContainsFunc(l.Rows, func(r *journal.Row) bool { return r.Status == journal.OK }) {
			return ""
		}
	case Status:
		return l.status()
	case Quality:
		return l.quality()
	case Samples:
		n := 0
		for _, r := range l.Rows {
			n += r.Samples
		}
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	case Metric:
		v, ok := l.median(c.Key)
		if !ok {
			return ""
		}
		low, bounded := l.median(c.Key + "_low")
		high, both := l.median(c.Key + "_high")
		if c.interval && bounded && both {
			return unit.FormatInterval(v, low, high)
		}
		return c.number(l, v)
	case Quantile:
		v, ok := dataset.MedianBy(l.Rows.Counting(),
			func(r *journal.Row) (float64, bool) { return quantile(r, c.Key, c.Stat) })
		if !ok {
			return ""
		}
		return c.number(l, v)
	case Spread:
		return l.spread(c.Key)
	case Between:
		if s := c.lineLaunches(l); s.known {
			return percentText(s.spread)
		}
		return ""
	case Modes:
		return c.modes(l)
	case Limit:
		if v, ok := r.Limits[c.Key]; ok {
			return unit.FormatMetric(v)
		}
		return ""
	}
	return texttab.Plain(c.Value(r))
}
