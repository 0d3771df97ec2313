// Package devicetest is the conformance suite for solves on GPUs. `kernbench selftest` runs it on the
// real GPU, because ordinary tests run the kernels on the CPU. It compares small systems with the
// CPU's solution and iterations; large systems must only pass the gate.
package devicetest

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/comm/hints"
	"github.com/kernbench/kernbench/internal/kernel/gpusolve"
	"github.com/kernbench/kernbench/internal/solve/device"
	"github.com/kernbench/kernbench/internal/solve/sparse"
	"github.com/kernbench/kernbench/internal/solve/system"
	"github.com/kernbench/kernbench/solve"
)

const (
	rtol = 1e-9
	seed = 7
	// limit is far more iterations than any of the systems needs.
	limit = 5000
)

// variable selects the problem with variable coefficients instead of a number of points.
const variable = 0

// shape is a grid and the number of points of its stencil.
type shape struct {
	grid   sparse.Grid
	points int
}

// Row counts are not multiples of a block, grid lines are split between ranks, and some strips are
// shorter than a line. Some grids have three multigrid levels. The large ones have more rows than a
// GPU processes at once.
var (
	small = []shape{{sparse.Grid{41, 23, 1}, 5}, {sparse.Grid{23, 17, 1}, 9}, {sparse.Grid{11, 9, 13}, 7},
		{sparse.Grid{7, 9, 5}, 27}, {sparse.Grid{300, 2, 1}, 5},
		{sparse.Grid{31, 29, 1}, variable}, {sparse.Grid{9, 8, 7}, variable}, {sparse.Grid{62, 51, 1}, 5},
		{sparse.Grid{17, 14, 15}, 7}}
	large = []shape{{sparse.Grid{701, 503, 1}, 5}, {sparse.Grid{601, 45, 1}, 9}, {sparse.Grid{71, 83, 67}, 7},
		{sparse.Grid{59, 53, 61}, 27},
		{sparse.Grid{121, 133, 1}, variable}, {sparse.Grid{61, 47, 59}, variable}}
)

// Faults solves systems with every method, preconditioner and storage, each of them twice. It then
// plants faults in the kernels, which must be detected. It returns the number of cases and everything
// that is wrong. All ranks of the group must call it together.
func Faults(g *dist.Group, short bool) (cases int, faults []error) {
	shapes := small
	if !short {
		shapes = append(slices.Clip(shapes), large...)
	}
	for k, shape := range shapes {
		var want *reference
		for _, spec := range specs(shape.grid, shape.points) {
			cases++
			// On large systems without multigrid, rounding changes the number of iterations.
			if k >= len(small) && spec.Preconditioner != multigrid {
				want = nil
			} else if want == nil || want.solver != [2]string{spec.Method, spec.Preconditioner} {
				var err error
				if want, err = onHost(g, spec); err != nil {
					return cases, append(faults, fmt.Errorf("solving on the CPU: %w", err))
				}
			}
			if err := solveTwice(g, spec, want); err != nil {
				return cases, append(faults, fmt.Errorf("grid %v, %d points, method %s, preconditioner %s, uncompressed %v: %w",
					shape.grid, shape.points, spec.Method, spec.Preconditioner, spec.Uncompressed, err))
			}
		}
	}
	for _, f := range planted(g.Size()) {
		cases++
		spec := specs(sparse.Grid{31, 47, 1}, 5)[0]
		spec.Method, spec.Preconditioner, spec.MaxIter = f.method, f.precond, 500
		var want *reference
		if f.precond == multigrid { // a worse cycle only shows in the number of iterations
			var err error
			if want, err = onHost(g, spec); err != nil {
				return cases, append(faults, fmt.Errorf("solving on the CPU: %w", err))
			}
		}
		spec.Fault = f.fault
		if err := solveTwice(g, spec, want); err == nil {
			faults = append(faults, fmt.Errorf("method %s with a %s was not detected", f.method, f.name))
		}
	}
	return cases, faults
}

// multigrid is the preconditioner with several levels.
const multigrid = "gmg"

