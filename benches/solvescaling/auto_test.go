package solvescaling

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/dist/disttest"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/solve/system"
	"github.com/kernbench/kernbench/solve"
)

// modelled takes the memory traffic of this rank as costs, so that a choice does not depend on the speed of the
// machine.
func modelled(sys *system.System, out solve.Outcome) (setup, iteration float64, err error) {
	n := sys
	traced, err := n.Trace(2)
	if err != nil {
		return 0, 0, err
	}
	if _, levels := n.Operator.(system.Hierarchy); levels {
		setup = setupCycles * float64(n.Operator.Bytes())
	}
	return setup, traced.Bytes / float64(max(1, traced.Iterations)), nil
}

// setupCycles is the set-up of a hierarchy, as a number of cycles. With a million unknowns, gmg takes about 12 on a
// grid, and amg about 17.
const setupCycles = 15

// On every test problem the choice costs at most 1.2 times the best of all methods and preconditioners, counted in
// bytes. All ranks choose the same.
func TestChoiceIsNearTheBest(t *testing.T) {
	for _, c := range []struct {
		kind   string
		params solve.Params
		ranks  int
	}{
		{"poisson", solve.Params{Rows: 2000}, 1},
		{"poisson", solve.Params{Rows: 60}, 1}, // too small for multigrid to pay
		{"poisson", solve.Params{Rows: 400}, 2},
		{"variable", solve.Params{Rows: 2000, Contrast: 1e6}, 1},
		{"anisotropic", solve.Params{Rows: 2000, Contrast: 1e3}, 1},
		{"mesh", solve.Params{Rows: 1000}, 1},
		{"helmholtz", solve.Params{Rows: 200}, 1},
		{"advection", solve.Params{Rows: 500}, 1},
		{"neumann", solve.Params{Rows: 500}, 1},
	} {
		chosen := make([]string, c.ranks)
		for _, err := range disttest.Ranks(c.ranks, dist.Config{Backend: "cpu", Timeout: time.Minute},
			func(g *dist.Group) error {
				spec := solve.Spec{Problem: must.Get(solve.NewProblem(c.kind, c.params))(t), RTol: 1e-8,
					RHS: func(row int) float64 { return float64(row%7) - 3 }}
				try := attempts(g, spec, modelled, func(string) {})
				trials, err := choose(auto, auto, c.ranks, try)
				chosen[g.Rank()] = fmt.Sprint(trials)
				if err != nil || c.ranks > 1 {
					return err
				}
				return cheaper(trials[0].cost()/1.2, try)
			}) {
			if err != nil {
				t.Errorf("%s of %d rows, choice of %s: %v", c.kind, c.params.Rows, chosen[0], err)
			}
		}
		if c.ranks == 2 && chosen[0] != chosen[1] {
			t.Errorf("%s: the ranks chose differently: %v", c.kind, chosen)
		}
	}
}

// cheaper returns an error if any solver costs less than a limit.
func cheaper(limit float64, try attempt) error {
	for _, m := range solve.Methods() {
		for _, p := range solve.Preconditioners() {
			if one, err := try(m.Name, p.Name, limit); err != nil || one.Solved && one.cost() < limit {
				return fmt.Errorf("%v costs less than %g: %w", one, limit, err)
			}
		}
	}
	return nil
}

// A trial ends when it has cost as much as the best before it, a solver that is not tried gives its reason, and a fixed
// method or preconditioner stays.
func TestChoose(t *testing.T) {
	costs := map[string]float64{"cg + gmg": 10, "cg + amg": 7, "cg + jacobi": 30, "cg + amg-f32": 6,
		"cg-single + amg-f32": 8, "gmres + jacobi": 4}
	var budgets []string
	try := func(method, precond string, budget float64) (trial, error) {
		one := trial{Method: method, Precond: precond, Iteration: 1}
		full, known := costs[one.name()]
		budgets = append(budgets, fmt.Sprintf("%s %g", one.name(), budget))
		if !known {
			one.Refused = "not for this matrix"
			return one, nil
		}
		one.Solved, one.Iterations = full <= budget, int(min(full, budget))
		return one, nil
	}
	trials := must.Get(choose(auto, auto, 2, try))(t)
	want := "cg + gmg +Inf, cg + amg 10, cg + jacobi 7, cg + bjacobi 7, cg 7, cg + amg-f32 7, cg-single + amg-f32 6"
	if got := strings.Join(budgets, ", "); trials[0].name() != "cg + amg-f32" || got != want {
		t.Errorf("chose %s after %s, want %s", trials[0].name(), got, want)
	}
	if trials := must.Get(choose("gmres", auto, 2, try))(t); trials[0].name() != "gmres + jacobi" {
		t.Errorf("chose %s", trials[0].name())
	}
	if trials := must.Get(choose(auto, "gmg", 1, try))(t); trials[0].name() != "cg + gmg" || len(trials) != 1 {
		t.Errorf("chose %v", trials)
	}
	clear(costs)
	if trials, err := choose(auto, auto, 1, try); err == nil || slices.ContainsFunc(trials, func(one trial) bool {
		return !strings.HasSuffix(one.describe(1), ": not for this matrix")
	}) {
		t.Errorf("chose %v, %v", trials, err)
	}
}
