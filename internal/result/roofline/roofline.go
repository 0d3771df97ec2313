// Package roofline draws how fast kernels are beside what memory and arithmetic allow (Williams, Waterman and
// Patterson, 2009): operations per second by operations per byte moved. Times and roofs are measured, operations and
// bytes are counted by a model, and the axes say so. It measures nothing itself.
package roofline

import (
	"fmt"
	"math"

	"github.com/kernbench/kernbench/internal/base/lists"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/result/figure"
)

// Roof is what a machine gives at most, as measured.
type Roof struct {
	GBps   float64 // of its memory
	GFLOPS float64 // of its arithmetic
}

// At is the most operations per second, in 1e9, of a kernel with so many operations per byte.
func (r Roof) At(intensity float64) float64 { return min(r.GFLOPS, r.GBps*intensity) }

// Ridge is the operations per byte from which on arithmetic is the limit.
func (r Roof) Ridge() float64 { return r.GFLOPS / r.GBps }

func (r Roof) known() bool { return r.GBps > 0 && r.GFLOPS > 0 && !math.IsInf(r.Ridge(), 0) }

// Kernel is one time of a kernel.
type Kernel struct {
	Name         string  // kernels of one name are drawn alike
	Flops, Bytes float64 // by the model
	US           float64 // measured
	Disturbed    bool    // while it was: drawn hollow
}

func (k Kernel) intensity() float64 { return k.Flops / k.Bytes }
func (k Kernel) gflops() float64    { return k.Flops / k.US / 1e3 }

func (k Kernel) known() bool {
	x, y := k.intensity(), k.gflops()
	return x > 0 && y > 0 && !math.IsInf(x, 0) && !math.IsInf(y, 0)
}

// margin is by how much the axes go beyond what is drawn.
const margin = 2

// Panel draws kernels under their roof; false where there is nothing to draw. Kernels of which something is not known
// are left out.
func Panel(title string, roof Roof, kernels []Kernel) (figure.Panel, bool) {
	kernels = lists.Filter(kernels, Kernel.known)
	if !roof.known() || len(kernels) == 0 {
		return figure.Panel{}, false
	}
	p := figure.Panel{Title: title, Legend: figure.LegendBelow,
		X: figure.Axis{Label: "operations per byte, modelled", Scale: figure.Log10},
		Y: figure.Axis{Label: "GFLOP/s, measured", Scale: figure.Log10}}
	least, most := roof.Ridge(), roof.Ridge()
	for _, g := range lists.GroupBy(kernels, func(k Kernel) string { return k.Name }) {
		s := figure.Series{Name: g.Key, Kind: figure.Scatter}
		for _, k := range g.Items {
			s.Points = append(s.Points, figure.Point{X: k.intensity(), Y: k.gflops(), Hollow: k.Disturbed})
			least, most = min(least, k.intensity()), max(most, k.intensity())
		}
		p.Series = append(p.Series, s)
	}
	least, most = least/margin, most*margin
	p.Lines = []figure.Line{{Label: fmt.Sprintf("roof, measured: %s GB/s, %s GFLOP/s", unit.FormatSig(roof.GBps, 3),
		unit.FormatSig(roof.GFLOPS, 3)),
		Points: []figure.Point{{X: least, Y: roof.At(least)}, {X: roof.Ridge(), Y: roof.GFLOPS}, {X: most, Y: roof.GFLOPS}}}}
	return p, true
}
