package solvescaling

import (
	"math"
	"testing"

	"github.com/kernbench/kernbench/internal/result/figure"
)

func TestRooflinePanel(t *testing.T) {
	limits := roof{20, 80}
	kernels := []kernelTime{
		newKernelTime("product", 1e6, 8e6, 500, false),
		newKernelTime("product", 1e6, 8e6, 1000, true),
		newKernelTime("iteration", 2e6, 4e6, 1000, false),
		newKernelTime("unknown", 2e6, 0, 1000, false), // cannot be drawn without bytes
		newKernelTime("unknown", 0, 1, 1, false),
		newKernelTime("unknown", 1, 1, math.NaN(), false),
	}
	p, ok := rooflinePanel("2 ranks", limits, kernels)
	if !ok || len(p.Series) != 2 {
		t.Fatalf("%+v", p)
	}
	if err := (figure.Figure{Name: "roofline", Panels: []figure.Panel{p}}).Validate(); err != nil {
		t.Error(err)
	}
	if got := p.Series[0].Points; len(got) != 2 || got[0] != (figure.Point{X: 0.125, Y: 2}) || !got[1].Hollow ||
		got[1].Y != 1 {
		t.Errorf("%+v", got)
	}
	line := p.Lines[0].Points
	if line[0].X != 0.0625 || line[0].Y != 20*0.0625 || line[1] != (figure.Point{X: 4, Y: 80}) || line[2].Y != 80 ||
		line[2].X <= 4 {
		t.Errorf("the roof is %+v", line)
	}
	if limits.at(0.125) != 2.5 || limits.at(100) != 80 {
		t.Error("a kernel's limit is wrong")
	}
	for _, r := range []roof{{gbps: 20}, {gflops: 80}, {}} {
		if _, ok := rooflinePanel("", r, kernels); ok {
			t.Errorf("a panel under %+v", r)
		}
	}
	if _, ok := rooflinePanel("", limits, kernels[3:]); ok {
		t.Error("a panel of nothing")
	}
}
