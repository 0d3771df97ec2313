package partition

import "github.com/kernbench/kernbench/internal/solve/sparse"

// Measure looks at every row of the problem. LocalOf and Combine give the same result from the plans of the ranks.
func Measure(p sparse.Problem, layout sparse.Layout, ranks int) Quality {
	locals := make([]Local, ranks)
	for r := range locals {
		locals[r] = LocalOf(sparse.NewPlan(p, layout, r))
	}
	return Combine(locals)
}
