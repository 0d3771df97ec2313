package solvescaling

import (
	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/solve/refine"
	"github.com/kernbench/kernbench/solve"
)

// variant is a way to solve a system: by its Krylov method, with several right-hand sides, or in lower precision.
type variant struct {
	solves interface {
		system
		counted
		communicates
		Bytes() int // of vectors, and of the matrix if it is another one
	}
	krylov    bool // by the Krylov method of the spec, in double precision
	columns   int  // right-hand sides
	messages  int  // messages that this rank sends for a product
	matrix    int  // bytes of the matrix in the iteration
	gate      func(out solve.Outcome) error
	solutions func() []float64 // of this rank's rows, row by row
	report    func()           // records what only this variant has
}

// variantOf returns the variant that a point asks for.
func variantOf(s *bench.State, spec solve.Spec, sys cpuSystem, b rhs) (*variant, error) {
	switch {
	case b.columns > 1:
		return columnsVariant(s, spec, sys, b)
	case s.Str(precisionAxis) != refine.Double:
		return precisionVariant(s, spec, sys)
	}
	return &variant{solves: sys, krylov: true, columns: 1, messages: sys.Messages, matrix: sys.Matrix.Bytes(),
		gate:      func(out solve.Outcome) error { return out.Gate(spec.RTol) },
		solutions: sys.Solution, report: func() {}}, nil
}
