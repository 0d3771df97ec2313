// Package devicetest is the conformance suite of solves on a device: a self-test runs it where
// the device is, because what tests elsewhere run on is the processor.
package devicetest

import (
	"fmt"
	"math"
	"slices"

	"github.com/kernbench/kernbench/dist"
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

// shape is a grid, and the points of the stencil on it.
type shape struct {
	grid   sparse.Grid
	points int
}

// Systems have tails, lines that strips cut, and strips shorter than a line. The large ones have more rows than
// a GPU takes at once.
var (
	small = []shape{{sparse.Grid{41, 23, 1}, 5}, {sparse.Grid{23, 17, 1}, 9}, {sparse.Grid{11, 9, 13}, 7}, {sparse.Grid{7, 9, 5}, 27}, {sparse.Grid{300, 2, 1}, 5}}
	large = []shape{{sparse.Grid{701, 503, 1}, 5}, {sparse.Grid{601, 45, 1}, 9}, {sparse.Grid{71, 83, 67}, 7}, {sparse.Grid{59, 53, 61}, 27}}
)

// Faults solves systems by every method, preconditioner and storage, twice each, and gives
// how many there were and what is wrong with them; then it plants errors, which must be noticed. All
// ranks of the group call it together.
func Faults(g *dist.Group, short bool) (cases int, faults []error) {
	shapes := small
	if !short {
		shapes = append(slices.Clip(shapes), large...)
	}
	for _, shape := range shapes {
		for _, spec := range specs(shape.grid, shape.points) {
			cases++
			if err := twice(g, spec); err != nil {
				return cases, append(faults, fmt.Errorf("%v of %d points, %s, %s, %v: %w", shape.grid, shape.points, spec.Method, spec.Preconditioner, spec.Storage, err))
			}
		}
	}
	for _, f := range planted(g.Size()) {
		for _, spec := range specs(sparse.Grid{31, 47, 1}, 5)[:1] {
			cases++
			spec.Method, spec.Fault, spec.MaxIter = f.method, f.fault, 500
			if err := twice(g, spec); err == nil {
				faults = append(faults, fmt.Errorf("%s with a %s passes", f.method, f.name))
			}
		}
	}
	return cases, faults
}

// specs are the ways to solve a system.
func specs(grid sparse.Grid, points int) (all []device.Spec) {
	problem, err := sparse.NewGridPoisson(grid, points)
	if err != nil {
		panic(err)
	}
	for _, method := range device.Methods() {
		for _, precond := range device.Preconditioners() {
			for _, storage := range []solve.Storage{solve.Plain, solve.Compressed} {
				all = append(all, device.Spec{Made: device.Noise, Spec: solve.Spec{Source: solve.Generated{Problem: problem},
					RHS: func(row int) float64 { return sparse.Noise(seed, row) }, Seed: seed,
					Method: method, Preconditioner: precond, Storage: storage, RTol: rtol, MaxIter: limit}})
			}
		}
	}
	return all
}

type fault struct {
	name, method string
	fault        uint32
}

// planted are the errors that a number of ranks can show for certain.
func planted(ranks int) (all []fault) {
	for _, method := range device.Methods() {
		all = append(all, fault{"stale scalar", method, gpusolve.StaleScalar})
		if ranks > 1 {
			all = append(all, fault{"dropped halo", method, gpusolve.DroppedHalo})
		}
	}
	return append(all, fault{"wrong scalar product", "cg", gpusolve.WrongDot})
}

// twice solves a system twice, which must give the same bits and pass the gate.
func twice(g *dist.Group, spec device.Spec) error {
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
		if k > 0 && !slices.EqualFunc(out.History, last.History, func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }) {
			return fmt.Errorf("two solves differ: %d iterations to %g, then %d to %g", last.Iterations, last.Residual, out.Iterations, out.Residual)
		}
		last = out
	}
	if last.TrueResidual, err = s.Check(); err != nil {
		return err
	}
	return last.Gate(rtol)
}
