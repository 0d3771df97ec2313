package dataset

import (
	"maps"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Counting returns the trials of a point whose numbers are used: the undisturbed ok trials or, if all
// were disturbed, all ok trials.
func (s Set) Counting() Set {
	if len(s) == 1 && s[0].Status == journal.OK { // a shortcut for most points of a large run
		return s
	}
	good := s.Good()
	if calm := good.Undisturbed(); len(calm) > 0 {
		return calm
	}
	return good
}

// Good returns the rows with status ok.
func (s Set) Good() Set {
	return s.Where(func(r *journal.Row) bool { return r.Status == journal.OK })
}

// Undisturbed returns the rows that nothing is known to have disturbed.
func (s Set) Undisturbed() Set {
	return s.Where(func(r *journal.Row) bool { return r.Quality != journal.QualityDisturbed })
}

// Values returns a metric of the rows that have it.
func (s Set) Values(metric string) (values []float64) {
	for _, r := range s {
		if v, has := r.Metrics[metric]; has {
			values = append(values, v)
		}
	}
	return values
}

// Median returns the median of a metric over the counting trials of a point, or 0 if none has it.
func (s Set) Median(metric string) float64 { return MedianOf(s.Counting(), metric) }

// MedianOf returns the median of a metric over the rows that have it, or 0 if none has it. For a bandwidth it returns
// the median of the bytes over the median time, so that bandwidth and time agree. (The median of two bandwidths, for
// example, does not correspond to the median of the two times.)
func MedianOf(s Set, metric string) float64 {
	if metric == "algbw" || metric == "busbw" {
		var times, bytes []float64
		values := s.Values(metric)
		for _, r := range s {
			v, has := r.Metrics[metric]
			if us := r.Metrics[TimeMetric]; has && us > 0 {
				times, bytes = append(times, us), append(bytes, v*us)
			}
		}
		if len(times) == len(values) && len(times) > 0 {
			return stats.Median(bytes) / stats.Median(times)
		}
	}
	v, _ := MedianBy(s, func(r *journal.Row) (float64, bool) { v, has := r.Metrics[metric]; return v, has })
	return v
}

// MedianBy returns the median of a number over the rows that have it, and whether any has it.
func MedianBy(s Set, number func(*journal.Row) (float64, bool)) (median float64, has bool) {
	var values []float64
	for _, r := range s {
		if v, has := number(r); has {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return 0, false
	}
	return stats.Median(values), true
}

// Launches returns from how many launches the value of a row was computed. This is the number of samples for a
// program that was launched repeatedly until its time was precise, and one otherwise.
func Launches(r *journal.Row) int {
	if s := r.Sampling; r.Clock == "program" && s != nil && s.MaxSamples > 1 {
		return max(1, r.Samples)
	}
	return 1
}

// Points groups the rows by point, which Key identifies. The rows of a group are its trials.
func (s Set) Points() []Set {
	points := lists.GroupBy(s, func(r *journal.Row) string { return Key(r) })
	return lists.Map(points, func(g lists.Group[string, Set]) Set { return g.Items })
}

// MergeTrials returns one row for each point: the median of every metric over the counting trials, with the range of
// the trials as its spread. Points with one trial, or with no ok trial, keep their first row. The result may be the
// set itself.
func (s Set) MergeTrials() Set {
	points := s.Points()
	if len(points) == len(s) {
		return s
	}
	return lists.Map(points, Set.Merge)
}

// Merge returns one row for rows that are all trials of one point. Its statistics describe the spread
// between trials: the interval and the upper percentiles are the ends of their range.
func (s Set) Merge() *journal.Row {
	good := s.Counting()
	if len(good) == 0 {
		return s[0]
	}
	if len(good) == 1 {
		return good[0]
	}
	merged := *good[0]
	metrics, units := map[string]float64{}, map[string]string{}
	for _, r := range slices.Backward(good) { // a metric may be missing in some trials
		maps.Copy(metrics, r.Metrics)
		maps.Copy(units, r.Units)
	}
	merged.Metrics, merged.Units = metrics, units
	spreads := map[string]journal.Stat{}
	for name := range merged.Metrics {
		values := good.Values(name)
		slices.Sort(values)
		low, mid, high, mean := values[0], good.Median(name), values[len(values)-1], 0.0
		for _, v := range values {
			mean += v / float64(len(values))
		}
		merged.Metrics[name] = mid
		spreads[name] = journal.Stat{Min: low, P50: mid, P90: high, P99: high, Max: high, Mean: mean, CILow: &low,
			CIHigh: &high}
	}
	merged.Stats = journal.NewObject(spreads)
	return &merged
}
