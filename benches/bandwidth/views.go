package bandwidth

import (
	"fmt"
	"math"
	"slices"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// series names the operation of a row.
func series(r *journal.Row) string { return dataset.Text(r, "op") }

// where names the machine of a row in titles.
func where(r *journal.Row) string {
	if gpu := r.Details[journal.DeviceDetail]; gpu != "" {
		return gpu
	}
	return r.Host
}

// figures draws bandwidth against size, and the latency of loads.
func figures(rows dataset.Set) (list []figure.Figure) {
	good := rows.MergeTrials().Good()
	x := figure.Axis{Label: "size of an array", Scale: figure.Log2, Unit: figure.Bytes}
	for _, f := range []struct {
		name, title, label, metric string
		unit                       figure.Unit
	}{
		{"bandwidth", "Bandwidth by size", "bandwidth", "gbps", figure.GBps},
		{"latency", "Time of a dependent load", "nanoseconds", "latency_ns", figure.Plain},
	} {
		fig := figure.Figure{Name: f.name, Title: f.title}
		for _, g := range dataset.GroupBy(good.Where(func(r *journal.Row) bool { return r.Metrics[f.metric] > 0 }), where) {
			fig.Panels = append(fig.Panels, figure.Panel{Title: g.Key, X: x,
				Y: figure.Axis{Label: f.label, Scale: figure.Log10, Unit: f.unit},
				Series: dataset.Series(g.Rows, series, func(r *journal.Row) (figure.Point, bool) {
					return figure.Point{X: dataset.Number(r, "size"), Y: r.Metrics[f.metric]}, true
				})})
		}
		if len(fig.Panels) > 0 {
			list = append(list, fig)
		}
	}
	return append(list, matrixFigure(good)...)
}

// memories are the memories between which rows copy, and the GB/s of each pair at the largest size.
type memories struct {
	numbers []int                  // sorted
	cells   map[[2]int]figure.Cell // by source and target
}

// measured collects the pairs of memories that rows have measured. Bytes count once, also within a GPU.
func measured(rows dataset.Set) memories {
	m := memories{cells: map[[2]int]figure.Cell{}}
	largest := map[[2]int]float64{}
	note := func(r *journal.Row, from, to int, gbps float64) {
		at := [2]int{from, to}
		size := dataset.Number(r, "size")
		if gbps <= 0 || size < largest[at] {
			return
		}
		largest[at] = size
		m.cells[at] = figure.Cell{Value: gbps}
		if r.Disturbed() != "" {
			m.cells[at] = figure.Cell{Value: gbps, Text: "(" + unit.FormatSig(gbps, 3) + ")"}
		}
		m.numbers = append(m.numbers, from, to)
	}
	for _, r := range rows {
		gbps := r.Metrics["gbps"]
		switch dataset.Text(r, "op") {
		case hostToDevice:
			note(r, host, 0, gbps)
		case deviceToHost:
			note(r, 0, host, gbps)
		case deviceToDevice:
			note(r, 0, 0, gbps/2)
		case peerToPeer:
			for name, gbps := range r.Metrics {
				var from, to int
				if n, _ := fmt.Sscanf(name, "p2p_%d_%d", &from, &to); n == 2 && pairMetric(from, to) == name {
					note(r, from, to, gbps)
				}
			}
		}
	}
	slices.Sort(m.numbers)
	m.numbers = slices.Compact(m.numbers)
	return m
}

// host is the number of the host's memory; GPUs have their own numbers.
const host = -1

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
	for _, g := range dataset.GroupBy(rows, where) {
		m := measured(g.Rows)
		if len(m.numbers) < 2 {
			continue
		}
		heat := &figure.HeatMap{Value: figure.Axis{Label: "bandwidth", Scale: figure.Log10, Unit: figure.GBps}}
		for _, from := range m.numbers {
			var line []figure.Cell
			for _, to := range m.numbers {
				cell, has := m.cells[[2]int{from, to}]
				if !has {
					cell = figure.Cell{Value: math.NaN()}
				}
				line = append(line, cell)
			}
			heat.Cells = append(heat.Cells, line)
		}
		axis := func(label string) figure.Axis {
			return figure.Axis{Label: label, Scale: figure.Category, Categories: lists.Map(m.numbers, memoryName)}
		}
		fig.Panels = append(fig.Panels, figure.Panel{Title: g.Key, X: axis("to"), Y: axis("from"), Content: heat})
	}
	if len(fig.Panels) == 0 {
		return nil
	}
	return []figure.Figure{fig}
}

// sections tabulates operations by sizes, for each machine.
func sections(rows dataset.Set) (list []bench.Section) {
	for _, g := range dataset.GroupBy(rows.MergeTrials().Good(), where) {
		sizes := g.Rows.Distinct("size")
		table := [][]string{{"operation"}}
		for _, size := range sizes {
			table[0] = append(table[0], unit.FormatBytes(int64(dataset.Number(g.Rows.At("size", size)[0], "size"))))
		}
		table[0] = append(table[0], "best", "of the published bandwidth")
		for _, op := range dataset.GroupBy(g.Rows, series) {
			table = append(table, line(op.Key, op.Rows, sizes))
		}
		list = append(list, bench.Section{Title: "Bandwidth and latency of " + g.Key,
			Text: "GB/s by the size of one array, and nanoseconds of a dependent load (chase). Every byte that is read or " +
				"written counts, and a transfer over the bus counts once. The share of the published bandwidth is the best of " +
				"arrays that the cache cannot hold. Values in parentheses were disturbed.", Table: table})
	}
	return list
}

// line returns the table's line of an operation.
func line(name string, rows dataset.Set, sizes []string) []string {
	cells := []string{name}
	best, share := 0.0, 0.0
	for _, size := range sizes {
		at := rows.At("size", size)
		if len(at) == 0 {
			cells = append(cells, "-")
			continue
		}
		r := at[0]
		value, text := r.Metrics["gbps"], ""
		if ns := r.Metrics["latency_ns"]; ns > 0 {
			text = unit.FormatSig(ns, 3) + " ns"
		} else {
			text = unit.FormatSig(value, 4)
		}
		if r.Disturbed() == "" {
			best, share = max(best, value), max(share, r.Metrics["pct_of_limit"])
		}
		cells = append(cells, marked(text, r))
	}
	last := []string{"-", "-"}
	if best > 0 {
		last[0] = unit.FormatSig(best, 4)
	}
	if share > 0 {
		last[1] = fmt.Sprintf("%.0f %%", share)
	}
	return append(cells, last...)
}

// marked returns a text, in parentheses if any of the rows was disturbed.
func marked(text string, rows ...*journal.Row) string {
	if slices.ContainsFunc(rows, func(r *journal.Row) bool { return r.Disturbed() != "" }) {
		return "(" + text + ")"
	}
	return text
}
