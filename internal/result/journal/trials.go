package journal

import (
	"maps"
	"slices"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"
)

// Counting returns the trials of a point whose numbers are used: the undisturbed ok trials or, if all
// were disturbed, all ok trials. Rows of old journals have no quality and are used.
func Counting(trials []*Row) []*Row {
	if len(trials) == 1 && trials[0].Status == OK { // a shortcut for most points of a large run
		return slices.Clone(trials)
	}
	good := slices.DeleteFunc(slices.Clone(trials), func(r *Row) bool { return r.Status != OK })
	undisturbed := slices.DeleteFunc(slices.Clone(good), func(r *Row) bool { return r.Quality == QualityDisturbed })
	if len(undisturbed) > 0 {
		return undisturbed
	}
	return good
}

// Launches returns from how many launches a row's value was computed. This is the number of samples for a
// program that was launched repeatedly until its time was precise, and one otherwise.
func Launches(r *Row) int {
	if s := r.Sampling; r.Clock == "program" && s != nil && s.MaxSamples > 1 {
		return max(1, r.Samples)
	}
	return 1
}

// MergeTrials returns one row for each point: the median of every metric over the trials that Counting
// selects, with the range of the trials as its spread. Points with one trial, or with no ok trial, keep
// their first row. The result may be the given slice, so callers must clone it before they change or sort
// it.
func MergeTrials(rows []Row) []Row {
	all := make([]*Row, len(rows))
	for i := range rows {
		all[i] = &rows[i]
	}
	points := lists.GroupBy(all, func(r *Row) string { return r.Key })
	if len(points) == len(rows) {
		return slices.Clip(rows)
	}
	return lists.Map(points, func(g lists.Group[string, *Row]) Row { return mergeTrials(g.Items) })
}

// mergeTrials returns the row for all trials of one point. Its statistics describe the spread
// between trials: the interval and the upper percentiles are the ends of their range.
func mergeTrials(trials []*Row) Row {
	good := Counting(trials)
	if len(good) == 0 {
		return *trials[0]
	}
	merged := *good[0]
	if len(good) == 1 {
		return merged
	}
	metrics, units := map[string]float64{}, map[string]string{}
	for _, r := range slices.Backward(good) { // a metric may be missing in some trials
		maps.Copy(metrics, r.Metrics)
		maps.Copy(units, r.Units)
	}
	merged.Metrics, merged.Units = metrics, units
	spreads := map[string]Stat{}
	for name := range merged.Metrics {
		values := Values(good, name)
		slices.Sort(values)
		low, mid, high, mean := values[0], Median(good, name), values[len(values)-1], 0.0
		for _, v := range values {
			mean += v / float64(len(values))
		}
		merged.Metrics[name] = mid
		spreads[name] = Stat{Min: low, P50: mid, P90: high, P99: high, Max: high, Mean: mean, CILow: &low, CIHigh: &high}
	}
	merged.Stats = NewObject(spreads)
	return merged
}

// Values returns a metric of the rows that have it.
func Values(rows []*Row, metric string) (values []float64) {
	for _, r := range rows {
		if v, has := r.Metrics[metric]; has {
			values = append(values, v)
		}
	}
	return values
}

// Median returns the median of a metric over trials. At least one trial must have the metric. For a
// bandwidth it returns the bytes over the median time, so that bandwidth and time agree. (The median of
// two bandwidths, for example, does not correspond to the median of the two times.)
func Median(trials []*Row, metric string) float64 {
	var values, times, bytes []float64
	for i := range trials {
		v, has := trials[i].Metrics[metric]
		if !has {
			continue
		}
		values = append(values, v)
		if us := trials[i].Metrics["time_us"]; us > 0 {
			times, bytes = append(times, us), append(bytes, v*us)
		}
	}
	if (metric == "algbw" || metric == "busbw") && len(times) == len(values) {
		return stats.Median(bytes) / stats.Median(times)
	}
	return stats.Median(values)
}

// Durations returns how long the points of a bench took the last time, by Row.TaskKey. The duration is
// from the begin record to the first row.
func (j *Journal) Durations(bench string) map[string]time.Duration {
	took := map[string]time.Duration{}
	for _, r := range j.Runs {
		if r.Header.Bench != bench {
			continue
		}
		begun := map[pointTrial]time.Time{}
		for _, b := range r.Begun {
			begun[pointTrial{b.Key, b.Trial}] = b.Time
		}
		for i := range r.Rows {
			row := &r.Rows[i]
			id := pointTrial{row.TaskKey(), row.Trial}
			start, ok := begun[id]
			if d := row.Time.Sub(start); ok && d >= 0 && !row.Status.NotRun() {
				took[id.key] = d
				delete(begun, id)
			}
		}
	}
	return took
}
