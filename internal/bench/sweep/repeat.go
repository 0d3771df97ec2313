package sweep

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/point"
	"github.com/kernbench/kernbench/internal/base/stats"
	"github.com/kernbench/kernbench/internal/base/yamlfile"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/bench/measure"
	"github.com/kernbench/kernbench/internal/bench/plan"
)

// Launches gathers what the launches of one point printed, and decides when they are enough.
type Launches struct {
	Count int
	Rows  []LaunchedRow

	until  measure.Stop
	metric string
}

// LaunchedRow is one row of the point, in all launches.
type LaunchedRow struct {
	Extra   point.Point
	Samples map[string][][]float64 // by metric: those of each launch
	Wrong   string                 // of the first launch that was
}

// NewLaunches is for the launches of one point of a command.
func NewLaunches(c *decl.Command) *Launches {
	l := &Launches{until: c.Until, metric: c.UntilMetric}
	l.until.MaxSamples = max(l.until.MaxSamples, 1)
	return l
}

// Add takes what one more launch printed. All launches have to give the same rows.
func (l *Launches) Add(rows []decl.ParsedRow) error {
	l.Count++
	if l.Count == 1 {
		for _, r := range rows {
			l.Rows = append(l.Rows, LaunchedRow{Extra: r.Extra, Samples: map[string][][]float64{}})
		}
	}
	if len(rows) != len(l.Rows) {
		return fmt.Errorf("launch %d of the point gave %d rows, the first one %d", l.Count, len(rows), len(l.Rows))
	}
	for i, r := range rows {
		row := &l.Rows[i]
		if rowID(r.Extra) != rowID(row.Extra) {
			return fmt.Errorf("launch %d of the point gave a row for %v, the first one for %v", l.Count, r.Extra, row.Extra)
		}
		row.Wrong = cmp.Or(row.Wrong, r.Wrong)
		for name, samples := range r.Samples {
			row.Samples[name] = append(row.Samples[name], samples)
		}
	}
	return nil
}

// Stopped is why there is no further launch, "" when there is one.
func (l *Launches) Stopped(spent time.Duration) measure.StopReason {
	worst := 0.0
	for _, r := range l.Rows {
		if r.Wrong != "" { // more of it would not make it right
			return measure.MaxSamples
		}
		if noise := l.Noise(r); !(noise <= worst) {
			worst = noise
		}
	}
	return l.until.Met(l.Count, worst, spent)
}

// Noise is that of the row's metric which decides, over launches; not a number where it is not known.
func (l *Launches) Noise(r LaunchedRow) float64 {
	if len(r.Samples[l.metric]) < 2 { // the samples of one launch say nothing of others
		return math.NaN()
	}
	values := r.Values(l.metric)
	slices.Sort(values)
	return measure.Noise(values)
}

// Values are the samples of a metric that its median and spread come from: those that the
// launch printed, or, of several launches, the median of each. The samples of a launch share
// its luck, so they count as one.
func (r LaunchedRow) Values(metric string) []float64 {
	launches := r.Samples[metric]
	if len(launches) == 1 {
		return launches[0]
	}
	var values []float64
	for _, samples := range launches {
		if len(samples) > 0 {
			sorted := slices.Sorted(slices.Values(samples))
			values = append(values, stats.Percentile(sorted, 0.5))
		}
	}
	return values
}

// until reads when the launches of a point end.
func (r *reader) until(n yamlfile.Node, metrics []metric) (stop measure.Stop, name string) {
	f, clean := r.Fields(n, "until", "noise", "min", "max", "time", "metric")
	if f == nil || f["noise"] == nil {
		if f != nil && clean {
			r.Fault(n, "until: the key \"noise\" is missing, such as {noise: 1%%}")
		}
		return stop, ""
	}
	stop = plan.RepeatUntil(0)
	if s, ok := r.Text(f["noise"], "until: noise"); ok {
		noise, err := plan.ParseNoise(s.Text)
		switch {
		case err != nil:
			r.Fault(f["noise"], "until: %v", err)
		case noise == 0:
			r.Fault(f["noise"], "until: want a noise above 0: for a fixed number of launches, use trials")
		}
		stop.RelNoise = noise
	}
	for key, into := range map[string]*int{"min": &stop.MinSamples, "max": &stop.MaxSamples} {
		if f[key] != nil {
			*into = r.count(f[key], "until: "+key)
		}
	}
	switch {
	case f["max"] == nil:
		stop.MaxSamples = max(stop.MaxSamples, stop.MinSamples)
	case f["min"] == nil:
		stop.MinSamples = min(stop.MaxSamples, stop.MinSamples)
	case stop.MinSamples > stop.MaxSamples && stop.MaxSamples > 0:
		r.Fault(f["max"], "until: max %d is below min %d", stop.MaxSamples, stop.MinSamples)
	}
	if f["max"] != nil && stop.MaxSamples > 0 && stop.MaxSamples < plan.MinLaunches {
		r.Fault(f["max"], "until: the noise of a median is not known from fewer than %d launches, so max %d would never "+
			"be cut short: use trials",
			plan.MinLaunches, stop.MaxSamples)
	}
	if f["time"] != nil {
		stop.MaxTime = r.duration(f["time"], "until: time")
		if stop.MaxTime >= measure.NoTimeLimit {
			r.Fault(f["time"], "until: time: want at most a day")
		}
	}
	names := lists.Map(metrics, func(m metric) string { return m.info.Name })
	if f["metric"] != nil {
		name, _ = r.Word(f["metric"], "until", "metric", names...)
	}
	return stop, name
}
