// Package devicetest is the conformance suite of solves on a device: a self-test runs it where
// the device is, because what tests elsewhere run on is the processor. Small systems are held against
// the solution of the host and its iterations, large ones to the gate alone.
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
	"github.com/kernbench/kernbench/solve"
)

const (
	rtol = 1e-9
	seed = 7
	// limit is far more iterations than any of the systems needs.
	limit = 5000
)

// variable stands for as many points as the problem of variable coefficients has.
const variable = 0

// shape is a grid, and the points of the stencil on it.
type shape struct {
	grid   sparse.Grid
	points int
}

// Systems have tails, lines that strips cut, and strips shorter than a line; some have three levels of
// multigrid. The large ones have more rows than a GPU takes at once.
var (
	small = []shape{{sparse.Grid{41, 23, 1}, 5}, {sparse.Grid{23, 17, 1}, 9}, {sparse.Grid{11, 9, 13}, 7},
		{sparse.Grid{7, 9, 5}, 27}, {sparse.Grid{300, 2, 1}, 5},
		{sparse.Grid{31, 29, 1}, variable}, {sparse.Grid{9, 8, 7}, variable}, {sparse.Grid{62, 51, 1}, 5},
		{sparse.Grid{17, 14, 15}, 7}}
	large = []shape{{sparse.Grid{701, 503, 1}, 5}, {sparse.Grid{601, 45, 1}, 9}, {sparse.Grid{71, 83, 67}, 7},
		{sparse.Grid{59, 53, 61}, 27},
		{sparse.Grid{121, 133, 1}, variable}, {sparse.Grid{61, 47, 59}, variable}}
)

// Faults solves systems by every method, preconditioner and storage, twice each, and gives
// how many there were and what is wrong with them; then it plants errors, which must be noticed. All
// ranks of the group call it together.
func Faults(g *dist.Group, short bool) (cases int, faults []error) {
	shapes := small
	if !short {
		shapes = append(slices.Clip(shapes), large...)
	}
	for k, shape := range shapes {
		var want *reference
		for _, spec := range specs(shape.grid, shape.points) {
			cases++
			// as many iterations as on the host mean nothing of the others but rounding
			if k >= len(small) && spec.Preconditioner != cycled {
				want = nil
			} else if want == nil || want.of != [2]string{spec.Method, spec.Preconditioner} {
				var err error
				if want, err = onHost(g, spec); err != nil {
					return cases, append(faults, fmt.Errorf("on the host: %w", err))
				}
			}
			if err := twice(g, spec, want); err != nil {
				return cases, append(faults, fmt.Errorf("%v of %d points, %s, %s, uncompressed %v: %w", shape.grid, shape.points, spec.Method,
					spec.Preconditioner, spec.Uncompressed, err))
			}
		}
	}
	for _, f := range planted(g.Size()) {
		cases++
		spec := specs(sparse.Grid{31, 47, 1}, 5)[0]
		spec.Method, spec.Preconditioner, spec.MaxIter = f.method, f.precond, 500
		var want *reference
		if f.precond == cycled { // a cycle that is worse than it should be shows in the iterations alone
			var err error
			if want, err = onHost(g, spec); err != nil {
				return cases, append(faults, fmt.Errorf("on the host: %w", err))
			}
		}
		spec.Fault = f.fault
		if err := twice(g, spec, want); err == nil {
			faults = append(faults, fmt.Errorf("%s with a %s passes", f.method, f.name))
		}
	}
	return cases, faults
}

// cycled is the preconditioner of several levels.
const cycled = "gmg"

// specs are the ways to solve a system.
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
			if !device.Pairs(method, precond) {
				continue
			}
			for _, uncompressed := range []bool{true, false} {
				all = append(all, device.Spec{Made: device.Noise, Spec: solve.Spec{Problem: problem,
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

// planted are the errors that a number of ranks can show for certain.
func planted(ranks int) (all []fault) {
	for _, method := range device.Methods() {
		all = append(all, fault{"stale scalar", method, "", gpusolve.StaleScalar},
			fault{"stale reduction", method, "", gpusolve.StaleSums})
		if ranks > 1 {
			all = append(all, fault{"dropped halo", method, "", gpusolve.DroppedHalo})
		}
	}
	if ranks > 1 {
		all = append(all, fault{"dropped halo of coarser levels", "cg", cycled, device.CoarseHalo})
	}
	return append(all, fault{"wrong scalar product", "cg", "", gpusolve.WrongDot},
		fault{"dropped coarse correction", "cg", cycled, gpusolve.NoCorrection},
		fault{"wrong restriction", "cg", cycled, gpusolve.WrongRestriction})
}

// reference is what the host's solver makes of a system.
type reference struct {
	of         [2]string // method and preconditioner
	iterations int
	x          []float64
}

// onHost solves as processors do, on one rank.
func onHost(g *dist.Group, spec device.Spec) (*reference, error) {
	alone, err := dist.Init(context.Background(),
		dist.Config{Backend: hints.HostBackend, Size: 1, ID: fmt.Sprintf("reference-%d-%d", os.Getpid(), g.Rank())})
	if err != nil {
		return nil, err
	}
	defer alone.Close()
	s, err := solve.New(alone, spec.Spec)
	if err != nil {
		return nil, err
	}
	out, err := s.Solve(0)
	return &reference{[2]string{spec.Method, spec.Preconditioner}, out.Iterations, s.Solution()}, err
}

// differs says how a solution, of which this rank has x, differs from that of the host: rounding may cost
// an iteration, or 2 % where there are as many as unknowns, and as much of the solution as the tolerance leaves open.
func (want *reference) differs(out solve.Outcome, rows sparse.Range, x []float64) error {
	if d := out.Iterations - want.iterations; max(d, -d) > max(1, want.iterations/50) {
		return fmt.Errorf("%d iterations, on the host %d", out.Iterations, want.iterations)
	}
	most, size := 0.0, 0.0
	for _, v := range want.x {
		size = max(size, math.Abs(v))
	}
	for i, v := range x {
		most = max(most, math.Abs(v-want.x[rows.Lo+i]))
	}
	if len(x) != rows.Len() || !(most <= 1e-6*size) {
		return fmt.Errorf("the solution is off by %g of %g from the host's", most, size)
	}
	return nil
}

// twice solves a system twice, which must give the same bits, pass the gate, and be what the host's
// solver gives, where that is known.
func twice(g *dist.Group, spec device.Spec, want *reference) error {
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
	if last.TrueResidual, err = s.Check(); err != nil {
		return err
	}
	if err := last.Gate(rtol); err != nil || want == nil {
		return err
	}
	x, err := s.Solution()
	if err != nil {
		return err
	}
	return want.differs(last, s.Rows(), x)
}
