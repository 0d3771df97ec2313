package system

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/partition"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// Solutions must match Gaussian elimination, for every problem, partitioner and method on 1 to 8 ranks. The
// preconditioners take turns.
func TestSolutionsMatchElimination(t *testing.T) {
	const rtol = 1e-10
	type system struct {
		name    string
		problem sparse.Problem
		want    *mat.VecDense
	}
	var systems []system
	for _, v := range []struct {
		name string
		sparse.Params
	}{
		{"poisson", sparse.Params{Rows: 132}},
		{"poisson", sparse.Params{Rows: 120, Dim: 3, Stencil: 27}},
		{"anisotropic", sparse.Params{Rows: 120, Dim: 3}},
		{"variable", sparse.Params{Rows: 120, Seed: 2}},
		{"advection", sparse.Params{Rows: 132}},
		{"mesh", sparse.Params{Rows: 132, Seed: 2}},
		{"neumann", sparse.Params{Rows: 110}},
		{"helmholtz", sparse.Params{Rows: 132}},
		{"hub", sparse.Params{Rows: 132}},
	} {
		problem := generated(t, v.name, v.Params)
		systems = append(systems, system{fmt.Sprintf("%s-%d-%d", v.name, v.Dim, v.Stencil), problem, direct(t, problem)})
	}
	for ranks := 1; ranks <= 8; ranks++ {
		if testing.Short() && ranks != 3 {
			continue
		}
		done := 0
		must(t, onRanks(t, ranks, func(g *dist.Group) error {
			for _, p := range systems {
				for turn, part := range partition.Partitioners.All() {
					if part.Check(p.problem) != nil {
						continue // tested by TestRefusals
					}
					if ranks == 1 && part.Name != partition.Default {
						continue // one rank has only one partition
					}
					for i, info := range krylov.Methods.All() {
						if !usable(info, p.problem.Traits()) {
							continue
						}
						pres := preconditioners(p.problem)
						pre := pres[(ranks+i+turn)%len(pres)]
						what := fmt.Sprintf("%s, %s, %s, %s, %d ranks", p.name, part.Name, info.Name, pre, ranks)
						sys, err := New(g, Spec{Problem: p.problem, Partitioner: part.Name, Method: info.Name, RHS: noise,
							Uncompressed: ranks%2 == 1, RTol: rtol, Preconditioner: pre, Restart: 60})
						if err != nil {
							return fmt.Errorf("%s: %w", what, err)
						}
						out, err := solved(sys)
						if err != nil {
							return fmt.Errorf("%s: %w", what, err)
						}
						if err := out.Gate(rtol); err != nil {
							t.Errorf("%s: %v", what, err)
						}
						near(t, what, sys, p.want)
						if g.Rank() == 0 {
							done++
						}
					}
				}
			}
			return nil
		}))
		if done < 100 && ranks > 1 {
			t.Errorf("%d ranks solved only %d systems", ranks, done)
		}
	}
}

// Ranks without rows still take part in every call.
func TestMoreRanksThanRows(t *testing.T) {
	problem := generated(t, "poisson", sparse.Params{Rows: 4})
	want := direct(t, problem)
	pres := preconditioners(problem)
	for turn, part := range partition.Partitioners.All() {
		for i, info := range krylov.Methods.All() {
			pre := pres[(turn+i)%len(pres)]
			out := solveOn(t, 7, Spec{Problem: problem, Partitioner: part.Name, Method: info.Name, Preconditioner: pre,
				RHS: noise, RTol: 1e-12}, want)
			if err := out.Gate(1e-12); err != nil {
				t.Errorf("%s, %s, %s: %v", part.Name, info.Name, pre, err)
			}
		}
	}
}

