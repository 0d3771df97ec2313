package system

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// lifted is noise plus a constant. No product with a singular matrix has a constant part.
func lifted(i int) float64 { return 5 + noise(i) }

// If constants are the null space of the matrix, every method and preconditioner projects them out of
// the right-hand side and the solution, and reaches a residual near the rounding of doubles. Without
// the projection inside the solve, cg with amg breaks down on the larger problem.
func TestNullSpaceIsProjectedOut(t *testing.T) {
	const rtol = 1e-13
	small, large := generated(t, "neumann", sparse.Params{Rows: 400}), generated(t, "neumann", sparse.Params{Rows: 10000})
	for _, ranks := range []int{1, 3} {
		for i, m := range krylov.Methods.All() {
			pres := preconditioners(small)
			if testing.Short() {
				pres = pres[i%len(pres):][:1]
			}
			for _, pre := range pres {
				problem := small
				if pre == "amg" {
					problem = large
				}
				what := fmt.Sprintf("%s, %s, %d ranks", m.Name, pre, ranks)
				must(t, onRanks(t, ranks, func(g *dist.Group) error {
					sys, err := New(g, Spec{Problem: problem, Method: m.Name, Preconditioner: pre, RHS: lifted, RTol: rtol,
						Restart: 100})
					if err != nil {
						return err
					}
					out, err := solved(sys)
					if err != nil {
						return err
					}
					if err := out.Gate(rtol); err != nil {
						t.Errorf("%s: %v", what, err)
					}
					sum := 0.0
					for _, v := range sys.Solution() {
						sum += v
					}
					sums, err := newTeam(g).Sum([]float64{sum})
					if err == nil && math.Abs(sums[0]) > 1e-9 || !sys.Traits.Singular ||
						math.Abs(sys.RemovedRHS-0.993) > 0.003 {
						t.Errorf("%s: the solution adds up to %g, singular %v, removed %v", what, sums[0], sys.Traits.Singular,
							sys.RemovedRHS)
					}
					if least := out.Iterations * m.Reductions; out.Reductions <= least {
						t.Errorf("%s: %d reductions in %d iterations: the projection is not counted", what, out.Reductions,
							out.Iterations)
					}
					return err
				}))
			}
		}
	}
}

// Faulty projections must fail the gate: a projection for a matrix without this null space, a
// right-hand side that keeps its constant part, and a null space that was not noticed.
func TestPlantedNullSpaces(t *testing.T) {
	for name, c := range map[string]struct {
		problem string
		spoil   func(s *System)
	}{
		"none to project": {"poisson", func(s *System) {
			s.Traits.Singular = true
			s.null = newProjection(s, wholePiece(s.Size))
			s.Applied = s.null
			if err := s.null.project(s.Engine.Vector(krylov.B)); err != nil {
				t.Error(err)
			}
		}},
		"kept in the right-hand side": {"neumann", func(s *System) {
			for i := range s.Engine.Vector(krylov.B) {
				s.Engine.Vector(krylov.B)[i] = 500 + noise(s.Plan.Global(i))
			}
		}},
		"overlooked": {"neumann", func(s *System) { s.null = nil }},
	} {
		for r, err := range onRanks(t, 2, func(g *dist.Group) error {
			sys, err := New(g, Spec{Problem: generated(t, c.problem, sparse.Params{Rows: 100}), Preconditioner: "bjacobi",
				RHS: lifted, RTol: 1e-8, MaxIter: 200})
			if err != nil {
				return err
			}
			c.spoil(sys)
			out, err := solved(sys)
			if err == nil {
				err = out.Gate(1e-8)
			}
			return err
		}) {
			if err == nil {
				t.Errorf("%s, rank %d: passed the gate", name, r)
			}
		}
	}
}

