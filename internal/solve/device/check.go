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

// window is the number of rows that Check handles at a time. It limits the host memory for x.
const window = 1 << 22

// Check returns ||b - Ax|| / ||b|| of the last solution, like solve.System.Check. It is independent of
// the solve: the host generates the rows again from the problem, multiplies them one by one, and reads
// x, including the neighbours' parts, from the memory of the ranks that own it. All ranks must call it
// together.
func (s *System) Check() (float64, error) {
	if err := s.group.Barrier(); err != nil { // every rank has finished its solve
		return 0, err
	}
	rows := s.Rows()
	squares := []float64{0, 0}
	for lo := rows.Lo; lo < rows.Hi; lo += window {
		part := sparse.Range{Lo: lo, Hi: min(lo+window, rows.Hi)}
		columns := sparse.Range{Lo: max(0, part.Lo-s.matrix.reach), Hi: min(s.Size, part.Hi+s.matrix.reach)}
		x, err := s.readSolution(columns)
		if err != nil {
			return 0, err
		}
		residual, rhs := s.residual(part, x, columns.Lo)
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

// Solution returns this rank's part of the last solution.
func (s *System) Solution() ([]float64, error) {
	return s.readSolution(s.Rows())
}

// Rows returns the range of rows that this rank owns.
func (s *System) Rows() sparse.Range { return s.layout.strips[s.group.Rank()] }

// readSolution reads the solution at rows from the ranks that own them.
func (s *System) readSolution(rows sparse.Range) (x []float64, err error) {
	for r, strip := range s.layout.strips {
		lo, hi := max(rows.Lo, strip.Lo), min(rows.Hi, strip.Hi)
		if lo >= hi {
			continue
		}
		from := s.layout.rowAddress(s.memory[r], vecX) + 8*uint64(lo-strip.Lo)
		part, err := s.read(cuda.Pointer(from), hi-lo)
		if err != nil {
			return nil, fmt.Errorf("reading the solution of rank %d: %w", r, err)
		}
		x = append(x, part...)
	}
	return x, nil
}

// residual returns the sums of squares of b - Ax and of b over some rows. x starts at column first.
// CPUs share the work in fixed pieces, whose sums are added in order, so that the result does not
// depend on the number of CPUs.
func (s *System) residual(rows sparse.Range, x []float64, first int) (residual, rhs float64) {
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
				var off, all float64 // local sums, because elements of sums share cache lines
				for i := lo; i < min(lo+piece, rows.Hi); i++ {
					s.spec.Problem.Row(i, &row)
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
