// Package block solves a system with several right-hand sides at once. The product of an iteration
// reads the matrix once for all of them, and one block Krylov method (package krylov) works on all
// columns.
package block

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/profile"
	"github.com/kernbench/kernbench/solve"
)

// Method is the method that has a block form.
const Method = "cg"

// System is one rank's part of a system with several right-hand sides. All ranks make the same calls.
type System struct {
	Columns  int
	Messages int           // messages that this rank sends for one product, at full width
	Timed    profile.Timed // the last solve

	parts   *profile.Internals
	rhs     func(row, column int) float64
	vectors *krylov.Block
	halo    krylov.BlockHalo
	sums    profile.Reducer
	result  krylov.BlockResult
	true    []krylov.Residual // of the last check, by column
	x       []float64         // solutions, row by row, for the check
}

// New prepares the solves of a system that was set up for one right-hand side. rhs returns the values of each column.
func New(sys *solve.System, columns int, rhs func(row, column int) float64) (*System, error) {
	n := sys.Internals()
	halo, messages, err := n.Columns.Connect(columns)
	if err != nil {
		return nil, err
	}
	s := &System{Columns: columns, Messages: messages, parts: n, rhs: rhs, halo: halo,
		sums:    n.Columns.NewSums(2 * columns * columns),
		vectors: krylov.NewBlock(n.Matrix, n.Plan, n.Applied, columns), x: make([]float64, n.Plan.Owned*columns)}
	b, one := s.vectors.RHS(), make([]float64, n.Plan.Owned)
	for j := range columns {
		for i := range one {
			one[i] = rhs(n.Plan.Global(i), j)
		}
		if n.Columns.ProjectRHS != nil {
			if err := n.Columns.ProjectRHS(one); err != nil {
				return nil, fmt.Errorf("column %d: %w", j+1, err)
			}
		}
		for i, v := range one {
			b[i*columns+j] = v
		}
	}
	return s, nil
}

// Solve solves for all right-hand sides, starting from zero. A limit above 0 replaces a larger iteration limit. The
// residuals of the outcome are the largest of all columns.
func (s *System) Solve(limit int) (solve.Outcome, error) {
	end := s.parts.Columns.Count()
	var err error
	if s.result, err = s.vectors.Solve(s.parts.Columns.Config(limit), s.halo, s.sums.Sum); err != nil {
		return solve.Outcome{}, err
	}
	s.Timed, s.true = end(), nil
	out := solve.Outcome{Result: s.result.Result, Seconds: s.Timed.Total, TrueResidual: math.NaN()}
	stop := s.parts.Columns.StopAfter
	out.Stopped = stop > 0 && out.Status == krylov.TooManyIterations && out.Iterations == stop
	return out, s.copySolutions()
}

// copySolutions copies the solutions to x, without their parts in the null space.
func (s *System) copySolutions() error {
	one := make([]float64, s.parts.Plan.Owned)
	for j := range s.Columns {
		s.vectors.Solution(one, j)
		if s.parts.Columns.Project != nil {
			if err := s.parts.Columns.Project(one); err != nil {
				return err
			}
		}
		for i, v := range one {
			s.x[i*s.Columns+j] = v
		}
	}
	return nil
}

// Solutions returns the solutions of this rank's rows, row by row. The next solve overwrites them.
func (s *System) Solutions() []float64 { return s.x }

// Check recomputes the residuals of all columns from the problem, and records the largest in the outcome of the last
// solve. See solve.System.Check.
func (s *System) Check(out *solve.Outcome) (err error) {
	if s.true, err = s.parts.Columns.Check(s.Columns, s.x, s.rhs); err != nil {
		return err
	}
	worst := slices.MaxFunc(s.true, func(a, b krylov.Residual) int { return cmp.Compare(a.True, b.True) })
	out.TrueResidual, out.Rounding = worst.True, worst.Rounding
	return nil
}

// LastSolve returns the parts of the last solve on this rank.
func (s *System) LastSolve() profile.Timed { return s.Timed }

// Result returns the result of the last solve.
func (s *System) Result() krylov.BlockResult { return s.result }

