package roofline

import (
	"math"
	"testing"

	"github.com/kernbench/kernbench/internal/result/figure"
)

func TestPanel(t *testing.T) {
	roof := Roof{GBps: 20, GFLOPS: 80}
	kernels := []Kernel{
		{Name: "product", Flops: 1e6, Bytes: 8e6, US: 500},
		{Name: "product", Flops: 1e6, Bytes: 8e6, US: 1000, Disturbed: true},
		{Name: "iteration", Flops: 2e6, Bytes: 4e6, US: 1000},
		{Name: "unknown", Flops: 2e6, US: 1000}, // cannot be drawn without bytes
		{Name: "unknown", Bytes: 1, US: 1},
		{Name: "unknown", Flops: 1, Bytes: 1, US: math.NaN()},
	}
	p, ok := Panel("2 ranks", roof, kernels)
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
	if roof.At(0.125) != 2.5 || roof.At(100) != 80 {
		t.Error("a kernel's limit is wrong")
	}
	for _, r := range []Roof{{GBps: 20}, {GFLOPS: 80}, {}} {
		if _, ok := Panel("", r, kernels); ok {
			t.Errorf("a panel under %+v", r)
		}
	}
	if _, ok := Panel("", roof, kernels[3:]); ok {
		t.Error("a panel of nothing")
	}
}
