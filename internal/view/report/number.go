package report

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/result/views"
)

// Number is one number for a whole run: the geometric mean of a metric over its points. The value of a point is
// the median of its undisturbed trials.
type Number struct {
	Metric string  `json:"metric"`
	Better string  `json:"better,omitempty"` // lower or higher
	Value  float64 `json:"value"`
	Text   string  `json:"text"` // the value with its unit
	Points int     `json:"points"`
	// Set identifies the set of points. Numbers of runs with different sets cannot be compared.
	Set string `json:"set"`
}

// NewNumber returns the number of a run: the mean of its main metric. Only metrics that every ok row has are
// considered. ok is false if there is none, or if any value is not positive.
func NewNumber(h *journal.Header, rows dataset.Set) (n Number, ok bool) {
	good := rows.Good()
	if len(good) == 0 {
		return n, false
	}
	metric, found := dataset.Main(lists.Filter(good.Metrics(h), func(m journal.MetricInfo) bool {
		return !slices.ContainsFunc(good, func(r *journal.Row) bool { _, has := r.Metrics[m.Name]; return !has })
	}))
	if !found {
		return n, false
	}
	n, ok = MeanOf(metric.Name, metric.Unit, good)
	n.Better = metric.Better
	return n, ok
}

// MeanOf returns the geometric mean of a metric over the points of the given ok rows. ok is false if any point does
// not have the metric, or if any value is not positive.
func MeanOf(metric, unit string, good dataset.Set) (n Number, ok bool) {
	if len(good) == 0 {
		return n, false
	}
	points := good.Points()
	sum := 0.0
	for _, p := range points {
		if len(p.Counting().Values(metric)) == 0 {
			return n, false
		}
		sum += math.Log(p.Median(metric))
	}
	n = Number{Metric: metric, Value: math.Exp(sum / float64(len(points))), Points: len(points)}
	keys := lists.Map(points, func(p dataset.Set) string { return dataset.Key(p[0]) })
	slices.Sort(keys)
	hash := fnv.New64a()
	fmt.Fprintf(hash, "%q", keys)
	n.Set, n.Text = fmt.Sprintf("%x", hash.Sum64()), views.MetricText(n.Value, unit)
	return n, !math.IsInf(n.Value, 0) && n.Value > 0
}