// Bytes returns the memory of the block vectors on this rank.
func (s *System) Bytes() int { return s.vectors.Bytes() }

// Gate returns an error that names the columns that have not converged, or whose true residual contradicts the residual
// that the method reports. Call Check first. Columns of a solve that was stopped early need not have converged.
func (s *System) Gate(out solve.Outcome, rtol float64) error {
	var open, wrong []int
	var worst solve.Outcome // of the wrong columns
	for j, residual := range s.true {
		one := out
		one.Residual, one.TrueResidual, one.Rounding = s.result.Residuals[j], residual.True, residual.Rounding
		one.Status, one.Reason = krylov.Converged, ""
		if s.result.Converged[j] < 0 && !out.Stopped {
			open = append(open, j)
		} else if one.Gate(rtol) != nil {
			if wrong = append(wrong, j); len(wrong) == 1 || one.TrueResidual > worst.TrueResidual {
				worst = one
			}
		}
	}
	switch {
	case len(s.true) != s.Columns:
		return fmt.Errorf("the residuals of %d columns were not computed", s.Columns)
	case len(open) > 0:
		reason := ""
		if out.Reason != "" {
			reason = ", " + out.Reason
		}
		largest := 0.0
		for _, j := range open {
			largest = max(largest, s.result.Residuals[j])
		}
		return fmt.Errorf("%s of %d did not converge: %v after %s%s, largest relative residual %.3g, want %.3g",
			columnList(open), s.Columns, out.Status, unit.Plural(out.Iterations, "iteration"), reason, largest, rtol)
	case len(wrong) > 0:
		return fmt.Errorf("%s of %d: %w", columnList(wrong), s.Columns, worst.Gate(rtol))
	}
	return nil
}

// columnList lists columns, counted from 1, at most eight of them.
func columnList(columns []int) string {
	var words []string
	for k, j := range columns {
		if k == 8 {
			words = append(words, "...")
			break
		}
		words = append(words, strconv.Itoa(j+1))
	}
	if len(words) == 1 {
		return "column " + words[0]
	}
	return "columns " + strings.Join(words, ", ")
}

// Alone makes at most limit iterations on the rows of this rank as if there were no other ranks, and returns the
// seconds of one. See profile.Internals.Alone.
func (s *System) Alone(limit int) (float64, error) {
	if s.parts.Applied != nil && !s.parts.Applied.Local() {
		return 0, nil
	}
	cfg := s.parts.Columns.Config(max(4, limit/s.Columns)) // an iteration does the work of s.Columns iterations
	began := s.parts.Clock.Now()
	result, err := s.vectors.Solve(cfg, krylov.NoHalo{}, func(sums []float64) ([]float64, error) { return sums, nil })
	if err != nil || result.Iterations == 0 {
		return 0, err
	}
	return float64(s.parts.Clock.Now()-began) / 1e12 / float64(result.Iterations), nil
}

// Communicate performs the communication of the given numbers of products and reductions at full width, without any
// arithmetic. See profile.Internals.Communicate.
func (s *System) Communicate(products, reductions int) (float64, error) {
	gram := make([]float64, 2*s.Columns*s.Columns)
	return s.parts.TimeMessages(products, reductions, func() error { return s.vectors.Exchange(s.halo) },
		func(i int) error {
			sums := gram[:len(gram)/2]
			if i%2 == 1 && s.parts.Applied != nil { // with and without the preconditioner
				sums = gram
			}
			_, err := s.sums.Sum(sums)
			return err
		})
}

// Trace solves for at most limit iterations and times every phase.
func (s *System) Trace(limit int) (profile.Profile, error) {
	watch := profile.NewStopwatch(s.parts.Clock)
	s.vectors.Trace = watch.Enter
	defer func() { s.vectors.Trace = nil }()
	defer watch.Follow(s.parts.Operator)()
	result, err := s.vectors.Solve(s.parts.Columns.Config(limit), s.halo, s.sums.Sum)
	if err != nil {
		return profile.Profile{}, err
	}
	return s.parts.NewProfile(watch, result.Iterations, result.Work), nil
}
