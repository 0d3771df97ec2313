package solvescaling

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/result/journal"
	"github.com/kernbench/kernbench/internal/solve/krylov"
)

// The phases of a measured row add up to its timed iteration, and the levels to the preconditioner. Bytes and
// operations add up to the metrics of the row.
func TestWorkTable(t *testing.T) {
	o := first(t, "num_ranks=2 dof-per-rank=2000 precond=gmg", "repeat=2", "cpu")
	if o.Status != journal.OK {
		t.Fatal(o.Reason)
	}
	two := 2
	r := &journal.Row{Status: journal.OK, NumRanks: &two, Metrics: o.Metrics, Details: o.Details, Samples: 2}
	us := map[string]float64{}
	for _, line := range workTable(r)[1:] {
		us[strings.TrimSpace(line[0])], _ = strconv.ParseFloat(line[2], 64)
	}
	sum, levels := 0.0, 0.0
	for name, v := range us {
		switch {
		case strings.HasPrefix(name, "level"):
			levels += v
		case name != "whole iteration":
			sum += v
		}
	}
	if whole := us["whole iteration"]; !(whole > 0) || math.Abs(sum-whole) > 0.02*whole {
		t.Errorf("the phases add up to %g of %g: %v", sum, whole, us)
	}
	if all := us["preconditioner"]; len(us) < 10 || math.Abs(levels-all) > 0.05*all {
		t.Errorf("the levels add up to %g of %g: %v", levels, all, us)
	}
	if r.Metrics["flops_model"] == 0 {
		t.Error("no flops_model: the operations of multigrid are not counted")
	}
	delete(r.Details, workDetail)
	if got := workTable(r); got != nil {
		t.Errorf("a row without counts has the table %v", got)
	}
}

// Phases have names for the table.
func TestPhaseNames(t *testing.T) {
	for p := range krylov.NumPhases {
		if phaseNames[p] == "" {
			t.Errorf("no name for %v", p)
		}
	}
}

// Settings of multigrid are dropped with a reason where they do not apply.
func TestMultigridRefuses(t *testing.T) {
	for axes, reason := range map[string]string{
		"precond=jacobi,amg cycle=w":                "preconditioner jacobi has no cycle: use amg, amg-bf16, amg-f32, gmg",
		"precond=gmg,amg coarsening=classical":      "gmg takes its levels from the grid and has no coarsening",
		"precond=amg,amg-f32 smoother=gauss-seidel": "amg-f32 stores rounded values",
		"precond=amg method=cg,cg-single cycle=k":   "which an F- or K-cycle is not: use cg, or a V- or W-cycle",
		"precond=amg aggressive=0,1":                "aggressive levels need coarsening aggregation",
		"precond=amg strength=0.25,2":               "strength 2: want a number above 0 and below 1",
		"precond=amg sweeps=2,0":                    "--sweeps 0: want at least 1",
		"problem=poisson,variable contrast=10":      "problem poisson has no coefficients that differ",
		"problem=variable contrast=10,0.5":          "--contrast 0.5: want at least 1",
		"precond=amg,auto cycle=w":                  "auto chooses among solvers with default settings: leave out --cycle",
	} {
		if !strings.Contains(axes, "problem=") {
			axes += " problem=poisson"
		}
		p := planned(t, "num_ranks=1 "+axes, "")
		found := false
		for _, d := range p.Dropped {
			found = found || strings.Contains(d.Reason, reason)
		}
		if !found {
			t.Errorf("%s: dropped %v", axes, p.Dropped)
		}
	}
}
