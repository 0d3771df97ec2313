package precondition

import (
	"fmt"

	"github.com/kernbench/kernbench/internal/solve/krylov"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

func init() {
	Preconditioners.Register(Preconditioner{Name: "jacobi", Help: "the inverse of the diagonal",
		New: func(l *Local) (krylov.Operator, error) { return DiagonalOf(l, jacobi) }})
}

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
