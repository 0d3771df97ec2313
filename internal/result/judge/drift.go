package judge

import (
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

// Drift is a change of a metric over the trials of a run: of all points together, or of one point.
type Drift struct {
	Metric            string
	Row               *journal.Row // a row of the point; nil if all points changed
	Launches          int
	Change, Low, High float64 // from the first half of the launches to the second, in per cent, with its 95 % interval
}

// String returns a description such as "time_us rose by 14.7 % from the first half of 40 launches to the second".
func (d Drift) String() string {
	verb, where := "rose", ""
	if d.Change < 0 {
		verb = "fell"
	}
	if d.Row != nil {
		where = "at " + dataset.Label(d.Row) + ", "
	}
	return fmt.Sprintf("%s%s %s by %.1f %% from the first half of %d launches to the second (95 %% interval %+.1f to "+
		"%+.1f %%)", where, d.Metric, verb, math.Abs(d.Change), d.Launches, d.Low, d.High)
}

// Drifts returns the drift over the trials of a run in a metric: of all points together, or else of single points.
// Trials are interleaved, so drift does not favour any setting. But the numbers then describe a machine
// that changed during the run, which the user should know. Each row reports drift within its own launch.
func Drifts(rows dataset.Set, metric string) (found []Drift) {
	measured := rows.Good().Undisturbed().Where(func(r *journal.Row) bool {
		return r.Kind == journal.Measured && r.Metrics[metric] > 0
	})
	points := measured.Points()
	var all []launchValue
	byPoint := lists.Map(points, func(trials dataset.Set) (values []launchValue) {
		logs := lists.Map(trials, func(r *journal.Row) float64 { return math.Log(r.Metrics[metric]) })
		center := stats.Median(logs)
		for k, r := range trials {
			values = append(values, launchValue{r.Launch, r.Time, logs[k] - center})
		}
		if len(logs) > 1 {
			all = append(all, values...)
		}
		return values
	})
	level := driftLevel / 2
	if len(points) == 1 {
		level = driftLevel
	}
	if d, has := driftOf(all, level); has {
		d.Metric = metric
		return []Drift{d}
	}
	for i, trials := range points {
		if d, has := driftOf(byPoint[i], level/float64(len(points))); has && len(points) > 1 {
			d.Metric, d.Row = metric, trials[0]
			found = append(found, d)
		}
	}
	return found
}

// launchValue is the logarithm of a metric in one launch, relative to the median of its point.
type launchValue struct {
	launch string
	at     time.Time
	log    float64
}

// driftOf compares the first half of the launches with the second, in the order in which they ended.
// It returns a significant difference. Points of one launch count once, by their mean.
func driftOf(values []launchValue, level float64) (d Drift, found bool) {
	launches := lists.GroupBy(values, func(v launchValue) string { return v.launch })
	slices.SortStableFunc(launches, func(a, b lists.Group[string, []launchValue]) int {
		return a.Items[0].at.Compare(b.Items[0].at)
	})
	logs := lists.Map(launches, func(g lists.Group[string, []launchValue]) float64 {
		sum := 0.0
		for _, v := range g.Items {
			sum += v.log
		}
		return sum / float64(len(g.Items))
	})
	half := len(logs) / 2
	if half == 0 || stats.LeastP(half, half) > level {
		return d, false
	}
	first, second := thinned(logs[:half]), thinned(logs[len(logs)-half:])
	if stats.UTest(first, second) > level {
		return d, false
	}
	change, low, high := stats.Shift(first, second)
	percent := func(log float64) float64 { return 100 * math.Expm1(log) }
	return Drift{Launches: len(logs), Change: percent(change), Low: percent(low), High: percent(high)},
		math.Abs(math.Expm1(change)) >= minTrialDrift
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
