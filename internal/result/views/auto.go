package views

import (
	"maps"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// AutoPlot chooses a default plot. X is the numeric coordinate with the most values, or else the text
// coordinate with the most values. Y is the main metric. By is everything else that varies. The
// result is false if nothing varies or no ok row has a metric.
func AutoPlot(h *journal.Header, rows dataset.Set) (Plot, bool) {
	all := rows
	y, ok := mainMetric(h, all)
	if !ok {
		return Plot{}, false
	}
	good := y.in(all)
	coords := all.Coords(h)
	best, mostValues, bestNum := dataset.Coord{}, 1, false
	for _, c := range coords {
		if c.Class == dataset.Field && !c.Is(dataset.NumRanks, dataset.Backend, dataset.Part) {
			continue
		}
		values := slices.DeleteFunc(c.Values(good), func(v dataset.Value) bool { return !v.Has })
		n, num := len(values), numeric(values)
		if n > 1 && (n > mostValues && num == bestNum || num && !bestNum) {
			best, mostValues, bestNum = c, n, num
		}
	}
	if mostValues < 2 {
		return Plot{}, false
	}
	x := abscissa{name: best.Name, coord: best, value: best.Of}
	dots, _ := collect(all, x, []quantity{y})
	p := Plot{X: best.Name, Y: []string{y.name}, By: dataset.Names(separate(dots, x, nil, coords))}
	// The legend must distinguish simulated curves from measured ones.
	kindVaries := slices.ContainsFunc(good, func(r *journal.Row) bool { return r.Kind != good[0].Kind })
	if kindVaries && p.X != dataset.Kind && !slices.Contains(p.By, dataset.Kind) { // an axis may have that name too
		p.By = append(p.By, dataset.Kind)
	}
	return p, true
}

// mainMetric returns the main metric of the ok rows.
func mainMetric(h *journal.Header, rows dataset.Set) (quantity, bool) {
	main, ok := dataset.MainMetric(h, rows.Good())
	return quantity{name: main.Name, metric: main.Name, unit: main.Unit}, ok
}

// numeric reports whether all values that the rows have at the coordinate are numbers.
func numeric(values []dataset.Value) bool {
	return len(values) > 0 && !slices.ContainsFunc(values, func(v dataset.Value) bool { _, is := v.Number(); return !is })
}

// Names returns the names that a plot of the rows may use: coordinates with more than
// one value, and metrics.
func Names(h *journal.Header, rows dataset.Set) (coords, metrics []string) {
	if len(rows) > 0 {
		coords = dataset.Names(lists.Filter(rows.Coords(h), func(c dataset.Coord) bool {
			return !c.Is(dataset.Status) && c.Varies(rows)
		}))
	}
	var others []string
	for i := range rows {
		others = slices.AppendSeq(others, maps.Keys(rows[i].Metrics))
	}
	slices.Sort(others)
	metrics = lists.Map(h.Metrics, func(m journal.MetricInfo) string { return m.Name })
	return coords, lists.Distinct(append(metrics, others...))
}
