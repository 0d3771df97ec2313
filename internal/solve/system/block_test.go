package system

import (
	"math"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

const blockRTol = 1e-9

func columnNoise(row, column int) float64 { return sparse.Noise(uint64(7+column), row) }

// withBlock sets up a system of several columns on some ranks and calls fn on each.
func withBlock(t *testing.T, ranks int, spec Spec, columns int, fn func(k *Block) error) {
	t.Helper()
	spec.RTol, spec.RHS = blockRTol, func(row int) float64 { return columnNoise(row, 0) }
	withSystem(t, ranks, spec, func(sys *System) error {
		k, err := NewBlock(sys, columns, columnNoise)
		if err != nil {
			return err
		}
		return fn(k)
	})
}

// Several columns solved at once agree with single solves, on any number of ranks, with preconditioners that are and
// that are not diagonal, and for a singular matrix. A halo of many columns takes several messages.
func TestColumnsAgreeWithSingleSolves(t *testing.T) {
	for _, c := range []struct {
		kind, precond string
		rows, columns int
		ranks         int
	}{
		{"poisson", "", 500, 3, 1}, {"poisson", "jacobi", 500, 16, 2}, {"variable", "gmg", 900, 5, 3},
		{"mesh", "bjacobi", 300, 4, 4}, {"neumann", "", 400, 2, 2}, {"poisson", "", 2500, 100, 2},
	} {
		problem := generated(t, c.kind, sparse.Params{Rows: c.rows})
		spec := Spec{Problem: problem, Preconditioner: c.precond}
		withBlock(t, c.ranks, spec, c.columns, func(k *Block) error {
			out, err := k.Solve(0)
			if err == nil {
				err = k.Check(&out)
			}
			if err == nil {
				err = k.Gate(out, blockRTol)
			}
			if err != nil {
				t.Errorf("%s %s: %v", c.kind, c.precond, err)
			}
			if c.rows > 1000 {
				return nil // the gate has compared
			}
			out, err = k.System.Solve(0) // the first column
			if err != nil || out.Status != krylov.Converged {
				return err
			}
			scale := 0.0
			for _, v := range k.System.Solution() {
				scale = max(scale, math.Abs(v))
			}
			for i, want := range k.System.Solution() {
				if got := k.Solution()[i*c.columns]; math.Abs(got-want) > 1e-5*scale {
					t.Errorf("%s %s on %d ranks: row %d is %g, a single solve gives %g", c.kind, c.precond, c.ranks, i, got, want)
					break
				}
			}
			return nil
		})
	}
}

// The gate names the columns that are wrong: two that were exchanged, one that was left behind, and all columns of a
// solve that ended too early.
func TestGateNamesColumns(t *testing.T) {
	problem := generated(t, "poisson", sparse.Params{Rows: 400})
	for _, c := range []struct {
		name  string
		limit int
		plant func(k *Block)
		want  string
	}{
		{"exchanged", 0, func(k *Block) {
			k.rhs = func(row, column int) float64 { return columnNoise(row, []int{0, 3, 2, 1}[column]) }
		}, "columns 2, 4 of 4: the solution is wrong: its true relative residual is 1."},
		{"left behind", 0, func(k *Block) {
			for i := 2; i < len(k.x); i += 4 {
				k.x[i] *= 0.999
			}
		}, "column 3 of 4: the solution is wrong: its true relative residual is 0.001, above 10 x 1e-09, though the " +
			"method says"},
		{"too early", 5, func(*Block) {},
			"columns 1, 2, 3, 4 of 4 did not converge: too many iterations after 5 iterations"},
	} {
		withBlock(t, 2, Spec{Problem: problem}, 4, func(k *Block) error {
			out, err := k.Solve(c.limit)
			if err != nil {
				return err
			}
			c.plant(k)
			if err := k.Check(&out); err != nil {
				return err
			}
			if err := k.Gate(out, blockRTol); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", c.name, err, c.want)
			}
			return nil
		})
	}
}
