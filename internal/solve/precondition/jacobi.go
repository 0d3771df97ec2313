package precondition

import (
	"fmt"
	"math"

	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

func init() {
	Preconditioners.Register(Preconditioner{Name: "jacobi", Help: "the inverse of the diagonal",
		Trial: 3, New: newJacobi})
}

// newJacobi takes the absolute values of the diagonal if the matrix is symmetric: methods for symmetric matrices need a
// positive definite preconditioner, and an indefinite matrix may have negative values on its diagonal.
func newJacobi(l *Local) (krylov.Operator, error) {
	return DiagonalOf(l, func(i int, r *sparse.Row) (float64, error) {
		inverse, err := jacobi(i, r)
		if l.Traits.Symmetric {
			inverse = math.Abs(inverse)
		}
		return inverse, err
	})
}

// jacobi returns the inverse of the diagonal entry of row i.
func jacobi(i int, r *sparse.Row) (float64, error) {
	diagonal := 0.0
	for k, c := range r.Cols {
		if c == i {
			diagonal += r.Vals[k]
		}
	}
	if diagonal == 0 {
		return 0, fmt.Errorf("row %d has a zero on the diagonal: it has no inverse", i)
	}
	return 1 / diagonal, nil
}
