package solvescaling

import (
	"fmt"
	"math"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/dataset"
	"github.com/kernbench/kernbench/internal/result/figure"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// roof holds the measured limits of a machine: its memory bandwidth and its arithmetic.
type roof struct{ gbps, gflops float64 }

// at returns the greatest speed, in GFLOP/s, of a kernel with the given operations per byte.
func (r roof) at(intensity float64) float64 { return min(r.gflops, r.gbps*intensity) }

// ridge returns the operations per byte above which arithmetic is the limit.
func (r roof) ridge() float64 { return r.gflops / r.gbps }

func (r roof) known() bool { return r.gbps > 0 && r.gflops > 0 && !math.IsInf(r.ridge(), 0) }

// kernelTime is one measured time of a kernel. Kernels of the same name form a series.
type kernelTime struct {
	name string
	figure.Point
}

// newKernelTime returns the point of a kernel below a roof. A model counts the operations and bytes.
func newKernelTime(name string, flops, bytes, us float64, disturbed bool) kernelTime {
	return kernelTime{name, figure.Point{X: flops / bytes, Y: flops / us / 1e3, Hollow: disturbed}}
}

func (k kernelTime) known() bool {
	return k.X > 0 && k.Y > 0 && !math.IsInf(k.X, 0) && !math.IsInf(k.Y, 0)
}

// roofMargin is the factor by which the roof extends beyond the outermost kernels.
const roofMargin = 2

// rooflinePanel draws the speed of kernels below the limits of memory and arithmetic (Williams, Waterman and Patterson,
// 2009): operations per second over operations per byte moved. It leaves out kernels with unknown operations, bytes or
// time, and returns false if there is nothing to draw.
func rooflinePanel(title string, r roof, kernels []kernelTime) (figure.Panel, bool) {
	kernels = lists.Filter(kernels, kernelTime.known)
	if !r.known() || len(kernels) == 0 {
		return figure.Panel{}, false
	}
	p := figure.Panel{Title: title, Legend: figure.LegendBelow,
		X: figure.Axis{Label: "operations per byte, modelled", Scale: figure.Log10},
		Y: figure.Axis{Label: "GFLOP/s, measured", Scale: figure.Log10}}
	low, high := r.ridge(), r.ridge()
	for _, g := range lists.GroupBy(kernels, func(k kernelTime) string { return k.name }) {
		s := figure.Series{Name: g.Key, Kind: figure.Scatter}
		for _, k := range g.Items {
			s.Points = append(s.Points, k.Point)
			low, high = min(low, k.X), max(high, k.X)
		}
		p.Series = append(p.Series, s)
	}
	low, high = low/roofMargin, high*roofMargin
	p.Lines = []figure.Line{{Label: fmt.Sprintf("roof, measured: %s GB/s, %s GFLOP/s", unit.FormatSig(r.gbps, 3),
		unit.FormatSig(r.gflops, 3)),
		Points: []figure.Point{{X: low, Y: r.at(low)}, {X: r.ridge(), Y: r.gflops}, {X: high, Y: r.gflops}}}}
	return p, true
}

// rooflinePanels compares product and iteration of all configurations with the memory bandwidth and the arithmetic of
// the same number of ranks: a panel for each number of ranks of a host, with the best roof of its rows.
func rooflinePanels(rows dataset.Set) []figure.Panel {
	type machine struct {
		host  string
		ranks int
	}
	good := rows.Good()
	hosts := len(dataset.GroupBy(good, func(r *journal.Row) string { return r.Host }))
	var out []figure.Panel
	for _, g := range dataset.GroupBy(good, func(r *journal.Row) machine { return machine{r.Host, dataset.Ranks(r)} }) {
		var limits roof
		var kernels []kernelTime
		for _, r := range g.Rows {
			m := r.Metrics
			limits.gbps, limits.gflops = max(limits.gbps, m["triad_gbps"]), max(limits.gflops, m["peak_gflops"])
			add := func(name, flops, bytes, us string) {
				kernels = append(kernels, newKernelTime(name, m[flops], m[bytes], m[us], r.Disturbed()))
			}
			add("product as stored", "product_flops", "product_bytes", "product_us")
			add("product, plain", "product_flops", "product_plain_bytes", "product_plain_us")
			add("iteration of "+solverOf(r), "flops_model", "bytes_model", "time_us")
		}
		title := unit.Plural(g.Key.ranks, "rank")
		if hosts > 1 {
			title += ", " + g.Key.host
		}
		if p, ok := rooflinePanel(title, limits, kernels); ok {
			out = append(out, p)
		}
	}
	return out
}
