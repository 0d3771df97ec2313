package run

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
)

const (
	// driftLevel is the probability of a note about drift if the machine does not drift (false alarm).
	driftLevel = 0.01
	// minTrialDrift is the smallest relative drift over trials that is reported. Package measure uses
	// the same threshold for drift within a launch.
	minTrialDrift = 0.05
)

// trialDrifts describes drift over the trials of a run: of all points together, or else of single points.
// Trials are interleaved, so drift does not favour any setting. But the numbers then describe a machine
// that changed during the run, which the user should know. Each row reports drift within its own launch.
func trialDrifts(rows []journal.Row) (notes []string) {
	var metric string
	good := map[string][]*journal.Row{} // by point
	var keys []string
	for i := range rows {
		r := &rows[i]
		name := headline(r)
		metric = cmp.Or(metric, name)
		if r.Status != journal.OK || r.Kind != journal.Measured || name != metric || !(r.Metrics[name] > 0) ||
			r.Disturbed() != "" {
			continue
		}
		key := dataset.Key(r)
		if good[key] == nil {
			keys = append(keys, key)
		}
		good[key] = append(good[key], r)
	}
	var all []launchValue
	byPoint := make([][]launchValue, len(keys))
	for i, key := range keys {
		logs := lists.Map(good[key], func(r *journal.Row) float64 { return math.Log(r.Metrics[metric]) })
		center := stats.Median(logs)
		for k, r := range good[key] {
			byPoint[i] = append(byPoint[i], launchValue{r.Launch, r.Time, logs[k] - center})
		}
		if len(logs) > 1 {
			all = append(all, byPoint[i]...)
		}
	}
	level := driftLevel / 2
	if len(keys) == 1 {
		level = driftLevel
	}
	if text := driftOf(all, level); text != "" {
		notes = append(notes, fmt.Sprintf("drift over trials: %s %s", metric, text))
	}
	if len(keys) == 1 || len(notes) > 0 {
		return notes
	}
	for i, key := range keys {
		if text := driftOf(byPoint[i], level/float64(len(keys))); text != "" {
			notes = append(notes, fmt.Sprintf("drift over trials: at %s, %s %s", dataset.Label(good[key][0]), metric, text))
		}
	}
	return notes
}

// launchValue is the logarithm of a metric in one launch, relative to the median of its point.
type launchValue struct {
	launch string
	at     time.Time
	log    float64
}

// driftOf compares the first half of the launches with the second, in the order in which they ended,
// and describes a significant difference. Points of one launch count once, by their mean.
func driftOf(values []launchValue, level float64) string {
	launches := lists.GroupBy(values, func(v launchValue) string { return v.launch })
	slices.SortStableFunc(launches, func(a, b lists.Group[string, launchValue]) int {
		return a.Items[0].at.Compare(b.Items[0].at)
	})
	logs := lists.Map(launches, func(g lists.Group[string, launchValue]) float64 {
		sum := 0.0
		for _, v := range g.Items {
			sum += v.log
		}
		return sum / float64(len(g.Items))
	})
	half := len(logs) / 2
	if half == 0 || stats.LeastP(half, half) > level {
		return ""
	}
	first, second := thinned(logs[:half]), thinned(logs[len(logs)-half:])
	if stats.UTest(first, second) > level {
		return ""
	}
	change, low, high := stats.Shift(first, second)
	if math.Abs(math.Expm1(change)) < minTrialDrift {
		return ""
	}
	verb := "rose"
	if change < 0 {
		verb = "fell"
	}
	return fmt.Sprintf("%s by %.1f %% from the first half of %d launches to the second (95 %% interval %+.1f to %+.1f %%)",
		verb, math.Abs(percent(change)), len(logs), percent(low), percent(high))
}

// thinned returns every n-th value, so that at most maxHalf values remain. This bounds the cost of the
// test and of the shift.
func thinned(values []float64) (out []float64) {
	const maxHalf = 500
	for i := 0; i < len(values); i += 1 + (len(values)-1)/maxHalf {
		out = append(out, values[i])
	}
	return out
}
