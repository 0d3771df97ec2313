package dataset

import (
	"maps"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// TimeMetric is the time of a call that the harness measures.
const TimeMetric = "time_us"

// MainMetric returns the metric that answers "how fast" for a run: the one that its bench declares as the main one;
// else the time of a call; else the only metric that is a time; else the first declared metric. Only metrics that some
// row has count. Metrics that no bench declares come last, in alphabetical order. Every view and every verdict uses
// this metric unless the user names another one. ok is false if no row has a metric. h may be nil.
func MainMetric(h *journal.Header, rows Set) (main journal.MetricInfo, ok bool) {
	return Main(rows.Metrics(h))
}

// Main returns the main metric of declared metrics, as MainMetric does. ok is false if there is none.
func Main(found []journal.MetricInfo) (main journal.MetricInfo, ok bool) {
	if len(found) == 0 {
		return main, false
	}
	if main, ok = lists.First(found, func(m journal.MetricInfo) bool { return m.Main }); ok {
		return main, true
	}
	if main, ok = lists.First(found, func(m journal.MetricInfo) bool { return m.Name == TimeMetric }); ok {
		return main, true
	}
	if times := lists.Filter(found, isTime); len(times) == 1 {
		return times[0], true
	}
	return found[0], true
}

// isTime reports whether the unit of a metric is a unit of time.
func isTime(m journal.MetricInfo) bool {
	_, ok := unit.Conversion(m.Unit, "us")
	return ok
}

// Metrics returns the metrics of the rows: first the declared ones in their order, then the others by name. Times have
// a direction even if none is declared.
func (s Set) Metrics(h *journal.Header) []journal.MetricInfo {
	units := map[string]string{}
	for _, r := range s {
		for name := range r.Metrics {
			if _, seen := units[name]; !seen || units[name] == "" {
				units[name] = r.Units[name]
			}
		}
	}
	var out []journal.MetricInfo
	if h != nil {
		out = lists.Filter(slices.Clone(h.Metrics), func(m journal.MetricInfo) bool { _, has := units[m.Name]; return has })
	}
	for _, m := range out {
		delete(units, m.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(units)) {
		out = append(out, journal.MetricInfo{Name: name, Unit: units[name]})
	}
	for i := range out {
		if out[i].Name == TimeMetric {
			out[i].Unit, out[i].Better = "us", "lower"
		}
	}
	return out
}
