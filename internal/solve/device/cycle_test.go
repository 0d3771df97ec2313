package device

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gpusolve"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/multigrid"
	"github.com/kernbench/kernbench/internal/solve/sparse"
	"github.com/kernbench/kernbench/internal/solve/system"
)

// cycled lists grids with several levels, and the number of points of their stencils: even and odd
// extents, lines that are split between ranks, and a long narrow grid.
var cycled = []struct {
	grid   sparse.Grid
	points int
}{{sparse.Grid{61, 47, 1}, 5}, {sparse.Grid{40, 38, 1}, 9}, {sparse.Grid{17, 16, 15}, 7}, {sparse.Grid{14, 13, 12}, 27},
	{sparse.Grid{600, 3, 1}, 5}, {sparse.Grid{45, 52, 1}, variable}, {sparse.Grid{12, 13, 15}, variable},
	{sparse.Grid{11, 13, 1}, 5}}

// With multigrid, solutions and iteration counts equal the CPU's, which runs the same cycle.
func TestCycleAgreesWithCPU(t *testing.T) {
	var all []named
	for _, c := range cycled {
		if testing.Short() && c.points != 9 {
			continue
		}
		all = append(all, named{fmt.Sprintf("%v %d points", c.grid, c.points), cycleSpec(t, c.grid, c.points)})
	}
	agreeWithCPU(t, all)
}

// apply runs one cycle with the right-hand side b, which is complete on every rank, and returns this
// rank's part of the result.
func (s *System) apply(b []float64) (z []float64, err error) {
	lv := s.cycle.levels[0]
	rows, rank := s.Rows(), s.group.Rank()
	below, above := lv.layout.ghosts(rank)
	err = s.context.Do(func() error {
		values := dist.Of(b[rows.Lo-below : rows.Hi+above])
		if err := s.context.Write(cuda.Pointer(lv.params.R[0]), values.Bytes()); err != nil {
			return err
		}
		for i := range s.steps {
			if s.steps[i].phase == krylov.Precond {
				if err := s.steps[i].start(s); err != nil {
					return err
				}
			}
		}
		return s.stream.Synchronize()
	})
	if err != nil {
		return nil, err
	}
	if _, err := s.finished(); err != nil {
		return nil, err
	}
	return s.read(cuda.Pointer(lv.params.S[0]+8*uint64(below)), rows.Len())
}

