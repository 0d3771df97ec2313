package system

import (
	"strings"
	"testing"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// With jumps of 1e6, rounding x to doubles changes Ax by more than a small tolerance. The gate then names the accuracy
// that can be attained, and does not call the solution wrong. An estimate that is off would hide wrong solutions: so a
// wrong ghost still counts as wrong, and well-scaled problems have a far smaller estimate.
func TestAttainableAccuracy(t *testing.T) {
	jumps := generated(t, "variable", sparse.Params{Rows: 4000, Contrast: 1e6, Seed: 1})
	for _, c := range []struct {
		problem sparse.Problem
		rtol    float64
		wrong   bool
		says    string // "" if the solve passes
	}{
		{jumps, 1e-10, false, ""},
		{jumps, 1e-14, false, "double precision cannot reach the tolerance 1e-14: rounding x alone leaves"},
		{jumps, 1e-14, true, "the solution is wrong"},
		{generated(t, "poisson", sparse.Params{Rows: 4000}), 1e-13, false, ""},
	} {
		errs := onRanks(t, 2, func(g *dist.Group) error {
			sys, err := New(g, Spec{Problem: c.problem, Preconditioner: "amg", RTol: c.rtol,
				RHS: func(int) float64 { return 1 }})
			if err != nil {
				return err
			}
			if c.wrong && g.Rank() == 1 {
				sys.Halo = swapped{sys.Halo, sys.Plan.Peers[0].Recv.Lo}
			}
			out, err := solved(sys)
			if err != nil {
				return err
			}
			if ratio := out.TrueResidual / out.Rounding; c.says != "" && !c.wrong && (ratio < 1 || ratio > 10) {
				t.Errorf("a residual of %.2g, estimated %.2g", out.TrueResidual, out.Rounding)
			}
			return out.Gate(c.rtol)
		})
		for _, err := range errs {
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%g, wrong %v: %v, want %q", c.rtol, c.wrong, err, c.says)
			}
		}
	}
}

// The verdict on a solve stays the same when the system solves again, and each check belongs to the outcome that it was
// given.
func TestVerdictsAreKept(t *testing.T) {
	jumps := generated(t, "variable", sparse.Params{Rows: 4000, Contrast: 1e6, Seed: 1})
	must(t, onRanks(t, 2, func(g *dist.Group) error {
		sys, err := New(g, Spec{Problem: jumps, Preconditioner: "amg", RTol: 1e-14, RHS: func(int) float64 { return 1 }})
		if err != nil {
			return err
		}
		first, err := solved(sys)
		if err != nil {
			return err
		}
		before := first.Gate(1e-14)
		if _, err := sys.Solve(1); err != nil {
			return err
		}
		if after := first.Gate(1e-14); before == nil || after == nil || after.Error() != before.Error() ||
			!strings.Contains(after.Error(), "double precision cannot reach") {
			t.Errorf("the verdict was %v, and is %v after another solve", before, after)
		}
		return nil
	}))
}

// The squares of a tiny right-hand side and of its residuals underflow, so that any x would have a residual of 0. The
// check must not call such an x a solution. A right-hand side of zeros has the solution 0.
func TestSquaresThatUnderflow(t *testing.T) {
	problem := generated(t, "poisson", sparse.Params{Rows: 400})
	accepted := map[float64]bool{0: true, 1e-320: false, 1e-200: false, 1e-150: false, 1e-120: true, 1: true}
	for value, want := range accepted {
		for rank, err := range onRanks(t, 2, func(g *dist.Group) error {
			sys, err := New(g, Spec{Problem: problem, RTol: 1e-8, RHS: func(int) float64 { return value }})
			if err != nil {
				return err
			}
			out, err := solved(sys)
			if err != nil {
				return err
			}
			return out.Gate(1e-8)
		}) {
			if (err == nil) != want || !want && !strings.Contains(err.Error(), "the right-hand side is too small") {
				t.Errorf("values of %g, rank %d: %v, want a good solve: %v", value, rank, err, want)
			}
		}
	}
}
