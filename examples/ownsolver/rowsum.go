package main

import "github.com/kernbench/kernbench/solve"

func init() {
	solve.RegisterPreconditioner(solve.Preconditioner{
		Name: "row-sum",
		Help: "the inverse of the sum of a row's magnitudes",
		New: func(l *solve.Local) (solve.Operator, error) {
			return solve.DiagonalOf(l, rowSum)
		},
	})
}

// rowSum returns the inverse of the sum of the magnitudes of a row's entries.
func rowSum(_ int, r *solve.Row) (float64, error) {
	sum := 0.0
	for _, v := range r.Vals {
		sum += max(v, -v)
	}
	return 1 / sum, nil
}
