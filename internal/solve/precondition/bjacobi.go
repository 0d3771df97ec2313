package precondition

import (
	"fmt"
	"math"

	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

func init() {
	Preconditioners.Register(Preconditioner{Name: "bjacobi",
		Help: "block Jacobi: incomplete factors of each rank's own rows, without fill " +
			"(IC(0), or ILU(0) where not symmetric)",
		Trial: 4, New: newFactors})
}

// factors are the incomplete factors L and U of the couplings among the rows of one rank. They have entries only where
// the matrix has entries (Saad, Iterative Methods, algorithm 10.4). If the matrix is symmetric, U is the diagonal times
// the transpose of L, so these are the factors of IC(0), and the operator is symmetric too.
type factors struct {
	start   []int32 // position of each row in cols and vals, and the end of the last row
	middle  []int32 // position of the diagonal of each row
	cols    []int32 // ascending in each row
	vals    []float64
	inverse []float64 // reciprocals of the diagonal of U
}

// newFactors copies the couplings among the rank's own rows and factors them. Couplings to other ranks are dropped,
// which makes the preconditioner block Jacobi with one block per rank: no communication, but more iterations on more
// ranks.
func newFactors(l *Local) (krylov.Operator, error) {
	f := &factors{start: []int32{0}, inverse: make([]float64, l.Plan.Owned)}
	err := l.EachRow(func(local, global int, r *sparse.Row) error {
		middle := int32(-1)
		for k, c := range r.Cols { // local numbers ascend like global numbers
			switch own := l.Plan.Local(c); {
			case own == local && middle >= 0:
				f.vals[middle] += r.Vals[k]
				continue
			case own == local:
				middle = int32(len(f.cols))
			case own < 0:
				continue
			}
			f.cols, f.vals = append(f.cols, int32(l.Plan.Local(c))), append(f.vals, r.Vals[k])
		}
		if middle < 0 {
			return fmt.Errorf("row %d has nothing on the diagonal: bjacobi cannot divide by it", global)
		}
		f.start, f.middle = append(f.start, int32(len(f.cols))), append(f.middle, middle)
		return nil
	})
	if err == nil {
		err = f.eliminate(l)
	}
	return f, l.Agree(err)
}

// rounding is the size of a pivot, relative to the diagonal, below which a pivot of a singular matrix is zero.
const rounding = 1e-12

// eliminate computes the factors in place, row by row.
func (f *factors) eliminate(l *Local) error {
	at := make([]int32, len(f.inverse)) // position of the current row's entry in each column, plus one; 0 for none
	for i := range f.inverse {
		lo, hi := f.start[i], f.start[i+1]
		diagonal := f.vals[f.middle[i]]
		for k := lo; k < hi; k++ {
			at[f.cols[k]] = k + 1
		}
		for k := lo; k < f.middle[i]; k++ {
			j := f.cols[k]
			f.vals[k] *= f.inverse[j]
			for m := f.middle[j] + 1; m < f.start[j+1]; m++ {
				if to := at[f.cols[m]]; to > 0 {
					f.vals[to-1] -= f.vals[k] * f.vals[m]
				}
			}
		}
		for k := lo; k < hi; k++ {
			at[f.cols[k]] = 0
		}
		switch pivot := f.vals[f.middle[i]]; {
		case l.Traits.Singular && math.Abs(pivot) <= rounding*diagonal: // nothing is left of the row, so its unknown is free
		case pivot == 0, l.Traits.Symmetric && pivot < 0:
			return fmt.Errorf("the incomplete factorisation has a pivot of %.3g in row %d: try jacobi", pivot, l.Plan.Global(i))
		default:
			f.inverse[i] = 1 / pivot
		}
	}
	return nil
}

// Apply implements krylov.Operator by two triangular solves.
func (f *factors) Apply(dst, src []float64) error {
	for i := range f.inverse {
		sum := src[i]
		for k := f.start[i]; k < f.middle[i]; k++ {
			sum -= f.vals[k] * dst[f.cols[k]]
		}
		dst[i] = sum
	}
	for i := len(f.inverse) - 1; i >= 0; i-- {
		sum := dst[i]
		for k := f.middle[i] + 1; k < f.start[i+1]; k++ {
			sum -= f.vals[k] * dst[f.cols[k]]
		}
		dst[i] = sum * f.inverse[i]
	}
	return nil
}

// Local implements krylov.Operator.
func (f *factors) Local() bool { return true }

// Bytes implements krylov.Operator. An application reads the factors once, and dst once more in each direction.
func (f *factors) Bytes() int { return 12*len(f.vals) + 8*len(f.start) + 16*len(f.inverse) }
