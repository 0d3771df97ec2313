package solvescaling

import (
	"fmt"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// kernel is a kernel whose operations and bytes are modelled. Kernels of the same name form a series.
type kernel struct {
	name             string
	flops, bytes, us float64
	disturbed        bool
}

// roofMargin is the factor by which the roof extends beyond the outermost kernels.
const roofMargin = 2

// rooflinePanel draws the speed of kernels below the limits of memory and arithmetic (Williams, Waterman and Patterson,
// 2009): operations per second over operations per byte moved. It leaves out kernels with unknown operations, bytes or
// time, and returns false if there is nothing to draw.
func rooflinePanel(title string, gbps, gflops float64, kernels []kernel) (figure.Panel, bool) {
	kernels = lists.Filter(kernels, func(k kernel) bool { return k.flops > 0 && k.bytes > 0 && k.us > 0 })
	if !(gbps > 0 && gflops > 0) || len(kernels) == 0 {
		return figure.Panel{}, false
	}
	p := figure.Panel{Title: title, Legend: figure.LegendBelow,
		X: figure.Axis{Label: "operations per byte, modelled", Scale: figure.Log10},
		Y: figure.Axis{Label: "GFLOP/s, measured", Scale: figure.Log10}}
	ridge := gflops / gbps // arithmetic is the limit above
	low, high := ridge, ridge
	for _, g := range lists.GroupBy(kernels, func(k kernel) string { return k.name }) {
		p.Series = append(p.Series, figure.Series{Name: g.Key, Kind: figure.Scatter,
			Points: lists.Map(g.Items, func(k kernel) figure.Point {
				x := k.flops / k.bytes
				low, high = min(low, x), max(high, x)
				return figure.Point{X: x, Y: k.flops / k.us / 1e3, Hollow: k.disturbed}
			})})
	}
	low, high = low/roofMargin, high*roofMargin
	p.Lines = []figure.Line{{Label: fmt.Sprintf("roof, measured: %s GB/s, %s GFLOP/s", unit.FormatSig(gbps, 3),
		unit.FormatSig(gflops, 3)),
		Points: []figure.Point{{X: low, Y: gbps * low}, {X: ridge, Y: gflops}, {X: high, Y: gflops}}}}
	return p, true
}

// rooflineFigure compares product and iteration of all configurations with the memory bandwidth and the arithmetic of
// the same number of ranks: a panel for each number of ranks of a host, with the best roof of its rows.
func rooflineFigure(rows dataset.Set) figure.Figure {
	type machine struct {
		host  string
		ranks int
	}
	good := rows.Good()
	hosts := len(lists.GroupBy(good, func(r *journal.Row) string { return r.Host }))
	f := figure.Figure{Name: "distributed_solve_roofline", Columns: 2,
		Title: "Roofline of a solve" + common(rows, problemOf, sizeOf, stored, hostOf),
		Caption: "The roof is the bandwidth of a triad and the arithmetic rate of all ranks. Both and the times " +
			"are measured; operations and bytes are counted. Points above the roof were read from a cache. Hollow markers: " +
			"disturbed while measured."}
	for _, g := range lists.GroupBy(good, func(r *journal.Row) machine { return machine{r.Host, dataset.Ranks(r)} }) {
		gbps, gflops := 0.0, 0.0
		var kernels []kernel
		for _, r := range g.Items {
			m := r.Metrics
			gbps, gflops = max(gbps, m["triad_gbps"]), max(gflops, m["peak_gflops"])
			kernels = append(kernels,
				kernel{"product as stored", m["product_flops"], m["product_bytes"], m["product_us"], r.Disturbed()},
				kernel{"product, plain", m["product_flops"], m["product_plain_bytes"], m["product_plain_us"], r.Disturbed()},
				kernel{"iteration of " + solverOf(r), m["flops_model"], m["bytes_model"], m["time_us"], r.Disturbed()})
		}
		title := unit.Plural(g.Key.ranks, "rank")
		if hosts > 1 {
			title += ", " + g.Key.host
		}
		if p, ok := rooflinePanel(title, gbps, gflops, kernels); ok {
			f.Panels = append(f.Panels, p)
		}
	}
	return f
}
