package krylov

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// table is a problem given by its elements.
type table struct{ *mat.Dense }

func (p table) Size() int             { return p.RawMatrix().Rows }
func (p table) Traits() sparse.Traits { return sparse.Traits{} }

func (p table) Row(i int, r *sparse.Row) {
	r.Reset()
	for j, v := range p.RawRowView(i) {
		if v != 0 {
			r.Add(j, v)
		}
	}
}

// markov is a transition matrix like the matrices of the cage family: not symmetric, and its columns add up to 1. The
// vector of ones is a left eigenvector. If it is the right-hand side, the first residual of bicgstab is orthogonal to
// its shadow.
func markov(n int) table {
	m := mat.NewDense(n, n, nil)
	for j := range n {
		sum := 0.0
		for _, step := range []int{0, 1, 5, n - 2, n - 7} {
			v := 1 + sparse.Noise(3, j*n+step)/2
			if step == 0 {
				v *= 4
			}
			m.Set((j+step)%n, j, v)
			sum += v
		}
		for i := range n {
			m.Set(i, j, m.At(i, j)/sum)
		}
	}
	return table{m}
}

func ones(int) float64 { return 1 }

// bicgstab continues with another shadow if the residual is orthogonal to the shadow.
func TestBiCGStabRenewsItsShadow(t *testing.T) {
	for _, n := range []int{37, 148} {
		p := markov(n)
		for _, precondition := range []bool{false, true} {
			for _, ranks := range []int{1, 2, 3, 5} {
				tm := team{problem: p, method: "bicgstab", layout: stripes{n, ranks, 4}, ranks: ranks, rhs: ones,
					cfg: Config{RTol: 1e-10, MaxIter: 80, Precondition: precondition}}
				x, r := tm.solve(t)
				if res := trueResidual(p, x, ones); r.Status != Converged || res > 1e-9 {
					t.Errorf("%d rows, preconditioned %v, %d ranks: %v after %d iterations (%s), residual %.2g, true one %.2g",
						n, precondition, ranks, r.Status, r.Iterations, r.Reason, r.Residual, res)
				}
			}
		}
	}
}

// neumann is the Laplacian of a path, or of a directed ring. It is singular, and the constants are its null space.
func neumann(n int, directed bool) table {
	m := mat.NewDense(n, n, nil)
	for i := range n {
		for _, j := range []int{i - 1, i + 1} {
			switch {
			case directed && j == i+1:
				m.Set(i, j%n, -1)
				m.Set(i, i, 1)
			case !directed && j >= 0 && j < n:
				m.Set(i, j, -1)
				m.Set(i, i, m.At(i, i)+1)
			}
		}
	}
	return table{m}
}

// On a singular matrix gmres reports the true residual of its x, whether or not a solution exists, and never claims to
// have converged when it has not.
func TestGMRESOnSingularMatrices(t *testing.T) {
	consistent := func(i int) float64 { return float64(i%2)*2 - 1 }
	nilpotent := table{mat.NewDense(2, 2, []float64{1, -1, 1, -1})}
	for name, tc := range map[string]struct {
		p    table
		rhs  func(int) float64
		good bool
	}{
		"path, with a solution":    {neumann(40, false), consistent, true},
		"path, without":            {neumann(40, false), noise, false},
		"path, only the constants": {neumann(40, false), ones, false},
		"ring, with a solution":    {neumann(40, true), consistent, true},
		"ring, without":            {neumann(40, true), noise, false},
		"nilpotent":                {nilpotent, ones, false},
	} {
		for _, restart := range []int{10, 100} {
			for _, ranks := range []int{1, 3} {
				what := fmt.Sprintf("%s, restart %d, %d ranks", name, restart, ranks)
				n := tc.p.Size()
				tm := team{problem: tc.p, method: "gmres", layout: stripes{n, ranks, 3}, ranks: ranks, rhs: tc.rhs,
					cfg: Config{RTol: 1e-10, MaxIter: 300, Restart: restart}}
				x, r := tm.solve(t)
				res := trueResidual(tc.p, x, tc.rhs)
				if math.Abs(res-r.Residual) > 1e-9+1e-6*res || res > 1+1e-9 {
					t.Errorf("%s: %v, residual %.3g, true one %.3g", what, r.Status, r.Residual, res)
				}
				if (r.Status == Converged) != tc.good && (restart > n || !tc.good) {
					t.Errorf("%s: %v (%s) after %d iterations, residual %.3g", what, r.Status, r.Reason, r.Iterations, r.Residual)
				}
			}
		}
	}
}

// stretched is a symmetric, indefinite matrix whose eigenvalues reach from 1 down to small, in both signs: a diagonal
// between two reflections.
func stretched(n int, small float64) table {
	v := mat.NewVecDense(n, nil)
	for i := range n {
		v.SetVec(i, 1+noise(i)/3)
	}
	reflect := mat.NewDense(n, n, nil)
	reflect.Outer(-2/mat.Dot(v, v), v, v)
	m := mat.NewDense(n, n, nil)
	for i := range n {
		reflect.Set(i, i, reflect.At(i, i)+1)
		m.Set(i, i, math.Pow(small, float64(i)/float64(n-1))*float64(1-i%2*2))
	}
	m.Mul(reflect, m)
	m.Mul(m, reflect)
	for i := range n {
		for j := range i {
			m.Set(i, j, m.At(j, i))
		}
	}
	return table{m}
}

// symmetric declares a table symmetric.
type symmetric struct{ table }

func (symmetric) Traits() sparse.Traits { return sparse.Traits{Symmetric: true} }

// The residual that minres reports is the true one, also where its recurrence drifts away.
func TestMINRESReplacesItsResidual(t *testing.T) {
	for _, small := range []float64{1e-3, 1e-7, 1e-12} {
		p := symmetric{stretched(60, small)}
		tm := team{problem: p, method: "minres", layout: stripes{60, 2, 3}, ranks: 2, rhs: noise,
			cfg: Config{RTol: 1e-9, MaxIter: 2000}}
		x, r := tm.solve(t)
		if res := trueResidual(p.table, x, noise); math.Abs(res-r.Residual) > 1e-9+0.01*res ||
			(r.Status == Converged) != (small > 1e-10) || r.Status == Converged && res > 1e-9 {
			t.Errorf("eigenvalues from %g: %v after %d iterations (%s), residual %.2g, true one %.2g", small, r.Status,
				r.Iterations, r.Reason, r.Residual, res)
		}
	}
}

// A solve whose residual has grown too far ends with that reason instead of going on to the limit.
func TestDivergenceEndsTheSolve(t *testing.T) {
	c := Core{Config: Config{RTol: 1e-8, MaxIter: 1000}, Norm: 2}
	if c.Iterated(1e6) || !c.Iterated(1e9) || c.Result.Status != Breakdown ||
		!strings.Contains(c.Result.Reason, "diverged: the residual has grown to 5e+08 times the right-hand side") {
		t.Errorf("%+v", c.Result)
	}
	if c.Corrected(1); c.Result.Status != Running || c.Result.Reason != "" {
		t.Errorf("after the true residual: %+v", c.Result)
	}
}
