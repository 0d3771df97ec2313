package kernbench_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/benches"
	"github.com/kernbench/kernbench/internal/base/golden"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/view/export"
)

// TestColumnsPage compares docs/columns.md with the declarations in the code. -update writes it.
func TestColumnsPage(t *testing.T) {
	golden.CheckFile(t, "docs/columns.md", columnsPage())
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
	writeColumns(&b, export.ExplainColumns())
	common := append([]journal.MetricInfo{}, decl.SpeedMetrics...)
	common = append(common, decl.WrongMetric, journal.MetricInfo{Name: decl.LimitMetric, Unit: "%",
		Meaning: "the largest limit divided by the time"})
	b.WriteString("\n## Metrics of several benches\n\n| name | unit | meaning | in the tables of |\n|---|---|---|---|\n")
	for _, m := range export.ExplainMetrics(common, nil) {
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
			writeColumns(&b, export.ExplainMetrics(metrics, decl.Headlines(bench)))
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
func writeColumns(b *strings.Builder, columns []export.Explained) {
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
