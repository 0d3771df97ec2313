package solvescaling

import (
	"math"
	"testing"

	"github.com/kernbench/kernbench/internal/result/figure"
)

func TestRooflinePanel(t *testing.T) {
	kernels := []kernel{
		{"product", 1e6, 8e6, 500, false},
		{"product", 1e6, 8e6, 1000, true},
		{"iteration", 2e6, 4e6, 1000, false},
		{"unknown", 2e6, 0, 1000, false}, // cannot be drawn without bytes
		{"unknown", 0, 1, 1, false},
		{"unknown", 1, 1, math.NaN(), false},
	}
	p, ok := rooflinePanel("2 ranks", 20, 80, kernels)
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
	for _, r := range [][2]float64{{20, 0}, {0, 80}, {}} {
		if _, ok := rooflinePanel("", r[0], r[1], kernels); ok {
			t.Errorf("a panel under %+v", r)
		}
	}
	if _, ok := rooflinePanel("", 20, 80, kernels[3:]); ok {
		t.Error("a panel of nothing")
	}
}
