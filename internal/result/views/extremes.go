package views

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/judge"
)

// Extremes returns a sentence about the smallest and the largest value of the dataset.TimeMetric metric and their
// points. The value of a point is the median over its launches; the sentence also has their range. Only
// points with a settled launch are considered.
//
// The sentence says "not resolved" in two cases. If points have few launches, the difference may be due to
// launches, which often differ by more than samples do. If the launches do not show that the points differ
// at all, the fastest of many equal points is only lucky. For computed values, one launch is enough.
func Extremes(h *journal.Header, rows dataset.Set) string {
	y, ok := mainMetric(h, rows)
	if !ok {
		return ""
	}
	settled, sure := settledRows(y, rows)
	points, few, single := launchedPoints(y, settled)
	const unresolved = "The fastest and the slowest point are not resolved: "
	switch {
	case len(points)+few < 2:
		return ""
	case single > 0:
		return fmt.Sprintf(unresolved+"%s one settled launch, which does not show "+
			"how launches differ (--trials 4 does).", unit.Counted(single, "point has", "points have"))
	case few > 0:
		return fmt.Sprintf(unresolved+"%s fewer than %d settled launches, which do not show how launches differ "+
			"(--trials %d do).", unit.Counted(few, "point has", "points have"), judge.MinLaunches, judge.AdvisedLaunches)
	}
	lowest, highest := slices.MinFunc(points, launched.compare), slices.MaxFunc(points, launched.compare)
	switch p := chance(points); {
	case lowest.computed && highest.computed && lowest.value == highest.value:
		return fmt.Sprintf("All points have the same %s, %s.", y.name, MetricText(lowest.value, y.unit))
	case lowest.overlaps(highest):
		return fmt.Sprintf(unresolved+"the launches of all points overlap (%s to %s).", MetricText(lowest.low, y.unit),
			MetricText(highest.high, y.unit))
	case p > maxChance:
		return fmt.Sprintf(unresolved+"equal points would differ as much with a probability of %s %% (Kruskal-Wallis test).",
			unit.FormatSig(100*p, 2))
	}
	good := lists.Map(points, func(p launched) *journal.Row { return p.row })
	coords := slices.DeleteFunc(rows.Coords(h), func(c dataset.Coord) bool {
		return !c.Varies(good) || c.Circumstance()
	})
	at := func(p launched) (number, where string) {
		words := lists.NonEmpty(lists.Map(coords, func(c dataset.Coord) string { return c.Label(c.Of(p.row)) })...)
		if len(words) > 0 {
			where = " at " + strings.Join(words, " ")
		}
		tied := func(other launched) bool { return other.row != p.row && other.overlaps(p) }
		switch n := len(lists.Filter(points, tied)); {
		case n > 0 && p.computed:
			where += "; " + unit.Counted(n, "other point has", "other points have") + " the same value"
		case n > 0:
			where += fmt.Sprintf("; %s within the spread of its launches", unit.Counted(n, "other point is", "other points are"))
		}
		return MetricText(p.value, y.unit) + p.between(y.unit), where
	}
	lowText, lowAt := at(lowest)
	highText, highAt := at(highest)
	text := fmt.Sprintf("The smallest %s is %s%s. The largest is %s%s.", y.name, lowText, lowAt, highText, highAt)
	if y.name == dataset.TimeMetric {
		text = fmt.Sprintf("The fastest took %s%s. The slowest took %s%s.", lowText, lowAt, highText, highAt)
	}
	if !sure {
		text += " This is only an indication, because no row has an interval."
	}
	return text
}

// maxChance is the largest probability of a ranking that is only due to chance.
const maxChance = 0.05

// chance returns the probability that equal points differ as much as these (the p value of the Kruskal-Wallis
// test). It is 0 if values are computed. It is also 0 if a point is a single row of many launches: then the
// interval of that row shows how much its launches differ.
func chance(points []launched) float64 {
	groups := lists.Map(points, func(p launched) []float64 { return p.values })
	if slices.ContainsFunc(groups, func(values []float64) bool { return len(values) < 2 }) {
		return 0
	}
	return stats.KruskalWallis(groups)
}

// settledRows returns the undisturbed ok rows of the points whose value can be trusted: it was computed, or a
// launch has a narrow confidence interval. The other launches of such a point count too, because leaving out
// the wide ones would favour one of two modes. If no row has an interval, it returns all undisturbed rows, and
// sure is false.
func settledRows(y quantity, rows dataset.Set) (out dataset.Set, sure bool) {
	settled, intervals := map[string]bool{}, false
	undisturbed := rows.Good().Where(func(r *journal.Row) bool {
		v, low, high, has := y.value(r)
		interval := low != 0 || high != 0
		intervals = intervals || has && interval
		if !has || r.Disturbed() {
			return false
		}
		if r.Kind == journal.Simulated || r.Kind == journal.Modelled || interval && journal.Narrow(low, high, v) {
			settled[dataset.Key(r)] = true
		}
		return true
	})
	if !intervals && len(settled) == 0 {
		return undisturbed, false
	}
	return undisturbed.Where(func(r *journal.Row) bool { return settled[dataset.Key(r)] }), true
}

// launched is a point with several launches, or with a computed value.
type launched struct {
	row       *journal.Row // merged over its launches
	computed  bool         // simulated or modelled
	launches  int
	values    []float64 // value of each row; a row may have several launches
	value     float64   // median over the rows
	low, high float64   // range of the values, or confidence interval of a single row
}

func (p launched) compare(other launched) int { return cmp.Compare(p.value, other.value) }

// overlaps reports whether the ranges of two points overlap. The range of a computed value is the value itself.
func (p launched) overlaps(other launched) bool { return p.low <= other.high && other.low <= p.high }

// between returns the range of the launches in parentheses, or "" for a computed value.
func (p launched) between(u string) string {
	switch {
	case p.computed:
		return ""
	case len(p.values) == 1:
		return fmt.Sprintf(" (%d launches, 95 %% interval from %s to %s)", p.launches, MetricText(p.low, u),
			MetricText(p.high, u))
	}
	return fmt.Sprintf(" (%d launches from %s to %s)", len(p.values), MetricText(p.low, u), MetricText(p.high, u))
}

// launchedPoints returns the points that have a computed value, or enough launches to show how much launches differ.
// few is the number of the other points, and single the number of points among them that have only one launch.
func launchedPoints(y quantity, rows dataset.Set) (points []launched, few, single int) {
	for _, trials := range rows.Points() {
		first := trials[0]
		p := launched{computed: first.Kind == journal.Simulated || first.Kind == journal.Modelled,
			launches: len(trials) * dataset.Launches(first)}
		p.row = trials.Merge()
		p.values = lists.Map(trials, func(r *journal.Row) float64 { v, _, _, _ := y.value(r); return v })
		p.value, p.low, p.high, _ = y.value(p.row)
		switch {
		case p.computed:
			p.low, p.high = slices.Min(p.values), slices.Max(p.values)
		case p.launches < judge.MinLaunches:
			few++
			if p.launches == 1 {
				single++
			}
			continue
		case len(p.values) > 1:
			p.low, p.high = slices.Min(p.values), slices.Max(p.values)
		}
		points = append(points, p)
	}
	return points, few, single
}
