package kernbench_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/benches"
	"github.com/kernbench/kernbench/internal/base/golden"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/view/export"
)

// TestColumnsPage compares docs/columns.md with the declarations in the code. -update writes it.
func TestColumnsPage(t *testing.T) {
	golden.CheckFile(t, "docs/columns.md", columnsPage())
	for _, c := range export.Columns(nil, nil) {
		if !slices.ContainsFunc(columnMeanings, func(e explained) bool { return e.Name == c.Name && e.Meaning != "" }) {
			t.Errorf("the column %s is not explained", c.Name)
		}
	}
}

func columnsPage() string {
	var b strings.Builder
	b.WriteString("# Columns and metrics\n\n" +
		"This page explains every column of tables, csv files and `show --columns`, and every metric of each built-in bench.\n" +
		"To see all columns of a run, in a table and in a file:\n\n" +
		"```sh\nkernbench show out/memory --columns all\nkernbench show out/memory --format csv\n```\n\n" +
		"The metrics in bold are in the default table of their bench. Most other columns are only shown if `--columns` names them.\n" +
		"A heading without an entry is the name with its unit, such as `busbw (GB/s)`. Tables choose the unit of times, so\n" +
		"`time_us` becomes `time (µs)`, `time (ms)` or another one. Files always have the unit of the name.\n\n" +
		"This page is made from the declarations in the code.\n\n## Columns of every bench\n\n")
	writeColumns(&b, columnMeanings)
	common := append([]journal.MetricInfo{}, decl.SpeedMetrics...)
	common = append(common, decl.WrongMetric, journal.MetricInfo{Name: decl.LimitMetric, Unit: "%",
		Meaning: "the largest limit divided by the time"})
	b.WriteString("\n## Metrics of several benches\n\n| name | unit | meaning | in the tables of |\n|---|---|---|---|\n")
	for _, m := range explainMetrics(common, nil) {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Unit, m.Meaning, strings.Join(showing(m.Name), ", "))
	}
	shared := lists.Map(common, func(m journal.MetricInfo) string { return m.Name + m.Meaning })
	for _, bench := range benches.All() {
		var metrics []journal.MetricInfo
		var seen lists.Set[string]
		for _, p := range bench.Parts {
			for _, m := range append(append([]journal.MetricInfo{}, p.Metrics...), p.Reports...) {
				if !slices.Contains(shared, m.Name+m.Meaning) && seen.Add(m.Name) {
					metrics = append(metrics, m)
				}
			}
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s.\n", bench.Name, sentence(bench.Help))
		if len(metrics) > 0 {
			b.WriteString("\n")
			writeColumns(&b, explainMetrics(metrics, decl.Headlines(bench)))
		}
	}
	return b.String()
}

// showing returns the benches whose default tables show a metric.
func showing(metric string) (names []string) {
	for _, bench := range benches.All() {
		for _, h := range decl.Headlines(bench) {
			if name, _, _ := strings.Cut(h, "="); name == metric {
				names = append(names, "`"+bench.Name+"`")
			}
		}
	}
	return names
}

// writeColumns writes a table in Markdown.
func writeColumns(b *strings.Builder, columns []explained) {
	b.WriteString("| name | heading | unit | meaning |\n|---|---|---|---|\n")
	for _, c := range columns {
		name := "`" + c.Name + "`"
		if c.Headline {
			name = "**" + name + "**"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", name, c.Heading, c.Unit, c.Meaning)
	}
}

// sentence begins a text with a capital.
func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// explained is a column with its name in files and flags, its heading in tables, its unit and its meaning.
type explained struct {
	Name, Heading, Unit, Meaning string
	Headline                     bool // tables of the bench show it without --columns
}

// columnMeanings explains the columns that tables and csv files of every bench may have, in their order. In names,
// METRIC, NAME and STAT stand for other names.
var columnMeanings = []explained{
	{Name: "run or build",
		Meaning: "where the row is from, if rows of several runs or builds are shown together"},
	{Name: "bench", Meaning: "name of the bench"},
	{Name: "part", Meaning: "part of a bench that has several"},
	{Name: "num_ranks", Meaning: "number of ranks; empty if the program starts its own"},
	{Name: "backend", Meaning: "backend that ran the point; cpu for a program or Python bench that declares no " +
		"backends, even if it uses a GPU"},
	{Name: "NAME", Meaning: "value of an axis"},
	{Name: "env.NAME", Heading: "NAME", Meaning: "value of a swept environment variable, or (unset)"},
	{Name: "option.NAME", Meaning: "value of an option"},
	{Name: "kind", Meaning: "measured, simulated or modelled"},
	{Name: "trial", Heading: "trials",
		Meaning: "number of the trial; in tables the number of trials in the line"},
	{Name: "status", Meaning: "ok, failed, timeout, skipped or not-executed"},
	{Name: "samples", Meaning: "number of samples"},
	{Name: "METRIC", Meaning: "a metric of the bench, listed below"},
	{Name: "time_us_spread_pct", Heading: "±95%",
		Unit: "%", Meaning: "half the width of the 95 % interval of the median, within a launch"},
	{Name: "time_us_trials_pct", Heading: "±trials",
		Unit: "%", Meaning: "half the range of the launches, relative to their median"},
	{Name: "METRIC_unit", Meaning: "unit of a metric whose name does not end in it"},
	{Name: "limit.NAME", Unit: "µs", Meaning: "shortest time that a limit allows"},
	{Name: "METRIC_STAT", Heading: "STAT", Meaning: "min, p50, p90, p99 or max of the samples"},
	{Name: "stopped", Meaning: "why sampling ended"},
	{Name: "quality", Meaning: "empty, or disturbed, or how many trials were disturbed"},
	{Name: "time_us_modes", Heading: "two modes", Meaning: "the two values around which samples gather"},
	{Name: "rank", Meaning: "the rank that failed"},
	{Name: "phase", Meaning: "where it failed"},
	{Name: "reason", Heading: "remarks",
		Meaning: "why the row is not ok; in tables also the warnings, as letters"},
	{Name: "warnings", Meaning: "what is known about the measurement"},
	{Name: "NAME", Meaning: "a text that the bench chooses to show, such as dead-link"},
}

// explainMetrics returns the columns of metrics. Those that a bench declares as headlines have its headings.
func explainMetrics(metrics []journal.MetricInfo, headlines []string) []explained {
	return lists.Map(metrics, func(m journal.MetricInfo) explained {
		e := explained{Name: m.Name, Unit: unit.Symbol(m.Unit), Meaning: m.Meaning}
		for _, h := range headlines {
			if name, label, _ := strings.Cut(h, "="); name == m.Name {
				e.Heading, e.Headline = label, true
			}
		}
		return e
	})
}