// The number of ranks and the partition change the order of summation and
// nothing else, so the iterations are the same to within one per cent, where a
// method needs far fewer iterations than there are rows.
func TestIterationsDoNotDependOnRanks(t *testing.T) {
	rows := 3000
	if testing.Short() {
		rows = 900
	}
	for _, kind := range []string{"poisson", "variable", "mesh"} {
		problem := generated(t, kind, sparse.Params{Rows: rows, Seed: 3})
		for _, method := range []string{"cg", "cg-single", "cg-pipelined", "minres"} {
			alone := 0
			for _, c := range []struct {
				ranks int
				part  string
			}{{1, "simple"}, {3, "coordinate"}, {5, "multilevel"}, {8, "simple"}} {
				if testing.Short() && c.ranks == 8 {
					continue // more of the same, on goroutines that wait for each other
				}
				pre := preconditioner(kind == "variable")
				if kind == "poisson" && method == "minres" {
					pre = "gmg" // the same levels on any ranks, also where some hand theirs over
				}
				out := solveOn(t, c.ranks, Spec{Problem: problem, Partitioner: c.part, Method: method, RHS: noise,
					RTol: 1e-8, Preconditioner: pre}, nil)
				if err := out.Gate(1e-8); err != nil {
					t.Errorf("%s, %s, %d ranks: %v", kind, method, c.ranks, err)
				}
				if alone == 0 {
					alone = out.Iterations
				}
				if off := math.Abs(float64(out.Iterations - alone)); off > max(1, 0.01*float64(alone)) {
					t.Errorf("%s, %s, %s: %d iterations on %d ranks, %d on one", kind, method, c.part, out.Iterations, c.ranks, alone)
				}
			}
		}
	}
}

// A halo that is longer than the window of pieces in flight must arrive complete, even if one side
// sends more pieces than the other.
func TestLongHalo(t *testing.T) {
	const rows = 230 * 230
	problem := generated(t, "poisson", sparse.Params{Rows: rows})
	spec := Spec{Problem: problem, Method: "cg", RHS: noise, RTol: 1e-8, MaxIter: 10, StopAfter: 10}
	for _, ranks := range []int{2, 3} {
		must(t, onRanks(t, ranks, func(g *dist.Group) error {
			s := newSystem(g, spec, problem)
			if err := s.build(stripes{rows, ranks}); err != nil {
				return err
			}
			if pieces := len(s.Halo.(*halo).links[0].sends); pieces <= 2*window {
				t.Errorf("%d pieces: the halo is too short for this test", pieces)
			}
			out, err := solved(s)
			if err != nil {
				return err
			}
			return out.Gate(1e-8) // a wrong halo makes the true residual differ after any number of iterations
		}))
	}
}

// stripes assigns rows to ranks in turn, so that most neighbours of a row belong to other ranks.
type stripes struct{ rows, ranks int }

func (s stripes) Owner(row int) int { return row % s.ranks }

func (s stripes) Rows(rank int) []sparse.Range {
	var out []sparse.Range
	for r := rank; r < s.rows; r += s.ranks {
		out = append(out, sparse.Range{Lo: r, Hi: r + 1})
	}
	return out
}

// swapped is a faulty halo that exchanges two ghosts.
type swapped struct {
	krylov.Halo
	at int
}

func (s swapped) Finish(v []float64, width int) error {
	err := s.Halo.Finish(v, width)
	v[s.at], v[s.at+1] = v[s.at+1], v[s.at]
	return err
}

// A wrong ghost on one rank must fail the gate, even though the method reports convergence.
func TestWrongGhostFailsTheGate(t *testing.T) {
	problem := generated(t, "poisson", sparse.Params{Rows: 900})
	for _, info := range krylov.Methods.All() {
		for i, honest := range []bool{true, false, true, false} {
			stop := 20 * (i / 2) // 0: solve to the end
			errs := onRanks(t, 3, func(g *dist.Group) error {
				sys, err := New(g, Spec{Problem: problem, Partitioner: "simple", Method: info.Name, RHS: noise, StopAfter: stop,
					RTol: 1e-8, MaxIter: 400})
				if err != nil {
					return err
				}
				if !honest && g.Rank() == 1 {
					sys.Halo = swapped{sys.Halo, sys.Plan.Peers[1].Recv.Lo}
				}
				out, err := solved(sys)
				if err != nil {
					return err
				}
				return out.Gate(1e-8)
			})
			for r, err := range errs {
				if honest && err != nil || !honest && err == nil {
					t.Errorf("%s, stopped after %d, honest %v, rank %d: %v", info.Name, stop, honest, r, err)
				}
			}
		}
	}
}

