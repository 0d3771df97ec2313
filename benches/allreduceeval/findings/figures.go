package findings

import (
	"math"
	"slices"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
)

// Views declares time and bus bandwidth by size with their limits, the share of the limit, the fastest algorithms, and
// the sections.
func Views() (clauses []bench.Clause) {
	for _, f := range [][4]string{
		{"time_us,yscale=log", "allreduce_time", "time by size", "The limit is the least of the algorithms' own limits."},
		{"busbw,yscale=log", "allreduce_busbw", "bus bandwidth by size", "busbw = bytes/time x 2(n-1)/n."},
		{decl.LimitMetric, "allreduce_share_of_limits", "share of the limit by size",
			"The least time that the limits allow for the algorithm's own traffic, divided by the time taken."},
	} {
		clauses = append(clauses, bench.Plot(
			"x=size,xscale=log,by=algorithm,panel=dtype+num_ranks+inplace,limit=least,columns=2,where=size>0,y="+f[0],
			bench.Named(f[1]), bench.Title("All-reduce: "+f[2]), bench.Caption(f[3]), bench.Label("inplace", "in place"),
			bench.Label("busbw", "bus bandwidth"), bench.Label(decl.LimitMetric, "share of the limit")))
	}
	return append(clauses, decl.Figures(figures))
}

// figures draws what no plot can: the fastest algorithms.
func figures(rows dataset.Set) []figure.Figure {
	f := bestFigure(contests(rows, samplesOf(rows)))
	if len(f.Panels) == 0 {
		return nil
	}
	return []figure.Figure{f}
}

// bestFigure maps the fastest algorithm by setting and size. A darker cell has a larger
// lead over the second. It has no panels if no comparison is resolved.
func bestFigure(list []contest) (f figure.Figure) {
	if !slices.ContainsFunc(list, contest.resolved) {
		return f
	}
	heat := &figure.HeatMap{Value: figure.Axis{Label: "the second takes longer by", Unit: figure.Percent,
		Min: new(float64)}}
	p := figure.Panel{X: figure.Axis{Label: "size", Scale: figure.Category}, Y: figure.Axis{Scale: figure.Category},
		Content: heat,
		Note: "Exact algorithms only, where all ran and have settled over several launches; 100 % is twice as long or " +
			"more."}
	sizes := lists.Distinct(lists.Map(list, func(c contest) int64 { return c.bytes }))
	slices.Sort(sizes)
	p.X.Categories = lists.Map(sizes, unit.FormatBytes)
	for _, g := range bySetting(list) {
		p.Y.Categories = append(p.Y.Categories, settingName(g.Key))
		line := make([]figure.Cell, len(sizes))
		for i, b := range sizes {
			line[i] = figure.Cell{Value: math.NaN(), Text: "not timed"}
			if c, ok := lists.First(g.Items, func(c contest) bool { return c.bytes == b }); ok {
				line[i] = contestCell(c)
			}
		}
		heat.Cells = append(heat.Cells, line)
	}
	return figure.Figure{Name: "allreduce_best", Title: "All-reduce: fastest algorithm by size", Panels: []figure.Panel{p}}
}

// contestCell returns the winner of a contest and its lead over the second in per cent.
func contestCell(c contest) figure.Cell {
	if !c.resolved() {
		return figure.Cell{Value: math.NaN(), Text: "not resolved"}
	}
	lead := 0.0
	if len(c.samples) > 1 {
		lead = c.samples[1].TimeUS/c.samples[0].TimeUS - 1
	}
	return figure.Cell{Value: min(100*lead, 100), Text: c.winner()}
}
