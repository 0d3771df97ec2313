package hpcg

import (
	"fmt"
	"math"

	"github.com/kernbench/kernbench/internal/solve/sparse"
	"github.com/kernbench/kernbench/internal/solve/system"
	"github.com/kernbench/kernbench/solve"
)

// problem is the 27-point stencil on a grid, with 26 on the diagonal and -1 elsewhere. The solution is 1 everywhere.
type problem struct{ solve.Problem }

func (p problem) Grid() sparse.Grid { return p.Problem.(sparse.Gridded).Grid() }
func (p problem) Points() int       { return 27 }

// rhs returns the sum of a row.
func (p problem) rhs(row int) float64 {
	var r solve.Row
	p.Row(row, &r)
	return 27 - float64(len(r.Cols))
}

// exaggerated has a huge diagonal with ten different values. A correct method needs about ten iterations.
type exaggerated struct{ problem }

func (p exaggerated) scale(row int) float64 {
	if row < 9 {
		return float64(row+2) * 1e6
	}
	return 1e6
}

// Row implements solve.Problem.
func (p exaggerated) Row(i int, r *solve.Row) {
	p.problem.Row(i, r)
	for k, c := range r.Cols {
		if c == i {
			r.Vals[k] *= p.scale(i)
		}
	}
}

func (p exaggerated) rhs(row int) float64 { return p.scale(row) * p.problem.rhs(row) }

// summing adds up numbers over the ranks.
type summing func(mine ...float64) ([]float64, error)

// spectral returns the number of iterations for a system with the exaggerated diagonal.
func spectral(sys *system.System) (float64, error) {
	out, err := sys.Solve(0)
	if err != nil {
		return 0, err
	}
	if out.Status != solve.Converged {
		return math.Inf(1), nil
	}
	return float64(out.Iterations), nil
}

// symmetry measures the departure from symmetry of the matrix and of the preconditioner, with two random vectors.
func symmetry(sys *system.System, seed uint64, sum summing) ([]check, error) {
	in := sys
	n, rows := max(1, in.Matrix.Columns()), in.Matrix.Rows()
	x, y, out := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range rows {
		x[i] = 1.5 + 0.5*sparse.Noise(seed, 2*sys.Plan.Global(i))
		y[i] = 1.5 + 0.5*sparse.Noise(seed, 2*sys.Plan.Global(i)+1)
	}
	var checks []check
	for _, o := range []struct {
		name  string
		apply func(dst, src []float64) error
	}{{"departure from symmetry of the product", in.Multiply},
		{"departure from symmetry of the preconditioner", in.Operator.Apply}} {
		if err := o.apply(out, y); err != nil {
			return nil, fmt.Errorf("%s: %w", o.name, err)
		}
		xAy := sparse.Dot(x[:rows], out[:rows])
		if err := o.apply(out, x); err != nil {
			return nil, fmt.Errorf("%s: %w", o.name, err)
		}
		all, err := sum(xAy, sparse.Dot(y[:rows], out[:rows]), sparse.Dot(x[:rows], x[:rows]), sparse.Dot(y[:rows], y[:rows]))
		if err != nil {
			return nil, err
		}
		checks = append(checks, check{o.name, departure(all[0], all[1], all[2], all[3]), maxDeparture})
	}
	return checks, nil
}