// Every rank must return an error, even if only rank 0 can detect the problem.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		problem string
		spec    Spec
		want    string
	}{
		{"advection", Spec{Partitioner: "simple", Method: "cg"}, "needs a symmetric positive definite matrix"},
		{"poisson", Spec{Partitioner: "simpel", Method: "cg"}, `unknown partitioner "simpel", did you mean "simple"`},
		{"mesh", Spec{Partitioner: "block", Method: "cg"}, "no grid"},
		{"poisson", Spec{Partitioner: "multilevel", Objective: partition.Volume, Method: "cg"}, "only metis"},
	} {
		c.spec.Problem, c.spec.RHS, c.spec.RTol = generated(t, c.problem, sparse.Params{Rows: 100}), noise, 1e-8
		errs := onRanks(t, 3, func(g *dist.Group) error { _, err := New(g, c.spec); return err })
		if errs[0] == nil || !strings.Contains(errs[0].Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.problem, errs[0], c.want)
		}
		var refused *krylov.Refusal
		if errors.As(errs[0], &refused) != (c.problem == "advection") {
			t.Errorf("%s: %T", c.problem, errs[0])
		}
		for r, err := range errs {
			if err == nil {
				t.Errorf("%s: rank %d got no error", c.problem, r)
			}
		}
	}
}

// indefinite is a problem with one row negated, so that its matrix is not positive definite.
type indefinite struct{ sparse.Problem }

func (s indefinite) Row(i int, r *sparse.Row) {
	s.Problem.Row(i, r)
	if i == 60 {
		for k := range r.Vals {
			r.Vals[k] = -r.Vals[k]
		}
	}
}

// If one rank cannot set up the preconditioner, all ranks return an error with its reason.
func TestPreconditionerFailsOnOneRank(t *testing.T) {
	problem := indefinite{generated(t, "poisson", sparse.Params{Rows: 100})}
	for r, err := range onRanks(t, 3, func(g *dist.Group) error {
		_, err := New(g, Spec{Problem: problem, RHS: noise, RTol: 1e-8, Preconditioner: "bjacobi"})
		return err
	}) {
		if err == nil || !strings.Contains(err.Error(), "setting up the preconditioner bjacobi") ||
			!strings.Contains(err.Error(), "in row 60") {
			t.Errorf("rank %d: %v", r, err)
		}
	}
}

// Systems from a Matrix Market file are solved correctly. Each rank keeps its own rows.
func TestMatrixFile(t *testing.T) {
	problem := generated(t, "mesh", sparse.Params{Rows: 100, Seed: 5})
	var text strings.Builder
	var r sparse.Row
	entries := 0
	for i := range problem.Size() {
		problem.Row(i, &r)
		for k, c := range r.Cols {
			if c <= i {
				fmt.Fprintf(&text, "%d %d %.17g\n", i+1, c+1, r.Vals[k])
				entries++
			}
		}
	}
	path := filepath.Join(t.TempDir(), "mesh.mtx")
	head := fmt.Sprintf("%%%%MatrixMarket matrix coordinate real symmetric\n%d %d %d\n", problem.Size(), problem.Size(),
		entries)
	if err := os.WriteFile(path, []byte(head+text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	want := direct(t, problem)
	for _, part := range []string{"simple", "multilevel", "metis"} {
		for _, ranks := range []int{1, 3, 7} {
			out := solveOn(t, ranks, Spec{MatrixFile: path, Partitioner: part, Method: "cg", RHS: noise, RTol: 1e-10},
				want)
			if err := out.Gate(1e-10); err != nil {
				t.Errorf("%s, %d ranks: %v", part, ranks, err)
			}
		}
	}
	errs := onRanks(t, 2, func(g *dist.Group) error {
		_, err := New(g, Spec{MatrixFile: path, Partitioner: "coordinate", Method: "cg", RHS: noise, RTol: 1e-8})
		return err
	})
	for r, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "no coordinates") {
			t.Errorf("coordinates of a file, rank %d: %v", r, err)
		}
	}
	errs = onRanks(t, 1, func(g *dist.Group) error {
		_, err := New(g, Spec{MatrixFile: path + ".gone", Partitioner: "simple", Method: "cg", RHS: noise})
		return err
	})
	if !errors.Is(errs[0], os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", errs[0])
	}
}

// The memory of a rank depends only on its own rows: with eight times the ranks and eight times the
// rows it holds no more.
func TestMemoryDoesNotGrowWithRanks(t *testing.T) {
	held := func(ranks int) int {
		problem := generated(t, "variable", sparse.Params{Rows: 4000 * ranks})
		most := make([]int, ranks)
		must(t, onRanks(t, ranks, func(g *dist.Group) error {
			sys, err := New(g, Spec{Problem: problem, Partitioner: "block", Method: "cg", RHS: noise, RTol: 1e-8})
			if err != nil {
				return err
			}
			most[g.Rank()] = sys.Matrix.Bytes() + 8*sys.Matrix.Columns()
			return nil
		}))
		return max(most[0], most[ranks/2], most[ranks-1])
	}
	if few, many := held(2), held(16); float64(many) > 1.1*float64(few) {
		t.Errorf("a rank of 16 holds %d bytes, a rank of 2 %d", many, few)
	}
}

