package device

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kernbench/kernbench/dist"
	_ "github.com/kernbench/kernbench/dist/all"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/host/cudatest"
	"github.com/kernbench/kernbench/internal/kernel/gpusolve"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/sparse"
	"github.com/kernbench/kernbench/internal/solve/system"
	"github.com/kernbench/kernbench/solve"
)

// The tests run the same kernels, compiled for the CPU.
func TestMain(m *testing.M) {
	if os.Getenv(cudatest.RealVariable) != "" {
		os.Exit(m.Run())
	}
	os.Exit(cudatest.Main(m, func(lib string) map[string]string {
		return map[string]string{cuda.LibraryVariable: lib, "KERNBENCH_CUDA_TAKE_TURNS": "1"}
	}, gpusolve.Sources()))
}

// gpus is the name of the GPU backend.
var gpus = dist.Backends(func(d dist.Description) bool { return SupportsBackend(d.Name) })[0]

var groups atomic.Int64

// together runs f on every rank of a new group.
func together(t *testing.T, backend string, ranks int, f func(g *dist.Group) error) error {
	t.Helper()
	id := fmt.Sprintf("device-%d-%d", os.Getpid(), groups.Add(1))
	errs := make([]error, ranks)
	var all sync.WaitGroup
	for r := range ranks {
		all.Go(func() {
			g, err := dist.Init(t.Context(), dist.Config{Backend: backend, Rank: r, Size: ranks, ID: id, Timeout: time.Minute})
			if err != nil {
				errs[r] = err
				return
			}
			defer g.Close()
			errs[r] = f(g)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// variable selects the problem with variable coefficients instead of a number of points.
const variable = 0

// poisson returns a system on a grid with a random right-hand side.
func poisson(t *testing.T, grid sparse.Grid, points int) Spec {
	t.Helper()
	p, err := sparse.NewGridPoisson(grid, points)
	if points == variable {
		p, err = sparse.NewGridVariable(grid, 3)
	}
	if err != nil {
		t.Fatal(err)
	}
	const seed = 5
	return Spec{Spec: solve.Spec{Problem: p, RTol: 1e-9, Seed: seed,
		RHS: func(row int) float64 { return sparse.Noise(seed, row) }}, DeviceRHS: Noise}
}

// solved is the outcome of a solve and the whole solution.
type solved struct {
	solve.Outcome
	x []float64
}

// onDevice solves a system on GPUs.
func onDevice(t *testing.T, ranks int, spec Spec) (out solved, err error) {
	t.Helper()
	all, err := eachOnDevice(t, ranks, []Spec{spec})
	return all[0], err
}

// eachOnDevice solves the systems one after the other on GPUs, each of them twice. Both solves must
// return the same bits.
func eachOnDevice(t *testing.T, ranks int, specs []Spec) ([]solved, error) {
	t.Helper()
	out := make([]solved, len(specs))
	for i, spec := range specs {
		out[i].x = make([]float64, spec.Problem.Size())
	}
	return out, together(t, gpus, ranks, func(g *dist.Group) error {
		for i, spec := range specs {
			if err := twice(g, spec, &out[i]); err != nil {
				return fmt.Errorf("system %d: %w", i, err)
			}
		}
		return nil
	})
}

// twice solves on one rank and copies that rank's part of the solution to out.
func twice(g *dist.Group, spec Spec, out *solved) error {
	s, err := New(g, spec)
	if err != nil {
		return err
	}
	defer s.Close()
	first, err := s.Solve(0)
	if err != nil {
		return err
	}
	x, err := s.Solution()
	if err != nil {
		return err
	}
	again, err := s.Solve(0)
	if err != nil {
		return err
	}
	if err := s.Check(&again); err != nil {
		return err
	}
	repeated, err := s.Solution()
	if err != nil {
		return err
	}
	for i := range x {
		if math.Float64bits(x[i]) != math.Float64bits(repeated[i]) {
			return fmt.Errorf("x[%d] is %g, then %g", i, x[i], repeated[i])
		}
	}
	if first.Iterations != again.Iterations || len(again.History) != again.Iterations+1 {
		return fmt.Errorf("%d iterations, then %d, with a history of %d", first.Iterations, again.Iterations,
			len(again.History))
	}
	copy(out.x[s.Rows().Lo:], x)
	if g.Rank() == 0 {
		out.Outcome = again
	}
	return nil
}

// onHost solves on one rank of the backend cpu.
func onHost(t *testing.T, spec solve.Spec) (out solved) {
	t.Helper()
	err := together(t, "cpu", 1, func(g *dist.Group) error {
		s, err := system.New(g, spec)
		if err != nil {
			return err
		}
		out.Outcome, err = s.Solve(0)
		out.x = append(out.x, s.Solution()...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Every method, preconditioner, storage, stencil and number of ranks agrees with the CPU's solver. Row
// counts are not multiples of a block, strips end within a grid line, and some strips are shorter than
// the reach of a row.
func TestAgreesWithCPU(t *testing.T) {
	var all []named
	for _, c := range []struct {
		grid   sparse.Grid
		points int
	}{
		{sparse.Grid{31, 43, 1}, 5}, {sparse.Grid{23, 17, 1}, 9}, {sparse.Grid{11, 9, 13}, 7}, {sparse.Grid{7, 9, 5}, 27},
		{sparse.Grid{40, 3, 1}, 5}, {sparse.Grid{1, 300, 1}, 5}, {sparse.Grid{3, 1, 1}, 5},
		{sparse.Grid{19, 23, 1}, variable}, {sparse.Grid{7, 9, 8}, variable}, {sparse.Grid{40, 3, 1}, variable},
	} {
		if testing.Short() && c.points != 9 {
			continue
		}
		for _, method := range Methods() {
			for _, pre := range Preconditioners() {
				if !Compatible(method, pre) {
					continue
				}
				spec := poisson(t, c.grid, c.points)
				spec.Method, spec.Preconditioner = method, pre
				all = append(all, named{fmt.Sprintf("%v %d points, %s, %s", c.grid, c.points, method, pre), spec})
			}
		}
	}
	agreeWithCPU(t, all)
}

// named is a system with a name for messages.
type named struct {
	name string
	spec Spec
}

// agreeWithCPU compares solves on 1, 3 and 4 ranks with the CPU, for every storage; TestSuite covers 2
// ranks. With -short it is meant for the race detector, which sees only the host code. That code is
// the same for every grid.
func agreeWithCPU(t *testing.T, all []named) {
	t.Helper()
	counts := []int{1, 3, 4}
	if testing.Short() {
		counts = []int{3}
	}
	if os.Getenv(cudatest.RealVariable) != "" {
		counts = []int{1} // several ranks on one GPU need MPS and processes of their own
	}
	var names []string
	var specs []Spec
	var want []solved
	for _, n := range all {
		spec, host := n.spec, onHost(t, n.spec.Spec)
		for k, storage := range []sparse.Format{sparse.Compressed, sparse.Plain, sparse.Plain} {
			spec.Uncompressed, spec.wide = storage == sparse.Plain, k == 2
			names = append(names, fmt.Sprintf("%s, %v", n.name, storage))
			specs, want = append(specs, spec), append(want, host)
		}
	}
	for _, ranks := range counts {
		got, err := eachOnDevice(t, ranks, specs)
		if err != nil {
			t.Fatalf("%d ranks: %v", ranks, err)
		}
		for i, name := range names {
			compare(t, fmt.Sprintf("%s, %d ranks", name, ranks), got[i], want[i], specs[i].RTol)
		}
	}
}

// The gate of a GPU's outcome names the accuracy that doubles can attain, as for CPUs, and a right-hand side whose
// squares underflow is an error.
func TestAttainableAccuracy(t *testing.T) {
	spec := poisson(t, sparse.Grid{61, 47, 1}, variable)
	spec.RTol = 1e-15
	out, err := onDevice(t, 2, spec)
	must.Do(t, err)
	if err := out.Gate(spec.RTol); err == nil || !strings.Contains(err.Error(), "double precision cannot reach") {
		t.Errorf("%v after %d iterations: %v", out.Status, out.Iterations, err)
	}
	spec.RTol, spec.RHS = 1e-8, func(int) float64 { return 1e-200 }
	if _, err := onDevice(t, 2, spec); err == nil || !strings.Contains(err.Error(), "too small to check") {
		t.Errorf("a right-hand side whose squares underflow: %v", err)
	}
}

func compare(t *testing.T, name string, got, want solved, rtol float64) {
	t.Helper()
	if err := got.Gate(rtol); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	// Rounding changes the count if it is near the number of unknowns.
	if d := got.Iterations - want.Iterations; abs(d) > max(1, want.Iterations/50) {
		t.Errorf("%s: %d iterations, on the CPU %d", name, got.Iterations, want.Iterations)
	}
	// At the end of a solve, the CPU has begun another iteration and has recomputed w from the true
	// residual: two products that the kernels omit. Rounding may cause one residual replacement more
	// or less, which is also two products.
	allowed := []int{0}
	if strings.Contains(name, "cg-pipelined") {
		allowed = []int{-4, -2, 0}
	}
	if got.Iterations == want.Iterations &&
		(got.Reductions != want.Reductions || !slices.Contains(allowed, got.Products-want.Products)) {
		t.Errorf("%s: %d reductions and %d products, on the CPU %d and %d", name, got.Reductions, got.Products,
			want.Reductions, want.Products)
	}
	most, size := 0.0, 0.0
	for i, x := range want.x {
		most, size = max(most, math.Abs(got.x[i]-x)), max(size, math.Abs(x))
	}
	if !(most <= 1e-6*size) {
		t.Errorf("%s: the solution is off by %g of %g", name, most, size)
	}
}

// Faults in the kernels are detected: the solve fails, or its result does not pass the gate.
func TestFaultsAreFound(t *testing.T) {
	for name, fault := range map[string]uint32{"dropped halo": gpusolve.DroppedHalo, "wrong dot": gpusolve.WrongDot,
		"stale scalar": gpusolve.StaleScalar, "missing wait": gpusolve.MissingWait, "stale reduction": gpusolve.StaleSums} {
		for _, method := range Methods() {
			if name == "wrong dot" && method != "cg" {
				continue // it sends all its dot products in one message
			}
			spec := poisson(t, sparse.Grid{61, 47, 1}, 5)
			spec.Method, spec.Fault, spec.MaxIter = method, fault, 600
			out, err := onDevice(t, 3, spec)
			if err == nil {
				err = out.Gate(spec.RTol)
			}
			if err == nil {
				t.Errorf("%s with %s passes", method, name)
			} else {
				t.Logf("%s with %s: %v", method, name, err)
			}
		}
	}
}

// Residual replacement corrects drifting recurrences: a solve to nearly full double precision
// converges in the true residual, after several replacements, with the same iterations as on the CPU.
func TestReplacement(t *testing.T) {
	spec := poisson(t, sparse.Grid{90, 70, 1}, 5)
	spec.Method, spec.RTol = "cg-pipelined", 1e-13
	want := onHost(t, spec.Spec)
	for _, ranks := range []int{1, 3} {
		got, err := onDevice(t, ranks, spec)
		if err != nil {
			t.Fatal(err)
		}
		compare(t, fmt.Sprintf("cg-pipelined, %d ranks", ranks), got, want, spec.RTol)
		if more := got.Products - got.Iterations; more < 3*2 {
			t.Errorf("%d ranks: %d products more than iterations, want several replacements of two products each", ranks, more)
		}
	}
}

// If a rank's dot products do not arrive, the error names that rank, and the solves of all ranks end.
func TestLateRank(t *testing.T) {
	defer func(limit time.Duration) { waitLimit = limit }(waitLimit)
	waitLimit = 300 * time.Millisecond
	errs := make([]error, 3)
	err := together(t, gpus, 3, func(g *dist.Group) error {
		s, err := New(g, poisson(t, sparse.Grid{20, 20, 1}, 5))
		if err != nil {
			return err
		}
		if g.Rank() == 1 {
			s.params.Mail[2] = s.params.Mail[1] // rank 2 receives nothing from rank 1
		}
		_, errs[g.Rank()] = s.Solve(0)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for r, err := range errs {
		late := map[int]int{0: 2, 1: 2, 2: 1}[r] // ranks 0 and 1 then wait for rank 2
		want := fmt.Sprintf("rank %d timed out after 300ms waiting for the dot products of rank %d", r, late)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A multiprocessor cannot change its split between cache and shared memory while a waiting kernel runs
// there. So kernels of ranks that share a GPU must all ask for the same split. For a rank alone the
// driver chooses.
func TestSharedMemorySplit(t *testing.T) {
	for _, ranks := range []int{1, 2} {
		for _, precond := range []string{"", multigridName} {
			log := filepath.Join(t.TempDir(), "calls")
			t.Setenv(cudatest.LogVariable, log)
			err := together(t, gpus, ranks, func(g *dist.Group) error {
				spec := poisson(t, sparse.Grid{40, 40, 1}, 5)
				spec.Preconditioner, spec.Uncompressed = precond, true
				s, err := New(g, spec)
				if err != nil {
					return err
				}
				defer s.Close()
				_, err = s.Solve(0)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			leaves, launches := map[string]bool{}, 0
			for line := range strings.Lines(string(must.Get(os.ReadFile(log))(t))) {
				switch f := strings.Fields(line); {
				case f[0] == "cuFuncSetAttribute" && f[2] == "9":
					leaves[f[1]] = f[3] == "100"
				case f[0] == "cuLaunchKernel" && (strings.HasPrefix(f[1], "cg_") || strings.HasPrefix(f[1], "cycle_")):
					if launches++; leaves[f[1]] != (ranks > 1) {
						t.Fatalf("%d ranks, %q: %s leaves shared memory: %v", ranks, precond, f[1], leaves[f[1]])
					}
				}
			}
			if launches == 0 {
				t.Error("no kernel of the solve is in the log")
			}
		}
	}
}

// Ranks may notice the end of a solve at different times, and so start different numbers of surplus
// kernels. The next solve still works.
func TestRanksPollAtDifferentTimes(t *testing.T) {
	defer func(limit time.Duration) { waitLimit = limit }(waitLimit)
	waitLimit = 5 * time.Second
	for _, solver := range [][2]string{{"cg", ""}, {"cg-single", ""}, {"cg-pipelined", ""}, {"cg", multigridName}} {
		spec := poisson(t, sparse.Grid{20, 20, 1}, 5)
		spec.Method, spec.Preconditioner = solver[0], solver[1]
		err := together(t, gpus, 3, func(g *dist.Group) error {
			s, err := New(g, spec)
			if err != nil {
				return err
			}
			defer s.Close()
			s.lookahead += 5 * g.Rank()
			first := 0
			for i := range 3 {
				s.expectedSteps = 0 // like the first solve
				out, err := s.Solve(0)
				if i == 0 {
					first = out.Iterations
				}
				if err != nil || out.Iterations != first {
					return fmt.Errorf("solve %d on rank %d: %d iterations after %d: %w", i, g.Rank(), out.Iterations, first, err)
				}
			}
			return g.Barrier()
		})
		if err != nil {
			t.Errorf("%s: %v", solver, err)
		}
	}
}

// The number of entries before each row equals the problem's.
func TestEntriesBefore(t *testing.T) {
	for _, grid := range []sparse.Grid{{31, 43, 1}, {11, 9, 13}, {1, 7, 1}, {5, 1, 2}} {
		for _, points := range []int{2*dimOf(grid) + 1, map[int]int{2: 9, 3: 27}[dimOf(grid)], variable} {
			spec := poisson(t, grid, points)
			problem := spec.Problem
			m, err := newMatrix(spec, sparse.Range{Lo: 0, Hi: grid.Size()})
			if err != nil {
				t.Fatal(err)
			}
			before := 0
			var row sparse.Row
			for i := range grid.Size() {
				if got := m.entriesBefore(i); got != before {
					t.Fatalf("%v, %d points: %d entries before row %d, want %d", grid, points, got, i, before)
				}
				problem.Row(i, &row)
				before += len(row.Cols)
			}
			if m.entries != before {
				t.Errorf("%v, %d points: %d entries, want %d", grid, points, m.entries, before)
			}
		}
	}
}

// Entries computed from coefficients equal the problem's to the last bit, and so do the reciprocals of
// the diagonal.
func TestVariableEntries(t *testing.T) {
	for _, grid := range []sparse.Grid{{23, 17, 1}, {7, 5, 6}, {1, 9, 1}} {
		spec := poisson(t, grid, variable)
		spec.Uncompressed, spec.Preconditioner = true, "jacobi"
		problem := spec.Problem
		err := together(t, gpus, 3, func(g *dist.Group) error {
			s, err := New(g, spec)
			if err != nil {
				return err
			}
			defer s.Close()
			below, _ := s.layout.ghosts(g.Rank())
			vals, err := s.read(cuda.Pointer(s.params.Vals), s.matrix.entries)
			if err != nil {
				return err
			}
			inverse, err := s.read(cuda.Pointer(s.params.Diagonal)+cuda.Pointer(8*below), s.Part.Rows)
			if err != nil {
				return err
			}
			var row sparse.Row
			for i := range s.Part.Rows {
				problem.Row(s.Rows().Lo+i, &row)
				for k, v := range row.Vals {
					if vals[0] != v || row.Cols[k] == s.Rows().Lo+i && inverse[i] != 1/v {
						return fmt.Errorf("%v, row %d: %g and %g, want %g", grid, s.Rows().Lo+i, vals[0], inverse[i], v)
					}
					vals = vals[1:]
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func dimOf(g sparse.Grid) int {
	if g[2] > 1 {
		return 3
	}
	return 2
}

// Unsupported and oversized systems are refused on every rank before anything runs.
func TestRefusals(t *testing.T) {
	neumann, err := sparse.New("neumann", sparse.Params{Rows: 100})
	if err != nil {
		t.Fatal(err)
	}
	base := poisson(t, sparse.Grid{10, 10, 1}, 5)
	for want, change := range map[string]func(*Spec){
		"method bicgstab does not run on GPUs":    func(s *Spec) { s.Method = "bicgstab" },
		"preconditioner amg does not run on GPUs": func(s *Spec) { s.Preconditioner = "amg" },
		"preconditioner gmg requires method cg on GPUs, not cg-single": func(s *Spec) {
			s.Method, s.Preconditioner = "cg-single", "gmg"
		},
		"partitioner block does not run on GPUs": func(s *Spec) { s.Partitioner = "block" },
		"weights nnz does not run on GPUs":       func(s *Spec) { s.Weights = solve.ByEntries },
		"the same entries in every row":          func(s *Spec) { s.Problem = neumann },
		"400000000 unknowns need": func(s *Spec) {
			s.Problem = poisson(t, sparse.Grid{20000, 20000, 1}, 5).Problem
		},
	} {
		for _, ranks := range []int{1, 2} {
			spec := base
			change(&spec)
			err := together(t, gpus, ranks, func(g *dist.Group) error {
				_, err := New(g, spec)
				var refused *solve.Refusal
				if !errors.As(err, &refused) || !strings.Contains(err.Error(), want) {
					return fmt.Errorf("%v, want a refusal with %q", err, want)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
	}
	err = together(t, "cpu", 1, func(g *dist.Group) error {
		if _, err := New(g, base); err == nil {
			return errors.New("a group of backend cpu was accepted")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A trace covers the kernels of every iteration, and its bytes follow the model documented in package
// gpusolve.
func TestTrace(t *testing.T) {
	for _, c := range []struct {
		method string
		format sparse.Format
		per    float64 // bytes per row with five entries
	}{{"cg", sparse.Compressed, 73}, {"cg-single", sparse.Compressed, 81}, {"cg-pipelined", sparse.Compressed, 97},
		{"cg", sparse.Plain, 136}, {"cg", sparse.Compressed, 81}} {
		spec := poisson(t, sparse.Grid{200, 150, 1}, 5)
		if c.per == 81 && c.method == "cg" {
			spec.Problem = poisson(t, sparse.Grid{200, 150, 1}, variable).Problem
		}
		spec.Method, spec.Uncompressed = c.method, c.format == sparse.Plain
		err := together(t, gpus, 2, func(g *dist.Group) error {
			s, err := New(g, spec)
			if err != nil {
				return err
			}
			defer s.Close()
			b, err := s.Trace(12)
			if err != nil {
				return err
			}
			per := b.Bytes / float64(b.Iterations*s.Part.Rows)
			if b.Iterations != 12 || b.Seconds[krylov.SpMV] <= 0 || (b.Seconds[krylov.Updates] > 0) != (c.method == "cg") ||
				math.Abs(per-c.per) > 0.3 {
				return fmt.Errorf("%s: %d iterations of %v, %g bytes a row", c.method, b.Iterations, b.Seconds, per)
			}
			if seconds, err := s.Triad(); err != nil || seconds <= 0 {
				return fmt.Errorf("the triad took %g s: %v", seconds, err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// LeastBytes counts the vectors and the matrix of a rank: cg stores 5 vectors, 40 bytes per row.
func TestLeastBytes(t *testing.T) {
	problem := must.Get(solve.NewProblem("poisson", solve.Params{Rows: 10000, Dim: 2}))(t)
	entries := 5*10000 - 4*100
	for _, c := range []struct {
		spec        solve.Spec
		ranks, want int
	}{
		{solve.Spec{}, 1, 41 * 10000},
		{solve.Spec{}, 2, 41 * 5000},
		{solve.Spec{Method: "cg-single"}, 1, 65 * 10000},
		{solve.Spec{Uncompressed: true}, 1, 40*10000 + 12*entries + 4*10001},
		{solve.Spec{Uncompressed: true, Preconditioner: "jacobi"}, 1, 48*10000 + 12*entries + 4*10001},
	} {
		c.spec.Problem = problem
		if got, err := LeastBytes(c.spec, c.ranks); got != c.want || err != nil {
			t.Errorf("%+v on %d ranks: %d bytes, want %d (%v)", c.spec, c.ranks, got, c.want, err)
		}
	}
	if _, err := LeastBytes(solve.Spec{Problem: problem, Method: "minres"}, 1); err == nil {
		t.Error("a method that GPUs lack has a size")
	}
}
