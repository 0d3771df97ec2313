package system

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/solve/krylov"
)

// BlockMethod is the method that has a block form.
const BlockMethod = "cg"

// Block is one rank's part of a system with several right-hand sides, which are solved at once: the product of an
// iteration reads the matrix once for all of them, and one block Krylov method works on all columns.
type Block struct {
	*System
	Columns  int
	Messages int // messages that this rank sends for one product, at full width

	rhs     func(row, column int) float64
	vectors *krylov.Block
	halo    *halo
	sums    *reducer
	result  krylov.BlockResult
	true    []krylov.Residual // of the last check, by column
	x       []float64         // solutions, row by row, for the check
}

// NewBlock prepares the solves of a system that was set up for one right-hand side. rhs returns the values of each
// column.
func NewBlock(s *System, columns int, rhs func(row, column int) float64) (*Block, error) {
	h, err := s.newHalo(s.Plan, columns)
	if err != nil {
		return nil, err
	}
	k := &Block{System: s, Columns: columns, Messages: h.messages(), rhs: rhs, halo: h,
		sums:    s.newReducer(2 * columns * columns),
		vectors: krylov.NewBlock(s.Matrix, s.Plan, s.Applied, columns), x: make([]float64, s.Plan.Owned*columns)}
	b, one := k.vectors.RHS(), make([]float64, s.Plan.Owned)
	for j := range columns {
		for i := range one {
			one[i] = rhs(s.Plan.Global(i), j)
		}
		if err := s.projectRHS(one); err != nil {
			return nil, fmt.Errorf("column %d: %w", j+1, err)
		}
		for i, v := range one {
			b[i*columns+j] = v
		}
	}
	return k, nil
}

// Solve solves for all right-hand sides, starting from zero. A limit above 0 replaces a larger iteration limit. The
// residuals of the outcome are the largest of all columns.
func (k *Block) Solve(limit int) (Outcome, error) {
	out, err := k.time(func() (_ krylov.Result, err error) {
		k.result, err = k.vectors.Solve(k.config(limit), k.halo, k.sums.sum)
		return k.result.Result, err
	})
	if err != nil {
		return out, err
	}
	k.true = nil
	return out, k.copySolutions()
}

// copySolutions copies the solutions to x, without their parts in the null space.
func (k *Block) copySolutions() error {
	one := make([]float64, k.Plan.Owned)
	for j := range k.Columns {
		k.vectors.Solution(one, j)
		if k.null != nil {
			if err := k.null.project(one); err != nil {
				return err
			}
		}
		for i, v := range one {
			k.x[i*k.Columns+j] = v
		}
	}
	return nil
}

// Solution returns the solutions of this rank's rows, row by row. The next solve overwrites them.
func (k *Block) Solution() []float64 { return k.x }

// Check recomputes the residuals of all columns from the problem, and records the largest in the outcome of the last
// solve. See System.Check.
func (k *Block) Check(out *Outcome) (err error) {
	if k.true, err = k.checkColumns(k.Columns, k.x, k.rhs); err != nil {
		return err
	}
	worst := slices.MaxFunc(k.true, func(a, b krylov.Residual) int { return cmp.Compare(a.True, b.True) })
	out.TrueResidual, out.Rounding = worst.True, worst.Rounding
	return nil
}

// Result returns the result of the last solve.
func (k *Block) Result() krylov.BlockResult { return k.result }

// Bytes returns the memory of the block vectors on this rank.
func (k *Block) Bytes() int { return k.vectors.Bytes() }

// Gate returns an error that names the columns that have not converged, or whose true residual contradicts the residual
// that the method reports. Call Check first. Columns of a solve that was stopped early need not have converged.
func (k *Block) Gate(out Outcome, rtol float64) error {
	var open, wrong []int
	var worst Outcome // of the wrong columns
	largest := 0.0    // residual of the open columns
	for j, residual := range k.true {
		one := out
		one.Residual, one.TrueResidual, one.Rounding = k.result.Residuals[j], residual.True, residual.Rounding
		one.Status, one.Reason = krylov.Converged, ""
		if k.result.Converged[j] < 0 && !out.Stopped {
			open, largest = append(open, j), max(largest, one.Residual)
		} else if one.Gate(rtol) != nil {
			if wrong = append(wrong, j); len(wrong) == 1 || one.TrueResidual > worst.TrueResidual {
				worst = one
			}
		}
	}
	switch {
	case len(k.true) != k.Columns:
		return fmt.Errorf("the residuals of %d columns were not computed", k.Columns)
	case len(open) > 0:
		reason := ""
		if out.Reason != "" {
			reason = ", " + out.Reason
		}
		return fmt.Errorf("%s of %d did not converge: %v after %s%s, largest relative residual %.3g, want %.3g",
			columnList(open), k.Columns, out.Status, unit.Plural(out.Iterations, "iteration"), reason, largest, rtol)
	case len(wrong) > 0:
		return fmt.Errorf("%s of %d: %w", columnList(wrong), k.Columns, worst.Gate(rtol))
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
// seconds of one. See System.Alone.
func (k *Block) Alone(limit int) (float64, error) {
	if k.Applied != nil && !k.Applied.Local() {
		return 0, nil
	}
	cfg := k.config(max(4, limit/k.Columns)) // an iteration does the work of k.Columns iterations
	began := k.meter.clock.Now()
	result, err := k.vectors.Solve(cfg, krylov.NoHalo{}, func(sums []float64) ([]float64, error) { return sums, nil })
	if err != nil || result.Iterations == 0 {
		return 0, err
	}
	return seconds(k.meter.clock.Now()-began) / float64(result.Iterations), nil
}

// Communicate performs the communication of the given numbers of products and reductions at full width, without any
// arithmetic. See System.Communicate.
func (k *Block) Communicate(products, reductions int) (float64, error) {
	gram := make([]float64, 2*k.Columns*k.Columns)
	return k.timeMessages(products, reductions, func() error { return k.vectors.Exchange(k.halo) },
		func(i int) error {
			sums := gram[:len(gram)/2]
			if i%2 == 1 && k.Applied != nil { // with and without the preconditioner
				sums = gram
			}
			_, err := k.sums.sum(sums)
			return err
		})
}

// Trace solves for at most limit iterations and times every phase.
func (k *Block) Trace(limit int) (Profile, error) {
	watch := k.startWatch()
	defer watch.stop()
	k.vectors.Trace = watch.enter
	defer func() { k.vectors.Trace = nil }()
	result, err := k.vectors.Solve(k.config(limit), k.halo, k.sums.sum)
	return k.profile(watch, result.Iterations, result.Work), err
}
