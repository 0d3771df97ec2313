package precondition

import (
	"math"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// one is the team of a single rank.
type one struct{}

func (one) Rank() int                                 { return 0 }
func (one) Size() int                                 { return 1 }
func (one) Sum(v []float64) ([]float64, error)        { return v, nil }
func (one) Exchange(to [][]byte) ([][]byte, error)    { return to, nil }
func (one) Connect(*sparse.Plan) (krylov.Halo, error) { return krylov.NoHalo{}, nil }

// whole is the layout in which all rows belong to rank 0.
type whole int

func (whole) Owner(int) int             { return 0 }
func (n whole) Rows(int) []sparse.Range { return []sparse.Range{{Lo: 0, Hi: int(n)}} }

// localOf returns a problem on one rank.
func localOf(t *testing.T, p sparse.Problem) *Local {
	t.Helper()
	plan := sparse.NewPlan(p, whole(p.Size()), 0)
	m := must.Get(plan.Matrix(p, sparse.Plain))(t)
	return &Local{Problem: p, Plan: plan, Matrix: m, Halo: krylov.NoHalo{}, Traits: p.Traits(), Team: one{}}
}

// band is a tridiagonal matrix with 2.5 on the diagonal.
type band struct {
	n            int
	below, above float64
}

func (b band) Size() int             { return b.n }
func (b band) Traits() sparse.Traits { return sparse.Traits{Symmetric: b.below == b.above} }
func (b band) Row(i int, r *sparse.Row) {
	r.Reset()
	if i > 0 {
		r.Add(i-1, b.below)
	}
	r.Add(i, 2.5)
	if i < b.n-1 {
		r.Add(i+1, b.above)
	}
}

func made(t *testing.T, name string, l *Local) krylov.Operator {
	t.Helper()
	p := must.Get(Preconditioners.Lookup(name))(t)
	return must.Get(p.New(l))(t)
}

func noise(n int, seed uint64) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = sparse.Noise(seed, i)
	}
	return v
}

// A tridiagonal matrix has no fill, so its incomplete factors are exact.
func TestFactorsOfABand(t *testing.T) {
	for _, p := range []band{{50, -1, -1}, {50, -1.5, -0.5}} {
		l := localOf(t, p)
		x, b, got := noise(p.n, 1), make([]float64, p.n), make([]float64, p.n)
		l.Matrix.Multiply(b, x, 0, p.n)
		must.Do(t, made(t, "bjacobi", l).Apply(got, b))
		for i := range x {
			if math.Abs(got[i]-x[i]) > 1e-12 {
				t.Fatalf("%+v: x[%d] = %v, want %v", p, i, got[i], x[i])
			}
		}
	}
}

// If the matrix is symmetric positive definite, so is every preconditioner, and it ignores the previous content of dst
// and the ghosts.
func TestSymmetricOperators(t *testing.T) {
	for _, kind := range []string{"poisson", "variable", "mesh"} {
		p := must.Get(sparse.New(kind, sparse.Params{Rows: 400, Seed: 3}))(t)
		l := localOf(t, p)
		for _, pre := range Preconditioners.All() {
			if pre.New == nil || pre.Check(p, p.Traits()) != nil {
				continue
			}
			op := made(t, pre.Name, l)
			u, v, mu, mv := noise(p.Size(), 1), noise(p.Size(), 2), noise(p.Size(), 3), noise(p.Size(), 4)
			if op.Apply(mu, u) != nil || op.Apply(mv, v) != nil {
				t.Fatal("not applied")
			}
			a, b, c := sparse.Dot(v, mu), sparse.Dot(u, mv), sparse.Dot(u, mu)
			if math.Abs(a-b) > 1e-10*math.Abs(c) || !(c > 0) {
				t.Errorf("%s, %s: (v, Mu) = %v, (Mv, u) = %v, (u, Mu) = %v", kind, pre.Name, a, b, c)
			}
			again := make([]float64, len(mu))
			if op.Apply(again, u); again[7] != mu[7] {
				t.Errorf("%s, %s: %v, then %v", kind, pre.Name, mu[7], again[7])
			}
		}
	}
}

// The largest eigenvalue of the scaled second difference is known, and the polynomial is as small on its interval as
// theory predicts.
func TestChebyshev(t *testing.T) {
	const n = 300
	l := localOf(t, band{n, -1.25, -1.25})
	c := made(t, "chebyshev", l).(*Chebyshev)
	if want := 1 + math.Cos(math.Pi/(n+1)); c.Largest() < want || c.Largest() > 1.1*want {
		t.Errorf("the largest eigenvalue is taken as %v, it is %v", c.Largest(), want)
	}
	// The error of mode k after the iteration for A x = 0 is T((theta-lambda)/delta)/T(theta/delta).
	theta, delta := (c.hi+c.lo)/2, (c.hi-c.lo)/2
	cheb := func(x float64) float64 { return 8*x*x*x*x - 8*x*x + 1 }
	for _, k := range []int{1, 20, 100, 200, n} {
		x, b := make([]float64, n), make([]float64, n)
		for i := range x {
			x[i] = math.Sin(math.Pi * float64(k*(i+1)) / (n + 1))
		}
		before := x[2]
		must.Do(t, c.Smooth(x, b, false))
		lambda := 1 - math.Cos(math.Pi*float64(k)/(n+1))
		if want := cheb((theta-lambda)/delta) / cheb(theta/delta); math.Abs(x[2]/before-want) > 1e-9 {
			t.Errorf("mode %d is multiplied by %v, want %v", k, x[2]/before, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name string
		p    sparse.Problem
		want string
	}{
		{"jacobi", hollow(3), "row 0 has a zero on the diagonal"},
		{"bjacobi", hollow(3), "row 0 has nothing on the diagonal"},
		{"bjacobi", band{9, -3, -3}, "pivot of -1.1 in row 1"},
	} {
		pre := must.Get(Preconditioners.Lookup(c.name))(t)
		if _, err := pre.New(localOf(t, c.p)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	pre := must.Get(Preconditioners.Lookup("chebyshev"))(t)
	if err := pre.Check(band{9, -1, -2}, sparse.Traits{}); err == nil ||
		!strings.Contains(err.Error(), "needs a symmetric positive definite matrix") {
		t.Error(err)
	}
	if none, err := Preconditioners.Lookup(None); err != nil || none.New != nil {
		t.Errorf("none: %v, %v", none.Name, err)
	}
	if _, err := Preconditioners.Lookup("ilu"); err == nil || !strings.Contains(err.Error(), "bjacobi, chebyshev") {
		t.Errorf("an unknown preconditioner: %v", err)
	}
}

// hollow is a matrix without a diagonal.
type hollow int

func (h hollow) Size() int             { return int(h) }
func (h hollow) Traits() sparse.Traits { return sparse.Traits{} }
func (h hollow) Row(i int, r *sparse.Row) {
	r.Reset()
	r.Add((i+1)%int(h), 1)
}
