package partition

import "github.com/kernbench/kernbench/internal/solve/sparse"

// Measure looks at every row of the problem. Where each rank has its own plan,
// LocalOf and Combine give the same.
func Measure(p sparse.Problem, layout sparse.Layout, ranks int) Quality {
	locals := make([]Local, ranks)
	for r := range locals {
		locals[r] = LocalOf(sparse.NewPlan(p, layout, r))
	}
	return Combine(locals)
}
