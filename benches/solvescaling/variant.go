package solvescaling

import (
	"context"

	"github.com/kernbench/kernbench/bench"
	"github.com/kernbench/kernbench/internal/solve/partition"
	"github.com/kernbench/kernbench/solve"
)

// variant is another way to solve a system that was set up for a Krylov method: with several right-hand sides, or in
// lower precision.
type variant struct {
	solves interface {
		system
		counted
		Bytes() int // of vectors, and of the matrix if it is another one
	}
	columns   int // right-hand sides
	messages  int // messages that this rank sends for a product
	matrix    int // bytes of the matrix in the iteration
	gate      func(out solve.Outcome) error
	solutions func() []float64 // of this rank's rows, row by row
	report    func()           // records what only this variant has
}

// variantOf returns the variant that a point asks for, or nil.
func variantOf(s *bench.State, spec solve.Spec, made *solve.System, b rhs) (*variant, error) {
	if b.columns > 1 {
		return columnsVariant(s, spec, made, b)
	}
	return precisionVariant(s, spec, made)
}

// variantBody is the rest of the body for a variant, after the set-up.
func variantBody(ctx context.Context, s *bench.State, spec solve.Spec, made *solve.System, v *variant,
	memory *memory) error {
	n := made.Internals()
	s.Phase("warm-up")
	if _, err := v.solves.Solve(warmup); err != nil {
		return err
	}
	grown := memory.grown()
	triad := newTriad(s.Int(repeatOption))
	out, times, err := timeSolves(ctx, s, v.solves, made.Size, triad)
	if err != nil {
		return err
	}
	gate := v.gate(out)
	v.report()
	if gate == nil {
		if err := writeSolution(ctx, s, made, v.solutions(), v.columns); err != nil {
			return err
		}
		if err := writeMatrixFile(s, spec); err != nil {
			return err
		}
	}
	bytes := n.Matrix.Bytes() + v.solves.Bytes()
	if n.Applied != nil {
		bytes += n.Applied.Bytes()
	}
	if err := reportWorkingSet(ctx, s, bytes); err != nil {
		return err
	}
	products := float64(out.Products) / float64(max(1, out.Iterations))
	mine := part{partition.LocalOf(n.Plan), n.Times, v.messages, v.matrix, n.Operator}
	if err := reportSystem(ctx, s, mine, made.Size, products, grown); err != nil {
		return err
	}
	for _, name := range []string{"bytes", "halo_bytes_per_dof"} { // each message has the values of all columns
		s.Record(name, float64(v.columns)*s.Metric(name))
	}
	if gate == nil {
		if err := reportPhases(ctx, s, v.solves, n.Operator, triad, times); err != nil {
			return err
		}
	}
	s.Phase("gate")
	return gate
}
