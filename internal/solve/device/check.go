package device

import (
	"fmt"
	"math"
	"runtime"
	"sync"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

// window is how many rows are checked at a time: what the host holds of x.
const window = 1 << 22

// Check gives ||b - Ax|| / ||b|| of the last solution, as solve.System.Check does, in a way that
// shares nothing with the solve but the rows' numbers: the host makes the rows again from the
// problem and multiplies them one by one, and reads x, and what it needs of other ranks' x,
// from where each rank keeps its own.
func (s *System) Check() (float64, error) {
	if err := s.group.Barrier(); err != nil { // everyone's x is there
		return 0, err
	}
	problem := s.spec.Problem
	rows := s.layout.rows(s.group.Rank())
	squares := []float64{0, 0}
	for lo := rows.Lo; lo < rows.Hi; lo += window {
		part := sparse.Range{Lo: lo, Hi: min(lo+window, rows.Hi)}
		x, first, err := s.around(part)
		if err != nil {
			return 0, fmt.Errorf("reading the solution: %w", err)
		}
		residual, rhs := s.residual(problem, part, x, first)
		squares[0] += residual
		squares[1] += rhs
	}
	sums := make([]float64, 2)
	if err := s.group.AllReduce(dist.Of(sums), dist.Of(squares), dist.Sum); err != nil {
		return 0, err
	}
	if sums[1] == 0 {
		return math.Sqrt(sums[0]), nil
	}
	return math.Sqrt(sums[0] / sums[1]), nil
}

// Solution is this rank's part of the last solution.
func (s *System) Solution() ([]float64, error) {
	x, _, err := s.values(s.layout.rows(s.group.Rank()))
	return x, err
}

// Rows are this rank's.
func (s *System) Rows() sparse.Range { return s.layout.rows(s.group.Rank()) }

// around reads x for some rows and all columns of theirs, from the given first one on.
func (s *System) around(rows sparse.Range) (x []float64, first int, err error) {
	return s.values(sparse.Range{Lo: max(0, rows.Lo-s.shape.reach), Hi: min(s.Size, rows.Hi+s.shape.reach)})
}

// values reads x from its owners.
func (s *System) values(rows sparse.Range) (x []float64, first int, err error) {
	for r := range s.at {
		theirs := s.layout.rows(r)
		lo, hi := max(rows.Lo, theirs.Lo), min(rows.Hi, theirs.Hi)
		if lo >= hi {
			continue
		}
		from := s.layout.row(s.at[r], vecX) + 8*uint64(lo-theirs.Lo)
		part, err := s.read(cuda.Pointer(from), hi-lo)
		if err != nil {
			return nil, 0, err
		}
		x = append(x, part...)
	}
	return x, rows.Lo, nil
}

// residual adds up the squares of b - Ax and of b over some rows, in pieces that all
// processors share and whose sums are added in their order.
func (s *System) residual(problem sparse.Problem, rows sparse.Range, x []float64, first int) (residual, rhs float64) {
	const piece = 1 << 15
	pieces := (rows.Len() + piece - 1) / piece
	sums := make([][2]float64, pieces)
	var workers sync.WaitGroup
	count := min(pieces, runtime.GOMAXPROCS(0))
	for w := range count {
		workers.Go(func() {
			var row sparse.Row
			for k := w; k < pieces; k += count {
				lo := rows.Lo + k*piece
				var off, all float64 // sums that processors shared a line of the cache for would be slow
				for i := lo; i < min(lo+piece, rows.Hi); i++ {
					problem.Row(i, &row)
					b := s.spec.RHS(i)
					d := b
					for e, c := range row.Cols {
						d -= row.Vals[e] * x[c-first]
					}
					off += d * d
					all += b * b
				}
				sums[k] = [2]float64{off, all}
			}
		})
	}
	workers.Wait()
	for _, pair := range sums {
		residual += pair[0]
		rhs += pair[1]
	}
	return residual, rhs
}
