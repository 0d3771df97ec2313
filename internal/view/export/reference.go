package export

import (
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// Explained is a column with its name in files and flags, its heading in tables, its unit and its meaning.
type Explained struct {
	Name, Heading, Unit, Meaning string
	Headline                     bool // tables of the bench show it without --columns
}

// meanings explains the columns of each role. In names, METRIC, NAME and STAT stand for other names.
var meanings = [...]Explained{
	Together: {Name: "run or build",
		Meaning: "where the row is from, if rows of several runs or builds are shown together"},
	Bench:    {Name: "bench", Meaning: "name of the bench"},
	Part:     {Name: "part", Meaning: "part of a bench that has several"},
	NumRanks: {Name: "num_ranks", Meaning: "number of ranks; empty if the program starts its own"},
	Backend: {Name: "backend", Meaning: "backend that ran the point; cpu for a program or Python bench that declares no " +
		"backends, even if it uses a GPU"},
	Axis:   {Name: "NAME", Meaning: "value of an axis"},
	Env:    {Name: "env.NAME", Heading: "NAME", Meaning: "value of a swept environment variable, or (unset)"},
	Option: {Name: "option.NAME", Meaning: "value of an option"},
	Kind:   {Name: "kind", Meaning: "measured, simulated or modelled"},
	Trial: {Name: "trial", Heading: "trials",
		Meaning: "number of the trial; in tables the number of trials in the line"},
	Status:  {Name: "status", Meaning: "ok, failed, timeout, skipped or not-executed"},
	Samples: {Name: "samples", Meaning: "number of samples"},
	Metric:  {Name: "METRIC", Meaning: "a metric of the bench, listed below"},
	Spread: {Name: "time_us_spread_pct", Heading: "±95%",
		Unit: "%", Meaning: "half the width of the 95 % interval of the median, within a launch"},
	Between: {Name: "time_us_trials_pct", Heading: "±trials",
		Unit: "%", Meaning: "half the range of the launches, relative to their median"},
	Unit:     {Name: "METRIC_unit", Meaning: "unit of a metric whose name does not end in it"},
	Limit:    {Name: "limit.NAME", Unit: "µs", Meaning: "shortest time that a limit allows"},
	Quantile: {Name: "METRIC_STAT", Heading: "STAT", Meaning: "min, p50, p90, p99 or max of the samples"},
	Stopped:  {Name: "stopped", Meaning: "why sampling ended"},
	Quality:  {Name: "quality", Meaning: "empty, or disturbed, or how many trials were disturbed"},
	Modes:    {Name: "time_us_modes", Heading: "two modes", Meaning: "the two values around which samples gather"},
	Rank:     {Name: "rank", Meaning: "the rank that failed"},
	Phase:    {Name: "phase", Meaning: "where it failed"},
	Reason: {Name: "reason", Heading: "remarks",
		Meaning: "why the row is not ok; in tables also the warnings, as letters"},
	Warnings: {Name: "warnings", Meaning: "what is known about the measurement"},
	Detail:   {Name: "NAME", Meaning: "a text that the bench chooses to show, such as dead-link"},
}

// ExplainColumns returns the columns that tables and csv files of every bench may have, in their order.
func ExplainColumns() []Explained { return meanings[:] }

// ExplainMetrics returns the columns of metrics. Those that a bench declares as headlines have its headings.
func ExplainMetrics(metrics []journal.MetricInfo, headlines []string) []Explained {
	return lists.Map(metrics, func(m journal.MetricInfo) Explained {
		e := Explained{Name: m.Name, Unit: unit.Symbol(m.Unit), Meaning: m.Meaning}
		for _, h := range headlines {
			if name, label, _ := strings.Cut(h, "="); name == m.Name {
				e.Heading, e.Headline = label, true
			}
		}
		return e
	})
}