// laplacian writes a matrix file with the given entries (row, column, value) and returns its path.
func laplacian(t *testing.T, header string, entries ...[3]float64) string {
	t.Helper()
	size := 0.0
	var text strings.Builder
	for _, e := range entries {
		size = max(size, e[0], e[1])
		fmt.Fprintf(&text, "%.0f %.0f %.17g\n", e[0], e[1], e[2])
	}
	path := filepath.Join(t.TempDir(), "graph.mtx")
	head := fmt.Sprintf("%%%%MatrixMarket matrix coordinate real %s\n%.0f %.0f %d\n", header, size, size, len(entries))
	if err := os.WriteFile(path, []byte(head+text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// edges returns the entries of the weighted Laplacian of a graph.
func edges(pairs ...[2]int) (out [][3]float64) {
	degree := map[int]float64{}
	for k, p := range pairs {
		w := 1 / float64(k+3) // the sums of these are not exact
		degree[p[0]] += w
		degree[p[1]] += w
		out = append(out, [3]float64{float64(p[0]), float64(p[1]), -w}, [3]float64{float64(p[1]), float64(p[0]), -w})
	}
	for v, d := range degree {
		out = append(out, [3]float64{float64(v), float64(v), d})
	}
	return out
}

// The null space of a matrix file is detected from its values, separately for pieces that nothing couples. Systems that
// the projection cannot help (a matrix that is not symmetric) fail the gate.
func TestNullSpaceOfAFile(t *testing.T) {
	var path, two [][2]int
	for i := range 20 {
		path = append(path, [2]int{i + 1, i + 2})
		two = append(two, [2]int{i + 1, i + 2})
	}
	two[10] = [2]int{12, 14} // removes the edge between 11 and 12
	var circle [][3]float64
	for i := range 20 {
		circle = append(circle, [3]float64{float64(i + 1), float64(i + 1), 1 + float64(i)/7},
			[3]float64{float64(i + 1), float64((i+1)%20 + 1), -1 - float64(i)/7})
	}
	regular := append(edges(two...), [3]float64{1, 1, 0.3}) // the piece of row 1 is regular, the other is not
	zero := append(edges(path...), [3]float64{22, 22, 0})
	nearly := edges(path...)
	nearly[len(nearly)-1][2] *= 1 + 1e-4
	for name, c := range map[string]struct {
		file, method, pre     string
		singular, unprojected bool
		good                  bool
	}{
		"path":         {laplacian(t, "general", edges(path...)...), "cg", "none", true, false, true},
		"factored":     {laplacian(t, "general", edges(path...)...), "cg", "bjacobi", true, false, true},
		"two pieces":   {laplacian(t, "general", edges(two...)...), "cg", "none", true, false, true},
		"two by amg":   {laplacian(t, "general", edges(two...)...), "cg", "amg", true, false, true},
		"one regular":  {laplacian(t, "general", regular...), "cg", "jacobi", true, false, true},
		"zero piece":   {laplacian(t, "general", zero...), "cg", "none", true, false, true},
		"one way":      {laplacian(t, "general", circle...), "gmres", "none", false, true, false},
		"not singular": {laplacian(t, "general", nearly...), "minres", "none", false, false, true},
	} {
		for _, ranks := range []int{1, 3} {
			must(t, onRanks(t, ranks, func(g *dist.Group) error {
				sys, err := New(g, Spec{MatrixFile: c.file, Method: c.method, Preconditioner: c.pre, RHS: noise, RTol: 1e-8,
					MaxIter: 300})
				if err != nil {
					return err
				}
				out, err := solved(sys)
				if gate := out.Gate(1e-8); (gate == nil) != c.good || sys.Traits.Singular != c.singular ||
					sys.Unprojected != c.unprojected {
					t.Errorf("%s on %d ranks: singular %v, not projected %v, the gate says %v", name, ranks, sys.Traits.Singular,
						sys.Unprojected, gate)
				}
				return err
			}))
		}
	}
	file := laplacian(t, "general", edges(path...)...)
	for r, err := range onRanks(t, 2, func(g *dist.Group) error {
		_, err := New(g, Spec{MatrixFile: file, RHS: func(int) float64 { return 0.1 }, RTol: 1e-8})
		return err
	}) {
		if !errors.Is(err, errConstant) {
			t.Errorf("a constant right-hand side, rank %d: %v", r, err)
		}
	}
}

// A file that is symmetric up to rounding is solved as a symmetric matrix; larger differences are refused. Indefinite
// matrices with negative values on the diagonal take jacobi.
func TestNearlySymmetricFiles(t *testing.T) {
	// diagonal is the factor of every other value on the diagonal.
	entries := func(off, diagonal float64) (out [][3]float64) {
		for i := range 20 {
			at, factor := float64(i+1), 1.0
			if i%2 == 0 {
				factor = diagonal
			}
			out = append(out, [3]float64{at, at, factor * (3 + at/10)})
			if i > 0 {
				out = append(out, [3]float64{at, at - 1, -1}, [3]float64{at - 1, at, -1 - off})
			}
		}
		return out
	}
	for name, c := range map[string]struct {
		off, diagonal float64
		method, pre   string
		refused       bool
	}{
		"one ulp":    {2.3e-16, 1, "cg", "none", false},
		"too much":   {1e-10, 1, "cg", "none", true},
		"indefinite": {0, -1, "minres", "jacobi", false},
	} {
		file := laplacian(t, "general", entries(c.off, c.diagonal)...)
		for _, err := range onRanks(t, 3, func(g *dist.Group) error {
			sys, err := New(g, Spec{MatrixFile: file, Method: c.method, Preconditioner: c.pre, RHS: noise, RTol: 1e-10})
			if err != nil {
				return err
			}
			out, err := solved(sys)
			if (sys.Asymmetry > 0) != (c.off > 0) {
				t.Errorf("%s: an asymmetry of %g", name, sys.Asymmetry)
			}
			if err == nil {
				err = out.Gate(1e-10)
			}
			return err
		}) {
			if refused := new(krylov.Refusal); errors.As(err, &refused) != c.refused || err != nil && !c.refused {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
