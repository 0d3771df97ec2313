package bandwidth

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/bench/decl"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// declaredViews declares bandwidth against size, the latency of loads, and both as tables.
func declaredViews() []bench.Clause {
	ofArrays := bench.Label("x", "size of an array")
	return []bench.Clause{
		bench.Plot("x=size,y=gbps,by=op,panel=machine,xscale=log,yscale=log", bench.Named("bandwidth"), ofArrays,
			bench.Title("Bandwidth by size"), bench.Label("y", "bandwidth")),
		bench.Plot("x=size,y=latency_ns,by=op,panel=machine,xscale=log,yscale=log", bench.Named("latency"), ofArrays,
			bench.Title("Time of a dependent load"), bench.Label("y", "nanoseconds")),
		decl.Figures(matrixFigure),
		bench.Pivot("rows=op,columns=size,value=gbps+latency_ns", bench.Title("Bandwidth and latency"),
			bench.Label("op", "operation"), bench.Caption("By the size of one array; chase is a dependent load. Every byte "+
				"that is read or written counts, and a transfer over the bus counts once.")),
		bench.Pivot("rows=op,columns=size,value=pct_of_limit", bench.Title("Share of the published bandwidth"),
			bench.Label("op", "operation"), bench.Caption("Of arrays that the cache cannot hold.")),
	}
}

// host is the number of the host's memory; GPUs have their own numbers.
const host = -1

// pairs are the source and the target of the operations that copy between memories.
var pairs = map[string][2]int{hostToDevice: {host, 0}, deviceToHost: {0, host}, deviceToDevice: {0, 0}}

// measured returns the GB/s from each memory to each other at the largest size, and the numbers of the memories. Bytes
// count once, also within a GPU.
func measured(rows dataset.Set) (cells map[[2]int]figure.Cell, numbers []int) {
	cells = map[[2]int]figure.Cell{}
	note := func(r *journal.Row, pair [2]int, gbps float64) {
		if gbps > 0 {
			cells[pair] = figure.Cell{Value: gbps}
			if r.Disturbed() {
				cells[pair] = figure.Cell{Value: gbps, Text: "(" + unit.FormatSig(gbps, 3) + ")"}
			}
			numbers = append(numbers, pair[:]...)
		}
	}
	rows = slices.SortedStableFunc(slices.Values(rows), bySize)
	for _, r := range rows {
		op := dataset.Text(r, "op")
		gbps := r.Metrics["gbps"]
		if op == deviceToDevice { // which reads and writes
			gbps /= 2
		}
		if pair, copies := pairs[op]; copies {
			note(r, pair, gbps)
		}
		for name, gbps := range r.Metrics {
			var from, to int
			if n, _ := fmt.Sscanf(name, "p2p_%d_%d", &from, &to); n == 2 && pairMetric(from, to) == name {
				note(r, [2]int{from, to}, gbps)
			}
		}
	}
	slices.Sort(numbers)
	return cells, slices.Compact(numbers)
}

func bySize(a, b *journal.Row) int {
	return cmp.Compare(dataset.Number(a, "size"), dataset.Number(b, "size"))
}

// memoryName names a memory in a figure.
func memoryName(i int) string {
	if i == host {
		return "host"
	}
	return fmt.Sprintf("GPU %d", i)
}

// matrixFigure draws how fast bytes move from each memory to each other.
func matrixFigure(rows dataset.Set) []figure.Figure {
	fig := figure.Figure{Name: "memories", Title: "From one memory to another",
		Caption: "GB/s of the bytes that arrive, at the largest size. Values in parentheses were disturbed."}
	machine := func(r *journal.Row) string { return cmp.Or(r.Details[journal.DeviceDetail], r.Host) }
	for _, g := range lists.GroupBy(rows.MergeTrials().Good(), machine) {
		cells, numbers := measured(g.Items)
		if len(numbers) < 2 {
			continue
		}
		heat := &figure.HeatMap{Value: figure.Axis{Label: "bandwidth", Scale: figure.Log10, Unit: figure.GBps}}
		for _, from := range numbers {
			heat.Cells = append(heat.Cells, lists.Map(numbers, func(to int) figure.Cell {
				if cell, has := cells[[2]int{from, to}]; has {
					return cell
				}
				return figure.Cell{Value: math.NaN()}
			}))
		}
		x := figure.Axis{Label: "to", Scale: figure.Category, Categories: lists.Map(numbers, memoryName)}
		y := x
		y.Label = "from"
		fig.Panels = append(fig.Panels, figure.Panel{Title: g.Key, X: x, Y: y, Content: heat})
	}
	if len(fig.Panels) == 0 {
		return nil
	}
	return []figure.Figure{fig}
}

// marked returns a text, in parentheses if any of the rows was disturbed.
func marked(text string, rows ...*journal.Row) string {
	if slices.ContainsFunc(rows, (*journal.Row).Disturbed) {
		return "(" + text + ")"
	}
	return text
}