// Every phase has a time, and the model counts the memory traffic of a fused iteration: 9 passes over
// vectors for cg, 11 with a diagonal preconditioner.
func TestTrace(t *testing.T) {
	for passes, precondition := range map[float64]bool{9: false, 11: true} {
		trace(t, precondition, passes)
	}
}

func trace(t *testing.T, precondition bool, passes float64) {
	problem := generated(t, "poisson", sparse.Params{Rows: 10000})
	must(t, onRanks(t, 2, func(g *dist.Group) error {
		sys, err := New(g, Spec{Problem: problem, Partitioner: "simple", Method: "cg", RHS: noise, Uncompressed: true,
			RTol: 1e-8, Preconditioner: preconditioner(precondition)})
		if err != nil {
			return err
		}
		const limit = 20
		b, err := sys.Trace(limit)
		if err != nil {
			return err
		}
		for p, s := range b.Seconds {
			if (s > 0) != (krylov.Phase(p) != krylov.Precond) { // a diagonal is fused into the updates
				t.Errorf("%v took %g s", krylov.Phase(p), s)
			}
		}
		rows := float64(sys.Plan.Owned)
		want := limit * (8*passes*rows + float64(sys.Matrix.Bytes()+8*len(sys.Plan.Ghosts)))
		if b.Iterations != limit || math.Abs(b.Bytes-want) > 0.01*want {
			t.Errorf("%d iterations move %g bytes, want %g", b.Iterations, b.Bytes, want)
		}
		if sys.Messages != 1 {
			t.Errorf("%d messages to one neighbour", sys.Messages)
		}
		return nil
	}))
}

// Alone needs no other rank, and does not affect the next solve.
func TestAlone(t *testing.T) {
	problem := generated(t, "poisson", sparse.Params{Rows: 2500})
	for _, info := range krylov.Methods.All() {
		method := info.Name
		must(t, onRanks(t, 3, func(g *dist.Group) error {
			sys, err := New(g, Spec{Problem: problem, Partitioner: "simple", Method: method, RHS: noise, RTol: 1e-8})
			if err != nil {
				return err
			}
			before, err := sys.Solve(0)
			if err != nil {
				return err
			}
			if g.Rank() == 1 { // the middle rank, with ghosts from both sides
				seconds, err := sys.Alone(40)
				if err != nil {
					return err
				}
				if !(seconds > 0) {
					t.Errorf("%s: an iteration took %g s", method, seconds)
				}
				if x := sys.Solution(); slices.ContainsFunc(x, func(v float64) bool { return math.IsNaN(v) || math.Abs(v) > 1e6 }) {
					t.Errorf("%s: the iterations diverged", method)
				}
			}
			after, err := sys.Solve(0)
			if err != nil {
				return err
			}
			if after.Iterations != before.Iterations || after.Residual != before.Residual {
				t.Errorf("%s: %d iterations to %g, before %d to %g", method, after.Iterations, after.Residual, before.Iterations,
					before.Residual)
			}
			err = sys.Check(&after)
			if err == nil {
				err = after.Gate(1e-8)
			}
			return err
		}))
	}
}

// The times of the levels of a hierarchy add up to the time of the preconditioner.
func TestTraceOfLevels(t *testing.T) {
	must(t, onRanks(t, 2, func(g *dist.Group) error {
		sys, err := New(g, Spec{Problem: generated(t, "poisson", sparse.Params{Rows: 3000}), RHS: noise, RTol: 1e-8,
			Preconditioner: "amg"})
		if err != nil {
			return err
		}
		p, err := sys.Trace(5)
		if err != nil {
			return err
		}
		h := sys.Operator.(Hierarchy)
		total := 0.0
		for l, seconds := range p.Levels {
			if total += seconds; !(seconds > 0) {
				t.Errorf("level %d took %v", l, seconds)
			}
		}
		if rows, _ := h.Size(0); len(p.Levels) != h.Levels() || h.Levels() < 2 || rows != 3000 ||
			math.Abs(total-p.Seconds[krylov.Precond]) > 1e-9 {
			t.Errorf("%d of %d levels, %v rows, took %v of %v", len(p.Levels), h.Levels(), rows, total,
				p.Seconds[krylov.Precond])
		}
		return nil
	}))
}
