package bench

import (
	"slices"

	"github.com/kernbench/kernbench/internal/result/journal"
)

// speedMetrics are those that the harness makes itself where a body declares
// what they follow from.
var speedMetrics = []journal.MetricInfo{
	{Name: "time_us", Unit: "us", Better: "lower"},
	{Name: "gbps", Unit: "GB/s", Better: "higher"},
	{Name: "algbw", Unit: "GB/s", Better: "higher"},
	{Name: "busbw", Unit: "GB/s", Better: "higher"},
	{Name: "tflops", Unit: "TFLOP/s", Better: "higher"},
}

// LimitMetric is the harness's own too, but of rows with limits alone: it is not
// among the Metrics of a bench that does not declare it.
const LimitMetric = "pct_of_limit"

// Metrics are those that are known before anything has run: the declared ones
// of all parts, between the harness's own where a part has a body. All says
// that rows have no others: a program's output is searched for the declared
// ones alone, while a body, and Derive, may report what they like.
func (b *Bench) Metrics() (infos []journal.MetricInfo, all bool) {
	add := func(m journal.MetricInfo, replace bool) {
		i := slices.IndexFunc(infos, func(old journal.MetricInfo) bool { return old.Name == m.Name })
		switch {
		case i < 0:
			infos = append(infos, m)
		case replace:
			infos[i] = m
		}
	}
	body := slices.ContainsFunc(b.Parts, func(p *DeclaredPart) bool { return p.Body != nil })
	if body {
		infos = slices.Clone(speedMetrics)
	}
	for _, p := range b.Parts {
		for _, m := range p.Metrics {
			add(m, true)
		}
	}
	if body {
		add(journal.MetricInfo{Name: "wrong", Better: "lower"}, false)
	}
	return infos, !body && b.Derive == nil
}
