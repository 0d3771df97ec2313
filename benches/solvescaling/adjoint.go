package solvescaling

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/solve/sparse"
	"github.com/kernbench/kernbench/internal/solve/system"
	"github.com/kernbench/kernbench/solve"
)

const (
	adjointOption = "adjoint"
	// gradientTolerance is the largest relative difference between a gradient and its finite difference.
	gradientTolerance = 1e-3
	// gradientRTol is the tolerance of the solves that the gradients are checked with. A looser one would drown the
	// differences of neighbouring solutions.
	gradientRTol = 1e-12
	// gradientStep is the relative change of the entries of the matrix.
	gradientStep = 1e-4
	// changedRows is the number of rows whose entries are changed. Few rows keep the changed matrix near the original,
	// however ill-conditioned that is.
	changedRows = 8
)

// reportAdjoint solves the adjoint system and checks the gradients that follow from it by finite
// differences. The number whose gradients are taken is L = g'x with a random g.
func reportAdjoint(ctx context.Context, s *bench.State, g *dist.Group, spec solve.Spec, singular bool) error {
	s.Phase("adjoint")
	matrix := spec.Problem
	if spec.MatrixFile != "" { // the finite differences change entries, and each rank may need any of them
		file, err := sparse.LoadMatrix(spec.MatrixFile, nil)
		if err != nil {
			return err
		}
		matrix = file
	}
	a := adjoint{ctx: ctx, s: s, group: g, spec: spec, matrix: matrix,
		gradient: func(row int) float64 { return sparse.Noise(s.Seed()+1, row) }}
	a.spec.StopAfter = 0
	timed, err := system.Adjoint(g, a.spec, a.gradient)
	if err != nil {
		return fmt.Errorf("setting up the adjoint system: %w", err)
	}
	if err := s.Barrier(ctx); err != nil {
		return err
	}
	out, err := timed.Solve(0)
	if err != nil {
		return err
	}
	if err := timed.Check(&out); err != nil {
		return err
	}
	seconds, err := maxOverRanks(ctx, s, out.Seconds)
	if err != nil {
		return err
	}
	s.Record("adjoint_time_s", seconds)
	s.Record("adjoint_iterations", float64(out.Iterations))
	if err := out.Gate(a.spec.RTol); err != nil {
		return fmt.Errorf("the adjoint system: %w", err)
	}
	return a.check(singular)
}

// adjoint holds what the checks of the gradients share.
type adjoint struct {
	ctx      context.Context
	s        *bench.State
	group    *dist.Group
	spec     solve.Spec
	matrix   solve.Problem // all rows
	gradient func(row int) float64
}

// check compares the gradients with finite differences. A singular matrix that is changed is no longer
// singular, so only the gradient with respect to the right-hand side is checked there.
func (a *adjoint) check(singular bool) error {
	a.spec.RTol, a.spec.MaxIter = gradientRTol, 0
	base, x, err := a.solve(a.spec)
	if err != nil {
		return err
	}
	adj, err := system.Adjoint(a.group, a.spec, a.gradient)
	if err != nil {
		return err
	}
	if err := a.finish(adj); err != nil {
		return err
	}
	v := adj.Solution()
	for i := range v {
		if adj.Plan.Global(i) != base.Plan.Global(i) {
			return errors.New("the adjoint system has another partition than the system")
		}
	}
	other := a.spec // L is linear in b, so that a difference of any length is exact
	other.RHS, other.RHSRows = func(row int) float64 { return sparse.Noise(a.s.Seed()+2, row) }, 0
	changed, y, err := a.solve(other)
	if err != nil {
		return err
	}
	var parts gradient
	for i := range y {
		row := changed.Plan.Global(i)
		parts.Difference += a.gradient(row) * y[i]
		parts.Product += v[i] * other.RHS(row)
		parts.Terms += math.Abs(v[i] * other.RHS(row))
	}
	if err := a.judge("gradient_error_rhs", "the right-hand side", parts); err != nil || singular {
		return err
	}
	return a.checkEntries(x, v)
}

// checkEntries compares the gradient with respect to the entries of the matrix with a central difference.
func (a *adjoint) checkEntries(x, v []float64) error {
	step := max(1, a.matrix.Size()/changedRows)
	var parts gradient
	rates := make([]float64, len(x)) // E x, for the change E of the matrix per unit of the step
	for _, side := range []float64{1, -1} {
		spec := a.spec
		spec.MatrixFile, spec.Problem = "", sparse.Perturbed(a.matrix, side*gradientStep, a.s.Seed()+3,
			func(i int) bool { return i%step == step/2 })
		sys, z, err := a.solve(spec)
		if err != nil {
			return err
		}
		for i := range z {
			parts.Difference += side * a.gradient(sys.Plan.Global(i)) * z[i] / (2 * gradientStep)
		}
		n := sys
		padded, product := make([]float64, n.Matrix.Columns()), make([]float64, n.Matrix.Columns())
		copy(padded, x)
		if err := n.Multiply(product, padded); err != nil {
			return err
		}
		for i := range rates {
			rates[i] += side * product[i] / (2 * gradientStep)
		}
	}
	for i, rate := range rates {
		parts.Product -= v[i] * rate
		parts.Terms += math.Abs(v[i] * rate)
	}
	return a.judge("gradient_error_entries", "the entries of the matrix", parts)
}

// solve solves a system to gradientRTol. It returns a copy of the solution. A preconditioner that does not suit the
// changed matrix is left out: these solves are not timed.
func (a *adjoint) solve(spec solve.Spec) (*system.System, []float64, error) {
	sys, err := system.New(a.group, spec)
	if _, refused := errors.AsType[*solve.Refusal](err); refused && spec.Preconditioner != "" {
		spec.Preconditioner = ""
		sys, err = system.New(a.group, spec)
	}
	if err != nil {
		return nil, nil, err
	}
	if err := a.finish(sys); err != nil {
		return nil, nil, err
	}
	return sys, slices.Clone(sys.Solution()), nil
}

// finish makes a solve and fails unless it converges.
func (a *adjoint) finish(sys *system.System) error {
	out, err := sys.Solve(0)
	if err != nil {
		return err
	}
	if out.Status != solve.Converged {
		return fmt.Errorf("checking a gradient: a solve to %.0g ended with %v after %d iterations %s", gradientRTol,
			out.Status, out.Iterations, out.Reason)
	}
	return nil
}

// gradient has a rank's parts of a finite difference, of the gradient, and of the magnitudes of its terms.
type gradient struct{ Difference, Product, Terms float64 }

// judge adds up this rank's parts of a finite difference, of the gradient, and of the magnitudes of
// its terms. It records the relative difference and fails if that is too large.
func (a *adjoint) judge(metric, what string, parts gradient) error {
	ranks, err := bench.Gather(a.ctx, a.s, parts)
	if err != nil {
		return err
	}
	difference := sumOf(ranks, func(p gradient) float64 { return p.Difference })
	product := sumOf(ranks, func(p gradient) float64 { return p.Product })
	wrong := math.Abs(difference-product) / sumOf(ranks, func(p gradient) float64 { return p.Terms })
	a.s.Record(metric, wrong)
	if !(wrong <= gradientTolerance) {
		return fmt.Errorf("the gradient with respect to %s is wrong: it is %.6g, the finite difference %.6g, a relative "+
			"difference of %.2g above %g", what, product, difference, wrong, gradientTolerance)
	}
	return nil
}