// specs returns all ways to solve a system on GPUs.
func specs(grid sparse.Grid, points int) (all []device.Spec) {
	problem, err := sparse.NewGridPoisson(grid, points)
	if points == variable {
		problem, err = sparse.NewGridVariable(grid, seed)
	}
	if err != nil {
		panic(err)
	}
	for _, method := range device.Methods() {
		for _, precond := range device.Preconditioners() {
			if !device.Compatible(method, precond) {
				continue
			}
			for _, uncompressed := range []bool{true, false} {
				all = append(all, device.Spec{DeviceRHS: device.Noise, Spec: solve.Spec{Problem: problem,
					RHS: func(row int) float64 { return sparse.Noise(seed, row) }, Seed: seed,
					Method: method, Preconditioner: precond, Uncompressed: uncompressed, RTol: rtol, MaxIter: limit}})
			}
		}
	}
	return all
}

type fault struct {
	name, method, precond string
	fault                 uint32
}

// planted returns the faults that are certain to have an effect on this number of ranks.
func planted(ranks int) (all []fault) {
	for _, method := range device.Methods() {
		all = append(all, fault{"stale scalar", method, "", gpusolve.StaleScalar},
			fault{"stale reduction", method, "", gpusolve.StaleSums})
		if ranks > 1 {
			all = append(all, fault{"dropped halo", method, "", gpusolve.DroppedHalo})
		}
	}
	if ranks > 1 {
		all = append(all, fault{"dropped halo of coarser levels", "cg", multigrid, device.CoarseHalo})
	}
	return append(all, fault{"wrong scalar product", "cg", "", gpusolve.WrongDot},
		fault{"dropped coarse correction", "cg", multigrid, gpusolve.NoCorrection},
		fault{"wrong restriction", "cg", multigrid, gpusolve.WrongRestriction})
}

// reference is the result of the CPU's solver.
type reference struct {
	solver     [2]string // method and preconditioner
	iterations int
	x          []float64
}

// onHost solves a system on the CPU, on one rank.
func onHost(g *dist.Group, spec device.Spec) (*reference, error) {
	group, err := dist.Init(context.Background(),
		dist.Config{Backend: hints.HostBackend, Size: 1, ID: fmt.Sprintf("reference-%d-%d", os.Getpid(), g.Rank())})
	if err != nil {
		return nil, err
	}
	defer group.Close()
	s, err := system.New(group, spec.Spec)
	if err != nil {
		return nil, err
	}
	out, err := s.Solve(0)
	return &reference{[2]string{spec.Method, spec.Preconditioner}, out.Iterations, s.Solution()}, err
}

// check compares a solution with the reference. x is this rank's part. Rounding may change the number
// of iterations by one, or by 2 % if there are nearly as many iterations as unknowns, and the solution
// within the tolerance of the solve.
func (want *reference) check(out solve.Outcome, rows sparse.Range, x []float64) error {
	if d := out.Iterations - want.iterations; max(d, -d) > max(1, want.iterations/50) {
		return fmt.Errorf("%d iterations, on the CPU %d", out.Iterations, want.iterations)
	}
	difference, size := 0.0, 0.0
	for _, v := range want.x {
		size = max(size, math.Abs(v))
	}
	for i, v := range x {
		difference = max(difference, math.Abs(v-want.x[rows.Lo+i]))
	}
	if len(x) != rows.Len() || !(difference <= 1e-6*size) {
		return fmt.Errorf("the solution differs by %g from the CPU's, whose largest value is %g", difference, size)
	}
	return nil
}

// solveTwice solves a system twice. Both solves must return the same bits and pass the gate. If want
// is not nil, the result must agree with it.
func solveTwice(g *dist.Group, spec device.Spec, want *reference) error {
	s, err := device.New(g, spec)
	if err != nil {
		return err
	}
	defer s.Close()
	var last solve.Outcome
	for k := range 2 {
		out, err := s.Solve(0)
		if err != nil {
			return err
		}
		if k > 0 && !slices.EqualFunc(out.History, last.History, func(a, b float64) bool {
			return math.Float64bits(a) == math.Float64bits(b)
		}) {
			return fmt.Errorf("two solves differ: %d iterations to %g, then %d to %g", last.Iterations, last.Residual,
				out.Iterations, out.Residual)
		}
		last = out
	}
	if err := s.Check(&last); err != nil {
		return err
	}
	if err := last.Gate(rtol); err != nil || want == nil {
		return err
	}
	x, err := s.Solution()
	if err != nil {
		return err
	}
	return want.check(last, s.Rows(), x)
}
