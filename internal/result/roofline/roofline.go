// Package roofline draws the speed of kernels below the limits of memory and arithmetic
// (Williams, Waterman and Patterson, 2009): operations per second over operations per byte
// moved. Times and limits are measured, operations and bytes are counted by a model, and the
// axes say so. The package measures nothing itself.
package roofline

import (
	"fmt"
	"math"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/figure"
)

// Roof holds the measured limits of a machine.
type Roof struct {
	GBps   float64 // memory bandwidth
	GFLOPS float64 // arithmetic
}

// At returns the greatest speed, in GFLOP/s, of a kernel with the given operations per byte.
func (r Roof) At(intensity float64) float64 { return min(r.GFLOPS, r.GBps*intensity) }

// Ridge returns the operations per byte above which arithmetic is the limit.
func (r Roof) Ridge() float64 { return r.GFLOPS / r.GBps }

func (r Roof) known() bool { return r.GBps > 0 && r.GFLOPS > 0 && !math.IsInf(r.Ridge(), 0) }

// Kernel is one measured time of a kernel.
type Kernel struct {
	Name         string  // kernels of the same name form a series
	Flops, Bytes float64 // counted by the model
	US           float64 // measured time in microseconds
	Disturbed    bool    // drawn hollow
}

func (k Kernel) intensity() float64 { return k.Flops / k.Bytes }
func (k Kernel) gflops() float64    { return k.Flops / k.US / 1e3 }

func (k Kernel) known() bool {
	x, y := k.intensity(), k.gflops()
	return x > 0 && y > 0 && !math.IsInf(x, 0) && !math.IsInf(y, 0)
}

// margin is the factor by which the roof extends beyond the outermost kernels.
const margin = 2

// Panel returns a figure of kernels under their roof, or false if there is nothing to draw.
// It leaves out kernels with unknown operations, bytes or time.
func Panel(title string, roof Roof, kernels []Kernel) (figure.Panel, bool) {
	kernels = lists.Filter(kernels, Kernel.known)
	if !roof.known() || len(kernels) == 0 {
		return figure.Panel{}, false
	}
	p := figure.Panel{Title: title, Legend: figure.LegendBelow,
		X: figure.Axis{Label: "operations per byte, modelled", Scale: figure.Log10},
		Y: figure.Axis{Label: "GFLOP/s, measured", Scale: figure.Log10}}
	low, high := roof.Ridge(), roof.Ridge()
	for _, g := range lists.GroupBy(kernels, func(k Kernel) string { return k.Name }) {
		s := figure.Series{Name: g.Key, Kind: figure.Scatter}
		for _, k := range g.Items {
			s.Points = append(s.Points, figure.Point{X: k.intensity(), Y: k.gflops(), Hollow: k.Disturbed})
			low, high = min(low, k.intensity()), max(high, k.intensity())
		}
		p.Series = append(p.Series, s)
	}
	low, high = low/margin, high*margin
	p.Lines = []figure.Line{{Label: fmt.Sprintf("roof, measured: %s GB/s, %s GFLOP/s", unit.FormatSig(roof.GBps, 3),
		unit.FormatSig(roof.GFLOPS, 3)),
		Points: []figure.Point{{X: low, Y: roof.At(low)}, {X: roof.Ridge(), Y: roof.GFLOPS}, {X: high, Y: roof.GFLOPS}}}}
	return p, true
}