// applied returns the results of a cycle on GPUs for some right-hand sides, and the rows and entries
// of its levels.
func applied(t *testing.T, ranks int, spec Spec, sides ...[]float64) (out [][]float64, levels []float64) {
	t.Helper()
	for _, b := range sides {
		out = append(out, make([]float64, len(b)))
	}
	err := together(t, gpus, ranks, func(g *dist.Group) error {
		s, err := New(g, spec)
		if err != nil {
			return err
		}
		defer s.Close()
		for i, b := range sides {
			z, err := s.apply(b)
			if err != nil {
				return err
			}
			copy(out[i][s.Rows().Lo:], z)
			if err := g.Barrier(); err != nil { // before the next right-hand side overwrites ghosts
				return err
			}
		}
		for l := range s.cycle.levels {
			if rows, entries := s.Hierarchy().Size(l); g.Rank() == 0 {
				levels = append(levels, rows, entries)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%d ranks: %v", ranks, err)
	}
	return out, levels
}

// noises returns two different random vectors of n values.
func noises(n int) (u, v []float64) {
	for i := range n {
		u, v = append(u, sparse.Noise(1, i)), append(v, sparse.Noise(2, i))
	}
	return u, v
}

// appliedOnHost returns the result of the CPU's cycle for b, and the rows and entries of its levels.
func appliedOnHost(t *testing.T, spec Spec, b []float64) (z []float64, levels []float64) {
	t.Helper()
	err := together(t, "cpu", 1, func(g *dist.Group) error {
		s, err := system.New(g, spec.Spec)
		if err != nil {
			return err
		}
		z = make([]float64, len(b))
		h := s.Operator.(system.Hierarchy)
		for l := range h.Levels() {
			rows, entries := h.Size(l)
			levels = append(levels, rows, entries)
		}
		return s.Operator.Apply(z, slices.Clone(b))
	})
	if err != nil {
		t.Fatal(err)
	}
	return z, levels
}

// off returns the largest difference between two vectors, relative to the largest value.
func off(got, want []float64) float64 {
	most, size := 0.0, 0.0
	for i, v := range want {
		most, size = max(most, math.Abs(got[i]-v)), max(size, math.Abs(v))
	}
	return most / size
}

// cycleSpec returns a system with the multigrid preconditioner.
func cycleSpec(t *testing.T, grid sparse.Grid, points int) Spec {
	spec := poisson(t, grid, points)
	spec.Method, spec.Preconditioner = "cg", multigridName
	return spec
}

// The cycle on GPUs equals the CPU's except for rounding, has levels of the same size, and is
// symmetric and positive. That also holds if a rank's strip is shorter than a grid line, or empty on
// coarser levels.
func TestCycleEqualsCPU(t *testing.T) {
	for i, c := range cycled {
		sameCycle(t, fmt.Sprintf("%v of %d points", c.grid, c.points), cycleSpec(t, c.grid, c.points),
			[][]int{{1, 4}, {2}, {3, 7}, {3}}[i%4])
	}
	for _, dim := range []int{2, 3} {
		p, err := sparse.New("anisotropic", sparse.Params{Rows: 3000, Dim: dim})
		if err != nil {
			t.Fatal(err)
		}
		spec := cycleSpec(t, cycled[0].grid, cycled[0].points)
		spec.Problem = p
		sameCycle(t, fmt.Sprintf("anisotropic in %d dimensions", dim), spec, []int{3})
	}
}

func sameCycle(t *testing.T, name string, spec Spec, counts []int) {
	t.Helper()
	u, v := noises(spec.Problem.Size())
	want, sizes := appliedOnHost(t, spec, u)
	for _, ranks := range counts {
		for _, storage := range []sparse.Format{sparse.Compressed, sparse.Plain} {
			spec.Uncompressed = storage == sparse.Plain
			z, levels := applied(t, ranks, spec, u, v)
			if d := off(z[0], want); !(d < 1e-8) {
				t.Errorf("%s, %v, %d ranks: the cycle is off by %g", name, storage, ranks, d)
			}
			if !slices.Equal(levels, sizes) {
				t.Errorf("%s, %v: levels of %v rows and entries, on the CPU %v", name, storage, levels, sizes)
			}
			uv, vu, uu := sparse.Dot(u, z[1]), sparse.Dot(v, z[0]), sparse.Dot(u, z[0])
			if math.Abs(uv-vu) > 1e-12*uu || !(uu > 0) {
				t.Errorf("%s, %v, %d ranks: u.Mv is %g, v.Mu is %g, u.Mu is %g", name, storage, ranks, uv, vu, uu)
			}
		}
	}
}

// A fault in the cycle changes its result, and fails the solve or changes its number of iterations.
func TestCycleFaultsAreFound(t *testing.T) {
	spec := cycleSpec(t, sparse.Grid{61, 47, 1}, 5)
	u, _ := noises(61 * 47)
	want, _ := appliedOnHost(t, spec, u)
	host := onHost(t, spec.Spec)
	for name, fault := range map[string]uint32{"dropped coarse correction": gpusolve.NoCorrection,
		"wrong restriction":              gpusolve.WrongRestriction,
		"missing halo of coarser levels": CoarseHalo, "dropped halo": gpusolve.DroppedHalo} {
		spec.Fault, spec.MaxIter = fault, 200
		z, _ := applied(t, 3, spec, u)
		out, err := onDevice(t, 3, spec)
		if err == nil {
			err = out.Gate(spec.RTol)
		}
		if err == nil && abs(out.Iterations-host.Iterations) > 1 {
			err = fmt.Errorf("%d iterations, on the CPU %d", out.Iterations, host.Iterations)
		}
		t.Logf("%s: off by %g, %v", name, off(z[0], want), err)
		if d := off(z[0], want); d < 1e-4 || err == nil {
			t.Errorf("a %s passes: the cycle is off by %g, the solve gives %v", name, d, err)
		}
	}
}

// If a rank's steps of a cycle do not arrive, the error names that rank, and the solves of all ranks
// end.
func TestLateRankInCycle(t *testing.T) {
	defer func(limit time.Duration) { waitLimit = limit }(waitLimit)
	waitLimit = 300 * time.Millisecond
	errs := make([]error, 3)
	err := together(t, gpus, 3, func(g *dist.Group) error {
		s, err := New(g, cycleSpec(t, sparse.Grid{40, 20, 1}, 5))
		if err != nil {
			return err
		}
		if g.Rank() == 1 {
			s.steps[3].params.Mail[2] = s.params.Mail[1] // rank 2 receives nothing from rank 1
		}
		_, errs[g.Rank()] = s.Solve(0)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := "rank 2 timed out after 300ms waiting for the dot products of rank 1"; errs[2] == nil ||
		!strings.Contains(errs[2].Error(), want) {
		t.Errorf("%v, want %s", errs[2], want)
	}
	for r, err := range errs {
		if err == nil {
			t.Errorf("the solve of rank %d succeeds", r)
		}
	}
}

// The set-up has the same time limit.
func TestLateRankInSetup(t *testing.T) {
	defer func(limit time.Duration) { waitLimit = limit }(waitLimit)
	waitLimit = 300 * time.Millisecond
	err := together(t, gpus, 2, func(g *dist.Group) error {
		s, err := New(g, cycleSpec(t, sparse.Grid{40, 20, 1}, 5))
		if err != nil {
			return err
		}
		for range 2 * (1 - g.Rank()) { // the second step waits for rank 1, which runs none
			_, err = s.runStep(s.cycle.transfer, s.cycle.levels[0].params, gpusolve.BeginLanczos)
		}
		if want := "rank 0 timed out after 300ms waiting for the dot products of rank 1"; g.Rank() == 0 &&
			(err == nil || !strings.Contains(err.Error(), want)) {
			return fmt.Errorf("%v, want %s", err, want)
		}
		return g.Barrier()
	})
	if err != nil {
		t.Error(err)
	}
}

// A rank has everything that it reads from the next finer and the next coarser level, in its own rows
// or as a ghost.
func TestLevelsReach(t *testing.T) {
	for _, grid := range []sparse.Grid{{61, 47, 1}, {600, 3, 1}, {17, 16, 15}, {40, 3, 31}, {9, 100, 1}} {
		for _, halved := range [][3]bool{{true, true, grid[2] > 1}, {true, false, false}, {false, true, false}} {
			for _, ranks := range []int{1, 2, 3, 5, 16} {
				reaches(t, grid, multigrid.Coarser(grid, halved), ranks)
			}
		}
	}
}

func reaches(t *testing.T, grid, coarse sparse.Grid, ranks int) {
	t.Helper()
	diagonals := 27
	if grid[2] == 1 {
		diagonals = 9
	}
	fine := &level{grid: grid, layout: layout{size: grid.Size(), reach: gridReach(grid, diagonals)}}
	for r := range ranks {
		fine.layout.strips = append(fine.layout.strips,
			sparse.Range{Lo: r * grid.Size() / ranks, Hi: (r + 1) * grid.Size() / ranks})
	}
	next := fine.coarseLayout(coarse, storage{diagonals: diagonals})
	for _, q := range neighbours(diagonals) { // a product also reads the neighbours outside the grid
		if d := columnOffset(coarse, q.Step); abs(d) > next.reach && !multigrid.IsLast(coarse.Size()) {
			t.Fatalf("%v: a product reads %d rows away, but only %d ghosts are stored", coarse, d, next.reach)
		}
	}
	has := func(l *layout, rank, row int) bool {
		below, above := l.ghosts(rank)
		return row >= l.strips[rank].Lo-below && row < l.strips[rank].Hi+above
	}
	for r := range ranks {
		for c := range coarse.Size() {
			at, centre := coarse.Point(c), [3]int{}
			for axis := range at {
				if centre[axis] = at[axis]; coarse[axis] != grid[axis] {
					centre[axis] = 2*at[axis] + 1
				}
			}
			strip, kept := fine.layout.strips[r], next.strips[r]
			if f := grid.Index(centre); (f >= strip.Lo && f < strip.Hi) != (c >= kept.Lo && c < kept.Hi) {
				t.Fatalf("%v to %v, %d ranks: point %d is not on the rank of point %d", grid, coarse, ranks, c, f)
			}
			for _, q := range neighbours(diagonals) { // the fine points that restriction and interpolation of c use
				p := centre
				inside := true
				for axis, d := range q.Step {
					if p[axis] += d; p[axis] < 0 || p[axis] >= grid[axis] || d != 0 && coarse[axis] == grid[axis] {
						inside = false
					}
				}
				if !inside {
					continue
				}
				f := grid.Index(p)
				if c >= kept.Lo && c < kept.Hi && !has(&fine.layout, r, f) {
					t.Fatalf("%v to %v, rank %d of %d restricts to %d and lacks %d", grid, coarse, r, ranks, c, f)
				}
				if f >= strip.Lo && f < strip.Hi && !has(&next, r, c) {
					t.Fatalf("%v to %v, rank %d of %d interpolates %d and lacks %d", grid, coarse, r, ranks, f, c)
				}
			}
		}
	}
}

// A trace reports the cycle's time by level, and counts its bytes: 15 vectors of the first level, its
// matrix four times, and four vectors of the next level, in addition to the 9 vectors and the matrix
// of cg. Levels that fit in the cache are not counted. The kernels on the finest level add up to its time.
func TestCycleTrace(t *testing.T) {
	spec := cycleSpec(t, sparse.Grid{200, 150, 1}, 5)
	err := together(t, gpus, 2, func(g *dist.Group) error {
		s, err := New(g, spec)
		if err != nil {
			return err
		}
		defer s.Close()
		b, err := s.Trace(3)
		if err != nil {
			return err
		}
		// The end of the solve is noticed before the next cycle, whose time would otherwise count.
		if got, want := int(s.progress().State.Steps), s.method.prologue+3*len(s.steps); got != want {
			return fmt.Errorf("3 iterations took %d steps, want %d", got, want)
		}
		sum := 0.0
		for _, us := range b.Levels {
			sum += us
		}
		var names string
		finest := b.Levels[0]
		for _, st := range b.Finest {
			names += st.Name + " "
			finest -= st.Seconds
		}
		if names != "smooth defect restrict correct relax finish " || math.Abs(finest) > 1e-9 {
			return fmt.Errorf("kernels on the finest level: %v, which take %g", b.Finest, b.Levels[0])
		}
		per := b.Bytes / float64(b.Iterations*s.Part.Rows)
		if want := 8*(15+4./4) + 4 + 8*9 + 1; b.Iterations != 3 || math.Abs(per-want) > 0.3 ||
			len(b.Levels) != len(s.cycle.levels) ||
			math.Abs(sum-b.Seconds[krylov.Precond]) > 1e-9 || !(sum > 0) || !(b.Seconds[krylov.SpMV] > 0) ||
			!(b.Seconds[krylov.Updates] > 0) || b.Flops != 0 {
			return fmt.Errorf("%d iterations of %v, levels %v, %g bytes a row, want %g", b.Iterations, b.Seconds, b.Levels, per,
				want)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
